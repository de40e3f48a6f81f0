"""A cache of decoded lists, so that checkpoints that share a list share its decoding.

Checkpoints share the rows of a growing list: each checkpoint of a history holds the beginning of
the next one's list, and a run reads rows again that it has just stored. The cache keeps the rows'
bytes and their decoded items. Rows that were read are compared byte for byte, so that nothing
stale is returned, and readers get copies of the items, as independent as a new decoding.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from actorgraph.codec.copiers import Copier, UncopiableError, prepare, same_value
from actorgraph.codec.records import frames
from actorgraph.values.commits import StoredRange

BYTES_MAX = 8_000_000
"""Bytes of the rows of all cached lists, about. A longer list is decoded each time."""

Key = tuple[str, str, str, int]
"""A thread, a namespace, a channel and a lineage."""


class _CachedList(msgspec.Struct, frozen=True):
    """One list. Immutable, because other threads may be reading it.

    Attributes:
        rows: as they were read.
        ends: number of items up to the end of each row.
        items: of all rows, in order, each as the argument of its copier.
        size: bytes of the rows.
        copiers: one for each item.
        copier: the copier of all items, if it is the same one.
    """

    rows: tuple[StoredRange, ...]
    ends: tuple[int, ...]
    items: list[Any]
    size: int
    copiers: list[Copier]
    copier: Copier | None

    def copies(self, count: int) -> list[Any]:
        """Copy the first items; the copies are as independent as a new decoding."""
        items = self.items if count == len(self.items) else self.items[:count]
        if self.copier is same_value:
            return items.copy()
        if self.copier is not None:
            return [*map(self.copier, items)]
        return [copy(item) for copy, item in zip(self.copiers, items, strict=False)]


class ListCache:
    """The decoded lists of one codec. The least recently used are dropped first. Thread-safe."""

    def __init__(self) -> None:
        self._lists: OrderedDict[Key, _CachedList] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(
        self, key: Key, rows: Sequence[StoredRange], count: int, decode: Callable[[bytes], Any]
    ) -> list[Any] | None:
        """Return copies of the first `count` items of a list's rows, or of as many as there are.

        Rows that are not cached are decoded and cached.

        Returns: None where the caller must decode: the list is too long, or can't be copied.
        """
        known = self._lists.get(key)
        same = 0 if known is None else _count_same_rows(known, rows)
        if known is not None and same == len(rows):
            # Keep the row objects of this reader: the next one may well have the same, and
            # comparing identities is cheaper than comparing bytes.
            if same and rows[-1] is not known.rows[same - 1]:
                fresh = (*rows, *known.rows[same:])
                self._keep(key, msgspec.structs.replace(known, rows=fresh))
            return known.copies(min(count, known.ends[same - 1] if same else 0))
        size = sum(len(row.payload) for row in rows)
        if size > BYTES_MAX:
            return None
        made = _extended(known, same, rows, size, decode)
        if made is not None:
            self._keep(key, made)
        return None if made is None else made.copies(min(count, len(made.items)))

    def _keep(self, key: Key, made: _CachedList) -> None:
        with self._lock:
            before = self._lists.pop(key, None)
            self._lists[key] = made
            self._size += made.size - (before.size if before is not None else 0)
            while self._size > BYTES_MAX:
                self._size -= self._lists.popitem(last=False)[1].size


def _count_same_rows(known: _CachedList, rows: Sequence[StoredRange]) -> int:
    """Count the leading rows that are equal to the cached ones."""
    same = 0
    for row, other in zip(rows, known.rows, strict=False):
        if row is not other and (row.start != other.start or row.payload != other.payload):
            break
        same += 1
    return same


def _extended(
    known: _CachedList | None,
    same: int,
    rows: Sequence[StoredRange],
    size: int,
    decode: Callable[[bytes], Any],
) -> _CachedList | None:
    """Extend a cached list by the rows behind it; None if an item can't be copied."""
    ends = [] if known is None else [*known.ends[:same]]
    items = [] if known is None else known.items[: ends[-1] if ends else 0]
    begun = b""
    # The last row usually has new frames behind the cached ones: decode only those.
    if known is not None and same < len(known.rows) and _grows(known.rows[same], rows[same]):
        items = known.items[: known.ends[same]]
        begun = known.rows[same].payload
    copiers = [] if known is None else known.copiers[: len(items)]
    old = len(items)
    kinds = {known.copier} if known is not None and items else set[Copier | None]()
    for row in rows[same:]:
        for part in frames(row.payload[len(begun) :]):
            try:
                new = [prepare(item) for item in decode(part)]
            except UncopiableError:
                return None
            copiers += [copier for copier, _ in new]
            items += [item for _, item in new]
        ends.append(len(items))
        begun = b""
    kinds.update(copiers[old:])
    alike = kinds.pop() if len(kinds) == 1 else None
    return _CachedList(tuple(rows), tuple(ends), items, size, copiers, alike)


def _grows(before: StoredRange, after: StoredRange) -> bool:
    return before.start == after.start and after.payload.startswith(before.payload)


def are_contiguous(rows: Iterable[StoredRange], start: int) -> bool:
    """Whether each row begins where the one before it ends, and the first one at `start`."""
    for row in rows:
        if row.start != start:
            return False
        start += row.count
    return True
