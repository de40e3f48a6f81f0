"""What goes around encoded values: compression of large ones, then encryption.

An enveloped payload begins with 0xC1, the one byte that no msgpack begins with, and a byte that
says which: compressed, then zlib's bytes; or encrypted, then one byte of length, the cipher's
name and its bytes. So each row says how it is read, whatever the settings were when it was written.
"""

import zlib
from typing import Protocol, runtime_checkable

from actorgraph.errors import EncryptionError, InvalidConfigError, SerializationError

MARK = b"\xc1"
_ZLIB = b"\xc1\x01"
_SEALED = b"\xc1\x02"
_LEVEL = 1
"""zlib's fastest: a payload is encoded in the event loop."""


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

    def close(self, payload: bytes) -> bytes:
        """The bytes to store for an encoded value."""
        if self._above is not None and len(payload) > self._above:
            smaller = _ZLIB + zlib.compress(payload, _LEVEL)
            payload = smaller if len(smaller) < len(payload) else payload
        if self.cipher is None:
            return payload
        name, sealed = self.cipher.encrypt(payload)
        label = name.encode()
        if not 0 < len(label) < 256:
            raise EncryptionError(
                f"the cipher's name {name!r} has {len(label)} bytes",
                do="let `encrypt` return a name of 1 to 255 bytes",
            )
        return _SEALED + bytes([len(label)]) + label + sealed

    def open(self, payload: bytes) -> bytes:
        """The encoded value of stored bytes.

        Raises:
            EncryptionError: they can't be decrypted, or should be encrypted and are not.
            SerializationError: the compressed bytes are damaged.
        """
        if payload[:2] == _SEALED:
            payload = self._unsealed(payload)
        elif self.cipher is not None and not self._reads_plain:
            raise EncryptionError(
                "a stored value is not encrypted, and this codec reads encrypted values only",
                do="if the thread was begun before there were keys, pass reads_plain=True; "
                "otherwise somebody has changed the database",
            )
        return _inflated(payload) if payload[:2] == _ZLIB else payload

    def _unsealed(self, payload: bytes) -> bytes:
        if self.cipher is None:
            raise EncryptionError(
                "a stored value is encrypted, and this codec has no keys",
                do="pass codec=Codec(keys={...}) with the keys that it was written with",
            )
        start = 3 + int.from_bytes(payload[2:3])
        try:
            return self.cipher.decrypt(payload[3:start].decode(), payload[start:])
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


def _inflated(payload: bytes) -> bytes:
    try:
        return zlib.decompress(memoryview(payload)[2:])
    except zlib.error as error:
        raise SerializationError(
            f"a stored value can't be decompressed: {error}",
            do="check the database's integrity, or restore it from a backup",
        ) from error
