"""Read a saver's list of checkpoints a page at a time, so that memory stays bounded."""

from collections.abc import Awaitable, Callable

import msgspec

from actorgraph.api.savers.requests import stored_bytes
from actorgraph.values.commits import FilteredPage, ListCheckpoints, StoredCheckpoint

ROWS_FIRST = 4
"""Rows of the first page: few, because the size of a checkpoint is not known yet."""
ROWS_MAX = 100
PAGE_BYTES = 4_000_000

Ask = Callable[[ListCheckpoints], Awaitable[list[StoredCheckpoint]]]


class Listing:
    """Reads a listing from its beginning to its end.

    Each page is a separate read that ends before its rows are used: a caller that pauses between
    two rows blocks no other request, and rows removed meanwhile are not listed. Rows stored
    meanwhile are newer than those read already, so they are not listed either.

    Args:
        ask: answers a query.
        query: with the limit of the whole listing.
    """

    def __init__(self, ask: Ask, query: ListCheckpoints) -> None:
        self._ask = ask
        self._query = query
        self._left = query.limit
        self._rows = ROWS_FIRST
        self._short = False
        self._ended = query.limit is not None and query.limit <= 0

    @property
    def all_threads(self) -> bool:
        """Whether all threads are listed."""
        return self._query.thread_id is None

    async def page(self) -> list[StoredCheckpoint]:
        """Return the next rows, at least one; an empty list at the end."""
        found: list[StoredCheckpoint] = []
        while not found and not self._ended:
            found = await self._read()
        return found

    def leave_out(self, count: int) -> None:
        """Count so many rows of the last page not as listed: others come in their place."""
        if self._left is not None:
            self._left += count
            self._ended = self._short or self._left == 0

    async def _read(self) -> list[StoredCheckpoint]:
        count = self._rows if self._left is None else min(self._rows, self._left)
        page = await self._ask(msgspec.structs.replace(self._query, limit=count))
        read, last = len(page), page[-1] if page else None
        # A guarded saver drops rows that the caller may not see: continue after the last row read.
        if isinstance(page, FilteredPage):
            read, last = page.read, page.last
        self._left = None if self._left is None else self._left - len(page)
        self._short = read < count
        self._ended = self._short or self._left == 0
        if last is not None:
            place = (last.row.id, last.thread_id, last.sequence)
            self._query = msgspec.structs.replace(self._query, after=place)
            if None not in (self._query.thread_id, self._query.namespace):
                # If the `before` checkpoint is removed meanwhile, looking it up would end the
                # listing; a position doesn't need it. Over several namespaces it is needed: each
                # has a bound of its own.
                self._query = msgspec.structs.replace(self._query, before=None)
        if page:
            self._rows = _rows_after(page, count)
        return page


def _rows_after(page: list[StoredCheckpoint], count: int) -> int:
    """Return the rows of the next page: by bytes, and at most four times this page's."""
    size = sum(map(stored_bytes, page)) // len(page)
    return max(1, min(4 * count, ROWS_MAX, PAGE_BYTES // max(1, size)))
