"""Inline calls: plain functions of nodes, called in the thread of a caller's event loop.

A blocking call runs its graph on an event loop of the calling thread, in which nothing else runs:
there a plain function may block, and a worker thread would only cost time. It is called inside a
greenlet. If it needs the loop, for a graph that it invokes or the result of a `@task`, it switches
back to the coroutine that called it, which awaits that and switches to it again.

While it runs, the loop and its task are hidden from it: `asyncio.run()`, `anyio.run()` and
`trio.run()` work in it as in any thread (asyncio has the functions for that, for loops and
frameworks of others). Its context variables are the coroutine's. A function may
use greenlets itself, and wait in one of them.
"""

import asyncio
import threading
from asyncio import _enter_task, _get_running_loop, _leave_task, _set_running_loop
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from sys import gettrace
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

from actorgraph.runtime.mailbox import Waiting, wake_all

T = TypeVar("T")

Outcome = tuple[Any, BaseException | None]
"""A value, or the error that was raised instead."""


class Call:
    """A call that a runner makes. The runner's stack refers to it, and not to the runner.

    So a thread's runners are freed with the thread. A function and its outcome are here only until
    they are taken: an idle runner's stack would keep them for the life of its thread.
    """

    __slots__ = ("calls", "driver", "function", "is_last", "outcome", "waits")

    def __init__(self) -> None:
        self.calls: InlineCalls
        """Of the loop for which a function runs now."""
        self.driver: greenlet = getcurrent()
        """The greenlet of the coroutine whose call it is."""
        self.function: Callable[[], Any] | None = None
        """The next function, until it begins."""
        self.outcome: Outcome = None, None
        """Of the function that has ended, until the coroutine takes it."""
        self.waits: Callable[[], Awaitable[Any]] | None = None
        """Makes what the function waits for; None if the function has ended."""
        self.is_last = False
        """Whether the runner ends with it."""

    def take_outcome(self) -> Outcome:
        """Return the outcome, and keep it no longer."""
        outcome, self.outcome = self.outcome, (None, None)
        return outcome


def _serve(call: Call) -> None:
    """Call one function after the other, in a greenlet."""
    while True:
        calls, function = call.calls, cast("Callable[[], Any]", call.function)
        call.function = None
        try:
            calls.enter_function()
            call.outcome = function(), None
            calls.leave_function()
        except BaseException as error:  # noqa: BLE001 - raised by the coroutine
            trace = error.__traceback__
            call.outcome = _left(calls, error.with_traceback(trace and trace.tb_next))
            del trace  # leads to the frames of the function, and those to all their values
        call.waits = None
        del function  # may hold what its caller wants freed
        if call.is_last:
            return
        call.driver.switch()


def _left(calls: "InlineCalls", error: BaseException) -> Outcome:
    """Leave a function that has raised an error, whatever signals come meanwhile."""
    while True:
        try:
            calls.leave_function()
        except BaseException as later:  # noqa: BLE001 - of a signal's handler
            error = later
        else:
            return None, error


class Runner(greenlet):
    """A greenlet that calls one function after the other.

    It is kept and used again: a new one costs as much as ten calls, because the interpreter gives
    each its own piece of stack.
    """

    def __init__(self) -> None:
        self.call = call = Call()
        super().__init__(lambda _: _serve(call))
        self.waiter: greenlet | None = None
        """The greenlet that waits, if the function has made it; None for this one."""

    def wait(self, waits: Callable[[], Awaitable[T]], *, in_task: bool = False) -> T:
        """Await something in the loop. Call it inside the running function.

        Args:
            waits: returns the awaitable; called in the loop.
            in_task: whether a task of its own awaits it.
        Returns: its result.
        Raises: its error; a cancellation too.
        """
        call, current = self.call, getcurrent()
        self.waiter = None if current is self else current
        # The function may have entered another context.
        if in_task or current.gr_context is not call.driver.gr_context:
            waits = call.calls.in_context(copy_context(), waits)
        call.waits = waits
        own_loop = _get_running_loop()  # the function may run a loop of its own
        call.calls.leave_function()
        answer = cast("Outcome", call.driver.switch(None))
        _set_running_loop(own_loop)
        call.calls.enter_function()
        return _value(answer)


