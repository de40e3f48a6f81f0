"""A serializer of the user's as a codec, and the protocol that it keeps."""

import struct
from typing import Any, Protocol, runtime_checkable

from actorgraph.codec.codec import Codec
from actorgraph.codec.places import NOWHERE, Place
from actorgraph.errors import InvalidConfigError, SerializationError

_LENGTH = struct.Struct(">H")


@runtime_checkable
class SerializerProtocol(Protocol):
    """Makes bytes of values and back, with a word for the form; LangGraph's protocol."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The form and the bytes of a value."""
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value of a form and bytes."""
        ...


class SerializerCodec(Codec):
    """Stores values as a serializer of the user's makes them; it alone decides what it takes.

    A saver makes one of a serializer that it gets as its `codec`.

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
        """The form's word and the bytes.

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
        """The value again.

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
                do="use the serializer that has written the thread",
            ) from error

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """How many items the encoded list has."""
        return len(self.decode(payload, place))


def codec_of(given: Codec | SerializerProtocol | None) -> Codec:
    """A saver's codec: the given one, one around a serializer, or one of plain data.

    Raises:
        InvalidConfigError: it is neither.
    """
    if given is None or isinstance(given, Codec):
        return given or Codec()
    if isinstance(given, type) or not isinstance(given, SerializerProtocol):
        raise InvalidConfigError(
            f"codec={given!r} is neither a Codec nor has it `dumps_typed` and `loads_typed`",
            do="pass e.g. codec=Codec(types=[...]), or leave it out",
        )
    return SerializerCodec(given)
