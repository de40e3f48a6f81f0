"""Event loops of calling threads: a blocking call runs its graph right where it was made.

A call takes an idle loop, or makes one, and gives it back at its end. The loop runs only while
the call, or a `next()` of its stream, is being waited for; each of these may come from another
thread. Plain functions of the graph are called in that thread; see `inline`.

Ctrl-C in the main thread is raised inside a running function, as in any program. Elsewhere it
cancels the call, which stores its finished work before it raises KeyboardInterrupt; see `signals`.
"""

import asyncio
import atexit
import os
import selectors
import threading
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Final, Protocol, TypeVar

from actorgraph.loops import Home, in_event_loop
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.inline import InlineCalls
from actorgraph.runtime.portal import call_result
from actorgraph.runtime.signals import HeldSignals

T = TypeVar("T")

IDLE_MAX: Final = 16
"""Idle loops that are kept. Each has an epoll and two sockets."""


def _ignore() -> None:
    pass


class _Selector(selectors.DefaultSelector):
    """Waits for the sockets of a loop.

    Attributes:
        wake: called before it waits.
    """

    wake: Callable[[], None] = staticmethod(_ignore)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.wake()
        return super().select(timeout)


class CallerLoop(asyncio.SelectorEventLoop):
    """A loop that runs only while a call waits for it; see the module's docstring.

    Attributes:
        calls: makes the calls of plain functions.
        home: the thread that runs it now.
        is_usable: whether a later call may have it: none was abandoned.
    """

    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        self.calls = InlineCalls(self)
        self.home = Home(0)
        self.is_usable = True
        self._is_abandoned = False
        self._waited_for: asyncio.Task[Any] | None = None
        self._error: BaseException | None = None  # ends the call
        wakes: int = self._csock.fileno()  # type: ignore[attr-defined]
        self._signals = HeldSignals(self._is_inside, self._signal_waits, wakes)
        selector.wake = self._signals.wake

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
            task.add_done_callback(self._stop_soon)
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
        self._error, self._is_abandoned = None, False
        self._signals.take()

    def _leave(self) -> None:
        """Leave the loop. Raises the error that has ended the call, or a late signal's."""
        self._waited_for, self.home.thread = None, 0
        try:
            if self._signals.wakes_others:
                self._read_from_self()  # type: ignore[attr-defined]
            self._signals.give_back()
            if self._error is not None:
                raise self._error
        finally:
            self._error = None

    def _run_until(self, is_over: Callable[[], bool]) -> None:
        """Run the loop until something is over, or the call was abandoned."""
        # It may also stop too soon, by a stop that was meant for what came before.
        while not is_over() and not self._is_abandoned:
            try:
                self.run_forever()
            except (KeyboardInterrupt, SystemExit) as error:  # asyncio lets a task's pass
                self._end_by(error)

    def _wait_for_functions(self) -> None:
        # Greenlets can't change threads, and the next call may come from another one.
        while self.calls.waiting and not self._is_abandoned:
            rest = self._waited_for = self.create_task(self.calls.wait_ended())
            rest.add_done_callback(self._stop_soon)
            self._run_until(rest.done)

    def _stop_soon(self, _: object) -> None:
        self.stop()

    def _arrived(self) -> None:
        """Stop `wait_for_chunk`, from any thread."""
        if threading.get_ident() == self.home.thread:
            self.stop()
        else:
            self.soon(self.stop)

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

    def _process_self_data(self, data: bytes) -> None:
        """Handle the bytes that other threads and signals have sent: asyncio calls it."""
        if self._signals.wakes_others and (numbers := data.replace(b"\0", b"")):
            self._signals.pass_on(numbers)

    def _is_inside(self) -> bool:
        return self.calls.is_inside

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
        self.stop()

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
    if len(_IDLE) < IDLE_MAX and loop.is_usable:
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
