"""Mailbox: an unbounded queue with one reader. `put` works from any thread and event loop.

Bounds are the senders': work goes out under credits, and each answer answers one message.
A mailbox of our own because it is what every message of every superstep passes through: an
anyio memory stream costs three times as much a round trip (docs/decisions/0003).

Lost wake-ups are impossible: the reader shows its parking place before it looks at the queue
for the last time, and a sender looks at the parking place after it has put its item.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import anyio

from actorgraph.loops import on_trio

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A first-in first-out queue between one reader and any senders; see `put_first`.

    Attributes:
        items: what waits, for the reader to look at; `put` and `get` change it.
    """

    __slots__ = ("_future", "_loop", "_parked", "_thread", "items")

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        self._parked: Any = None
        self._loop: Any = None
        self._thread = 0
        self._future: Callable[[], asyncio.Future[None]] | None = None

    def __len__(self) -> int:
        return len(self.items)

    @property
    def is_awaited(self) -> bool:
        """Whether its reader waits."""
        return self._parked is not None

    def put(self, item: T) -> None:
        """Add an item and wake the reader. Never waits."""
        self.items.append(item)
        if self._parked is not None:
            self._wake()

    def put_first(self, item: T) -> None:
        """Add an item before all that wait, and wake the reader. Never waits."""
        self.items.appendleft(item)
        if self._parked is not None:
            self._wake()

    async def get(self) -> T:
        """The next item; waits for one. The caller is the only reader."""
        items = self.items
        while not items:
            await self.wait()
        return items.popleft()

    def get_nowait(self) -> T | None:
        """The next item, or None."""
        return self.items.popleft() if self.items else None

    async def wait(self) -> None:
        """Wait until there may be an item."""
        if self._loop is None:
            self._bind()
        if self._future is None:
            await self._wait_on_trio()
            return
        place = self._parked = self._future()
        try:
            if not self.items:
                await place
        finally:
            self._parked = None

    def _bind(self) -> None:
        """Remember the reader's loop and thread, for senders in other ones."""
        self._thread = threading.get_ident()
        if on_trio():
            import trio

            self._loop = trio.lowlevel.current_trio_token()
        else:
            loop = self._loop = asyncio.get_running_loop()
            self._future = loop.create_future

    async def _wait_on_trio(self) -> None:
        import trio

        def abort(_: Any) -> trio.lowlevel.Abort:
            self._parked = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._parked = trio.lowlevel.current_task()
        if self.items:
            self._parked = None
            return
        await trio.lowlevel.wait_task_rescheduled(abort)

    def _wake(self) -> None:
        """Wake the reader, from wherever the sender stands."""
        if self._future is None:
            self._wake_trio()
            return
        try:
            if threading.get_ident() == self._thread:
                self._wake_on_asyncio()
            else:
                self._loop.call_soon_threadsafe(self._wake_on_asyncio)
        except RuntimeError:
            if not self._loop.is_closed():  # a closed loop's reader waits no more
                raise

    def _wake_trio(self) -> None:
        import trio

        with suppress(trio.RunFinishedError):  # a finished loop's reader waits no more
            if threading.get_ident() == self._thread and trio.lowlevel.in_trio_run():
                self._wake_on_trio()
            else:
                self._loop.run_sync_soon(self._wake_on_trio)

    def _wake_on_asyncio(self) -> None:
        place = self._parked
        if place is not None and not place.done():
            place.set_result(None)

    def _wake_on_trio(self) -> None:
        import trio

        task, self._parked = self._parked, None
        if task is not None:
            trio.lowlevel.reschedule(task)


class Gate:
    """Opens once; waiting on an open gate doesn't wait. Any thread may open it."""

    __slots__ = ("_opened", "_waiting")

    def __init__(self) -> None:
        self._opened = False
        self._waiting: dict[Mailbox[None], None] = {}

    @property
    def is_open(self) -> bool:
        """Whether it has been opened."""
        return self._opened

    def open(self) -> None:
        """Let everybody through, now and later."""
        self._opened = True
        for box in list(self._waiting):  # whoever comes meanwhile sees that it is open
            box.put(None)

    async def wait(self) -> None:
        """Wait until it is open."""
        box: Mailbox[None] = Mailbox()
        self._waiting[box] = None
        try:
            if not self._opened:
                await box.get()
        finally:
            del self._waiting[box]


async def wait_in(gates: "list[Gate]", needless: Callable[[], bool]) -> None:
    """Wait until whoever empties the list opens what this adds to it.

    Args:
        needless: whether there is nothing to wait for; asked when the gate is in the list.
    """
    gate = Gate()
    gates.append(gate)
    try:
        if not needless():
            await gate.wait()
    finally:
        with suppress(ValueError):  # it has been taken out
            gates.remove(gate)


async def wait_through(wait: Callable[[], Awaitable[T]]) -> T:
    """Wait for what is sure to come, however often the caller is cancelled; then be cancelled.

    A shield is not enough: `asyncio.timeout()` and `task.cancel()` go through it.
    """
    cancelled: BaseException | None = None
    while True:
        try:
            with anyio.CancelScope(shield=True):
                answer = await wait()
                if cancelled is None:
                    return answer
                raise cancelled
        except anyio.get_cancelled_exc_class() as error:
            if error is cancelled:
                raise
            cancelled = error
