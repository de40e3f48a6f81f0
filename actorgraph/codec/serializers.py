"""Codecs besides the default one, and `codec_of`, which chooses a saver's codec.

EncryptedSerializer   LangGraph's name for `Codec(keys=...)`
SerializerCodec       around a serializer of the program's own (`SerializerProtocol`)
ReferenceCodec        keeps the objects themselves, for a saver in memory with copy="none"
"""

import struct
from itertools import count
from struct import Struct
from typing import Any, Protocol, Self, runtime_checkable

from actorgraph.codec.codec import Codec
from actorgraph.codec.encryption import (
    NOWHERE,
    AesCipher,
    CipherProtocol,
    Place,
    key_of_environment,
)
from actorgraph.errors import InvalidConfigError, SerializationError

_LENGTH = struct.Struct(">H")


@runtime_checkable
class SerializerProtocol(Protocol):
    """Encodes values as bytes with the name of their form; LangGraph's protocol."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode a value; returns its form and bytes."""
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode a form and bytes."""
        ...


class SerializerCodec(Codec):
    """Stores values as a serializer of the program's own encodes them; it has no allow-list.

    A saver that gets a serializer as its `codec` makes one of these.

    Args:
        serializer: see `SerializerProtocol`.
    """

    def __init__(self, serializer: SerializerProtocol) -> None:
        super().__init__()
        self.serializer = serializer

    @property
    def encodes_all(self) -> bool:
        """Always: the serializer may encrypt."""
        return True

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """Encode with the serializer; the form's name is stored in front of the bytes.

        Raises:
            SerializationError: the serializer refuses the value.
        """
        try:
            form, payload = self.serializer.dumps_typed(value)
        except Exception as error:
            raise SerializationError(
                f"{path} can't be stored: {type(self.serializer).__name__} refuses it: {error}",
                do="store what the serializer takes; UntrackedValue keeps a value out",
            ) from error
        word = form.encode()
        return _LENGTH.pack(len(word)) + word + payload

    def decode(self, payload: bytes, place: Place = NOWHERE) -> Any:
        """Decode with the serializer.

        Raises:
            SerializationError: the serializer can't read the bytes.
        """
        end = _LENGTH.size + _LENGTH.unpack_from(payload.ljust(_LENGTH.size, b"\0"))[0]
        try:
            form = payload[_LENGTH.size : end].decode()
            return self.serializer.loads_typed((form, payload[end:]))
        except Exception as error:
            raise SerializationError(
                f"a stored value can't be read by {type(self.serializer).__name__}: {error}",
                do="use the serializer that wrote the thread",
            ) from error

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """Count the items of an encoded list."""
        return len(self.decode(payload, place))


def codec_of(given: Codec | SerializerProtocol | None) -> Codec:
    """Return a saver's codec: the given one, one around a serializer, or a new default one.

    Raises:
        InvalidConfigError: it is neither a codec nor a serializer.
    """
    if given is None or isinstance(given, Codec):
        return given or Codec()
    if isinstance(given, type) or not isinstance(given, SerializerProtocol):
        raise InvalidConfigError(
            f"codec must be a Codec or have `dumps_typed` and `loads_typed`, got {given!r}",
            do="pass e.g. codec=Codec(types=[...]), or leave it out",
        )
    return SerializerCodec(given)


class EncryptedSerializer(Codec):
    """A codec that encrypts with a cipher; pass it as a saver's `codec`.

    Args:
        cipher: see `CipherProtocol`.
        serde: a codec whose types are allowed; default one with no types of its own.
        reads_plain: whether unencrypted values are read. Default False: they are refused.
    """

    def __init__(
        self, cipher: CipherProtocol, serde: Codec | None = None, *, reads_plain: bool = False
    ) -> None:
        types = () if serde is None else serde.types
        super().__init__(types, cipher=cipher, reads_plain=reads_plain)

    @classmethod
    def from_pycryptodome_aes(
        cls, serde: Codec | None = None, *, key: bytes | None = None, reads_plain: bool = False
    ) -> Self:
        """Make one with a single AES key.

        The name is LangGraph's; the package used is `cryptography`. Values that LangGraph has
        encrypted can't be read.

        Args:
            key: 16, 24 or 32 bytes; default: the text of the environment variable
                ACTORGRAPH_AES_KEY, else of LANGGRAPH_AES_KEY.
        Raises:
            InvalidConfigError: no key, or one of another size.
            MissingExtraError: `cryptography` isn't installed.
        """
        cipher = AesCipher({"aes": key_of_environment() if key is None else key})
        return cls(cipher, serde, reads_plain=reads_plain)


_NUMBER = Struct(">Q")


class ReferenceCodec(Codec):
    """Payloads are numbers of objects that this codec keeps for as long as it lives.

    For states that can't be encoded, e.g. with functions or connections. A node that mutates an
    object later changes the saved value, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)
        self._kept: dict[bytes, Any] = {}

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """Keep the value and return its number. A list is kept as a copy of its items now."""
        payload = _NUMBER.pack(next(self._numbers))
        self._kept[payload] = list(value) if type(value) is list else value
        return payload

    def decode(self, payload: bytes, place: Place = NOWHERE) -> Any:
        """Return the object itself.

        Raises:
            SerializationError: this codec doesn't have it.
        """
        if payload not in self._kept:
            raise SerializationError(
                "a stored value is not one of those that this saver keeps",
                do="use threads of a saver with copy='none' with that saver alone",
            )
        return self._kept[payload]

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """Count the items of an encoded list."""
        return len(self.decode(payload, place))

    @property
    def at_rest(self) -> Codec:
        """A codec that encodes as bytes, for caches."""
        return Codec(self.types)
