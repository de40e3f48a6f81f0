"""Mailbox: an unbounded queue with one reader. `put` works from any thread and event loop.

Bounds      are the senders': they limit the work in flight, and each answer answers one message
Speed       every message of every superstep passes through here: an anyio memory stream takes
            three times as long per round trip (docs/decisions/0003)
Wake-ups    can't be lost: the reader publishes `_parked` before it checks the queue for the last
            time, and a sender checks `_parked` after it has added its item
"""

import math
import sys
import threading
import time
from asyncio import _get_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import cache
from types import coroutine
from typing import Any, Generic, TypeVar

import anyio

from actorgraph.loops import in_event_loop, on_trio

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_WHOLE: list[Callable[..., Any]] = []


def whole(function: F) -> F:
    """Mark a function in the middle of which no KeyboardInterrupt may be raised on trio.

    There it may come at any line of any task: it would lose a wake-up, or leave behind a mailbox
    that wakes a task which has gone.
    """
    _WHOLE.append(function)
    return function


@cache
def protect_from_ctrl_c() -> None:
    """Let Ctrl-C that comes in a marked function go to the main task; called on trio.

    https://trio.readthedocs.io/en/stable/reference-core.html#trio.lowlevel.enable_ki_protection
    """
    import trio

    for function in _WHOLE:
        trio.lowlevel.enable_ki_protection(function)


class ThreadWaiter:
    """Lets one thread wait for others; it may be woken without need."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire(blocking=False)

    def wake(self) -> None:
        """End the wait, or the next one; from any thread."""
        with suppress(RuntimeError):  # it has been woken already
            self._lock.release()

    def wait(self, timeout_s: float) -> None:
        """Wait until it is woken, or for some seconds."""
        self._lock.acquire(timeout=timeout_s)


class Pause:
    """An amount of time for which a coroutine of a stepper waits.

    Args:
        end: by `time.monotonic`.
    """

    __slots__ = ("_end",)

    def __init__(self, end: float) -> None:
        self._end = end

    def park(self, waiter: ThreadWaiter | None) -> None:
        """Nothing wakes the waiter."""

    def left_s(self) -> float:
        """Return the seconds that are left."""
        return self._end - time.monotonic()


class _Within:
    """A mailbox that is waited for until some time."""

    __slots__ = ("_box", "_end")

    def __init__(self, box: "Mailbox[Any]", end: float) -> None:
        self._box, self._end = box, end

    def park(self, waiter: ThreadWaiter | None) -> None:
        self._box.park(waiter)

    def left_s(self) -> float:
        return 0.0 if self._box.items else self._end - time.monotonic()


@coroutine
def in_stepper(wait: "Mailbox[Any] | Pause | _Within") -> Generator[Any, None, None]:
    """Wait in a coroutine that a stepper runs."""
    yield wait


async def pause(seconds: float) -> None:
    """Sleep, in an event loop or in a stepper's coroutine."""
    if in_event_loop():
        await anyio.sleep(seconds)
    else:
        await in_stepper(Pause(time.monotonic() + seconds))


