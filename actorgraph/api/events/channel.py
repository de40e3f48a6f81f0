"""StreamChannel: the items of one projection, for one reader, who drives the run by reading."""

from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast
from weakref import WeakSet

import anyio

from actorgraph.api.blocking import refuse_in_loop
from actorgraph.errors import InvalidConfigError
from actorgraph.runtime import portal

if TYPE_CHECKING:
    from actorgraph.api.events.mux import StreamMux

T = TypeVar("T")
END: Final = object()
"""Returned by `pull` when there are no more items."""


class StreamChannel(Generic[T]):
    """The items of one projection, for one reader.

    Items are kept only after a reader has subscribed. A reader that finds no item lets the run
    advance by one event. Use `async for` in a coroutine, a plain `for` in code without a loop.

    Args:
        name: if given, every item is also an event of the run's log: `custom:<name>`, or `<name>`
            from a native transformer.
        maxlen: the most unread items; beyond it the oldest is dropped. Default no bound.
    Raises:
        InvalidConfigError: `maxlen` is less than 1.
    """

    def __init__(self, name: str | None = None, *, maxlen: int | None = None) -> None:
        if maxlen is not None and maxlen < 1:
            raise InvalidConfigError(f"maxlen must be >= 1, got {maxlen}", do="use 1 item or more")
        self.name = name
        self._items: deque[tuple[int, T]] = deque(maxlen=maxlen)
        self._mux: StreamMux | None = None
        self._method: str | None = None
        self._closed = False
        self._error: BaseException | None = None
        self._subscribed = self._keeps = self._discarded = False

    def push(self, item: T) -> None:
        """Add an item for the reader, if there is one, and to the run's log, if it has a name.

        Raises:
            InvalidConfigError: the channel is closed.
        """
        if (self._subscribed or self._keeps) and not self._discarded:
            if self._closed:
                raise InvalidConfigError(
                    f"push() to the closed channel {self.name!r}",
                    do="push while the run is active: in process() or aprocess()",
                )
            self._items.append((0 if self._mux is None else self._mux.stamp(), item))
        if self._method is not None and self._mux is not None:
            self._mux.forward(self._method, item)

    def close(self) -> None:
        """End the channel: there are no more items."""
        self._closed = True

    def fail(self, err: BaseException) -> None:
        """End the channel with an error, which the reader gets after the last item."""
        if not self._closed:
            self._error = err
        self._closed = True

    def __aiter__(self) -> AsyncIterator[T]:
        """Subscribe; once only.

        Raises:
            InvalidConfigError: it has a reader already, or doesn't belong to a run.
        """
        self.subscribe()
        return Cursor(self)

    def __iter__(self) -> Iterator[T]:
        """Subscribe in code without an event loop; once only.

        Raises:
            RunningLoopError: called inside an event loop.
            InvalidConfigError: as for `async for`.
        """
        refuse_in_loop("async for")
        self.subscribe()
        return Cursor(self)

    def atee(self, n: int = 2) -> tuple[AsyncIterator[T], ...]:
        """Subscribe `n` readers, each of which gets every item."""
        self.subscribe()
        return _tee(self, n)

    def tee(self, n: int = 2) -> tuple[Iterator[T], ...]:
        """Blocking version of `atee`."""
        refuse_in_loop("atee()")
        self.subscribe()
        return _tee(self, n)

    def bind(self, mux: "StreamMux", method: str | None) -> None:
        """Attach it to a run; `method` is the name of its events in the run's log."""
        self._mux, self._method = mux, method

    def subscribe(self) -> None:
        """Keep items from now on, for the one reader."""
        if self._mux is None:
            raise InvalidConfigError(
                "this StreamChannel is not attached to a run",
                do="return it from a transformer's init(), and read it from run.extensions",
            )
        if self._subscribed:
            raise InvalidConfigError(
                f"the channel {self.name or ''!r} has a reader already",
                do="use atee(n), or tee(n) in blocking code, for several readers",
            )
        self._subscribed = True

    def keep(self) -> None:
        """Keep items before a reader subscribes."""
        self._keeps = True

    def release(self) -> None:
        """Unsubscribe, so that another reader can subscribe."""
        self._subscribed = False

    def discard(self) -> None:
        """Drop unread and future items: the only reader has left."""
        self._discarded = True
        self._items.clear()

    @property
    def waiting(self) -> int | None:
        """The stamp of the oldest item; None without one."""
        return self._items[0][0] if self._items else None

    @property
    def is_over(self) -> bool:
        """Whether it is closed and has no unread item. Raises the error that it failed with."""
        if self._items or not self._closed:
            return False
        if self._error is not None:
            raise self._error
        return True

    def take(self) -> T:
        """Remove and return the oldest item."""
        return self._items.popleft()[1]

    async def pull(self) -> T | Any:
        """Return the next item, or END; advance the run until there is one."""
        assert self._mux is not None
        while not self._items:
            if self.is_over:
                return END
            if not await self._mux.advance() and not self._items and not self._closed:
                return END
        return self.take()


class Cursor(AsyncIterator[T], Iterator[T]):
    """Iterates over a source with an async `pull`, with `async for`, or with `for` without a loop.

    When it is dropped, e.g. after a `break`, its source stops keeping items.
    """

    def __init__(self, source: Any) -> None:
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
        item = portal.call(self._source.pull)
        if item is END:
            raise StopIteration
        return cast("T", item)

    def __del__(self) -> None:
        self._source.discard()


class _Branch(Generic[T]):
    """One of several readers of a channel, each of which gets every item.

    Args:
        source: the channel.
        branches: all readers; weak, so that one that was dropped is not filled any more.
    """

    def __init__(self, source: StreamChannel[T], branches: "WeakSet[_Branch[T]]") -> None:
        self._source = source
        self._branches = branches
        branches.add(self)
        self._items: deque[Any] = deque()
        self._failed: Exception | None = None

    async def pull(self) -> Any:
        # One branch pulls at a time, for all of them; the others then find the item here.
        lock = self._source.__dict__.setdefault("_lock", anyio.Lock())
        if not self._items:
            async with lock:
                if not self._items:
                    await self._share()
        if self._items[0] is END:
            if self._failed is not None:
                raise self._failed
            return END
        return self._items.popleft()

    async def _share(self) -> None:
        try:
            item = await self._source.pull()
        except Exception as error:  # noqa: BLE001 - every reader gets it
            item = END
            for branch in self._branches:
                branch._failed = error  # noqa: SLF001 - of this class
        for branch in self._branches:
            branch._items.append(item)  # noqa: SLF001 - of this class

    def discard(self) -> None:
        """Leave; the last reader discards the channel's items."""
        if all(branch is self for branch in self._branches):
            self._source.discard()


def _tee(channel: StreamChannel[T], n: int) -> tuple[Cursor[T], ...]:
    if n < 1:
        raise InvalidConfigError(f"tee(n) needs n >= 1, got {n}", do="make 1 reader or more")
    branches: WeakSet[_Branch[T]] = WeakSet()
    return tuple(Cursor[T](_Branch(channel, branches)) for _ in range(n))
