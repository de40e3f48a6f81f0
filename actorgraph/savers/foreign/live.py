"""Values on their way to a saver that encodes them itself: copied, not encoded.

The rows of a commit hold bytes. Here each is an empty one that carries a copy of its value, so
that what a node changes later doesn't change what was handed over.
"""

from copy import deepcopy
from typing import Any

from actorgraph.codec import Codec
from actorgraph.codec.places import NOWHERE, Place
from actorgraph.errors import SerializationError


class LivePayload(bytes):
    """A payload without bytes: the value itself."""

    value: Any

    def __radd__(self, head: bytes) -> "LivePayload":
        """A frame around it: there are no bytes to frame."""
        return self


def live_payload(value: Any) -> LivePayload:
    """A payload that carries this value, which from now on is its own."""
    made = LivePayload(b"")
    made.value = value
    return made


def value_of(payload: bytes) -> Any:
    """The value of a payload, not copied."""
    assert isinstance(payload, LivePayload)
    return payload.value


class LiveCodec(Codec):
    """Copies values; the saver's own serializer makes bytes of them, and refuses what it can't."""

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """A copy of the value.

        Raises:
            SerializationError: it can't be copied.
        """
        try:
            return live_payload(deepcopy(value))
        except Exception as error:
            raise SerializationError(
                f"{path} can't be copied: {error}",
                do="store plain data in the state; UntrackedValue keeps a value out of checkpoints",
            ) from error

    def decode(self, payload: bytes, place: Place = NOWHERE) -> Any:
        """A copy of the value: the saver may have kept the one that it was given."""
        return (
            deepcopy(payload.value)
            if isinstance(payload, LivePayload)
            else super().decode(payload, place)
        )

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """How many items the list has."""
        return len(value_of(payload))

    @property
    def at_rest(self) -> Codec:
        """A codec that makes bytes, for caches."""
        return Codec(self.types)
