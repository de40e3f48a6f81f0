"""A saver's list, read a page at a time: what is held of it is a page, however long it is."""

from collections.abc import Awaitable, Callable

import msgspec

from actorgraph.api.operations.requests import stored_bytes
from actorgraph.values.commits import FilteredPage, ListCheckpoints, StoredCheckpoint

ROWS_FIRST = 4
"""The first page is short: nothing is known yet of how large a checkpoint is."""
ROWS_MAX = 100
PAGE_BYTES = 4_000_000

Ask = Callable[[ListCheckpoints], Awaitable[list[StoredCheckpoint]]]


class Listing:
    """Reads a listing from its beginning to its end.

    Each page is a read of its own, which ends before its rows are used: who pauses between two rows
    holds up nobody, and what is removed meanwhile is not listed. Rows that are stored meanwhile
    are newer than those that have been read.

    Args:
        ask: answers a query. query: with the limit of the whole listing.
    """

    def __init__(self, ask: Ask, query: ListCheckpoints) -> None:
        self._ask = ask
        self._query = query
        self._left = query.limit
        self._rows = ROWS_FIRST
        self._ended = query.limit is not None and query.limit <= 0

    @property
    def everywhere(self) -> bool:
        """Whether it is of all threads."""
        return self._query.thread_id is None

    async def page(self) -> list[StoredCheckpoint]:
        """The next rows, at least one; none at the end."""
        found: list[StoredCheckpoint] = []
        while not found and not self._ended:
            found = await self._read()
        return found

    async def _read(self) -> list[StoredCheckpoint]:
        count = self._rows if self._left is None else min(self._rows, self._left)
        page = await self._ask(msgspec.structs.replace(self._query, limit=count))
        read, last = len(page), page[-1] if page else None
        if isinstance(page, FilteredPage):
            read, last = page.read, page.last
        self._left = None if self._left is None else self._left - len(page)
        self._ended = read < count or self._left == 0
        if last is not None:
            place = (last.row.id, last.thread_id, last.sequence)
            self._query = msgspec.structs.replace(self._query, after=place)
            if None not in (self._query.thread_id, self._query.namespace):
                # A bound that is removed meanwhile would end the listing; a place doesn't. Several
                # namespaces have a bound each.
                self._query = msgspec.structs.replace(self._query, before=None)
        if page:
            self._rows = _rows_after(page, count)
        return page


def _rows_after(page: list[StoredCheckpoint], count: int) -> int:
    """How long the next page is: up to so many bytes, and not much longer than this one."""
    size = sum(map(stored_bytes, page)) // len(page)
    return max(1, min(4 * count, ROWS_MAX, PAGE_BYTES // max(1, size)))
