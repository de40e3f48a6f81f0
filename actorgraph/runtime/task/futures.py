"""TaskFuture: the outcome of a `@task` call. Await it, or wait for its result in a thread."""

import concurrent.futures
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar, cast

import anyio
import anyio.from_thread

from actorgraph.errors import GraphDrained, GraphInterrupt, NodeCancelledError, RunningLoopError
from actorgraph.errors.tracebacks import from_program
from actorgraph.loops import in_event_loop
from actorgraph.runtime.helping import LENT
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.stepper import stepper_here
from actorgraph.values.commands import Interrupt

T = TypeVar("T")

FEW_THREADS: Final = 16
"""With fewer free worker threads, a thread that waits for a call raises the limit by one."""


class Caller(Protocol):
    """The part of the caller's scope that a future changes.

    Attributes:
        raised: unanswered questions of the task and of its calls.
        drained: why a subgraph of it has stopped before its end.
    """

    raised: list[Interrupt]
    drained: GraphDrained | None


class TaskFuture(concurrent.futures.Future[T]):
    """The outcome of a call of a `@task` function.

    In async code: `await future`, also in `asyncio.gather`, `asyncio.wait` or a task group. In a
    sync node or task: `future.result()`, also through `concurrent.futures.wait` and
    `as_completed`. Cancelling the code that awaits it stops the call.

    Args:
        name: of the function.
        caller: the task that made the call.
        drop: stops the call; None if it can't be stopped.
        limiter: limits the worker threads of sync nodes; None before the run begins.

    Attributes:
        looked_at: whether the error was raised to the program, or read by it.
    """

    def __init__(
        self,
        name: str,
        caller: Caller,
        drop: Callable[[], None] | None,
        limiter: anyio.CapacityLimiter | None,
    ) -> None:
        super().__init__()
        self.name = name
        self._caller = caller
        self._drop = drop
        self._limiter = limiter
        self._gate = Gate()
        self.looked_at = False

    def __repr__(self) -> str:
        state = "done" if self.done() else "running"
        return f"<{type(self).__name__} of {self.name!r}, {state}>"

    def __await__(self) -> Generator[Any, Any, T]:
        """Wait for the function's return value.

        Raises:
            NodeCancelledError: the call was stopped.
            BaseException: the function's error.
        """
        if not self.done():
            try:
                yield from self._gate.wait().__await__()
            finally:
                self.cancel()  # a no-op unless the wait was cancelled
        return self._outcome()

    def result(self, timeout: float | None = None) -> T:
        """Get the function's return value; waits for it in a worker thread.

        Args:
            timeout: seconds; default without limit.
        Raises:
            RunningLoopError: the call goes on, and this was called in an event loop.
            TimeoutError: the call goes on after the timeout.
            BaseException: as when it is awaited.
        """
        self._wait(timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Get the function's error; None if it returned. Waits as `result` does."""
        self._wait(timeout)
        error = super().exception()
        self._look(error)
        return error

    def cancel(self) -> bool:
        """Request that the call stop. Returns False if it has ended or can't be stopped."""
        if self.done() or self._drop is None:
            return False
        self._drop()
        return True

    def remove_done_callback(self, callback: Callable[..., Any]) -> int:
        """Remove a callback, as `asyncio.wait` does. Returns how often it had been added."""
        known = cast("list[Any]", self._done_callbacks)  # type: ignore[attr-defined]
        others = [other for other in known if other != callback]
        removed = len(known) - len(others)
        known[:] = others
        return removed

    def settle(self, value: Any, error: BaseException | None = None) -> None:
        """Set the outcome of the call, once."""
        if error is None:
            self.set_result(value)
        else:
            self.set_exception(error)
        self._gate.open()

    def _wait(self, timeout_s: float | None) -> None:
        if self.done():
            return
        if in_event_loop():
            raise RunningLoopError(
                f"the result of task {self.name!r} is not available yet, and waiting for it would "
                "block the event loop that runs the task",
                do="`await` the future, or call result() in a sync node",
            )
        # Threads that wait for calls of sync tasks could take up the whole limit, and the tasks
        # that they wait for would never get a thread: a waiting thread doesn't count.
        stepper = stepper_here()
        if stepper is not None and stepper.is_lent:
            self._wait_as_helper(timeout_s)
            return
        limiter = self._limiter
        lends = limiter is not None and limiter.available_tokens < FEW_THREADS
        if limiter is not None and lends:
            lends = _grow(limiter, 1)
        try:
            super().exception(timeout_s)
        finally:
            if limiter is not None and lends:
                _grow(limiter, -1)

    def _wait_as_helper(self, timeout_s: float | None) -> None:
        LENT.give_back()
        try:
            super().exception(timeout_s)
        finally:
            LENT.take_again()

    def _outcome(self) -> T:
        error = super().exception()
        if error is None:
            return super().result()
        self._look(error)
        raise from_program(error)

    def _look(self, error: BaseException | None) -> None:
        """Note that the program has seen the error; a question or drain becomes the caller's."""
        self.looked_at = True
        caller = self._caller
        if isinstance(error, GraphInterrupt):
            caller.raised.extend(i for i in error.interrupts if i not in caller.raised)
        elif isinstance(error, GraphDrained):
            caller.drained = error


def _grow(limiter: anyio.CapacityLimiter, by: int) -> bool:
    """Change the limit of worker threads. Returns False in a thread that anyio didn't start."""

    def change() -> None:
        limiter.total_tokens += by

    with suppress(RuntimeError):
        anyio.from_thread.run_sync(change)
        return True
    return False


def stopped_error(name: str) -> NodeCancelledError:
    """Make the error of a call that was stopped."""
    return NodeCancelledError(
        f"task {name!r} was stopped before it returned",
        do="nothing, if its run is leaving or its caller gave it up; else call it again",
        node=name,
    )
