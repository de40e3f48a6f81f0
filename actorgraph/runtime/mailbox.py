"""Mailbox: an unbounded queue with one reader. `put` works from any thread and event loop.

Bounds are the senders': work goes out under credits, and each answer answers one message.
A mailbox of our own because it is what every message of every superstep passes through: an
anyio memory stream costs three times as much a round trip (docs/decisions/0003).

Lost wake-ups are impossible: the reader shows its parking place before it looks at the queue
for the last time, and a sender looks at the parking place after it has put its item.
"""

import asyncio
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A first-in first-out queue between one reader and any senders."""

    __slots__ = ("_items", "_parked")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._parked: _AsyncioPlace | _TrioPlace | None = None

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        """Add an item and wake the reader. Never waits."""
        self._items.append(item)
        parked = self._parked
        if parked is not None:
            parked.wake()

    async def get(self) -> T:
        """The next item; waits for one. The caller is the only reader."""
        while not self._items:
            await self.wait()
        return self._items.popleft()

    def get_nowait(self) -> T | None:
        """The next item, or None."""
        return self._items.popleft() if self._items else None

    async def wait(self) -> None:
        """Wait until there may be an item."""
        place = self._parked = _TrioPlace() if on_trio() else _AsyncioPlace()
        try:
            if not self._items:
                await place.park()
        finally:
            self._parked = None


def on_trio() -> bool:
    """Whether the running event loop is trio's."""
    trio = sys.modules.get("trio")
    return trio is not None and trio.lowlevel.in_trio_run()


class _AsyncioPlace:
    """Where an asyncio task waits."""

    __slots__ = ("_future", "_loop", "_thread")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.get_ident()

    async def park(self) -> None:
        await self._future

    def wake(self) -> None:
        if threading.get_ident() == self._thread:
            self._set()
            return
        with suppress(RuntimeError):  # its loop has been closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


class _TrioPlace:
    """Where a trio task waits."""

    __slots__ = ("_task", "_thread", "_token")

    def __init__(self) -> None:
        import trio

        self._task: trio.lowlevel.Task | None = None
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()

    async def park(self) -> None:
        import trio

        self._task = trio.lowlevel.current_task()

        def abort(_: Any) -> Any:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake(self) -> None:
        import trio

        if threading.get_ident() == self._thread:
            self._set()
            return
        with suppress(trio.RunFinishedError):  # its loop has ended: nobody waits any more
            self._token.run_sync_soon(self._set)

    def _set(self) -> None:
        import trio

        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)


class Gate:
    """Opens once; waiting on an open gate doesn't wait. Any thread may open it."""

    __slots__ = ("_opened", "_waiting")

    def __init__(self) -> None:
        self._opened = False
        self._waiting: list[Mailbox[None]] = []

    def open(self) -> None:
        """Let everybody through, now and later."""
        self._opened = True
        for box in self._waiting:
            box.put(None)

    async def wait(self) -> None:
        """Wait until it is open."""
        box: Mailbox[None] = Mailbox()
        self._waiting.append(box)
        if not self._opened:
            await box.get()


def running_loop() -> bool:
    """Whether this code runs inside an event loop of this thread."""
    if on_trio():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
