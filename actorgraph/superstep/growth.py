"""How a growing list is laid out in rows, as decisions on counts and sizes.

A list has a lineage; appending adds items to its last row while that is small, else opens a new
one. When there are ROWS_MAX rows, those at the end are merged: as many as leave one that is smaller
than the row before it. So a list of n items takes O(n) bytes in a bounded number of rows, and the
lists of most threads are written twice. A checkpoint names a lineage and a length, never a row,
so merging changes no record. A list that is cut off, reordered or forked gets a new lineage; a
fork's begins where the old one ends for it.
"""

from operator import is_
from typing import Any

import msgspec

ROWS_MAX = 16
ROW_ITEMS_MAX = 32
ROW_BYTES_MAX = 3_400
"""Two of them, as it was and as it is, stand on one page of 8 kB."""
MERGED_BYTES_MAX = 4_194_304


class Row(msgspec.Struct):
    """A stored row: where in the list it begins, its items, their bytes."""

    start: int
    count: int
    size: int

    @property
    def full(self) -> bool:
        """Whether it takes no more items."""
        return self.count >= ROW_ITEMS_MAX or self.size >= ROW_BYTES_MAX

    @property
    def weight(self) -> float:
        """How many full rows of one append its bytes or its items are."""
        return max(self.count / ROW_ITEMS_MAX, self.size / ROW_BYTES_MAX)


class Placed(msgspec.Struct, frozen=True):
    """Where new items go: a row and how many it has; then, maybe, rows to merge."""

    start: int
    before: int
    merges: tuple[tuple[int, int], ...]


class Growth(msgspec.Struct):
    """What a run knows of one channel's stored list. Mutable, owned by the run.

    Attributes:
        chain: `(lineage, end)` pairs; the list is the first one's items up to its end, then
            the next one's, and so on. The last pair's end is the list's length.
        items: the list as stored, to tell an append from a change, by identity.
        rows: the rows of the last lineage.
    """

    chain: list[tuple[int, int]]
    items: list[Any]
    rows: list[Row]

    def appended(self, value: list[Any]) -> list[Any] | None:
        """The items that `value` has beyond the stored ones; None if it is no extension."""
        known = self.items
        if len(value) < len(known) or not all(map(is_, known, value)):
            return None
        return value[len(known) :]


def started(lineage: int) -> Growth:
    """An empty list that begins with this version."""
    return Growth([(lineage, 0)], [], [])


def branched(growth: Growth, lineage: int) -> Growth:
    """The same list on a lineage of its own, because the old one has gone on without it."""
    return Growth([*growth.chain, (lineage, len(growth.items))], growth.items, [])


def place(growth: Growth, items: list[Any], size: int) -> Placed:
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
        row = Row(start, len(items), size)
        rows.append(row)
    return Placed(row.start, before, tuple(_merges(rows)))


def _merges(rows: list[Row]) -> list[tuple[int, int]]:
    if len(rows) < ROWS_MAX or not rows[-1].full:
        return []
    first = _first_to_merge(rows)
    last = rows[first:]
    count, size = sum(row.count for row in last), sum(row.size for row in last)
    if len(last) < 2:
        return []
    rows[first:] = [Row(last[0].start, count, size)]
    return [(last[0].start, last[0].start + count)]


def _first_to_merge(rows: list[Row]) -> int:
    """Where the rows at the end begin that become one: it is smaller than the row before it."""
    first, weight, size = len(rows), 0.0, 0
    while first and (first > len(rows) - 2 or rows[first - 1].weight <= weight):
        size += rows[first - 1].size
        if size > MERGED_BYTES_MAX:
            break
        first -= 1
        weight += rows[first].weight
    return first
