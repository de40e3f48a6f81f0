"""Payloads that carry values, for savers that encode them themselves."""

from copy import deepcopy
from typing import Any

from actorgraph.codec import Codec
from actorgraph.codec.places import NOWHERE, Place
from actorgraph.errors import SerializationError


class LivePayload(bytes):
    """An empty payload that carries a value."""

    value: Any

    def __radd__(self, head: bytes) -> "LivePayload":
        """Return itself: the codec's frame is put around bytes, and here are none."""
        return self


def live_payload(value: Any) -> LivePayload:
    """Make a payload that carries a value; the caller must not change the value any more."""
    made = LivePayload(b"")
    made.value = value
    return made


def value_of(payload: bytes) -> Any:
    """Return the value of a payload, not copied."""
    assert isinstance(payload, LivePayload)
    return payload.value


class LiveCodec(Codec):
    """Copies values instead of encoding them; the saver's own serializer encodes them."""

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """Return a payload that carries a copy of the value.

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
        """Return a copy of the value: the saver may keep the object that it was given."""
        return (
            deepcopy(payload.value)
            if isinstance(payload, LivePayload)
            else super().decode(payload, place)
        )

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """Return the number of items of a list."""
        return len(value_of(payload))

    @property
    def at_rest(self) -> Codec:
        """A codec that encodes to bytes, for caches."""
        return Codec(self.types)
