"""The stored form of encrypted and compressed values, its limits, and each refusal in full."""

import sys
from typing import Any

import pytest

from actorgraph.codec import AesCipher, Codec, encryption
from actorgraph.codec.encryption import (
    Envelope,
    call_of,
    entry_at,
    event_of,
    input_of,
    items_at,
    key_of_environment,
    value_at,
    writes_at,
    writes_of,
)
from actorgraph.errors import (
    ActorGraphError,
    EncryptionError,
    InvalidConfigError,
    MissingExtraError,
    SerializationError,
)
from actorgraph.values.commits import LedgerRow

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")

K1, K2 = b"1" * 32, b"2" * 32
HERE = ("value", "t", "", "c", 1)
ELSEWHERE = ("value", "t", "", "c", 2)
KEYED = Codec(keys={"k1": K1})
MAKE = "make one with os.urandom(32) and keep it outside of the database"
SHORT_ID = "use a short id, such as a date: it is stored with each value"
MOVED = (
    "the key differs, the bytes were changed, or they were written for another thread, channel, "
    "version or task"
)


class Naming:
    """A cipher that stores values readably, under a name; it fails to decrypt."""

    def __init__(self, name: str = "own", error: Exception | None = None) -> None:
        self.name = name
        self.error = error

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The name and the bytes as they are."""
        return self.name, plaintext

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The bytes as they are."""
        if self.error is not None:
            raise self.error
        assert ciphername == self.name
        return ciphertext


def refusal(kind: type[ActorGraphError], act: Any, *given: Any) -> Any:
    """The error that this raises."""
    with pytest.raises(kind) as refused:
        act(*given)
    return refused.value


class TestPlaces:
    def test_each_kind_of_row_has_places_of_its_own(self):
        """
        A place is the kind of row and the coordinates that the row keeps. They are stored with
        encrypted values, so they never change.
        """
        key = (b"base", b"task", "path", 1, 2)
        row = LedgerRow(*key, b"")

        assert value_at("t", "n", "c", 1) == ("value", "t", "n", "c", 1)
        assert items_at("t", "n", "c", 1, 2) == ("items", "t", "n", "c", 1, 2)
        assert writes_at("t", "n", key) == ("writes", "t", "n", *key)
        assert writes_of("t", "n", row) == ("writes", "t", "n", *key)
        assert input_of("t", b"r") == ("input", "t", b"r")
        assert entry_at("cache", ("a", "b"), "k") == ("cache", "a", "b", "k")
        assert event_of(b"r", 3) == ("event", b"r", 3)
        assert call_of(b"r") == ("run", b"r")


