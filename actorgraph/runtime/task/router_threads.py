"""Plain routers of async nodes: one worker thread of an event loop calls all that wait.

A router may block, so the loop's own thread calls none that isn't declared to be quick. But a hop
to a worker thread costs several times as much as a router. So the routers that wait at a moment
share a thread: it calls one after the other, each in its own context, and then wakes the loop once.

Receives   calls, from tasks of one event loop
Sends      answers and errors, to the tasks that wait for them
Order      first come, first called; one that lasts holds up those behind it for two looks at
           most: then another thread takes them
Bounds     each thread counts in the limiter of plain nodes; if that allows no more, the calls that
           wait hop one by one (`hops`), and so does a router that has been slow
Ends       a thread when nothing waits; a cancelled call never begins, or is abandoned

Only the loop's thread starts threads and notes their ends, so nothing needs a lock: both queues
are deques, whose steps are atomic. As `hops`, this needs names that aren't public: without them
each call hops.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from threading import get_ident
from time import perf_counter, sleep
from typing import Any, Final

import anyio
import anyio.lowlevel

from actorgraph.errors.tracebacks import from_program
from actorgraph.loops import on_trio
from actorgraph.plan.plan import BranchPlan
from actorgraph.runtime import worker_threads
from actorgraph.runtime.task import hops
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.runtime.worker_threads import BUSY

LOOK_S: Final = 0.002
"""Seconds between two looks at a thread while it works."""
SLOW_CALLS: Final = 3
"""After so many calls in a row that lasted longer than `LOOK_S`, a router hops alone."""


class _RouterCall:
    """A call of a router.

    Attributes:
        begun: whether a thread has begun with it.
        abandoned: whether the task that waited for it was cancelled.
        waiter: a future of asyncio's, or the task of trio's.
        scope: where `from_thread.check_cancelled` looks.
    """

    __slots__ = (
        *("_answer", "_branch", "_context", "_error", "_extra", "_seen"),
        *("abandoned", "begun", "scope", "waiter"),
    )

    def __init__(self, branch: BranchPlan, seen: Any, extra: dict[str, Any]) -> None:
        self._branch, self._seen, self._extra = branch, seen, extra
        self._context = copy_context()
        self.begun = self.abandoned = False
        self._error: BaseException | None = None
        self._answer: Any = None
        self.waiter: Any = None
        self.scope: Any = None

    def run(self) -> None:
        """Call the router, in a worker thread; raises nothing."""
        self.begun = True
        thread, began = get_ident(), perf_counter()
        BUSY[thread] = self._context.get(CURRENT)
        try:
            self._answer = self._context.run(self._call)
        except BaseException as error:  # noqa: BLE001 - raised in the loop's coroutine
            self._error = from_program(error)
        finally:
            BUSY.pop(thread, None)
        duration = self._branch.duration
        slow = perf_counter() - began > LOOK_S
        duration.slow_calls = duration.slow_calls + 1 if slow else 0

    def _call(self) -> Any:
        hops.set_current_async_library(None)  # the context is a copy of one in the loop
        return self._branch.path(self._seen, **self._extra)

    def result(self) -> Any:
        """Return the router's answer, or raise its error."""
        error, self._error = self._error, None
        if error is None:
            return self._answer
        try:
            raise error
        finally:
            del error  # its traceback holds this frame


class _AsyncioLoop:
    """An asyncio loop, for one worker thread; and the waits of its tasks."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._token = anyio.lowlevel.current_token()

    @staticmethod
    def wait(call: _RouterCall) -> Awaitable[object]:
        """Wait for `wake`."""
        found = hops.names()
        state = None if found is None else found[1].get(asyncio.current_task())
        call.scope = None if state is None else state.cancel_scope
        call.waiter = asyncio.get_running_loop().create_future()
        return call.waiter

    @staticmethod
    def wake(call: _RouterCall) -> None:
        """Let the task go on."""
        if not call.waiter.done():
            call.waiter.set_result(None)

    def enter(self, call: _RouterCall) -> None:
        """Let `from_thread` find the loop and the cancellation, in the worker thread."""
        here = hops.threadlocals
        here.current_token, here.current_cancel_scope = self._token, call.scope

    def leave(self) -> None:
        """End what `enter` has begun."""
        for name in ("current_token", "current_cancel_scope"):
            vars(hops.threadlocals).pop(name, None)  # a router may have removed it

    def call_soon(self, work: Callable[[Any], None], thread: object) -> None:
        """Call a function in the loop, from another thread; not if the loop is over."""
        try:
            self._loop.call_soon_threadsafe(work, thread)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def call_later(self, work: Callable[[], None]) -> None:
        """Call a function in `LOOK_S`."""
        self._loop.call_later(LOOK_S, work)


class _TrioLoop:
    """As `_AsyncioLoop`, for trio."""

    def __init__(self) -> None:
        self._loop: Any = _trio().lowlevel.current_trio_token()
        self._token = anyio.lowlevel.current_token()

    @staticmethod
    def wait(call: _RouterCall) -> Awaitable[object]:
        lowlevel = _trio().lowlevel

        def abort(cancellation: Any) -> Any:
            call.abandoned, call.scope[0] = True, cancellation
            return lowlevel.Abort.SUCCEEDED

        call.scope, call.waiter = [None], lowlevel.current_task()
        return lowlevel.wait_task_rescheduled(abort)

    @staticmethod
    def wake(call: _RouterCall) -> None:
        if not call.abandoned:
            _trio().lowlevel.reschedule(call.waiter)

    def enter(self, call: _RouterCall) -> None:
        hops.threadlocals.current_token = self._token
        data = _trio_data()
        data.token, data.abandon_on_cancel = self._loop, True
        data.cancel_register, data.task_register = call.scope, [call.waiter]

    def leave(self) -> None:
        vars(hops.threadlocals).pop("current_token", None)
        vars(_trio_data()).clear()

    def call_soon(self, work: Callable[..., None], *args: object) -> None:
        with suppress(_trio().RunFinishedError):
            self._loop.run_sync_soon(work, *args)

    def call_later(self, work: Callable[[], None]) -> None:
        def wait() -> Callable[[], None]:
            sleep(LOOK_S)
            return lambda: self.call_soon(work)

        async def later() -> None:
            await anyio.sleep(LOOK_S)
            work()

        try:
            # Not by a task: where a run was cancelled one would be left for a moment.
            worker_threads.start(wait)
        except RuntimeError:  # the operating system allows no more threads
            _trio().lowlevel.spawn_system_task(later)


def _trio() -> Any:
    return sys.modules["trio"]


def _trio_data() -> Any:
    """The place where trio notes a worker thread's loop; None for a trio that lacks it."""
    return getattr(sys.modules.get("trio._threads"), "PARENT_TASK_DATA", None)


