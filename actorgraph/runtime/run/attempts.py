"""Attempts of tasks with policies: time limits and retries.

When an attempt is over, code that it left running can't write any more: its writers are closed
and it can't start subgraphs. A node's call itself ends at its time limit, by cancellation.
"""

import asyncio
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

from actorgraph.bridging import BRIDGE
from actorgraph.errors import NodeTimeoutError
from actorgraph.errors.texts import error_repr
from actorgraph.loops import in_event_loop, on_trio
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import pause
from actorgraph.runtime.task.live import LiveMode, LiveStream, Writer
from actorgraph.runtime.task.log_context import task_log_ids
from actorgraph.runtime.task.scope import TaskScope
from actorgraph.superstep.task_failures import next_delay
from actorgraph.values.policies import RetryPolicy, TimeoutPolicy
from actorgraph.values.run import FailedAttempt, Task, TaskTimes

T = TypeVar("T")

FAILED_MAX = 20
"""Failed attempts of a task whose times are stored: the newest."""
ERROR_CHARS_MAX = 500
"""Characters of their errors."""


def times_of(scope: TaskScope) -> TaskTimes | None:
    """When the attempt that ends now, and those before it, have run; None without a saver, where
    no row would keep it."""
    if not scope.began:
        return None
    return TaskTimes(scope.began, time.time_ns() // 1000, scope.failed)


class AttemptStream(LiveStream):
    """The live chunks of one attempt: each is a sign of progress; dropped once it is over."""

    def __init__(self, inner: LiveStream | None, scope: TaskScope) -> None:
        self._inner = inner
        self._scope = scope
        self.modes = frozenset() if inner is None else inner.modes
        self.seen: set[Any] = set() if inner is None else inner.seen
        self.step = (lambda: 0) if inner is None else inner.step

    def offer(self, mode: LiveMode, chunk: Any) -> None:
        """See `LiveStream.offer`."""
        if self._goes_on() and self._inner is not None:
            self._note(mode, chunk)
            self._inner.offer(mode, chunk)

    async def send(self, mode: LiveMode, chunk: Any) -> None:
        """See `LiveStream.send`."""
        if self._goes_on() and self._inner is not None:
            self._note(mode, chunk)
            await self._inner.send(mode, chunk)

    def _note(self, mode: LiveMode, chunk: Any) -> None:
        if mode == "messages":
            self._scope.streamed.add(getattr(chunk[0], "id", None))

    def _goes_on(self) -> bool:
        scope = self._scope
        if scope.progress is not None:
            scope.progress()
        return not scope.over


def start_attempt(
    scope: TaskScope, live: LiveStream | None, before: TaskScope | None
) -> LiveStream:
    """Make a task's scope that of one attempt.

    Args:
        scope: the attempt's; changed.
        live: takes the run's live chunks; None if they aren't read.
        before: the scope of the attempt before, which is over; its answers are kept.
    Returns: the stream for the attempt's live chunks.
    """
    guarded = AttemptStream(live, scope)
    scope.write, scope.streamed = Writer(guarded), set()
    if before is None:
        scope.first_attempt_time = time.time()
    else:
        before.over = True
        scope.first_attempt_time = before.first_attempt_time
        scope.attempt = before.attempt + 1
        scope.failed = before.failed
        scope.answers = list(before.answers)
        scope.took_unaddressed = before.took_unaddressed
        if live is not None:
            live.begin_anew(scope.task, scope.attempt, before.streamed)
    return guarded


def listen_for_progress(policy: TimeoutPolicy, scope: TaskScope, context: Context) -> None:
    """Count callbacks of other libraries in a task as progress, if its policy says so."""
    if policy.idle_timeout is None or policy.refresh_on != "auto":
        return
    if BRIDGE.calls_module in sys.modules:
        BRIDGE.count_progress(scope, context)


class Idle:
    """A time limit that each sign of progress restarts."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._loop = None if on_trio() else asyncio.get_running_loop()
        self.scope = anyio.CancelScope()

    def touch(self) -> None:
        """Restart the limit; from the event loop or a thread."""
        if self._seconds is None:
            return
        if in_event_loop():
            self._restart(anyio.current_time())
            return
        try:
            anyio.from_thread.run_sync(self.touch)
        except RuntimeError:  # a thread that anyio hasn't started: of a stepper, or the node's
            if self._loop is not None:
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._restart, self._loop.time())

    def _restart(self, now: float) -> None:
        if self._seconds is not None:
            self.scope.deadline = now + self._seconds


async def call_within(policy: TimeoutPolicy, scope: TaskScope, call: Awaitable[T]) -> T:
    """Await a task's call within its time limits.

    Returns: the call's result.
    Raises:
        NodeTimeoutError: it did not return in time; the call has ended by then.
        BaseException: the call's error.
    """
    began = anyio.current_time()
    run_s, idle_s = policy.run_s, policy.idle_s
    whole = anyio.CancelScope(deadline=math.inf if run_s is None else began + run_s)
    idle = Idle(idle_s)
    idle.touch()
    scope.heartbeat = idle.touch
    if idle_s is not None and policy.refresh_on == "auto":
        scope.progress = _chain(idle, scope.progress)
    try:
        with whole, idle.scope:
            return await call
    except BaseException as error:
        # Set before the error is raised: what the call left running may write no more.
        scope.over = True
        fired = whole.cancel_called or idle.scope.cancel_called
        if not (fired and isinstance(error, Exception)):
            raise
        cause = error  # raised by the node when it was cancelled
    else:
        cause = None
    scope.over = True
    kind = "run" if whole.cancel_called else "idle"
    raise _timeout_error(scope.task, policy, kind, anyio.current_time() - began) from cause


def _chain(idle: Idle, above: Any) -> Any:
    """A function that restarts this limit, and that of the node whose subgraph this is."""
    if above is None:
        return idle.touch

    def touch() -> None:
        idle.touch()
        above()

    return touch


def _timeout_error(
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


async def wait_for_retry(
    policies: tuple[RetryPolicy, ...], scope: TaskScope, error: BaseException
) -> bool:
    """Wait for the next attempt. Returns False, without waiting, after the last."""
    jitter = random.random()  # noqa: S311 - not a secret
    left = scope.run_context.stopping.left_s()
    delay = next_delay(policies, scope.attempt, error, jitter, now=time.time(), left=left)
    if delay is None:
        return False
    scope.over = True
    failed = FailedAttempt(scope.began, time.time_ns() // 1000, error_repr(error)[:ERROR_CHARS_MAX])
    scope.failed = (*scope.failed, failed)[-FAILED_MAX:]
    log_event(
        "info",
        "node.retry",
        **task_log_ids(scope),
        task_id=scope.task.id,
        attempt=scope.attempt,
        delay_s=round(delay, 3),
        error=error_repr(error),
    )
    await pause(delay)
    return True
