"""Event loops of calling threads: a blocking call runs its graph right where it was made.

A call takes an idle loop, or makes one, and gives it back at its end. The loop runs only while
the call, or a `next()` of its stream, is being waited for; each of these may come from another
thread. Plain functions of the graph are called in that thread; see `inline`.

Ctrl-C in the main thread is raised inside a running function, as in any program. Elsewhere it
cancels the call, which stores its finished work before it raises KeyboardInterrupt. A second one
is raised at once.
"""

import asyncio
import atexit
import os
import signal
import sys
import threading
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from importlib import import_module
from types import FrameType
from typing import Any, Final, Protocol, TypeVar

from actorgraph.loops import Home, in_event_loop
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.inline import InlineCalls
from actorgraph.runtime.portal import CallResult, call_result

# `signal` looks up an enum for each number and handler: five times as slow, at each call.
SIGNALS: Any = import_module("_signal" if sys.implementation.name == "cpython" else "signal")

T = TypeVar("T")

IDLE_MAX: Final = 16
"""Idle loops that are kept. Each has an epoll and two sockets."""


class CallerLoop(asyncio.SelectorEventLoop):
    """A loop that runs only while a call waits for it; see the module's docstring.

    Attributes:
        calls: makes the calls of plain functions.
        home: the thread that runs it now.
        interrupted: whether a Ctrl-C has cancelled the task that is waited for.
        is_torn: whether a signal's handler has raised out of it and left something to do.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls = InlineCalls(self)
        self.home = Home(0)
        self._waited_for: asyncio.Task[Any] | None = None
        self.interrupted = self.is_torn = self._pumps = False

    def wait(self, function: Callable[[], Awaitable[T]], context: Context | None = None) -> T:
        """Run the loop until an async function has returned.

        Args:
            context: to run it in; default a copy of the caller's.
        Returns: its value.
        Raises:
            KeyboardInterrupt: Ctrl-C, after the function has handled its cancellation.
            BaseException: the function's error.
        """
        self.home.thread = threading.get_ident()
        context = context or copy_context()
        self.interrupted = False
        try:
            # Taken first: an interrupted caller would leave a task in the loop.
            self._take_sigint()
            task = self._waited_for = self.create_task(call_result(function), context=context)
            if self.interrupted:
                task.cancel()
            result = self._run(task)
            self._wait_for_functions()
        finally:
            self._give_back_sigint()
            self._waited_for, self.home.thread = None, 0
        if self.interrupted:  # too late to cancel anything
            raise KeyboardInterrupt
        return result.value()

    def wait_for_chunk(self, broadcast: Broadcast) -> None:
        """Run the loop until a stream has a chunk, or its end.

        Raises:
            KeyboardInterrupt: Ctrl-C; the stream is to be closed then.
        """
        self.home.thread = threading.get_ident()
        self.interrupted, self._pumps = False, True
        broadcast.arrived = self._stop
        try:
            self._take_sigint()
            broadcast.want()
            if not self.interrupted:
                self.run_forever()
            self._wait_for_functions()
        except BaseException:
            self.is_torn = True
            self.call_soon(self.stop)
            self.run_forever()
            self.is_torn = False
            raise
        finally:
            broadcast.arrived = _ignore
            self._pumps = False
            self._give_back_sigint()
            self.home.thread = 0
        if self.interrupted:
            raise KeyboardInterrupt

    def _stop(self) -> None:
        """Stop `wait_for_chunk`, from any thread."""
        if threading.get_ident() == self.home.thread:
            self.stop()
        else:
            self.soon(self.stop)

    def _wait_for_functions(self) -> None:
        # Greenlets can't change threads, and the next call may come from another one.
        while self.calls.waiting:
            rest = self._waited_for = self.create_task(call_result(self.calls.wait_ended))
            self._run(rest)

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function in the loop, from any thread; never if the loop runs no more."""
        with suppress(RuntimeError):  # closed
            self.call_soon_threadsafe(function)

    def cancel(self) -> None:
        """Cancel the task that is waited for, from any thread."""
        task = self._waited_for
        if task is not None:
            self.soon(task.cancel)

    def _run(self, task: "asyncio.Task[CallResult[T]]") -> CallResult[T]:
        try:
            return self.run_until_complete(task)
        except asyncio.CancelledError:
            if self.interrupted:
                raise KeyboardInterrupt from None
            raise
        except BaseException:
            # Raised by a handler of signals: the task has not seen it, but must end first.
            self.is_torn = True
            self._end(task)
            self.is_torn = False
            raise

    def _end(self, task: "asyncio.Task[Any]") -> None:
        # The loop's open callbacks may include its own stop, when the task had just ended.
        self.call_soon(self.stop)
        self.run_forever()
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                self.run_until_complete(task)

    def _take_sigint(self) -> None:
        """Handle Ctrl-C here, unless the program handles it."""
        if threading.current_thread() is not threading.main_thread():
            return
        if SIGNALS.getsignal(signal.SIGINT) is signal.default_int_handler:
            SIGNALS.signal(signal.SIGINT, self._on_sigint)

    def _give_back_sigint(self) -> None:
        """Let Python handle Ctrl-C again."""
        # Not by a note of `_take_sigint`, which may itself have been interrupted.
        if threading.current_thread() is not threading.main_thread():
            return
        if SIGNALS.getsignal(signal.SIGINT) == self._on_sigint:
            SIGNALS.signal(signal.SIGINT, signal.default_int_handler)

    def _on_sigint(self, _number: int, _frame: FrameType | None) -> None:
        task = self._waited_for
        if self.calls.is_inside or self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True  # `wait` raises it at its end at the latest
        if task is not None:
            self.call_soon_threadsafe(task.cancel)
        elif self._pumps:
            self.call_soon_threadsafe(self.stop)


