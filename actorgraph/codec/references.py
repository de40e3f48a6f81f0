"""A codec that keeps the objects themselves, for savers in memory."""

from itertools import count
from struct import Struct
from typing import Any

from actorgraph.codec.codec import Codec
from actorgraph.codec.places import NOWHERE, Place
from actorgraph.errors import SerializationError

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
