"""Encryption at rest: AES-GCM with several keys, ciphers of a program's own, and compression.

Each encrypted value is bound to the place where it is stored, so that a row which is moved to
another thread, channel, version or task can't be decrypted there. `AesCipher` authenticates the
place as associated data. With any other cipher a hash of the place is encrypted in front of the
value, and compared when it is read.

A place is a tuple that begins with the kind of row, followed by the coordinates that the row keeps
for as long as it exists. Rows of a list are merged as it grows, so items are bound to the position
of the first of them, not to a row. A copy of a thread is another place: its rows are encrypted
again (`ThreadResealer`).
"""

import os
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from hmac import compare_digest
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import ormsgpack

from actorgraph.errors import (
    EncryptionError,
    InvalidConfigError,
    MissingExtraError,
    SerializationError,
)
from actorgraph.values.commits import LedgerRow

Place = tuple[str | int | bytes, ...]

NOWHERE: Place = ()
"""The place of values that are bound to none."""


def value_at(thread_id: str, namespace: str, channel: str, version: int) -> Place:
    """The place of a channel's value at a version."""
    return ("value", thread_id, namespace, channel, version)


def items_at(thread_id: str, namespace: str, channel: str, lineage: int, first: int) -> Place:
    """The place of items of a growing list, by the position of the first of them."""
    return ("items", thread_id, namespace, channel, lineage, first)


def writes_at(thread_id: str, namespace: str, key: tuple[bytes, bytes, str, int, int]) -> Place:
    """The place of a task's pending writes.

    Args:
        key: the row's base, task, path, index and generation.
    """
    return ("writes", thread_id, namespace, *key)


def writes_of(thread_id: str, namespace: str, row: LedgerRow) -> Place:
    """The place of a row of pending writes."""
    key = (row.base, row.task, row.path, row.index, row.generation)
    return writes_at(thread_id, namespace, key)


def input_of(thread_id: str, run: bytes) -> Place:
    """The place of a run's input that no checkpoint holds."""
    return ("input", thread_id, run)


def entry_at(kind: str, namespace: tuple[str, ...], key: str) -> Place:
    """The place of an entry of a cache or a store (`kind`)."""
    return (kind, *namespace, key)


def event_of(run: bytes, offset: int) -> Place:
    """The place of an event of an ActorSystem's run."""
    return ("event", run, offset)


def call_of(run: bytes) -> Place:
    """The place of the arguments that an ActorSystem's run was started with."""
    return ("run", run)


_KIND = "aesgcm/"
_NONCE = 12
_KEY_SIZES = (16, 24, 32)


