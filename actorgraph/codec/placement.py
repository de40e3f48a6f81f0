"""Locations of the values of a checkpoint, and large input values that are stored once.

Shared values: the input's checkpoint, the pending writes that its task makes of it and the next
checkpoint hold the same objects. A large one gets a blob row of its own, named `__start__:<key>`
(no channel has that name) at the version of the input. Each value that holds it is encoded with a
reference (`Shared`) in its place. The records of the checkpoints list the row among their blobs
(`Record.shared`), so that savers read, keep and remove it like any other value. Identity decides:
an object that a node or reducer made anew is another value. Decision 72.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from actorgraph.codec.codec import Codec
from actorgraph.codec.records import FORMAT_SHARED, Record
from actorgraph.superstep.list_rows import StoredList
from actorgraph.values.commits import Shared
from actorgraph.values.constants import START
from actorgraph.values.ids import CheckpointId

SHARED_BYTES_MIN = 4_096
"""Bytes below which a value is stored inside each row that holds it: sharing would save little."""


class SharedRow(msgspec.Struct, frozen=True):
    """An input value with a row of its own.

    Attributes:
        name: of the row, `__start__:<key>`.
        version: of the row, that of the input.
        value: the object. Holding it keeps its `id` from being reused by another object.
    """

    name: str
    version: int
    value: Any


class SharedInput:
    """The large values of a run's input. Owned by the run's `HandOff`.

    Attributes:
        rows: `id(value)` -> its row; empty for most runs.
    """

    def __init__(self) -> None:
        self.rows: dict[int, SharedRow] = {}
        self._base: CheckpointId | bytes = b""

    def collect(self, point: Any) -> None:
        """Find the large values of the input of which `point` is the checkpoint."""
        given = point.changed[START]
        if type(given) is not dict:
            return
        version, self._base = point.versions[START], point.id
        self.rows = {
            id(value): SharedRow(f"{START}:{key}", version, value)
            for key, value in given.items()
            if type(key) is str and _size(value, SHARED_BYTES_MIN) >= SHARED_BYTES_MIN
        }

    def row_of(self, value: Any) -> SharedRow | None:
        """Return the row of a value; None if the value is not shared."""
        return self.rows.get(id(value))

    def new_with(self, point: Any) -> Sequence[SharedRow]:
        """Return the rows to store with a checkpoint: all of them with the input's, else none."""
        return tuple(self.rows.values()) if point.id == self._base else ()

    def with_references(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the input with a reference in place of each large value."""
        return {key: self._name(value) for key, value in given.items()}

    def writes(self, base: bytes, writes: Iterable[tuple[str, Any]]) -> list[list[Any]]:
        """Return pending writes to encode, with references in those of the input's checkpoint.

        Only its record lists the rows: beside any other checkpoint a reference could not be read.
        """
        if base != self._base:
            return list(map(list, writes))
        return [[channel, self._name(value)] for channel, value in writes]

    def forget_mutable(self) -> None:
        """Forget the values that a node could change from now on; text and bytes stay shared."""
        immutable = (str, bytes)
        kept = {i: s for i, s in self.rows.items() if type(s.value) in immutable}
        self.rows = kept

    def _name(self, value: Any) -> Any:
        row = self.row_of(value)
        return value if row is None else Shared(row.name)


def can_share(codec: Codec) -> bool:
    """Whether a codec can encode references to other rows; a program's own serializer can't."""
    return type(codec) is Codec


def _size(value: Any, enough: int) -> int:
    """Estimate the encoded bytes of a value; stops counting at `enough`."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value)
    if kind is not list and kind is not dict and kind is not tuple:
        parts = getattr(value, "__dict__", None)
        return 8 if parts is None else _size(parts, enough)
    size = 0
    for part in value.values() if kind is dict else value:
        size += _size(part, enough - size)
        if size >= enough:
            break
    return size


class Placement(msgspec.Struct):
    """Location of each channel's value; a run updates it with each save.

    Attributes:
        values: channel -> value stored inline in the record.
        blobs: channels whose value is a row of its own.
        stands: channel -> version of its blob, where that is not the channel's version.
        lists: channel -> its list, stored as rows of items.
        growths: channel -> the last list that the run has seen, also if it was stored as a blob.
        outgrown: channels whose list has been appended to by another branch since the checkpoint.
        moved: channel -> value that a migration made, to be stored with the next checkpoint.
        shared: channel -> names of the shared rows that its value is, or refers to.
        shared_versions: name of a shared row -> its version.
    """

    values: dict[str, Any] = {}
    blobs: set[str] = set()
    stands: dict[str, int] = {}
    lists: dict[str, StoredList] = {}
    growths: dict[str, StoredList] = {}
    outgrown: set[str] = set()
    moved: dict[str, Any] = {}
    shared: dict[str, list[str]] = {}
    shared_versions: dict[str, int] = {}

    def share(self, channel: str, rows: Iterable[SharedRow]) -> None:
        """Record that the channel's value is one of these shared rows, or refers to them."""
        versions = {row.name: row.version for row in rows}
        self.shared[channel] = [*versions]
        self.shared_versions.update(versions)

    def write_shared(self, record: Record) -> None:
        """Write the shared rows of its channels into a record."""
        record.v, record.shared = FORMAT_SHARED, dict(self.shared)
        names = record.shared_rows
        record.blobs = sorted({*record.blobs, *names})
        record.stands = {**record.stands, **{name: self.shared_versions[name] for name in names}}

    def inline(self, channel: str, value: Any) -> None:
        """Record that the channel changed to a value that is stored in the record itself."""
        if channel not in self.values:
            self.forget(channel)
        self.values[channel] = value

    def forget(self, channel: str) -> None:
        """Drop the place of a channel's old value, because the value has changed."""
        self.values.pop(channel, None)
        self.blobs.discard(channel)
        self.lists.pop(channel, None)
        if self.stands:
            self.stands.pop(channel, None)
        if self.shared:
            self.shared.pop(channel, None)
