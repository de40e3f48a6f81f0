"""Async iterator over items that are read a page at a time; it may be left at any time.

A class and not an async generator: on trio a generator that is left early must be closed by
hand. Between two items this class holds nothing that needs closing.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Generic, Self, TypeVar

import anyio.lowlevel

T = TypeVar("T")
SLICE_ITEMS = 8
"""Items that are built before other tasks of the event loop may run."""


class Pages(AsyncIterator[T], Generic[T]):
    """The items of all pages, in order.

    Args:
        read: returns the next page; an empty one is the end.
        shown: builds an item from an entry of a page, one at a time; default the entry itself.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Sequence[Any]]],
        shown: Callable[[Any], T] | None = None,
    ) -> None:
        self._read = read
        self._shown = shown
        self._items: deque[Any] = deque()
        self._ended = False
        self._given = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Return the next item."""
        await self._fill()
        self._given += 1
        if self._shown is not None and self._given % SLICE_ITEMS == 0:
            await anyio.lowlevel.checkpoint()  # decoding snapshots is slow; let other tasks run
        if self._items:
            item = self._items.popleft()
            return item if self._shown is None else self._shown(item)
        raise StopAsyncIteration

    async def _fill(self) -> None:
        if not self._items and not self._ended:
            self._items.extend(await self._read())
            self._ended = not self._items

    async def page(self) -> list[T]:
        """Return the items up to the end of a page; an empty list at the end."""
        await self._fill()
        items, shown = list(self._items), self._shown
        self._items.clear()
        return items if shown is None else [shown(item) for item in items]

    async def aclose(self) -> None:
        """Stop reading. Optional: an iterator that is simply dropped leaks nothing."""
        self._items.clear()
        self._ended = True
