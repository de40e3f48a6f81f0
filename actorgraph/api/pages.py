"""Items read a page at a time, as an async iterator that may be left at any time.

A class and not an async generator: one that is left early would have to be closed by hand on
trio, and between two items this one holds nothing that needs closing.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Generic, Self, TypeVar

import anyio.lowlevel

T = TypeVar("T")
SLICE_ITEMS = 8
"""Items that are made before the event loop has a turn."""


class Pages(AsyncIterator[T], Generic[T]):
    """The items of all pages, in order.

    Args:
        read: the next page; an empty one is the end.
        shown: makes the item of what a page has, when it is its turn; default it is the item.
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
        """Itself."""
        return self

    async def __anext__(self) -> T:
        """The next item."""
        await self._fill()
        self._given += 1
        if self._shown is not None and self._given % SLICE_ITEMS == 0:
            await anyio.lowlevel.checkpoint()  # making items takes time that others need too
        if self._items:
            item = self._items.popleft()
            return item if self._shown is None else self._shown(item)
        raise StopAsyncIteration

    async def _fill(self) -> None:
        if not self._items and not self._ended:
            self._items.extend(await self._read())
            self._ended = not self._items

    async def page(self) -> list[T]:
        """The items up to the end of a page; none at the end of all."""
        await self._fill()
        items, shown = list(self._items), self._shown
        self._items.clear()
        return items if shown is None else [shown(item) for item in items]

    async def aclose(self) -> None:
        """Read no more. Leaving it without this is fine too."""
        self._items.clear()
        self._ended = True