class AesCipher:
    """Encrypts with AES-GCM.

    An encrypted value is a random nonce of 12 bytes, the ciphertext, and a tag of 16 bytes. The
    cipher's name, which contains the key's id, is authenticated with it.

    To change keys, put the new one first and keep the old ones for as long as there are values
    that were written with them.

    Args:
        keys: id -> key, of 32 random bytes (AES-256; 16 and 24 work too). The first one encrypts.
            Ids are stored in the clear beside each value.
    Raises:
        InvalidConfigError: no key is given, a key has another size, or an id is empty or too long.
        MissingExtraError: `cryptography` isn't installed.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        given: Any = keys  # the error shows only its type, because it may be a key
        if not isinstance(given, Mapping):
            raise InvalidConfigError(
                f"keys must be a mapping of id -> key, got {type(given).__name__}",
                do='pass keys={"k1": os.urandom(32)}',
            )
        if not keys:
            raise InvalidConfigError("keys is empty", do='pass keys={"k1": os.urandom(32)}')
        for key_id, key in keys.items():
            _check(key_id, key)
        try:
            module: Any = import_module("cryptography.hazmat.primitives.ciphers.aead")
            self._invalid: Any = import_module("cryptography.exceptions").InvalidTag
        except ImportError as error:
            raise MissingExtraError(
                "encryption needs cryptography, which isn't installed",
                do="pip install 'actorgraph[encryption]'",
            ) from error
        self._ciphers: dict[str, Any] = {_KIND + i: module.AESGCM(k) for i, k in keys.items()}
        self._name = next(iter(self._ciphers))

    def encrypt(self, plaintext: bytes, associated: bytes = b"") -> tuple[str, bytes]:
        """Encrypt with the first key.

        Args:
            associated: bytes that are authenticated too, and not stored.
        Returns: the cipher's name with the key's id, and the encrypted bytes.
        """
        nonce = os.urandom(_NONCE)
        name = self._name
        known = _named(name, associated)
        return name, nonce + self._ciphers[name].encrypt(nonce, plaintext, known)

    def decrypt(self, ciphername: str, ciphertext: bytes, associated: bytes = b"") -> bytes:
        """Decrypt with the key that the name has.

        Raises:
            EncryptionError: the key is unknown, or the key, the bytes or `associated` differ from
                those of `encrypt`.
        """
        cipher = self._ciphers.get(ciphername)
        if cipher is None:
            known = ", ".join(repr(name.removeprefix(_KIND)) for name in self._ciphers)
            raise EncryptionError(
                f"a stored value was encrypted with key {ciphername.removeprefix(_KIND)!r}; "
                f"this codec has {known}",
                do="add the key after the one that encrypts now: keys={'new': ..., 'old': ...}",
            )
        nonce, sealed = ciphertext[:_NONCE], ciphertext[_NONCE:]
        try:
            return cipher.decrypt(nonce, sealed, _named(ciphername, associated))
        except (self._invalid, ValueError) as error:
            raise EncryptionError(
                f"a stored value can't be decrypted with key {ciphername.removeprefix(_KIND)!r}: "
                "the key differs, the bytes were changed, or they were written for another "
                "thread, channel, version or task",
                do="check the key of that id, then the database's integrity",
            ) from error


def _named(name: str, associated: bytes) -> bytes:
    label = name.encode()
    return bytes([len(label)]) + label + associated


def key_of_environment() -> bytes:
    """Return the key in ACTORGRAPH_AES_KEY, else in LANGGRAPH_AES_KEY: its text as UTF-8.

    Raises:
        InvalidConfigError: neither is set.
    """
    text = os.environ.get("ACTORGRAPH_AES_KEY") or os.environ.get("LANGGRAPH_AES_KEY")
    if not text:
        raise InvalidConfigError(
            "neither ACTORGRAPH_AES_KEY nor LANGGRAPH_AES_KEY is set",
            do="set ACTORGRAPH_AES_KEY to a text of 32 bytes, or pass the key",
        )
    return text.encode()


def _check(key_id: Any, key: bytes) -> None:
    if type(key_id) is not str or not 0 < len(key_id.encode()) < 200:
        raise InvalidConfigError(
            f"a key id must be a str of 1 to 199 bytes, got {key_id!r}",
            do="use a short id, such as a date: it is stored with each value",
        )
    if type(key) is not bytes or len(key) not in _KEY_SIZES:
        size = f"{len(key)} bytes" if type(key) is bytes else f"a {type(key).__name__}"
        raise InvalidConfigError(
            f"key {key_id!r} must be 32 bytes (or 16, or 24) for AES, got {size}",
            do="make one with os.urandom(32) and keep it outside of the database",
        )


MARK = b"\xc1"
_ZLIB = b"\xc1\x01"
_ENCRYPTED = b"\xc1\x02"
_ZLIB_LEVEL = 1
"""zlib's fastest level, because values are compressed in the event loop."""
_SMALL_WBITS = 12
_ZLIB_DICTIONARY = (
    b"\xa5model\xaamodel_name\xadfinish_reason\xa4stop\xaatool_calls\xabstop_reason\xa8end_turn"
    b"\xacinput_tokens\xadoutput_tokens\xactotal_tokens\xb3input_token_details\xaacache_read"
    b"\xb4output_token_details\xa9reasoning\xa4text\xa4type\xa9image_url\xa3url\xa4role\xa6system"
    b"\xa4user"
    b"\xa9assistant\xa7content\xa4tool\xaftool_call_chunks\xa4args\xa5index"
    b"\xd9)langchain_core.messages.human:HumanMessage"
    b"\xd9'langchain_core.messages.tool:ToolMessage"
    b"\xd9#langchain_core.messages.ai:AIMessage\xa7example\xc2\xa6branch:to:\xa9__start__"
    b"\xd9%actorgraph.messages.kinds:ToolMessage\x85"
    b"\xactool_call_id\xa6status\xa7success\xa8artifact\xc0"
    b"\xd9&actorgraph.messages.kinds:HumanMessage\x85\xa7content\xa2id\xd9$"
    b"\x91\x92\xa8messages\x92\xc7\xc8\x01"
    b"\xd9#actorgraph.messages.kinds:AIMessage\x88\xa7content\xd9"
    b"\xa2id\xd9$\xa4name\xc0\xb1additional_kwargs\x80\xb1response_metadata\x80\xaatool_calls\x90"
    b"\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0"
)
"""zlib's preset dictionary for small values. Part of the stored format: never change it."""
_PLACE_HASH_BYTES = 16