def _ignore() -> None:
    pass


_IDLE: list[CallerLoop] = []
_INHERITED: list[CallerLoop] = []


def take() -> CallerLoop:
    """An idle loop, for one call or stream."""
    with suppress(IndexError):  # another thread may take the last one
        while _IDLE:
            loop = _IDLE.pop()
            if not loop.is_closed():
                return loop
    return CallerLoop()


def give_back(loop: CallerLoop) -> None:
    """Keep a loop for later calls."""
    if len(_IDLE) < IDLE_MAX and not loop.is_torn:
        _IDLE.append(loop)
    else:
        loop.close()


def idle_loops() -> list[CallerLoop]:
    """The loops that wait for the next call."""
    return list(_IDLE)


@atexit.register
def _close_idle() -> None:
    while _IDLE:
        _IDLE.pop().close()


def _forget_idle() -> None:
    # A forked child shares the parent's epoll: closing it here would change the parent's.
    _INHERITED.extend(_IDLE)
    _IDLE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_idle)


def run(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function in the calling thread; see `CallerLoop.wait`."""
    loop = take()
    try:
        return loop.wait(function)
    finally:
        give_back(loop)


class Cancellable(Protocol):
    """The part of a task's scope that its cancellation changes."""

    cancelled: bool


class Helping:
    """Plain functions called in a thread that helps a caller's; use it with `with`.

    Attributes:
        scope: of the task that it performs.
    """

    def __init__(self) -> None:
        self._loop: CallerLoop | None = None
        self.scope: Cancellable | None = None

    def __enter__(self) -> None:
        _HERE.helping = self

    def __exit__(self, *_: object) -> None:
        _HERE.helping = None

    def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an async function on a loop of this thread."""
        loop = self._loop = take()
        try:
            return loop.wait(function)
        finally:
            self._loop = None
            give_back(loop)

    def cancel(self) -> None:
        """Cancel what the thread waits for; a function itself can't be stopped."""
        if self.scope is not None:
            self.scope.cancelled = True
        loop = self._loop
        if loop is not None:
            loop.cancel()


class _Here(threading.local):
    helping: Helping | None = None


_HERE = _Here()


def helping_here() -> Helping | None:
    """The help that this thread gives; None in other threads."""
    return _HERE.helping


def is_helping() -> bool:
    """Whether this thread helps a caller's, outside of any loop that a function runs in it."""
    return _HERE.helping is not None and not in_event_loop()


def loop_here() -> CallerLoop | None:
    """The running loop, if it is a caller's."""
    loop = _get_running_loop()
    return loop if isinstance(loop, CallerLoop) else None


def calls_here() -> InlineCalls | None:
    """The maker of inline calls in the running loop; None if it isn't a caller's."""
    return getattr(_get_running_loop(), "calls", None)
