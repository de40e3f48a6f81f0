"""A codec that copies nothing: a saver in memory keeps the very objects.

For states that can't be stored, as functions and connections. What a node changes in an object
later changes what was saved, too.
"""

from itertools import count
from struct import Struct
from typing import Any

from actorgraph.codec.codec import Codec
from actorgraph.codec.places import NOWHERE, Place
from actorgraph.errors import SerializationError

_NUMBER = Struct(">Q")


class ReferenceCodec(Codec):
    """Payloads are numbers of objects that this codec keeps, for as long as it lives."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)
        self._kept: dict[bytes, Any] = {}

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """The number of the value, which is kept. A list is kept as it is now."""
        payload = _NUMBER.pack(next(self._numbers))
        self._kept[payload] = list(value) if type(value) is list else value
        return payload

    def decode(self, payload: bytes, place: Place = NOWHERE) -> Any:
        """The value itself.

        Raises:
            SerializationError: another codec has kept it.
        """
        if payload not in self._kept:
            raise SerializationError(
                "a stored value is not one that this saver has kept",
                do="use threads of a saver with copy='none' with that saver alone",
            )
        return self._kept[payload]

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """How many items the list has."""
        return len(self.decode(payload, place))

    @property
    def at_rest(self) -> Codec:
        """A codec that makes bytes, for caches."""
        return Codec(self.types)
