"""What goes around encoded values: compression of large ones, then encryption.

An enveloped payload begins with 0xC1, the one byte that no msgpack begins with, and a byte that
says which: compressed, then zlib's bytes; or encrypted, then one byte of length, the cipher's
name and its bytes. So each row says how it is read, whatever the settings were when it was written.

What is encrypted is bound to its place (`codec.places`): as associated data by `AesCipher`; with
any other cipher a hash of the place is encrypted in front of the value, and compared.
"""

import zlib
from hashlib import blake2b
from hmac import compare_digest
from typing import Protocol, runtime_checkable

import ormsgpack

from actorgraph.codec.ciphers import AesCipher
from actorgraph.codec.places import NOWHERE, Place
from actorgraph.errors import EncryptionError, InvalidConfigError, SerializationError

MARK = b"\xc1"
_ZLIB = b"\xc1\x01"
_SEALED = b"\xc1\x02"
_LEVEL = 1
"""zlib's fastest: a payload is encoded in the event loop."""
_SMALL_WBITS = 12
_WORDS = (
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
"""What small values begin with: zlib refers to it. Part of the stored format: never change it."""
_HASH = 16

INFLATED_MAX = 30_000_000
"""Bytes that a compressed value has at most: larger ones aren't compressed, and are not read."""


@runtime_checkable
class CipherProtocol(Protocol):
    """Encrypts payloads. `AesCipher` is one; a program may have its own, for a key service say."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The name of the cipher and key (1 to 255 bytes of UTF-8), and the encrypted bytes."""
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """What `encrypt` got. Must raise for a name that it doesn't know and for changed bytes."""
        ...


class Envelope:
    """The settings of one codec.

    Args:
        cipher: None leaves values readable.
        compress_above: bytes above which a payload is compressed, if that makes it smaller;
            None compresses nothing.
        reads_plain: whether values that aren't encrypted are read although there is a cipher.
    Raises:
        InvalidConfigError: `compress_above` is negative, or the cipher has not both methods.
    """

    def __init__(
        self, cipher: CipherProtocol | None, compress_above: int | None, *, reads_plain: bool
    ) -> None:
        if compress_above is not None and compress_above < 0:
            raise InvalidConfigError(
                f"compress_above is {compress_above}, and no payload has less than 0 bytes",
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
        """The bytes to store for an encoded value."""
        if self._above is not None and self._above < len(payload) <= INFLATED_MAX:
            smaller = _ZLIB + _deflated(payload)
            payload = smaller if len(smaller) < len(payload) else payload
        return payload if self.cipher is None else self._sealed(self.cipher, payload, place)

    def move(self, payload: bytes, place: Place, target: Place) -> bytes:
        """The bytes to store at `target` for those that are stored at `place`.

        They are encrypted with the key that encrypts now, also those that weren't encrypted.

        Raises: as `open`.
        """
        plain = self._unsealed(payload, place)
        return plain if self.cipher is None else self._sealed(self.cipher, plain, target)

    def _sealed(self, cipher: CipherProtocol, payload: bytes, place: Place) -> bytes:
        if isinstance(cipher, AesCipher):
            name, sealed = cipher.encrypt(payload, ormsgpack.packb(place))
        else:
            name, sealed = cipher.encrypt(_hashed(place) + payload)
        label = name.encode()
        if not 0 < len(label) < 256:
            raise EncryptionError(
                f"the cipher's name {name!r} has {len(label)} bytes",
                do="let `encrypt` return a name of 1 to 255 bytes",
            )
        return _SEALED + bytes([len(label)]) + label + sealed

    def open(self, payload: bytes, place: Place = NOWHERE) -> bytes:
        """The encoded value of stored bytes.

        Raises:
            EncryptionError: they can't be decrypted, were encrypted for another place, or should
                be encrypted and are not.
            SerializationError: the compressed bytes are damaged, or too many.
        """
        payload = self._unsealed(payload, place)
        return _inflated(payload) if payload[:2] == _ZLIB else payload

    def check_plain(self) -> None:
        """Refuse a value that isn't encrypted, unless such are read.

        Raises: EncryptionError.
        """
        if self.cipher is not None and not self._reads_plain:
            raise EncryptionError(
                "a stored value is not encrypted, and this codec reads encrypted values only",
                do="if the thread was begun before there were keys, pass reads_plain=True; "
                "otherwise somebody has changed the database",
            )

    def _unsealed(self, payload: bytes, place: Place) -> bytes:
        if payload[:2] != _SEALED:
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
            return _checked(self.cipher.decrypt(name, sealed), place)
        except EncryptionError:
            raise
        except Exception as error:
            raise EncryptionError(
                f"a stored value can't be decrypted: {error!r}",
                do="check that the cipher has the keys of old values, and that the database is "
                "undamaged",
            ) from error


NONE = Envelope(None, None, reads_plain=True)
"""Reads what other codecs have compressed."""


def _deflated(payload: bytes) -> bytes:
    """What zlib makes of it. A small window is enough for few bytes, and is made faster."""
    if len(payload) > 1 << _SMALL_WBITS:
        return zlib.compress(payload, _LEVEL)
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _SMALL_WBITS, 5, zdict=_WORDS)
    return stream.compress(payload) + stream.flush()


def _hashed(place: Place) -> bytes:
    return blake2b(ormsgpack.packb(place), digest_size=_HASH).digest()


def _checked(plain: bytes, place: Place) -> bytes:
    if not compare_digest(plain[:_HASH], _hashed(place)):
        raise EncryptionError(
            "a stored value was written for another thread, channel, version or task",
            do="somebody has moved rows in the database: restore it from a backup",
        )
    return plain[_HASH:]


def _inflated(payload: bytes) -> bytes:
    stream = zlib.decompressobj(zdict=_WORDS)
    try:
        inflated = stream.decompress(memoryview(payload)[2:], INFLATED_MAX)
        if stream.eof and not stream.unused_data:
            return inflated
        why = "it is cut off, or something stands behind it"
        if stream.unconsumed_tail:
            why = f"it has more than {INFLATED_MAX:,} bytes"
    except zlib.error as error:
        why = str(error)
    raise SerializationError(
        f"a stored value can't be decompressed: {why}",
        do="check the database's integrity, or restore it from a backup",
    )