INFLATED_MAX = 30_000_000
"""Bytes of a value up to which it is compressed; a stored one that inflates to more is refused."""


@runtime_checkable
class CipherProtocol(Protocol):
    """Encrypts payloads. `AesCipher` is one; a program may have its own, for a key service."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the name of the cipher and key (1 to 255 bytes of UTF-8), and the ciphertext."""
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return the plaintext. Must raise for an unknown name and for changed bytes."""
        ...


class Envelope:
    """Compresses and encrypts the payloads of one codec.

    An enveloped payload begins with 0xC1, the one byte that no msgpack begins with, and a kind: 1
    is compressed (zlib's bytes follow); 2 is encrypted (one byte of length, the cipher's name and
    the ciphertext follow). So each row can be read regardless of the settings with which it was
    written.

    Args:
        cipher: None leaves values readable.
        compress_above: bytes above which a payload is compressed, if that makes it smaller;
            None compresses nothing.
        reads_plain: whether unencrypted values are read although there is a cipher.
    Raises:
        InvalidConfigError: `compress_above` is negative, or the cipher has not both methods.
    """

    def __init__(
        self, cipher: CipherProtocol | None, compress_above: int | None, *, reads_plain: bool
    ) -> None:
        if compress_above is not None and compress_above < 0:
            raise InvalidConfigError(
                f"compress_above must be >= 0 or None, got {compress_above}",
                do="pass a number of bytes, 4096 for instance, or None",
            )
        if cipher is not None and not isinstance(cipher, CipherProtocol):
            raise InvalidConfigError(
                f"cipher is a {type(cipher).__name__} without `encrypt` or `decrypt`",
                do="pass an object with the methods of CipherProtocol, or use keys=",
            )
        self.cipher = cipher
        self._above = compress_above
        self._reads_plain = reads_plain

    def close(self, payload: bytes, place: Place = NOWHERE) -> bytes:
        """Compress and encrypt an encoded value for its place."""
        # Compress first: ciphertext does not compress.
        if self._above is not None and self._above < len(payload) <= INFLATED_MAX:
            smaller = _ZLIB + _compress(payload)
            payload = smaller if len(smaller) < len(payload) else payload
        return payload if self.cipher is None else self._encrypted(self.cipher, payload, place)

    def move(self, payload: bytes, place: Place, target: Place) -> bytes:
        """Re-encrypt bytes that are stored at `place` for `target`, with the first key.

        Values that weren't encrypted are encrypted, if there is a key.

        Raises: as `open`.
        """
        plain = self._decrypted(payload, place)
        return plain if self.cipher is None else self._encrypted(self.cipher, plain, target)

    def _encrypted(self, cipher: CipherProtocol, payload: bytes, place: Place) -> bytes:
        if isinstance(cipher, AesCipher):
            name, sealed = cipher.encrypt(payload, ormsgpack.packb(place))
        else:
            name, sealed = cipher.encrypt(_place_hash(place) + payload)
        label = name.encode()
        if not 0 < len(label) < 256:
            raise EncryptionError(
                f"the cipher's name {name!r} has {len(label)} bytes",
                do="let `encrypt` return a name of 1 to 255 bytes",
            )
        return _ENCRYPTED + bytes([len(label)]) + label + sealed

    def open(self, payload: bytes, place: Place = NOWHERE) -> bytes:
        """Decrypt and decompress stored bytes.

        Raises:
            EncryptionError: they can't be decrypted, were encrypted for another place, or should
                be encrypted and are not.
            SerializationError: the compressed bytes are damaged, or inflate to too many.
        """
        payload = self._decrypted(payload, place)
        return _decompress(payload) if payload[:2] == _ZLIB else payload

    def check_plain(self) -> None:
        """Refuse an unencrypted value, unless the codec has no key or `reads_plain` is set.

        Raises: EncryptionError.
        """
        if self.cipher is not None and not self._reads_plain:
            raise EncryptionError(
                "a stored value is not encrypted, and this codec reads encrypted values only",
                do="if the thread was begun before there were keys, pass reads_plain=True; "
                "otherwise the database has been tampered with",
            )

    def _decrypted(self, payload: bytes, place: Place) -> bytes:
        if payload[:2] != _ENCRYPTED:
            self.check_plain()
            return payload
        if self.cipher is None:
            raise EncryptionError(
                "a stored value is encrypted, and this codec has no keys",
                do="pass codec=Codec(keys={...}) with the keys that it was written with",
            )
        start = 3 + int.from_bytes(payload[2:3])
        try:
            name, sealed = payload[3:start].decode(), payload[start:]
            if isinstance(self.cipher, AesCipher):
                return self.cipher.decrypt(name, sealed, ormsgpack.packb(place))
            return _check_place(self.cipher.decrypt(name, sealed), place)
        except EncryptionError:
            raise
        except Exception as error:
            raise EncryptionError(
                f"a stored value can't be decrypted: {error!r}",
                do="check that the cipher has the keys of old values, and that the database is "
                "undamaged",
            ) from error


NO_ENVELOPE = Envelope(None, None, reads_plain=True)
"""Reads the values that other codecs have compressed."""


def _compress(payload: bytes) -> bytes:
    """Compress with zlib; small payloads with a small window, which is set up faster."""
    if len(payload) > 1 << _SMALL_WBITS:
        return zlib.compress(payload, _ZLIB_LEVEL)
    stream = zlib.compressobj(_ZLIB_LEVEL, zlib.DEFLATED, _SMALL_WBITS, 5, zdict=_ZLIB_DICTIONARY)
    return stream.compress(payload) + stream.flush()


def _place_hash(place: Place) -> bytes:
    return blake2b(ormsgpack.packb(place), digest_size=_PLACE_HASH_BYTES).digest()


def _check_place(plain: bytes, place: Place) -> bytes:
    # A cipher without associated data gets a hash of the place in front of the plaintext instead.
    if not compare_digest(plain[:_PLACE_HASH_BYTES], _place_hash(place)):
        raise EncryptionError(
            "a stored value was written for another thread, channel, version or task",
            do="rows were moved inside the database: restore it from a backup",
        )
    return plain[_PLACE_HASH_BYTES:]


def _decompress(payload: bytes) -> bytes:
    stream = zlib.decompressobj(zdict=_ZLIB_DICTIONARY)
    try:
        inflated = stream.decompress(memoryview(payload)[2:], INFLATED_MAX)
        if stream.eof and not stream.unused_data:
            return inflated
        why = "it is cut off, or has trailing bytes"
        if stream.unconsumed_tail:
            why = f"it has more than {INFLATED_MAX:,} bytes"
    except zlib.error as error:
        why = str(error)
    raise SerializationError(
        f"a stored value can't be decompressed: {why}",
        do="check the database's integrity, or restore it from a backup",
    )
