"""One attempt of a task that has policies: its time limit, and what ends with it.

When an attempt is over, whatever it left running can't write any more: its writers are closed
and it starts no more graphs. A node's call itself ends with its time limit, by cancellation.
"""

import math
import random
import sys
import time
from collections.abc import Awaitable
from contextlib import suppress
from contextvars import Context
from typing import Any, Literal, TypeVar

import anyio
import anyio.from_thread

from actorgraph.errors import NodeTimeoutError
from actorgraph.errors.telling import error_repr
from actorgraph.loops import running_loop
from actorgraph.runtime.context import TaskScope
from actorgraph.runtime.live import Live, Writer
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.observing import place_of
from actorgraph.superstep.retries import next_delay
from actorgraph.values.node_policies import RetryPolicy, TimeoutPolicy
from actorgraph.values.run import Task

T = TypeVar("T")


class AttemptLive(Live):
    """The live chunks of one attempt: each is a sign of progress; none is sent once it is over."""

    def __init__(self, inner: Live | None, scope: TaskScope) -> None:
        self._inner = inner
        self._scope = scope
        self.modes = frozenset() if inner is None else inner.modes
        self.seen: set[Any] = set() if inner is None else inner.seen
        self.step = (lambda: 0) if inner is None else inner.step

    def offer(self, mode: str, chunk: Any) -> None:
        """See `Live.offer`."""
        if self._goes_on() and self._inner is not None:
            self._inner.offer(mode, chunk)

    async def send(self, mode: str, chunk: Any) -> None:
        """See `Live.send`."""
        if self._goes_on() and self._inner is not None:
            await self._inner.send(mode, chunk)

    def _goes_on(self) -> bool:
        scope = self._scope
        if scope.progress is not None:
            scope.progress()
        return not scope.over


def guard(scope: TaskScope, live: Live | None, before: TaskScope | None) -> Live:
    """Make a task's scope that of one attempt.

    Args:
        before: that of the attempt before, which is over; its answers still count.
    Returns: where the attempt's live chunks go.
    """
    guarded = AttemptLive(live, scope)
    scope.write = Writer(guarded)
    if before is None:
        scope.first_attempt_time = time.time()
    else:
        before.over = True
        scope.first_attempt_time = before.first_attempt_time
        scope.attempt = before.attempt + 1
        scope.answers = list(before.answers)
        scope.took_bare = before.took_bare
    return guarded


def hear(policy: TimeoutPolicy, scope: TaskScope, context: Context) -> None:
    """Let what LangChain does in the task count as progress, where that is asked for."""
    if policy.idle_timeout is None or policy.refresh_on != "auto":
        return
    if "langchain_core" in sys.modules:
        from actorgraph.runtime import progress

        progress.listen(scope, context)


class _Idle:
    """A limit that each sign of progress puts off."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self.scope = anyio.CancelScope()

    def touch(self) -> None:
        """Count anew from now; from any thread that anyio has made."""
        if self._seconds is None:
            return
        if running_loop():
            self.scope.deadline = anyio.current_time() + self._seconds
        else:
            with suppress(RuntimeError):  # a thread of the node's own has no way to the loop
                anyio.from_thread.run_sync(self.touch)


async def within(policy: TimeoutPolicy, scope: TaskScope, call: Awaitable[T]) -> T:
    """The result of a task's call, if it comes in time.

    Raises:
        NodeTimeoutError: it does not. The call has ended by then.
    """
    began = anyio.current_time()
    run_s, idle_s = policy.run_s, policy.idle_s
    whole = anyio.CancelScope(deadline=math.inf if run_s is None else began + run_s)
    idle = _Idle(idle_s)
    idle.touch()
    scope.heartbeat = idle.touch
    if idle_s is not None and policy.refresh_on == "auto":
        scope.progress = _both(idle, scope.progress)
    try:
        with whole, idle.scope:
            return await call
    except BaseException as error:
        scope.over = True
        fired = whole.cancel_called or idle.scope.cancel_called
        if not (fired and isinstance(error, Exception)):
            raise
        cause = error  # what the node made of its cancellation
    else:
        cause = None
    scope.over = True
    kind = "run" if whole.cancel_called else "idle"
    raise _late(scope.task, policy, kind, anyio.current_time() - began) from cause


def _both(idle: _Idle, above: Any) -> Any:
    """Progress here is progress of the node above that runs this graph, too."""
    if above is None:
        return idle.touch

    def touch() -> None:
        idle.touch()
        above()

    return touch


def _late(
    task: Task, policy: TimeoutPolicy, kind: Literal["run", "idle"], elapsed: float
) -> NodeTimeoutError:
    run, idle = policy.run_s, policy.idle_s
    if kind == "run":
        what = f"did not return within its timeout of {run} s"
    else:
        what = f"made no progress for its idle timeout of {idle} s"
    return NodeTimeoutError(
        f"node {task.name!r} {what} (after {elapsed:.3f} s)",
        do="raise its timeout, or make it faster"
        if kind == "run"
        else "raise idle_timeout, or call runtime.heartbeat() while the node works",
        node=task.name,
        kind=kind,
        elapsed=elapsed,
        run_timeout=run,
        idle_timeout=idle,
    )


async def wait_again(
    policies: tuple[RetryPolicy, ...], scope: TaskScope, error: BaseException
) -> bool:
    """Wait for the next attempt; False, and no wait, where there is none."""
    delay = next_delay(policies, scope.attempt, error, random.random())  # noqa: S311 - a jitter
    if delay is None:
        return False
    scope.over = True
    log_event(
        "info",
        "node.retry",
        **place_of(scope),
        task_id=scope.task.id,
        attempt=scope.attempt,
        delay_s=round(delay, 3),
        error=error_repr(error),
    )
    await anyio.sleep(delay)
    return True