class Mailbox(Generic[T]):
    """A first-in first-out queue with one reader and any number of senders; see `put_first`.

    Attributes:
        items: the queued items. The reader may look at them, and take them from the left itself.
    """

    __slots__ = ("_loop", "_on_trio", "_parked", "_thread", "items")

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        self._parked: Any = None
        self._loop: Any = None  # of the reader, once it has waited
        self._thread = 0
        self._on_trio = False

    def __len__(self) -> int:
        return len(self.items)

    @property
    def is_awaited(self) -> bool:
        """Whether the reader waits for an item."""
        return self._parked is not None

    @whole
    def put(self, item: T) -> None:
        """Add an item and wake the reader. Never waits."""
        self.items.append(item)
        if self._parked is not None:
            self._wake()

    @whole
    def put_first(self, item: T) -> None:
        """Add an item at the head of the queue and wake the reader. Never waits."""
        self.items.appendleft(item)
        if self._parked is not None:
            self._wake()

    @whole
    def wake(self) -> None:
        """Wake the reader, for items that a sender has added to `items` itself."""
        if self._parked is not None:
            self._wake()

    async def get(self) -> T:
        """Take the next item; waits for one. The caller must be the only reader."""
        items = self.items
        while not items:
            if self._loop is None and not self._bind():
                await in_stepper(self)
                continue
            if self._on_trio:
                await self._wait_on_trio()
                continue
            # As in `wait`, which would be one frame more to resume at every wake-up.
            loop: Any = self._loop
            place = self._parked = loop.create_future()
            try:
                if not items:
                    await place
            finally:
                self._parked = None
        return items.popleft()

    def get_nowait(self) -> T | None:
        """Take the next item; None if the queue is empty."""
        return self.items.popleft() if self.items else None

    async def wait(self) -> None:
        """Wait until there may be an item; may return without one."""
        if self._loop is None and not self._bind():
            if not self.items:
                await in_stepper(self)
            return
        if self._on_trio:
            await self._wait_on_trio()
            return
        loop: Any = self._loop
        place = self._parked = loop.create_future()
        try:
            # Checked again now that senders see `_parked`: an item may have come just before.
            if not self.items:
                await place
        finally:
            self._parked = None

    async def wait_until(self, end: float) -> None:
        """As `wait`, until some time by `time.monotonic`, in a stepper's coroutine."""
        if not self.items:
            await in_stepper(_Within(self, end))

    def park(self, waiter: ThreadWaiter | None) -> None:
        """Have a stepper's waiter woken by the next item; None: no longer."""
        self._parked = waiter

    def left_s(self) -> float:
        """Return the seconds for which a stepper has to wait at most."""
        return 0.0 if self.items else math.inf

    def _bind(self) -> bool:
        """Remember the reader's loop and its thread, for senders in other threads.

        Returns: whether there is a loop; a stepper's coroutine has none.
        """
        running = _get_running_loop()
        self._thread = threading.get_ident()
        if "trio" in sys.modules and on_trio():
            import trio

            self._loop, self._on_trio = trio.lowlevel.current_trio_token(), True
            protect_from_ctrl_c()
        else:
            self._loop = running
        return self._loop is not None

    @whole
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
        """Wake the reader, from any thread."""
        if self._loop is None:
            waiter = self._parked
            if waiter is not None:
                waiter.wake()
            return
        if self._on_trio:
            self._wake_trio()
            return
        try:
            if threading.get_ident() == self._thread:
                place = self._parked
                if place is not None and not place.done():
                    place.set_result(None)
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

    @whole
    def _wake_on_trio(self) -> None:
        import trio

        task, self._parked = self._parked, None
        if task is not None:
            trio.lowlevel.reschedule(task)


class Gate:
    """A one-shot event: opens once, from any thread; `wait` on an open gate returns at once."""

    __slots__ = ("_opened", "_waiting")

    def __init__(self) -> None:
        self._opened = False
        self._waiting: dict[Mailbox[None], None] = {}

    @property
    def is_open(self) -> bool:
        """Whether it has been opened."""
        return self._opened

    @whole
    def open(self) -> None:
        """Release all waiters, present and future."""
        self._opened = True
        for box in list(self._waiting):  # a waiter added after this copy sees `_opened`
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


Waiting = list[Mailbox[None]]
"""Those who wait for one condition; its owner wakes them with `wake_all`, from any thread."""


async def wait_for_wake_up(waiting: Waiting, is_ready: Callable[[], bool]) -> None:
    """Join a list and wait until the list's owner wakes everyone in it; see `wake_all`.

    Args:
        is_ready: whether the condition holds already; called when the list has the caller, so
            that an owner that makes it true afterwards finds it there.
    """
    place: Mailbox[None] = Mailbox()
    waiting.append(place)
    try:
        if not is_ready():
            await place.get()
    finally:
        with suppress(ValueError):  # the owner has emptied the list
            waiting.remove(place)


@whole
def wake_all(waiting: Waiting) -> None:
    """Wake everyone in a list, from any thread.

    The list stays the same one: who joins it from another thread at this moment, and finds that
    the condition doesn't hold any more, is woken with the next ones.
    """
    for _ in range(len(waiting)):
        with suppress(IndexError):  # one of them has left
            waiting.pop(0).put(None)


async def wait_shielded(wait: Callable[[], Awaitable[T]]) -> T:
    """Await an answer that is sure to come even if the caller is cancelled, then raise that.

    Args:
        wait: called again after each cancellation, so it must not lose an answer when it is
            cancelled. For anything else use `loops.shielded`, which needs a task.
    """
    cancelled: BaseException | None = None
    if not in_event_loop():
        return await _wait_shielded_in_stepper(wait)
    while True:
        try:
            # A shield alone is not enough: asyncio.timeout() and task.cancel() pass through it.
            with anyio.CancelScope(shield=True):
                answer = await wait()
                if cancelled is None:
                    return answer
                raise cancelled
        except anyio.get_cancelled_exc_class() as error:
            if error is cancelled:
                raise
            cancelled = error


async def _wait_shielded_in_stepper(wait: Callable[[], Awaitable[T]]) -> T:
    try:
        return await wait()
    except BaseException:
        # A second signal, or cancellation, gives up the wait.
        await wait()
        raise
