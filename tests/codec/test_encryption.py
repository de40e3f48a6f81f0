"""Encrypted and compressed values: unreadable without the key, refused when changed."""

import sqlite3
import sys
import zlib

import pytest

from actorgraph import (
    AesCipher,
    CipherProtocol,
    Codec,
    EncryptedSerializer,
    EncryptionError,
    InvalidConfigError,
    MissingExtraError,
    SerializationError,
    SqliteCache,
)
from tests.codec.shapes import Point

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")

K1, K2 = b"1" * 32, b"2" * 32
SECRET = "the secret text"  # noqa: S105 - a text to look for
LONG = {"log": ["the same line again"] * 500}


class Reversing:
    """A cipher of the program's own."""

    def encrypt(self, plaintext):
        """Its name and the bytes, backwards."""
        return "rev", plaintext[::-1]

    def decrypt(self, ciphername, ciphertext):
        """The bytes forwards."""
        assert ciphername == "rev"
        return ciphertext[::-1]


class TestKeys:
    @pytest.mark.promise("S206")
    @pytest.mark.langgraph("F-E21")
    @pytest.mark.parametrize("value", [SECRET, {SECRET: [SECRET]}, (SECRET, {1: SECRET}), None])
    def test_a_value_comes_back_and_its_text_is_not_in_the_bytes(self, value):
        """
        An encrypted value is read with its key, and holds no text.
        """
        codec = Codec(keys={"k1": K1})
        payload = codec.encode(value)

        assert SECRET.encode() not in payload
        assert codec.decode(payload) == value
        assert codec.encode(value) != payload

    @pytest.mark.promise("S206")
    def test_a_new_key_reads_what_the_old_one_wrote(self):
        """
        The first key encrypts, and each reads its own values.
        """
        old = Codec(keys={"k1": K1}).encode(SECRET)
        rotated = Codec(keys={"k2": K2, "k1": K1})

        assert rotated.decode(old) == SECRET
        assert Codec(keys={"k2": K2}).decode(rotated.encode(SECRET)) == SECRET

    @pytest.mark.promise("S206")
    @pytest.mark.parametrize(
        ("codec", "text"),
        [
            (Codec(), "has no keys"),
            (Codec(compress_above=0), "has no keys"),
            (Codec(keys={"k2": K2}), "encrypted with key 'k1'; this codec has 'k2'"),
            (Codec(keys={"k1": K2}), "can't be decrypted with key 'k1'"),
            (Codec(cipher=Reversing()), "can't be decrypted"),
        ],
    )
    def test_another_key_is_an_error(self, codec, text):
        """
        No key, an unknown one and a wrong one are different errors, each with advice.
        """
        payload = Codec(keys={"k1": K1}).encode(SECRET)

        with pytest.raises(EncryptionError, match=text):
            codec.decode(payload)

    @pytest.mark.promise("S206", "T33")
    def test_no_changed_byte_is_accepted(self):
        """
        Any changed, missing or added byte of an encrypted value is an error.
        """
        codec = Codec(keys={"k1": K1, "k0": K1})
        payload = codec.encode(SECRET)
        changed = [
            payload[:i] + bytes([payload[i] ^ bit]) + payload[i + 1 :]
            for i in range(len(payload))
            for bit in (1, 128)
        ]
        cut = [payload[:i] for i in range(len(payload))]

        for wrong in (*changed, *cut, payload + b"\0"):
            with pytest.raises(EncryptionError):
                codec.decode(wrong)

    @pytest.mark.langgraph("F-E21")
    def test_a_plain_value_is_refused_unless_it_is_expected(self):
        """
        Where there is a key a value that isn't encrypted is an error, compressed or not;
        `reads_plain` allows it.
        """
        for plain in (Codec().encode(LONG), Codec(compress_above=0).encode(LONG)):
            with pytest.raises(EncryptionError, match="not encrypted"):
                Codec(keys={"k1": K1}).decode(plain)
            assert Codec(keys={"k1": K1}, reads_plain=True).decode(plain) == LONG

    @pytest.mark.parametrize(
        "keys", [{}, {"k": b"short"}, {"": K1}, {"k" * 200: K1}, {"k": "1" * 32}, {1: K1}, K1]
    )
    def test_unusable_keys_are_refused(self, keys):
        """
        A key of another size or type, a bad id and no key at all are refused; no key is shown.
        """
        with pytest.raises(InvalidConfigError) as refused:
            Codec(keys=keys)

        assert K1.decode() not in str(refused.value)

    def test_the_missing_package_is_named(self, monkeypatch):
        """
        Without `cryptography` keys are refused, with what to install.
        """
        monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)

        with pytest.raises(MissingExtraError, match=r"actorgraph\[encryption\]"):
            Codec(keys={"k1": K1})

    def test_a_graph_s_types_keep_the_keys(self):
        """
        A codec with more types encrypts as the one that it was made from.
        """
        codec = Codec(keys={"k1": K1}, compress_above=10)
        more = codec.with_types([Point])

        assert more.decode(more.encode(Point(1, 2))) == Point(1, 2)
        assert more.encrypts
        assert Point not in codec.types

    def test_a_hash_has_equal_bytes_for_equal_values(self):
        """
        Hashed values are encoded without the key, so that equal inputs find each other.
        """
        assert Codec(keys={"k1": K1}).encode_plainly([SECRET]) == Codec().encode([SECRET])