def _kind_of_loop() -> type[_AsyncioLoop] | type[_TrioLoop] | None:
    if on_trio():
        usable = hops.threadlocals is not None and _trio_data() is not None
        return _TrioLoop if usable else None
    return None if hops.names() is None else _AsyncioLoop


class _RouterThread:
    """A worker thread that calls routers.

    Attributes:
        current: the call that it makes.
        seen: that of the last look.
        closed: whether it takes no further call: its current one lasts.
    """

    __slots__ = ("closed", "current", "loop", "seen")

    def __init__(self, loop: _AsyncioLoop | _TrioLoop) -> None:
        self.loop = loop
        self.current: _RouterCall | None = None
        self.seen: _RouterCall | None = None
        self.closed = False


class RouterThreads:
    """The threads for routers of the running event loop, and the calls that wait for them.

    Args:
        limiter: counts them.
    """

    def __init__(self, limiter: anyio.CapacityLimiter) -> None:
        self.limiter = limiter
        self._kind = _kind_of_loop()
        self._waiting: deque[_RouterCall] = deque()
        self._ended: deque[_RouterCall] = deque()
        self._open: _RouterThread | None = None
        self._looks = False

    async def call(self, branch: BranchPlan, seen: Any, extra: dict[str, Any]) -> Any:
        """Call a router in a worker thread, in a copy of this context.

        Args:
            seen: the state as the router gets it.
            extra: its injected parameters.
        Returns: its answer, which may be an awaitable.
        Raises: its error.
        """
        call = _RouterCall(branch, seen, extra)
        kind = self._kind
        if branch.duration.slow_calls >= SLOW_CALLS:
            kind = None
        if kind is not None and (self._open is not None or self._start(kind())):
            ended = kind.wait(call)
            try:  # from before anyone can wake this task: Ctrl-C may end it at any line on trio
                self._waiting.append(call)
                await ended
            except BaseException:
                call.abandoned = True
                raise
        if not call.begun:
            await hops.hop(call.run, self.limiter, branch.duration)
        return call.result()

    # --- in the loop's thread ---

    def _start(self, loop: _AsyncioLoop | _TrioLoop) -> bool:
        """Start a thread that takes what waits; False if there can't be one now."""
        thread = _RouterThread(loop)
        try:
            self.limiter.acquire_on_behalf_of_nowait(thread)
        except anyio.WouldBlock:
            return False
        try:
            worker_threads.start(lambda: self._serve(thread))
        except RuntimeError:  # the operating system allows no more
            self.limiter.release_on_behalf_of(thread)
            return False
        self._open = thread
        if not self._looks:
            self._looks = True
            thread.loop.call_later(self._look)
        return True

    def _look(self) -> None:
        """Answer the calls that have ended; leave the thread to a call that lasts."""
        self._answer()
        thread = self._open
        if thread is None:
            self._looks = False
            return
        current = thread.current
        if current is not None and current is thread.seen:
            thread.closed = True
            self._replace(thread)
        thread.seen = current
        # Also after a thread is closed, which may have taken another call at the last moment.
        thread.loop.call_later(self._look)

    def _replace(self, thread: _RouterThread) -> None:
        """Let another thread take what waits."""
        self._open = None
        if self._waiting and not self._start(thread.loop):
            while self._waiting:
                self._wake(self._waiting.popleft())  # it hops

    def _answer(self) -> None:
        while self._ended:
            self._wake(self._ended.popleft())

    def _wake(self, call: _RouterCall) -> None:
        assert self._kind is not None
        self._kind.wake(call)

    def _end(self, thread: _RouterThread) -> None:
        """Note that a thread has ended."""
        self._answer()
        self.limiter.release_on_behalf_of(thread)
        if thread is self._open:
            self._replace(thread)

    # --- in the worker thread ---

    def _serve(self, thread: _RouterThread) -> Callable[[], None]:
        while self._waiting and not thread.closed:
            try:
                call = self._waiting.popleft()
            except IndexError:
                break  # another thread has taken it
            if call.abandoned:
                continue
            thread.current = call
            thread.loop.enter(call)
            call.run()
            thread.current = None
            self._ended.append(call)
        thread.loop.leave()
        return lambda: thread.loop.call_soon(self._end, thread)
