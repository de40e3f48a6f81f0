"""Event loops of calling threads: a blocking call runs its graph right where it was made.

A call takes an idle loop, or makes one, and gives it back at its end. The loop runs only while
the call, or a `next()` of its stream, is being waited for; each of these may come from another
thread. Plain functions of the graph are called in that thread; see `inline`.

Ctrl-C in the main thread is raised inside a running function, as in any program. Elsewhere it
cancels the call, which stores its finished work before it raises KeyboardInterrupt; see `signals`.
"""

import asyncio
import atexit
import math
import os
import selectors
import sys
import threading
from asyncio import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Final, Protocol, TypeVar

from actorgraph.loops import blocking_allowed, in_event_loop
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.inline import InlineCalls
from actorgraph.runtime.mailbox import Home
from actorgraph.runtime.portal import call_result
from actorgraph.runtime.signals import HeldSignals

T = TypeVar("T")

IDLE_MAX: Final = 16
"""Idle loops that are kept."""


def _ignore() -> None:
    pass


WAIT_MAX_S: Final = 0.1
"""Seconds after which a loop that waits looks whether a signal has come.

A signal interrupts the wait, unless it comes in the very instant before.
"""


class _Waiting(selectors.BaseSelector):
    """Waits for a loop's timers and for other threads, without a file descriptor.

    Few calls have anything else to wait for, and a process may make hundreds of calls at once. If
    something does open a connection in the loop, such as a cache, a real selector takes over.
    """

    def __init__(self, opened: Callable[[], None]) -> None:
        self._opened = opened  # called when the real selector has taken over
        self._lock = threading.Lock()  # held unless there is something to do
        self._lock.acquire(blocking=False)
        self._real: selectors.BaseSelector | None = None

    @property
    def watches(self) -> bool:
        """Whether it watches sockets, or has."""
        return self._real is not None

    def wake(self) -> None:
        """End the wait, from any thread."""
        with suppress(RuntimeError):  # it has been woken already
            self._lock.release()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait; see `selectors.BaseSelector`."""
        at_most = WAIT_MAX_S if timeout is None else min(timeout, WAIT_MAX_S)
        if self._real is not None:
            return self._real.select(0 if self._lock.acquire(blocking=False) else at_most)
        if at_most > 0:
            with blocking_allowed():
                self._lock.acquire(timeout=at_most)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a socket; see `selectors.BaseSelector`."""
        if self._real is None:
            self._real = selectors.DefaultSelector()
            self._opened()
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Stop watching a socket; see `selectors.BaseSelector`."""
        if self._real is None:
            raise KeyError(fileobj)
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """The sockets that are watched; see `selectors.BaseSelector`."""
        return {} if self._real is None else self._real.get_map() or {}

    def close(self) -> None:
        """Close it; see `selectors.BaseSelector`."""
        if self._real is not None:
            self._real.close()


class CallerLoop(asyncio.SelectorEventLoop):
    """A loop that runs only while a call waits for it; see the module's docstring.

    Attributes:
        calls: makes the calls of plain functions.
        home: the thread that runs it now.
        inline_calls: `calls`, if that thread calls plain functions; see `_may_have_greenlets`.
        is_usable: whether a later call may have it: none was abandoned.
    """

    # Asyncio's own, which its type hints leave out.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _debug: bool
    _run_once: Callable[[], None]
    _asyncgen_firstiter_hook: Callable[[Any], None]
    _asyncgen_finalizer_hook: Callable[[Any], None]

    def __init__(self) -> None:
        self._waiting = _Waiting(super()._make_self_pipe)  # type: ignore[misc]
        super().__init__(self._waiting)
        self.slow_callback_duration = math.inf  # the program's functions may block here
        signals = self._signals = HeldSignals(self._signal_waits)
        self.calls = InlineCalls(self, signals.enter_function, signals.leave_function)
        self.home = Home(0)
        self.inline_calls: InlineCalls | None = self.calls
        self.is_usable = True
        self._is_abandoned = False
        self._waited_for: asyncio.Task[Any] | None = None
        self._error: BaseException | None = None  # ends the call

    def _make_self_pipe(self) -> None:
        """Make no sockets to wake the loop with, until it watches one; asyncio calls it."""
        self._ssock = self._csock = None

    def _close_self_pipe(self) -> None:
        if self._csock is not None:
            super()._close_self_pipe()  # type: ignore[misc]

    def _write_to_self(self) -> None:
        """Wake the loop; asyncio calls it, in any thread."""
        self._waiting.wake()
        if self._csock is not None:
            super()._write_to_self()  # type: ignore[misc]

    def wait(self, function: Callable[[], Awaitable[T]], context: Context | None = None) -> T:
        """Run the loop until an async function has returned.

        Args:
            context: to run it in; default a copy of the caller's.
        Returns: its value.
        Raises:
            BaseException: the function's error; or that of a signal's handler, such as
                KeyboardInterrupt, after the function has handled its cancellation.
        """
        try:
            self._enter()
            context = context or copy_context()
            task = self._waited_for = self.create_task(call_result(function), context=context)
            self._run_until(task.done)
            self._wait_for_functions()
        finally:
            self._leave()
        return task.result().value()

    def wait_for_chunk(self, broadcast: Broadcast) -> None:
        """Run the loop until a stream has a chunk, or its end.

        Raises:
            BaseException: of a signal's handler, such as KeyboardInterrupt; the stream is to be
                closed then.
        """
        try:
            self._enter()
            broadcast.arrived = self._arrived
            broadcast.want()
            self._run_until(lambda: self._error is not None or not broadcast.is_empty)
            self._wait_for_functions()
        finally:
            broadcast.arrived = _ignore
            self._leave()

    def _enter(self) -> None:
        self.home.thread = threading.get_ident()
        self.inline_calls = self.calls if _may_have_greenlets() else None
        self._error, self._is_abandoned = None, False
        self._signals.take()

    def _leave(self) -> None:
        """Leave the loop. Raises the error that has ended the call, or a late signal's."""
        self._waited_for, self.home.thread = None, 0
        try:
            self._signals.give_back()
            if self._error is not None:
                raise self._error
        finally:
            self._error = None

    def _run_until(self, is_over: Callable[[], bool]) -> None:
        """Run the loop until something is over, or the call was abandoned.

        As asyncio's `run_forever`, which would take one more pass to stop.
        """
        self._check_closed()  # type: ignore[attr-defined]
        self._check_running()  # type: ignore[attr-defined]
        hooks, tracks = sys.get_asyncgen_hooks(), self._debug
        try:
            sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)
            if tracks:
                self._set_coroutine_origin_tracking(enabled=True)  # type: ignore[attr-defined]
            self._thread_id = self.home.thread
            _set_running_loop(self)
            while not (is_over() or self._is_abandoned):
                try:
                    self._run_pass()
                except (KeyboardInterrupt, SystemExit) as error:  # asyncio lets a task's pass
                    self._end_by(error)
        finally:
            self._thread_id = None
            _set_running_loop(None)
            if tracks:
                self._set_coroutine_origin_tracking(enabled=False)  # type: ignore[attr-defined]
            sys.set_asyncgen_hooks(*hooks)

    def stop(self) -> None:
        """Do nothing: the loop stops when the call has ended, or has its chunk."""

    def settle(self) -> bool:
        """Call what the last pass has left to be called: it holds the run that has ended.

        Returns: whether the loop may be kept for a later call.
        """
        if self._ready and self.is_usable and _get_running_loop() is None:
            self.home.thread = threading.get_ident()
            self._run_until(iter((False, True)).__next__)
            self.home.thread = 0
        return self.is_usable and not self._ready

    def _run_pass(self) -> None:
        """Run the callbacks that are ready; if none is, wait for one."""
        ready = self._ready
        if not ready or self._scheduled or self._waiting.watches or self._debug:
            self._run_once()
            return
        # Without timers and sockets there is nothing to look for first.
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001 - as asyncio's own pass does

    def _wait_for_functions(self) -> None:
        # Greenlets can't change threads, and the next call may come from another one.
        while self.calls.active and not self._is_abandoned:
            rest = self._waited_for = self.create_task(self.calls.wait_ended())
            self._run_until(rest.done)

    def _arrived(self) -> None:
        """End a pass of `wait_for_chunk` that waits, from any thread."""
        if threading.get_ident() != self.home.thread:
            self.soon(_ignore)

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function in the loop, from any thread; never if the loop runs no more."""
        with suppress(RuntimeError):  # closed
            self.call_soon_threadsafe(function)

    def cancel(self) -> None:
        """Cancel the task that is waited for, from any thread."""
        task = self._waited_for
        if task is not None:
            self.soon(task.cancel)

    @property
    def is_ending(self) -> bool:
        """Whether a signal has come, and its handler is called soon or has ended the call."""
        return self._error is not None or bool(self._signals)

    def _signal_waits(self) -> None:
        self.soon(self._deliver_signals)

    def _deliver_signals(self) -> None:
        try:
            self._signals.deliver()
        except BaseException as error:  # noqa: BLE001 - raised by `wait`
            self._end_by(error)

    def _end_by(self, error: BaseException) -> None:
        """End the call; abandon it if it ends already."""
        if self._error is None:
            self._error = error
            if self._waited_for is not None:
                self._waited_for.cancel()
        else:
            self._is_abandoned, self.is_usable = True, False

    def close(self) -> None:
        """Close it; the tasks of an abandoned call are dropped."""
        if not self.is_closed():
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
        super().close()


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
    if loop.settle() and len(_IDLE) < IDLE_MAX:
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
    is_daemon: bool | None = None
    """Whether the thread is one; None before a call has asked."""


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
    """The maker of inline calls in the running loop; None where worker threads make them."""
    return getattr(_get_running_loop(), "inline_calls", None)


def _may_have_greenlets() -> bool:
    """Whether this thread may call functions in greenlets.

    At its exit Python ends a daemon thread by unwinding its stack, wherever it is, and a stack
    that greenlets have switched can't be unwound: the process would crash. Threads that help a
    caller's are ended before the program can leave its call.
    """
    here = _HERE
    if here.is_daemon is None:
        here.is_daemon = threading.current_thread().daemon
    return here.helping is not None or not here.is_daemon