class TestCiphers:
    @pytest.mark.langgraph("F-E21")
    def test_a_cipher_of_the_program_s_own(self):
        """
        Any object with `encrypt` and `decrypt` is a cipher; its name is stored with the value.
        """
        codec = EncryptedSerializer(Reversing(), Codec([Point]))

        assert isinstance(Reversing(), CipherProtocol)
        assert b"rev" in codec.encode(SECRET)
        assert codec.decode(codec.encode([Point(1, 2), SECRET])) == [Point(1, 2), SECRET]

    @pytest.mark.langgraph("F-E21")
    @pytest.mark.parametrize("name", ["ACTORGRAPH_AES_KEY", "LANGGRAPH_AES_KEY"])
    def test_the_key_of_the_environment(self, monkeypatch, name):
        """
        The serializer's key is the given one, or that of an environment variable.
        """
        monkeypatch.delenv("ACTORGRAPH_AES_KEY", raising=False)
        monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
        with pytest.raises(InvalidConfigError, match="is set"):
            EncryptedSerializer.from_pycryptodome_aes()
        monkeypatch.setenv(name, K1.decode())
        payload = EncryptedSerializer.from_pycryptodome_aes().encode(SECRET)

        assert EncryptedSerializer.from_pycryptodome_aes(key=K1).decode(payload) == SECRET

    @pytest.mark.parametrize(
        "options",
        [{"keys": {"k": K1}, "cipher": Reversing()}, {"cipher": K1}, {"compress_above": -1}],
    )
    def test_settings_that_make_no_sense_are_refused(self, options):
        """
        Both keys and a cipher, a cipher without methods and a negative size are refused.
        """
        with pytest.raises(InvalidConfigError):
            Codec(**options)

    @pytest.mark.parametrize("name", ["", "x" * 256])
    def test_a_name_that_can_not_be_stored_is_refused(self, name):
        """
        A cipher's name that does not fit into the row is an error on writing.
        """
        cipher = AesCipher({"k": K1})
        cipher.encrypt = lambda plaintext, associated: (name, plaintext)

        with pytest.raises(EncryptionError, match="name"):
            Codec(cipher=cipher).encode(1)


class TestPlaces:
    @pytest.mark.parametrize("cipher", [AesCipher({"k": K1}), Reversing()])
    def test_a_value_is_read_at_its_place_only(self, cipher):
        """
        With any cipher, a value that was written for one place is refused at another.
        """
        codec = Codec(cipher=cipher)
        here, there = ("value", "t", "", "c", 1), ("value", "t", "", "c", 2)
        payload = codec.encode(SECRET, "value", here)

        assert codec.decode(payload, here) == SECRET
        for place in (there, (), ("value", "t", "", "c1"), ("value", "t", "", "c", "1")):
            with pytest.raises(EncryptionError, match="another thread"):
                codec.decode(payload, place)

    def test_a_cached_result_is_read_under_its_key_only(self, tmp_path):
        """
        An entry of a cache that is put under another key is refused.
        """
        cache = SqliteCache(tmp_path / "cache.db", codec=Codec(keys={"k": K1}))
        cache.set({(("n",), "a"): (SECRET, None), (("n",), "b"): ("other", None)})
        other = sqlite3.connect(tmp_path / "cache.db", isolation_level=None)
        other.execute("UPDATE cache SET payload = (SELECT max(payload) FROM cache), crc = NULL")
        other.close()

        with pytest.raises(EncryptionError):
            cache.get([(("n",), "a"), (("n",), "b")])
        cache.close()


class TestCompression:
    def test_a_value_that_would_fill_the_memory_is_refused(self):
        """
        Compressed bytes are unpacked up to 30 MB, which no value is compressed above.
        """
        bomb = b"\xc1\x01" + zlib.compress(b"\x00" * 33_000_000)
        large = b"\x00" * 33_000_000
        codec = Codec(compress_above=10)

        with pytest.raises(SerializationError, match="more than 30,000,000 bytes"):
            codec.decode(bomb)
        assert codec.decode(codec.encode(large)) == large

    @pytest.mark.promise("S217")
    def test_on_and_off_read_each_other(self):
        """
        Values are read whether they were compressed or not, by a codec with or without.
        """
        on, off = Codec(compress_above=100), Codec()

        assert len(on.encode(LONG)) * 10 < len(off.encode(LONG))
        assert on.decode(off.encode(LONG)) == off.decode(on.encode(LONG)) == LONG

    @pytest.mark.promise("S217")
    def test_small_and_dense_values_stay_as_they_are(self):
        """
        A value is stored compressed only above the size, and only if that makes it smaller.
        """
        codec = Codec(compress_above=20)

        assert codec.encode("short") == Codec().encode("short")
        assert codec.encode(bytes(range(200))) == Codec().encode(bytes(range(200)))

    @pytest.mark.promise("S206", "S217")
    def test_a_compressed_value_is_encrypted_as_one(self):
        """
        With both settings large values are small and unreadable.
        """
        codec = Codec(keys={"k1": K1}, compress_above=100)

        assert len(codec.encode(LONG)) < 300
        assert Codec(keys={"k1": K1}).decode(codec.encode(LONG)) == LONG

    @pytest.mark.parametrize("codec", [Codec(), Codec(compress_above=9)])
    def test_damage_is_an_error(self, codec):
        """
        A compressed value that is cut off or nested raises, and nothing else happens.
        """
        payload = Codec(compress_above=0).encode(LONG)

        for wrong in (payload[:-1], payload[:2], payload[:1], b"\xc1\x07abc"):
            with pytest.raises(SerializationError):
                codec.decode(wrong)