class TestStoredForm:
    @pytest.mark.parametrize(
        ("codec", "stored"),
        [
            (
                KEYED,
                (
                    "c1020961657367636d2f6b311611a2a36e764e116e83b7af59adee57b667fb55e0c5ec16"
                    "3780fc1f3c80811b"
                ),
            ),
            (Codec(cipher=Naming()), "c102036f776e52cceac2950c470bc456c686e6a16a4d81a16101"),
        ],
    )
    def test_encrypted_bytes_of_today_stay_readable(self, codec, stored):
        """
        Bytes that were stored once are read at their place.
        """
        assert codec.decode(bytes.fromhex(stored), HERE) == {"a": 1}
        assert refusal(EncryptionError, codec.decode, bytes.fromhex(stored), ELSEWHERE)

    def test_encrypted_bytes_name_their_key(self):
        """
        An encrypted value is a mark, the name's length, the name with the key's id, a nonce of 12
        bytes and the ciphertext with a tag of 16.
        """
        head = b"\xc1\x02\x09aesgcm/k1"
        first, second = (KEYED.encode("text") for _ in range(2))

        assert first.startswith(head)
        assert len(first) == len(head) + 12 + len(Codec().encode("text")) + 16
        assert first[len(head) :][:12] != second[len(head) :][:12]

    def test_a_cipher_by_itself(self):
        """
        Bytes that are authenticated too are needed to decrypt; by default they are empty.
        """
        cipher = AesCipher({"k": K1})
        plain, bound = cipher.encrypt(b"x"), cipher.encrypt(b"x", b"here")

        assert cipher.decrypt(*plain, b"") == cipher.decrypt(*plain) == b"x"
        assert cipher.decrypt(*bound, b"here") == b"x"
        assert refusal(EncryptionError, cipher.decrypt, *bound)

    @pytest.mark.parametrize(
        ("stored", "value"),
        [
            (
                (
                    "c101482c2aff30aa6b05a700cc585f9f919a9393afa39059a29059ac909b8a6cee527082"
                    "5f988b25b5030067832284"
                ),
                {
                    "role": "assistant",
                    "content": "hello, it is me",
                    "tool_calls": [],
                    "model": "m",
                    "finish_reason": "stop",
                },
            ),
            (
                (
                    "c1017801edd0411100000400301154249a5cc2a8e1b1bb25d8664c35060c183060c08001"
                    "03060c183060c0800103060c183060c0800103060c183060c0800103060c183060c08001"
                    "03060c183060c0c0f38103008c5237"
                ),
                ["ab"] * 4096,
            ),
        ],
    )
    def test_compressed_bytes_of_today_stay_readable(self, stored, value):
        """
        Bytes that were compressed once, with the dictionary or without, are read; the same value
        is not compressed worse today.
        """
        payload = bytes.fromhex(stored)

        assert Codec().decode(payload) == value
        assert len(Codec(compress_above=0).encode(value)) < 1.2 * len(payload)

    def test_sizes_at_which_values_are_compressed(self, monkeypatch):
        """
        A value is compressed above the size that was given, and up to the most that is inflated.
        """
        monkeypatch.setattr(encryption, "INFLATED_MAX", 1_000)
        payloads = [b"x" * size for size in (99, 100, 101, 1_000, 1_001)]
        envelope = Envelope(None, 100, reads_plain=True)
        stored = [envelope.close(payload) for payload in payloads]

        assert [kept == payload for kept, payload in zip(stored, payloads, strict=True)] == [
            *(True, True, False, False, True)
        ]
        assert [envelope.open(kept) for kept in stored] == payloads

    def test_compression_must_pay(self):
        """
        A value whose compressed form is not smaller is stored as it is.
        """
        dense = Envelope(None, 0, reads_plain=True)
        sizes = {len(dense.close(bytes(range(i)))) - i for i in range(40)}

        assert max(sizes) == 0

    def test_compressed_then_encrypted(self):
        """
        A value is encrypted in its compressed form, and read in the other order.
        """
        envelope = Envelope(AesCipher({"k": K1}), 10, reads_plain=False)
        stored = envelope.close(b"x" * 1_000, HERE)

        assert len(stored) < 100
        assert envelope.open(stored, HERE) == b"x" * 1_000


class TestMoving:
    def test_a_value_moves_to_another_place(self):
        """
        Moved bytes are read at the new place only, with the key that encrypts now; they stay
        compressed.
        """
        codec = Codec(keys={"k2": K2, "k1": K1}, compress_above=10)
        stored = Codec(keys={"k1": K1}, compress_above=10).encode(["x"] * 99, "v", HERE)
        moved = codec.reencrypt(stored, HERE, ELSEWHERE)

        assert len(moved) == len(stored)
        assert Codec(keys={"k2": K2}).decode(moved, ELSEWHERE) == ["x"] * 99
        assert refusal(EncryptionError, codec.decode, moved, HERE)
        assert refusal(EncryptionError, codec.reencrypt, stored, ELSEWHERE, HERE)

    def test_plain_values_become_encrypted(self):
        """
        Values from before there was a key are encrypted by moving; without a key they stay.
        """
        codec = Codec(keys={"k": K1}, reads_plain=True)
        plain = Codec().encode("x")
        compressing = Codec(compress_above=1)

        assert codec.decode(codec.reencrypt(plain, HERE, ELSEWHERE), ELSEWHERE) == "x"
        assert Codec().reencrypt(plain, HERE, ELSEWHERE) == plain
        assert compressing.reencrypt(plain, HERE, ELSEWHERE) == plain


