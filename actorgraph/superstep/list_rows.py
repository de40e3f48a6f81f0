"""The rows of a stored list that grows, as decisions on counts and sizes.

A list has a lineage; appending adds items to its last row while that is small, else opens a new
one. When there are ROWS_MAX rows, those at the end are merged: as many as leave one that is smaller
than the row before it. So a list of n items takes O(n) bytes in a bounded number of rows, and the
lists of most threads are written twice. A checkpoint names a lineage and a length, never a row,
so merging changes no record. A list that is cut off, reordered or forked gets a new lineage; a
fork's begins where the old one ends for it.

Callers: the codec, which encodes the items and stores the rows. Nothing here sees an encoded value.
"""

from operator import is_
from typing import Any

import msgspec

ROWS_MAX = 16
ROW_ITEMS_MAX = 32
ROW_BYTES_MAX = 3_400
"""Two versions of a row, old and new, fit on one database page of 8 kB."""
MERGED_BYTES_MAX = 4_194_304
"""Bytes of the largest row that merging makes."""


class ListRow(msgspec.Struct):
    """A stored row.

    Attributes:
        start: position of its first item in the list.
        count: how many items it has.
        size: their encoded bytes.
    """

    start: int
    count: int
    size: int

    @property
    def full(self) -> bool:
        """Whether it takes no more items."""
        return self.count >= ROW_ITEMS_MAX or self.size >= ROW_BYTES_MAX

    @property
    def weight(self) -> float:
        """Its size in full rows, by its items or by its bytes, whichever is more."""
        return max(self.count / ROW_ITEMS_MAX, self.size / ROW_BYTES_MAX)


class RowPlacement(msgspec.Struct, frozen=True):
    """The row for new items.

    Attributes:
        start: position in the list of the row's first item.
        before: items that the row has already; 0 for a new row.
        merges: `(start, end)` of rows to merge afterwards.
    """

    start: int
    before: int
    merges: tuple[tuple[int, int], ...]


class StoredList(msgspec.Struct):
    """One channel's stored list, as a run knows it. Mutable, owned by the run.

    Attributes:
        chain: `(lineage, end)` pairs; the list is the first one's items up to its end, then
            the next one's, and so on. The last pair's end is the list's length.
        items: the list as stored; compared by identity to distinguish an append from a change.
        rows: the rows of the last lineage.
    """

    chain: list[tuple[int, int]]
    items: list[Any]
    rows: list[ListRow]

    def appended(self, value: list[Any]) -> list[Any] | None:
        """The items of `value` behind the stored ones; None if it doesn't begin with those."""
        known = self.items
        if len(value) < len(known) or not all(map(is_, known, value)):
            return None
        return value[len(known) :]


def new_list(lineage: int) -> StoredList:
    """Make an empty list whose lineage is this version."""
    return StoredList([(lineage, 0)], [], [])


def branched_list(growth: StoredList, lineage: int) -> StoredList:
    """Continue a list on a lineage of its own, because the old one has grown elsewhere."""
    return StoredList([*growth.chain, (lineage, len(growth.items))], growth.items, [])


def add_items(growth: StoredList, items: list[Any], size: int) -> RowPlacement:
    """Add items to the list: choose their row, and what to merge after that.

    Args:
        growth: changed to what will be stored.
        items: at least one.
        size: their encoded bytes.
    """
    rows = growth.rows
    start = len(growth.items)
    lineage, _ = growth.chain[-1]
    growth.items.extend(items)
    growth.chain[-1] = (lineage, len(growth.items))
    if rows and not rows[-1].full:
        row = rows[-1]
        before = row.count
        row.count += len(items)
        row.size += size
    else:
        before = 0
        row = ListRow(start, len(items), size)
        rows.append(row)
    return RowPlacement(row.start, before, tuple(_merges(rows)))


def _merges(rows: list[ListRow]) -> list[tuple[int, int]]:
    if len(rows) < ROWS_MAX or not rows[-1].full:
        return []
    first = _first_to_merge(rows)
    last = rows[first:]
    count, size = sum(row.count for row in last), sum(row.size for row in last)
    if len(last) < 2:
        return []
    rows[first:] = [ListRow(last[0].start, count, size)]
    return [(last[0].start, last[0].start + count)]


def _first_to_merge(rows: list[ListRow]) -> int:
    """Find the first of the last rows to merge: the merged one is lighter than the row before."""
    first, weight, size = len(rows), 0.0, 0
    while first and (first > len(rows) - 2 or rows[first - 1].weight <= weight):
        size += rows[first - 1].size
        if size > MERGED_BYTES_MAX:
            break
        first -= 1
        weight += rows[first].weight
    return first
