"""Readers of a channel: one that drives the run, and several that share a channel."""

from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, Generic, Protocol, Self, TypeVar, cast
from weakref import WeakSet

import anyio

from actorgraph.errors import InvalidConfigError
from actorgraph.runtime.stepper import in_portal

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
END: Final = object()
"""Returned by `pull` after the last item."""


class Source(Protocol[T_co]):
    """A channel, or several as one: the items that a reader reads."""

    async def pull(self) -> T_co | Any:
        """Return the next item, or END."""
        ...

    def discard(self) -> None:
        """Drop unread and future items: the reader has left."""
        ...


class Cursor(AsyncIterator[T], Iterator[T]):
    """Iterates over a source with an async `pull`, with `async for`, or with `for` without a loop.

    When it is dropped, e.g. after a `break`, its source stops keeping items.
    """

    def __init__(self, source: Source[Any]) -> None:
        self._source = source

    def __aiter__(self) -> Self:
        return self

    def __iter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        item = await self._source.pull()
        if item is END:
            raise StopAsyncIteration
        return cast("T", item)

    def __next__(self) -> T:
        item = in_portal(self._source.pull)
        if item is END:
            raise StopIteration
        return cast("T", item)

    def __del__(self) -> None:
        self._source.discard()


class _Tee(Generic[T]):
    """A channel that several readers share; each of them gets every item."""

    def __init__(self, source: Source[T]) -> None:
        self.source = source
        # Weak: a reader that was dropped is not filled any more.
        self.branches: WeakSet[_Branch[T]] = WeakSet()
        self._lock: anyio.Lock | None = None

    async def fill(self, branch: "_Branch[T]") -> None:
        """Pull the next item for every reader, unless another reader has just done that."""
        if self._lock is None:  # made here, in the loop of the readers
            self._lock = anyio.Lock()
        async with self._lock:
            if branch.is_empty():
                await self._share()

    async def _share(self) -> None:
        failed: Exception | None = None
        try:
            item = await self.source.pull()
        except Exception as error:  # noqa: BLE001 - every reader gets it
            item, failed = END, error
        for branch in self.branches:
            branch.add(item, failed)


class _Branch(Generic[T]):
    """One of several readers of a channel."""

    def __init__(self, tee: _Tee[T]) -> None:
        self._tee = tee
        tee.branches.add(self)
        self._items: deque[Any] = deque()
        self._failed: Exception | None = None

    def is_empty(self) -> bool:
        """Whether it has no item that was not read yet."""
        return not self._items

    def add(self, item: Any, failed: Exception | None) -> None:
        """Add an item; END with the error that it is raised with, if there was one."""
        self._failed = self._failed or failed
        self._items.append(item)

    async def pull(self) -> Any:
        if self.is_empty():
            await self._tee.fill(self)
        if self._items[0] is END:
            if self._failed is not None:
                raise self._failed
            return END
        return self._items.popleft()

    def discard(self) -> None:
        """Leave; the last reader discards the channel's items."""
        if all(branch is self for branch in self._tee.branches):
            self._tee.source.discard()


def tee(channel: Source[T], n: int) -> tuple[Cursor[T], ...]:
    """Return `n` readers of a channel, each of which gets every item.

    Raises:
        InvalidConfigError: `n` is less than 1.
    """
    if n < 1:
        raise InvalidConfigError(f"tee(n) needs n >= 1, got {n}", do="make 1 reader or more")
    shared = _Tee(channel)
    return tuple(Cursor[T](_Branch(shared)) for _ in range(n))