KEY_FAULTS: list[tuple[Any, str, str]] = [
    (
        [("k", K1)],
        "keys must be a mapping of id -> key, got list",
        'pass keys={"k1": os.urandom(32)}',
    ),
    ({}, "keys is empty", 'pass keys={"k1": os.urandom(32)}'),
    ({"": K1}, "a key id must be a str of 1 to 199 bytes, got ''", SHORT_ID),
    ({7: K1}, "a key id must be a str of 1 to 199 bytes, got 7", SHORT_ID),
    (
        {"ü" * 100: K1},
        f"a key id must be a str of 1 to 199 bytes, got {'ü' * 100!r}",
        SHORT_ID,
    ),
    ({"k": K1[1:]}, "key 'k' must be 32 bytes (or 16, or 24) for AES, got 31 bytes", MAKE),
    ({"k": "1" * 32}, "key 'k' must be 32 bytes (or 16, or 24) for AES, got a str", MAKE),
    ({"k": K1, "j": b""}, "key 'j' must be 32 bytes (or 16, or 24) for AES, got 0 bytes", MAKE),
]


class TestRefusedSettings:
    @pytest.mark.parametrize(("keys", "what", "do"), KEY_FAULTS)
    def test_keys(self, keys, what, do):
        """
        Each unusable key is refused with its fault, and with a way to make a good one.
        """
        error = refusal(InvalidConfigError, AesCipher, keys)

        assert (error.what, error.do) == (what, do)

    @pytest.mark.parametrize("key_id", ["k", "k" * 199, "ü" * 99])
    @pytest.mark.parametrize("size", [16, 24, 32])
    def test_keys_that_are_used(self, key_id, size):
        """
        Keys of 16, 24 and 32 bytes encrypt, under ids of 1 to 199 bytes.
        """
        codec = Codec(keys={key_id: b"1" * size})

        assert codec.decode(codec.encode("x")) == "x"

    def test_settings(self):
        """
        A negative size, a cipher without its methods, and both ways to encrypt are refused with
        the fault and with what to pass.
        """
        negative = refusal(InvalidConfigError, lambda: Codec(compress_above=-1))
        anything: Any = object()
        lacking = refusal(InvalidConfigError, lambda: Codec(cipher=anything))
        both = refusal(InvalidConfigError, lambda: Codec(keys={"k": K1}, cipher=Naming()))

        assert negative.what == "compress_above must be >= 0 or None, got -1"
        assert negative.do == "pass a number of bytes, 4096 for instance, or None"
        assert lacking.what == "cipher is a object without `encrypt` or `decrypt`"
        assert lacking.do == "pass an object with the methods of CipherProtocol, or use keys="
        assert both.what == "both keys= and cipher= were given"
        assert both.do == "pass one of them"
        assert not Codec(compress_above=0).encrypts

    def test_the_package(self, monkeypatch):
        """
        Without `cryptography` keys are refused, with what to install.
        """
        monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
        error = refusal(MissingExtraError, AesCipher, {"k": K1})

        assert error.what == "encryption needs cryptography, which isn't installed"
        assert error.do == "pip install 'actorgraph[encryption]'"

    def test_the_environment(self, monkeypatch):
        """
        The key is the text of ACTORGRAPH_AES_KEY, else of LANGGRAPH_AES_KEY; without both the
        error names them.
        """
        monkeypatch.delenv("ACTORGRAPH_AES_KEY", raising=False)
        monkeypatch.setenv("LANGGRAPH_AES_KEY", "theirs")
        assert key_of_environment() == b"theirs"
        monkeypatch.setenv("ACTORGRAPH_AES_KEY", "öurs")
        assert key_of_environment() == "öurs".encode()
        monkeypatch.setenv("ACTORGRAPH_AES_KEY", "")
        monkeypatch.delenv("LANGGRAPH_AES_KEY")
        error = refusal(InvalidConfigError, key_of_environment)

        assert error.what == "neither ACTORGRAPH_AES_KEY nor LANGGRAPH_AES_KEY is set"
        assert error.do == "set ACTORGRAPH_AES_KEY to a text of 32 bytes, or pass the key"

    @pytest.mark.parametrize(("name", "size"), [("", 0), ("x" * 256, 256), ("ü" * 128, 256)])
    def test_names_of_ciphers(self, name, size):
        """
        A name that doesn't fit into a row is refused with its size; the longest that fits is read.
        """
        error = refusal(EncryptionError, Codec(cipher=Naming(name)).encode, 1)
        fitting = [Codec(cipher=Naming("x" * length)) for length in (1, 255)]

        assert error.what == f"the cipher's name {name!r} has {size} bytes"
        assert error.do == "let `encrypt` return a name of 1 to 255 bytes"
        assert [codec.decode(codec.encode([1])) for codec in fitting] == [[1], [1]]


