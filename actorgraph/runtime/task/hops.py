"""Hops: plain functions of nodes, called in worker threads of an asyncio or trio loop.

On asyncio the threads are ours: a hop costs much less than through anyio's, and all that anyio
promises in a worker thread holds: `from_thread.run` and `check_cancelled` work, the limiter counts,
a cancelled hop is abandoned. That needs names of anyio's that are not public; with an anyio that
lacks them, and on trio, the hop is anyio's.

A sleeping loop is woken through a socket and two of its rounds, which costs more than a quick node.
So for a node whose last call was quick the loop's thread waits itself, for a moment.
"""

import asyncio
import os
from collections.abc import Callable
from contextvars import copy_context
from functools import cache, partial
from threading import Lock
from time import perf_counter
from typing import Any, Final, Generic, TypeVar, cast

import anyio
import anyio.to_thread

from actorgraph.loops import blocking_allowed, on_trio
from actorgraph.plan.plan import CallDuration
from actorgraph.runtime import worker_threads

try:
    from anyio._core import _eventloop

    threadlocals: Any = _eventloop.threadlocals
    set_current_async_library: Any = _eventloop.set_current_async_library
except (ImportError, AttributeError):  # another version of anyio
    threadlocals = set_current_async_library = None

QUICK_S: Final = 0.00005
"""A node is quick if its last call took no longer."""
WAIT_MAX_S: Final = 0.0001 if os.name != "nt" else 0.0  # a tick of Windows takes 15 ms
"""Seconds for which the loop's thread waits for a quick node."""

T = TypeVar("T")


async def hop(
    work: Callable[[], T], limiter: anyio.CapacityLimiter, duration: CallDuration | None = None
) -> T:
    """Call a function in a worker thread, in a copy of this context.

    A thread can't be stopped: a cancelled call is abandoned and its result dropped. One that has
    not begun when it is cancelled never begins.

    Args:
        work: never raises StopIteration.
        limiter: counts the calls.
        duration: of this function; learns how long the call takes. None if it isn't known.
    """
    found = None if on_trio() else names()
    if found is None:
        return await _anyio_hop(work, limiter)
    borrower = object()
    try:
        limiter.acquire_on_behalf_of_nowait(borrower)
    except anyio.WouldBlock:
        await limiter.acquire_on_behalf_of(borrower)
    try:
        call = _Call(work, duration, *found)
        if duration is not None and duration.seconds <= QUICK_S and call.ends_soon():
            return call.result()
        return await call.end()
    finally:
        limiter.release_on_behalf_of(borrower)


async def _anyio_hop(work: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
    abandoned = False

    def unless_abandoned() -> T:
        if abandoned:  # trio starts it all the same
            return cast("T", None)
        return work()

    try:
        return await anyio.to_thread.run_sync(
            unless_abandoned, abandon_on_cancel=True, limiter=limiter
        )
    finally:
        abandoned = True


def names() -> tuple[Any, Any] | None:
    """As `_names`; None if the first of them is missing."""
    return None if threadlocals is None else _names()


@cache
def _names() -> tuple[Any, Any] | None:
    """Make the token of an asyncio loop, and find the cancel scopes of tasks; None: can't."""
    try:
        from anyio._backends import _asyncio
        from anyio.lowlevel import EventLoopToken

        backend: Any = _asyncio
        token = partial(EventLoopToken, backend.AsyncIOBackend)
        token(asyncio.get_running_loop())
        return token, vars(backend)["_task_states"]
    except (ImportError, AttributeError, KeyError, TypeError):  # another version of anyio
        return None


class _Call(Generic[T]):
    """One call of a function in a worker thread, for a task of an asyncio loop.

    Wake-ups can't be lost: the loop publishes `_ended` before it looks for the last time whether
    the call has ended, and the thread releases `_done` before it looks for `_ended`.
    """

    __slots__ = (
        "_context",
        "_done",
        "_duration",
        "_ended",
        "_error",
        "_loop",
        "_scope",
        "_token",
        "_value",
        "_work",
    )

    def __init__(
        self, work: Callable[[], T], duration: CallDuration | None, token: Any, states: Any
    ) -> None:
        self._work, self._duration = work, duration
        self._loop = loop = asyncio.get_running_loop()
        self._token = token(loop)
        # The scope of this task, not one for each hop: it lives longer than the hop.
        state = states.get(asyncio.current_task())
        self._scope = None if state is None else state.cancel_scope
        self._context = copy_context()
        self._done: Lock | None = None
        self._ended: asyncio.Future[None] | None = None
        self._value: Any = None
        self._error: BaseException | None = None

    def ends_soon(self) -> bool:
        """Start the call and wait for its end, for a moment; the other threads run meanwhile."""
        done = self._done = Lock()
        done.acquire(blocking=False)
        worker_threads.start(self._serve)
        with blocking_allowed():
            return done.acquire(timeout=WAIT_MAX_S)

    async def end(self) -> T:
        """Wait for the end of the call; starts it if need be."""
        ended = self._ended = self._loop.create_future()
        if self._done is None:
            worker_threads.start(self._serve)
        elif self._done.acquire(blocking=False):
            ended.cancel()  # the thread may have seen it
            return self.result()
        await ended
        return self.result()

    def result(self) -> T:
        """Return the function's value, or raise its error."""
        error, self._error = self._error, None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    # --- in the worker thread ---

    def _serve(self) -> Callable[[], None] | None:
        if self._ended is not None and self._ended.cancelled():
            return None  # abandoned before this thread got its turn
        here = threadlocals
        here.current_token, here.current_cancel_scope = self._token, self._scope
        began = perf_counter()
        try:
            self._value = self._context.run(_detached, self._work)
        except BaseException as raised:  # noqa: BLE001 - raised in the loop
            self._error = raised
        finally:
            # The function may have removed them itself.
            vars(here).pop("current_token", None)
            vars(here).pop("current_cancel_scope", None)
        if self._duration is not None:
            self._duration.seconds = perf_counter() - began
        return self._report

    def _report(self) -> None:
        if self._done is not None:
            self._done.release()
        if self._ended is None:
            return
        try:
            self._loop.call_soon_threadsafe(_settle, self._ended)
        except RuntimeError:
            if not self._loop.is_closed():
                raise


def _detached(work: Callable[[], T]) -> T:
    set_current_async_library(None)  # the context is a copy of one in the loop
    return work()


def _settle(ended: "asyncio.Future[None]") -> None:
    if not ended.done():  # else abandoned
        ended.set_result(None)
