"""The portal: one background thread with an asyncio loop, for calls from outside an event loop.

It hosts savers that were not opened with `async with`, and runs the calls of the sync API. It
starts on first use, and is a daemon thread, so it never keeps a process alive; at exit its hosts
are drained.
"""

import atexit
import concurrent.futures
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Generic, TypeVar, cast

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal

from actorgraph.errors import RunningLoopError
from actorgraph.errors.tracebacks import from_program
from actorgraph.errors.warning_places import BLOCKED
from actorgraph.loops import blocking_allowed, in_event_loop
from actorgraph.runtime.mailbox import Mailbox

T = TypeVar("T")
EXIT_TIMEOUT_S = 10.0

HELD: ContextVar[int | None] = ContextVar("actorgraph_held", default=None)
"""Id of the thread whose event loop is blocked by a running `call`, as in a notebook."""


def refuse_at_exit() -> None:
    """Refuse a blocking call while the interpreter shuts down.

    Raises:
        RunningLoopError: it does.
    """
    if sys.is_finalizing():
        raise RunningLoopError(
            "the interpreter is shutting down, and its background threads have stopped",
            do="end runs and streams before the program ends, in an atexit function at last",
        )


class _Portal:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._process = 0
        self._thread = 0
        self._group: TaskGroup | None = None
        self.closing: list[Callable[[], Awaitable[None]]] = []

    def get(self) -> BlockingPortal:
        """The portal of this process; starts it at the first call.

        Raises:
            RunningLoopError: its thread can't run: the process is shutting down.
        """
        refuse_at_exit()
        with self._lock:
            if self._portal is None:
                self._portal = self._start()
            return self._portal

    def _start(self) -> BlockingPortal:
        started: concurrent.futures.Future[BlockingPortal] = concurrent.futures.Future()

        async def main() -> None:
            async with BlockingPortal() as portal, anyio.create_task_group() as self._group:
                self._thread = threading.get_ident()
                started.set_result(portal)
                await portal.sleep_until_stopped()

        thread = threading.Thread(
            target=anyio.run, args=(main,), name="actorgraph-portal", daemon=True
        )
        thread.start()
        self._process = os.getpid()
        atexit.register(self._at_exit)
        return started.result()

    def forget(self) -> None:
        """Forget the portal of the process that this one was forked from.

        Its thread doesn't exist here, and what it was to close is the parent's. A lock may have
        been held by a thread of the parent.
        """
        self._lock = threading.Lock()
        self._portal, self._group, self._thread = None, None, 0
        self.closing = []

    def is_here(self) -> bool:
        """Whether this code runs in the portal's thread."""
        return threading.get_ident() == self._thread

    def start(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Start an async function; also from inside the portal."""
        portal = self.get()
        if self.is_here() and self._group is not None:
            self._group.start_soon(function, *args)
        else:
            with blocking_allowed():  # until the portal's loop has taken it
                portal.start_task_soon(function, *args)

    def _at_exit(self) -> None:
        portal = self._portal
        if portal is None or self._process != os.getpid():
            return
        for close in tuple(self.closing):  # each takes itself off the list
            future = portal.start_task_soon(close)
            concurrent.futures.wait([future], timeout=EXIT_TIMEOUT_S)


class CallResult(Generic[T]):
    """The value or the error of an async function, as data.

    Raised inside the portal, SystemExit and its like would end its loop and all other calls.
    """

    def __init__(self, value: T | None, error: BaseException | None) -> None:
        self._value = value
        self._error = error

    def value(self) -> T:
        """The value. Raises the error, if there is one."""
        if self._error is not None:
            raise self._error
        return cast("T", self._value)


Begun = concurrent.futures.Future[CallResult[T]]


async def call_result(function: Callable[..., Awaitable[T]], *args: Any) -> CallResult[T]:
    """Await a function and return its value or its error. Raises only a cancellation."""
    try:
        return CallResult(await function(*args), None)
    except anyio.get_cancelled_exc_class():
        raise
    except BaseException as error:  # noqa: BLE001 - raised in the thread of the caller
        return CallResult(None, from_program(error))


_PORTAL = _Portal()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PORTAL.forget)


def is_here() -> bool:
    """Whether this code runs in the portal's thread, where `call` would deadlock."""
    return _PORTAL.is_here()


def call(function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run an async function in the portal and wait for its result.

    An exception in the waiting thread, such as KeyboardInterrupt, cancels the function and
    waits for its end. If this blocks a running event loop, the function sees its thread in `HELD`.
    """
    return result_of(begin(function, *args))


def result_of(future: Begun[T], wait: Callable[[Begun[T]], None] | None = None) -> T:
    """The result of an async function that `begin` has begun; errors as those of `call`.

    Args:
        wait: blocks until the result is there; what it raises cancels the function.
    """
    try:
        if wait is not None:
            wait(future)
        return future.result().value()
    except BaseException:
        if not future.done():
            future.cancel()
            concurrent.futures.wait([future])
        raise


async def awaited(function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run an async function in the portal, and wait for its end in a stepper's coroutine.

    A cancellation, or the error of a signal's handler, cancels the function and waits for its end.
    """
    ends: Mailbox[CallResult[T] | None] = Mailbox()

    async def serve() -> None:
        ended: CallResult[T] | None = None
        try:
            ended = await call_result(function, *args)
        finally:
            ends.put(ended)

    future = _PORTAL.get().start_task_soon(serve)
    try:
        ended = await ends.get()
    except BaseException:
        future.cancel()
        await ends.get()
        raise
    if ended is None:  # the portal's loop has been stopped
        raise concurrent.futures.CancelledError
    return ended.value()


def read_within(timeout_s: float, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run an async function in the portal that takes little time, and wait for its result.

    After the timeout the function goes on without its caller; it isn't cancelled, because that
    would wait for the portal's thread.

    Raises:
        RunningLoopError: it takes longer than `timeout_s` seconds.
    """
    try:
        ended = begin(function, *args).result(timeout_s)
    except concurrent.futures.TimeoutError:
        raise RunningLoopError(
            f"a read blocked the running event loop for {timeout_s:g} s and had no answer yet",
            do="use the async method, whose name begins with `a`",
        ) from None
    return ended.value()


def begin(function: Callable[..., Awaitable[T]], *args: Any) -> Begun[T]:
    """Begin to run an async function in the portal, for `result_of`."""
    held = HELD.set(threading.get_ident() if in_event_loop() else HELD.get())
    blocked = BLOCKED.set(threading.get_ident())
    try:
        return _PORTAL.get().start_task_soon(call_result, function, *args)
    finally:
        BLOCKED.reset(blocked)
        HELD.reset(held)


def start(function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
    """Start an async function in the portal without waiting for it."""
    _PORTAL.start(function, *args)


def at_exit(close: Callable[[], Awaitable[None]]) -> None:
    """Register an async function to run in the portal when the process exits."""
    _PORTAL.closing.append(close)


def not_at_exit(close: Callable[[], Awaitable[None]]) -> None:
    """Undo `at_exit`."""
    if close in _PORTAL.closing:
        _PORTAL.closing.remove(close)