UNREADABLE: list[tuple[Codec, bytes, str, str]] = [
    (
        KEYED,
        Codec().encode("x"),
        "a stored value is not encrypted, and this codec reads encrypted values only",
        (
            "if the thread was begun before there were keys, pass reads_plain=True; otherwise the "
            "database has been tampered with"
        ),
    ),
    (
        Codec(compress_above=0),
        KEYED.encode("x"),
        "a stored value is encrypted, and this codec has no keys",
        "pass codec=Codec(keys={...}) with the keys that it was written with",
    ),
    (
        Codec(keys={"k2": K2, "k3": K2}),
        KEYED.encode("x"),
        "a stored value was encrypted with key 'k1'; this codec has 'k2', 'k3'",
        "add the key after the one that encrypts now: keys={'new': ..., 'old': ...}",
    ),
    (
        Codec(keys={"k1": K2}),
        KEYED.encode("x"),
        f"a stored value can't be decrypted with key 'k1': {MOVED}",
        "check the key of that id, then the database's integrity",
    ),
    (
        KEYED,
        KEYED.encode("x")[:15],
        f"a stored value can't be decrypted with key 'k1': {MOVED}",
        "check the key of that id, then the database's integrity",
    ),
    (
        Codec(cipher=Naming()),
        Codec(cipher=Naming()).encode("x", "v", HERE),
        "a stored value was written for another thread, channel, version or task",
        "rows were moved inside the database: restore it from a backup",
    ),
    (
        Codec(cipher=Naming(error=KeyError("no key"))),
        Codec(cipher=Naming()).encode("x"),
        "a stored value can't be decrypted: KeyError('no key')",
        "check that the cipher has the keys of old values, and that the database is undamaged",
    ),
    (
        Codec(cipher=Naming(error=EncryptionError("revoked", do="ask"))),
        Codec(cipher=Naming()).encode("x"),
        "revoked",
        "ask",
    ),
]
INFLATED = Codec(compress_above=0).encode(["the same again"] * 50)


class TestRefusedBytes:
    # Numbered: encrypted bytes differ at each collection, and would be part of the names.
    @pytest.mark.parametrize(
        ("codec", "payload", "what", "do"), UNREADABLE, ids=range(len(UNREADABLE))
    )
    def test_values_that_can_not_be_decrypted(self, codec, payload, what, do):
        """
        Each reason for which a value can't be decrypted has a text and an advice of its own.
        """
        error = refusal(EncryptionError, codec.decode, payload)

        assert (error.what, error.do) == (what, do)

    @pytest.mark.parametrize(
        ("payload", "why"),
        [
            (INFLATED[:-1], "it is cut off, or has trailing bytes"),
            (INFLATED + b"x", "it is cut off, or has trailing bytes"),
            (INFLATED[:2], "it is cut off, or has trailing bytes"),
            (
                INFLATED[:2] + b"xx",
                "Error -3 while decompressing data: incorrect header check",
            ),
        ],
    )
    def test_values_that_can_not_be_decompressed(self, payload, why):
        """
        Compressed bytes that are damaged are refused with the fault.
        """
        error = refusal(SerializationError, Codec().decode, payload)

        assert error.what == f"a stored value can't be decompressed: {why}"
        assert error.do == "check the database's integrity, or restore it from a backup"

    def test_values_that_inflate_to_too_much(self, monkeypatch):
        """
        A compressed value is inflated up to the limit, and refused with it beyond.
        """
        envelope = Envelope(None, 0, reads_plain=True)
        stored = envelope.close(b"x" * 20_000)
        monkeypatch.setattr(encryption, "INFLATED_MAX", 20_000)
        assert envelope.open(stored) == b"x" * 20_000
        monkeypatch.setattr(encryption, "INFLATED_MAX", 10_000)
        error = refusal(SerializationError, envelope.open, stored)

        assert error.what == ("a stored value can't be decompressed: it has more than 10,000 bytes")
