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
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

T = TypeVar("T")

Outcome = tuple[Any, BaseException | None]
"""A value, or the error that was raised instead."""


class Runner(greenlet):
    """A greenlet that calls one function after the other.

    It is kept and used again: a new one costs as much as ten calls, because the interpreter gives
    each its own piece of stack.
    """

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.calls: InlineCalls
        """Of the loop for which it runs a function now."""
        self.driver: greenlet = getcurrent()
        """The greenlet of the coroutine whose call it runs."""
        self.waits: Callable[[], Awaitable[Any]] | None = None
        """Makes what its function waits for; None if the function has ended."""
        self.waiter: greenlet = self
        """The greenlet that waits: this one, or one that the function has made."""

    def _serve(self, function: Callable[[], Any]) -> Any:
        while True:
            calls = self.calls
            try:
                calls.is_inside = True
                outcome: Outcome = function(), None
                calls.is_inside = False
            except BaseException as error:  # noqa: BLE001 - raised by the coroutine
                calls.is_inside = False
                trace = error.__traceback__
                outcome = None, error.with_traceback(trace and trace.tb_next)
            self.waits = None
            del function  # may hold what its caller wants freed
            function = self.driver.switch(outcome)
            del outcome

    def wait(self, waits: Callable[[], Awaitable[T]]) -> T:
        """Await something in the loop. Call it inside the running function.

        Args:
            waits: returns the awaitable; called in the loop.
        Returns: its result.
        Raises: its error; a cancellation too.
        """
        calls, self.waiter = self.calls, getcurrent()
        if self.waiter.gr_context is not self.driver.gr_context:  # the function has entered another
            waits = calls.in_context(copy_context(), waits)
        self.waits = waits
        own_loop = _get_running_loop()  # the function may run a loop of its own
        calls.is_inside = False
        answer = cast("Outcome", self.driver.switch(None))
        _set_running_loop(own_loop)
        calls.is_inside = True
        return _value(answer)


class _Idle(threading.local):
    """The idle runners of a thread: a greenlet belongs to the thread that has made it."""

    def __init__(self) -> None:
        self.runners: list[Runner] = []


_IDLE = _Idle()


class InlineCalls:
    """Makes the inline calls of one event loop.

    Attributes:
        is_inside: whether the thread is inside a user's function now.
        waiting: how many functions wait in `Runner.wait`; they can go on only in this thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.is_inside = False
        self.waiting = 0
        self._alone: asyncio.Event | None = None

    async def wait_ended(self) -> None:
        """Wait until no function waits any more: another thread may run the loop then."""
        while self.waiting:
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
        idle = _IDLE.runners
        runner = idle.pop() if idle else Runner()
        runner.calls = self
        runner.waiter = runner
        runner.gr_context = cast("Context", getcurrent().gr_context)
        outcome = self._switch(runner, function)
        while runner.waits is not None:
            self.waiting += 1
            try:
                awaited: Outcome = await runner.waits(), None
            except GeneratorExit:  # the loop was closed: nothing can be awaited any more
                raise
            except BaseException as error:  # noqa: BLE001 - raised inside the function
                awaited = None, error
            finally:
                self.waiting -= 1
                if self._alone is not None and not self.waiting:
                    self._alone.set()
            outcome = self._switch(runner, awaited)
            del awaited
        runner.gr_context = None  # the task's context may hold objects that the caller wants freed
        idle.append(runner)
        return _value(outcome)

    def _switch(self, runner: Runner, given: Any) -> Outcome:
        """Let the function run until it waits or ends; the loop is hidden meanwhile."""
        # Looked up each time: a coroutine is resumed by whichever greenlet runs the loop then.
        runner.driver = getcurrent()
        loop = self._loop
        task = asyncio.current_task(loop)
        if task is not None:
            _leave_task(loop, task)
        _set_running_loop(None)
        try:
            return cast("Outcome", runner.waiter.switch(given))
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