class _IdleRunners(threading.local):
    """The idle runners of a thread: a greenlet belongs to the thread that has made it."""

    def __init__(self) -> None:
        self.runners: list[Runner] = []


_IDLE = _IdleRunners()


class InlineCalls:
    """Makes the inline calls of one event loop.

    Args:
        enter_function: called in the thread before a function runs, and when it goes on.
        leave_function: called when it has ended, and when it waits. May raise, as the one above,
            what a signal's handler raises.

    Attributes:
        active: how many functions have begun and not ended. Seen in the loop, all of them wait in
            `Runner.wait`; they can go on only in this thread.
        waiters: those who wait for the reader of the run's chunks; woken to look anew when a
            function begins, see `Broadcast.reader_is_away`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        enter_function: Callable[[], None],
        leave_function: Callable[[], None],
    ) -> None:
        self._loop = loop
        self.enter_function = enter_function
        self.leave_function = leave_function
        self.active = 0
        self.waiters: tuple[Waiting, ...] = ()
        self._alone: asyncio.Event | None = None

    async def wait_ended(self) -> None:
        """Wait until every function has ended: another thread may run the loop then."""
        while self.active:
            self._alone = asyncio.Event()
            await self._alone.wait()
        self._alone = None

    def in_context(
        self, context: Context, waits: Callable[[], Awaitable[T]]
    ) -> Callable[[], Awaitable[T]]:
        """An async function that awaits what another one returns, in a context."""

        async def inside() -> T:
            return await waits()

        return lambda: self._loop.create_task(inside(), context=context)

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function that may block, in this thread. Returns its value, or raises its error.

        A cancellation that comes while the function waits in `Runner.wait` is raised there.
        """
        idle, is_traced = _IDLE.runners, gettrace() is not None
        runner = idle.pop() if idle and not is_traced else Runner()
        call = runner.call
        # Tools that trace calls, such as coverage, expect each to return where it was made.
        call.calls, call.is_last, runner.waiter = self, is_traced, None
        runner.gr_context = cast("Context", getcurrent().gr_context)
        call.function = function
        self.active += 1
        try:
            for waiting in self.waiters:
                if waiting:
                    wake_all(waiting)
            self._switch(runner, None)
            while call.waits is not None:
                try:
                    awaited: Outcome = await call.waits(), None
                except GeneratorExit:  # the loop was closed: nothing can be awaited any more
                    raise
                except BaseException as error:  # noqa: BLE001 - raised inside the function
                    awaited = None, error
                self._switch(runner, awaited)
                del awaited
        finally:
            self.active -= 1
            if self._alone is not None and not self.active:
                self._alone.set()
        outcome = call.take_outcome()
        runner.gr_context = None  # the task's context may hold objects that the caller wants freed
        if not is_traced:
            idle.append(runner)
        try:
            return _value(outcome)
        finally:
            del outcome  # an error whose traceback leads to itself is freed late

    def _switch(self, runner: Runner, awaited: Outcome | None) -> None:
        """Let the function run until it waits or ends; the loop is hidden meanwhile.

        Args:
            awaited: for what the function has waited; None at its begin.
        """
        # Looked up each time: a coroutine is resumed by whichever greenlet runs the loop then.
        runner.call.driver = getcurrent()
        if runner.call.is_last:
            runner.parent = runner.call.driver
        loop = self._loop
        task = asyncio.current_task(loop)
        if task is not None:
            _leave_task(loop, task)
        _set_running_loop(None)
        try:
            (runner.waiter or runner).switch(awaited)
        finally:
            _set_running_loop(loop)
            if task is not None:
                _enter_task(loop, task)


def _value(outcome: Outcome) -> Any:
    value, error = outcome
    if error is None:
        return value
    try:
        raise error
    finally:
        del error, outcome  # an error whose traceback leads to itself is freed late


def current_runner() -> Runner | None:
    """The greenlet of the inline call in which this code runs; None outside of one."""
    current: greenlet | None = getcurrent()
    while current is not None and not isinstance(current, Runner):
        current = current.parent  # a greenlet that the function has made
    return current
