"""Large values of an input: stored once, however many rows of its commit hold them.

The input's checkpoint, the writes that its task makes of it and the next checkpoint hold the same
objects. A large one has a row of its own among the blobs, under a name that no channel has and at
the version of the input. The rows that hold it say its name (`Shared`); the records of their
checkpoints list it among their blobs (`Record.shared`), so that savers read and keep it as any
other value. What a task makes later is shared only where it can't have been changed since.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from actorgraph.codec.codec import Codec
from actorgraph.values.constants import START
from actorgraph.values.ids import CheckpointId
from actorgraph.values.shared import Shared

SHARED_BYTES_MIN = 4_096
"""Below it a value is stored with the rows that hold it: a row of its own would save little."""


class Source(msgspec.Struct, frozen=True):
    """A value with a row of its own. The value itself is kept, so that its identity stays its own.

    Attributes:
        name: under which its row stands. version: at which.
    """

    name: str
    version: int
    value: Any


class Given:
    """The large values of a run's input. Owned by the run's hand-off.

    Attributes:
        sources: by the values' identity; empty for most runs.
    """

    def __init__(self) -> None:
        self.sources: dict[int, Source] = {}
        self._base: CheckpointId | bytes = b""

    def learn(self, point: Any) -> None:
        """Look for large values in a checkpoint of an input."""
        given = point.changed.get(START)
        if type(given) is not dict:
            return
        version, self._base = point.versions[START], point.id
        self.sources = {
            id(value): Source(f"{START}:{key}", version, value)
            for key, value in given.items()
            if type(key) is str and _size(value, SHARED_BYTES_MIN) >= SHARED_BYTES_MIN
        }

    def source(self, value: Any) -> Source | None:
        """The row that a value has, if it is one of them."""
        return self.sources.get(id(value))

    def of(self, point: Any) -> Sequence[Source]:
        """The values that are new with the checkpoint of an input."""
        return tuple(self.sources.values()) if point.id == self._base else ()

    def named(self, given: dict[str, Any]) -> dict[str, Any]:
        """An input with the names of its large values in their places."""
        return {key: self._name(value) for key, value in given.items()}

    def writes(self, base: bytes, writes: Iterable[tuple[str, Any]]) -> list[list[Any]]:
        """Writes beside a checkpoint; only those beside the input's may name its values."""
        if base != self._base:
            return list(map(list, writes))
        return [[channel, self._name(value)] for channel, value in writes]

    def handed_over(self) -> None:
        """Forget what code that runs from now on could change."""
        unchanging = (str, bytes)
        kept = {i: s for i, s in self.sources.items() if type(s.value) in unchanging}
        self.sources = kept

    def _name(self, value: Any) -> Any:
        source = self.source(value)
        return value if source is None else Shared(source.name)


def shares(codec: Codec) -> bool:
    """Whether what a codec makes of a value may name another row; a serializer's bytes may not."""
    return type(codec) is Codec


def _size(value: Any, enough: int) -> int:
    """About how many bytes a value takes, counted until they are enough."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value)
    if kind is not list and kind is not dict and kind is not tuple:
        parts = getattr(value, "__dict__", None)
        return 8 if parts is None else _size(parts, enough)
    size = 0
    for part in value.values() if kind is dict else value:
        size += 8 if part is None else _size(part, enough - size)
        if size >= enough:
            break
    return size
