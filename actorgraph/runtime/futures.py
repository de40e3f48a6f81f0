"""TaskFuture: what calling a `@task` function gives. Await it, or wait for it in a thread."""

import concurrent.futures
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import anyio
import anyio.from_thread

from actorgraph.errors import GraphDrained, GraphInterrupt, RunningLoopError
from actorgraph.loops import running_loop
from actorgraph.runtime.context import TaskScope
from actorgraph.runtime.mailbox import Gate

T = TypeVar("T")

FEW_THREADS: Final = 16
"""Below so many free worker threads, a thread that waits for a call lends its own to others."""


class TaskFuture(concurrent.futures.Future[T]):
    """The outcome of a call of a `@task` function.

    In async code: `await future`, also in `asyncio.gather`, `asyncio.wait` or a task group. In a
    sync node or task: `future.result()`, also through `concurrent.futures.wait` and
    `as_completed`. Who is cancelled while he awaits it has the call stopped.

    Args:
        name: of the function.
        caller: the task that made the call.
        drop: stops the call; None if nothing can.
        limiter: of the worker threads of sync nodes.
    """

    def __init__(
        self,
        name: str,
        caller: TaskScope,
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

    def __await__(self) -> Generator[Any, Any, T]:
        """Wait for what the function returns.

        Raises:
            NodeCancelledError: the call was stopped.
            BaseException: what the function raised.
        """
        if not self.done():
            try:
                yield from self._gate.wait().__await__()
            finally:
                self.cancel()
        return self._outcome()

    def result(self, timeout: float | None = None) -> T:
        """What the function returned; waits for it in a worker thread.

        Args:
            timeout: seconds; default without limit.
        Raises:
            RunningLoopError: it isn't there yet, and the caller runs in the event loop.
            TimeoutError: it didn't come in time.
            BaseException: as when it is awaited.
        """
        self._wait(timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the function raised; None if it returned. Waits as `result` does."""
        self._wait(timeout)
        error = super().exception()
        self._look(error)
        return error

    def cancel(self) -> bool:
        """Stop the call; it ends a little later. False if it has ended already."""
        if self.done() or self._drop is None:
            return False
        self._drop()
        return True

    def remove_done_callback(self, callback: Callable[..., Any]) -> int:
        """Take back what `add_done_callback` was given; how often it was. `asyncio.wait` does."""
        known = cast("list[Any]", self._done_callbacks)  # type: ignore[attr-defined]
        kept = [other for other in known if other != callback]
        removed = len(known) - len(kept)
        known[:] = kept
        return removed

    def settle(self, value: Any, error: BaseException | None = None) -> None:
        """Set what came of the call, once."""
        if error is None:
            self.set_result(value)
        else:
            self.set_exception(error)
        self._gate.open()

    def _wait(self, timeout_s: float | None) -> None:
        if self.done():
            return
        if running_loop():
            raise RunningLoopError(
                f"the result of task {self.name!r} is not there yet, and waiting for it would stop "
                "the event loop that makes it",
                do="`await` the future, or call result() in a sync node",
            )
        limiter = self._limiter
        lends = limiter is not None and limiter.available_tokens < FEW_THREADS
        if limiter is not None and lends:
            lends = _grow(limiter, 1)
        try:
            super().exception(timeout_s)
        finally:
            if limiter is not None and lends:
                _grow(limiter, -1)

    def _outcome(self) -> T:
        error = super().exception()
        if error is None:
            return super().result()
        self._look(error)
        raise error

    def _look(self, error: BaseException | None) -> None:
        """What a caller gets to see of a question or of a drain is its own from then on."""
        self.looked_at = True
        caller = self._caller
        if isinstance(error, GraphInterrupt):
            caller.raised.extend(i for i in error.interrupts if i not in caller.raised)
        elif isinstance(error, GraphDrained):
            caller.drained = error


def _grow(limiter: anyio.CapacityLimiter, by: int) -> bool:
    """Change how many worker threads there may be; False in a thread that the loop didn't make."""

    def change() -> None:
        limiter.total_tokens += by

    with suppress(RuntimeError):
        anyio.from_thread.run_sync(change)
        return True
    return False
