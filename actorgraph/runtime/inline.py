"""Inline calls: plain functions of nodes, called in the thread of a caller's event loop.

A blocking call runs its graph on an event loop of the calling thread, in which nothing else runs:
there a plain function may block, and a worker thread would only cost time. It is called inside a
greenlet. If it needs the loop, for a graph that it invokes or the result of a `@task`, it switches
back to the coroutine that called it, which awaits that and switches to it again.

While it runs, the loop and its task are hidden from it: `asyncio.run()`, `anyio.run()` and
`trio.run()` work in it as in any thread. Its context variables are the coroutine's.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # documented for loops of third parties
from collections.abc import Awaitable, Callable
from contextvars import Context
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

    def __init__(self, calls: "InlineCalls") -> None:
        super().__init__(self._serve)
        self._calls = calls
        self.driver: greenlet = getcurrent()
        """The greenlet of the coroutine whose call it runs."""
        self.waits: Callable[[], Awaitable[Any]] | None = None
        """Makes what its function waits for; None if the function has ended."""

    def _serve(self, function: Callable[[], Any]) -> Any:
        calls = self._calls
        while True:
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
        calls, self.waits = self._calls, waits
        calls.is_inside = False
        value, error = cast("Outcome", self.driver.switch(None))
        calls.is_inside = True
        if error is not None:
            raise error
        return cast("T", value)


class InlineCalls:
    """Makes the inline calls of one event loop.

    Attributes:
        is_inside: whether the thread is inside a user's function now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._idle: list[Runner] = []
        self.is_inside = False

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function that may block, in this thread. Returns its value, or raises its error.

        A cancellation that comes while the function waits in `Runner.wait` is raised there.
        """
        runner = self._idle.pop() if self._idle else Runner(self)
        driver = runner.driver = getcurrent()
        runner.gr_context = cast("Context", driver.gr_context)
        outcome = self._switch(runner, function)
        while runner.waits is not None:
            try:
                awaited: Outcome = await runner.waits(), None
            except GeneratorExit:  # the loop was closed: nothing can be awaited any more
                raise
            except BaseException as error:  # noqa: BLE001 - raised inside the function
                awaited = None, error
            # A coroutine is resumed by whichever greenlet runs the loop now.
            driver = runner.driver = getcurrent()
            runner.gr_context = cast("Context", driver.gr_context)
            outcome = self._switch(runner, awaited)
        runner.gr_context = None  # the task's context may hold what is to be freed
        self._idle.append(runner)
        value, error = outcome
        if error is not None:
            try:
                raise error
            finally:
                del error, outcome, awaited  # a traceback must not keep itself alive
        return cast("T", value)

    def _switch(self, runner: Runner, given: Any) -> Outcome:
        """Let the function run until it waits or ends; the loop is hidden meanwhile."""
        loop = self._loop
        task = asyncio.current_task(loop)
        if task is not None:
            _leave_task(loop, task)
        asyncio._set_running_loop(None)
        try:
            return cast("Outcome", runner.switch(given))
        finally:
            asyncio._set_running_loop(loop)
            if task is not None:
                _enter_task(loop, task)


def current_runner() -> Runner | None:
    """The greenlet of the inline call in which this code runs; None outside of one."""
    current = getcurrent()
    return current if isinstance(current, Runner) else None
