"""Lists that were decoded lately, so that checkpoints that share a list share its decoding.

A growing list is stored in rows that checkpoints share: a run reads again what it has stored
itself, and each checkpoint of a history holds the beginning of the next one's list. What is kept
here are the rows' bytes and what they decode to; a reader gets copies (`codec.copies`), as new as
what decoding makes. Rows are compared with what was read, so that nothing outdated is taken.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from actorgraph.codec.copies import can_copy, copied_items, list_copier
from actorgraph.codec.frames import frames
from actorgraph.values.commits import StoredRange

BYTES_MAX = 8_000_000
"""Of the rows of all lists that are kept, about; a longer list is decoded each time."""

Key = tuple[str, str, str, int]
"""A thread, a namespace, a channel and a lineage."""


class _Kept(msgspec.Struct, frozen=True):
    """One list: its rows, and its items in order. Never changed: others may be reading it.

    Attributes:
        ends: how many items there are up to the end of each row. copier: makes copies of some.
    """

    rows: tuple[StoredRange, ...]
    ends: tuple[int, ...]
    items: list[Any]
    size: int
    copier: Callable[[Sequence[Any]], list[Any]]

    def copies(self, count: int) -> list[Any]:
        """The first items, as new as if they had been decoded."""
        return self.copier(self.items if count == len(self.items) else self.items[:count])


class RememberedLists:
    """The lists of one codec, those longest unused going first. For any thread."""

    def __init__(self) -> None:
        self._lists: OrderedDict[Key, _Kept] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(
        self, key: Key, rows: Sequence[StoredRange], count: int, decode: Callable[[bytes], Any]
    ) -> list[Any] | None:
        """The first items of a list's rows, or as many as there are.

        Returns: None where they have to be decoded.
        """
        known = self._lists.get(key)
        same = 0 if known is None else _shared(known, rows)
        if known is not None and same == len(rows):
            if same and rows[-1] is not known.rows[same - 1]:  # the next reader may have the same
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

    def _keep(self, key: Key, made: _Kept) -> None:
        with self._lock:
            before = self._lists.pop(key, None)
            self._lists[key] = made
            self._size += made.size - (before.size if before is not None else 0)
            while self._size > BYTES_MAX:
                self._size -= self._lists.popitem(last=False)[1].size


def _shared(known: _Kept, rows: Sequence[StoredRange]) -> int:
    """How many of the rows are the known ones."""
    same = 0
    for row, other in zip(rows, known.rows, strict=False):
        if row is not other and (row.start != other.start or row.payload != other.payload):
            break
        same += 1
    return same


def _extended(
    known: _Kept | None,
    same: int,
    rows: Sequence[StoredRange],
    size: int,
    decode: Callable[[bytes], Any],
) -> _Kept | None:
    """What is known with the rows behind it; None if an item can't be copied."""
    ends = [] if known is None else [*known.ends[:same]]
    items = [] if known is None else known.items[: ends[-1] if ends else 0]
    begun = b""
    if known is not None and same < len(known.rows) and _grows(known.rows[same], rows[same]):
        items = known.items[: known.ends[same]]
        begun = known.rows[same].payload
    old = len(items)
    for row in rows[same:]:
        for part in frames(row.payload[len(begun) :]):
            new = decode(part)
            if not all(map(can_copy, new)):
                return None
            items.extend(new)
        ends.append(len(items))
        begun = b""
    copier = list_copier(items[old:])
    if old and known is not None and known.copier is not copier:
        copier = copied_items
    return _Kept(tuple(rows), tuple(ends), items, size, copier)


def _grows(before: StoredRange, after: StoredRange) -> bool:
    return before.start == after.start and after.payload.startswith(before.payload)


def starts_right(rows: Iterable[StoredRange], start: int) -> bool:
    """Whether each row begins where the one before it ends, the first one at `start`."""
    for row in rows:
        if row.start != start:
            return False
        start += row.count
    return True
