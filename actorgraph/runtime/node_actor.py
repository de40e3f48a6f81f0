"""The node actor: calls one node, for one run, as often as the run asks.

Receives   tasks, from the supervisor, only as many as the run's and the node's limits allow
Sends      one event per task: succeeded, failed, interrupted or cancelled
Order      a task that comes while another one runs is run beside it, as a child
Ends       when the run ends; `cancel` stops what runs, and each task still sends its event
"""

from collections.abc import Callable
from contextvars import Context
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup

from actorgraph.errors import NodeCancelledError, ParentCommand
from actorgraph.errors.telling import add_note
from actorgraph.plan.graph import NodePlan, Plan
from actorgraph.runtime import messages
from actorgraph.runtime.attempts import guard, hear, wait_again, within
from actorgraph.runtime.caching import call_cached
from actorgraph.runtime.called import warn_of_lost_errors
from actorgraph.runtime.calls import InContext, Made, call_node, real_error
from actorgraph.runtime.context import CURRENT, TaskScope
from actorgraph.runtime.interop import Inherit, runnable_here, translated
from actorgraph.runtime.lineage import Lineage
from actorgraph.runtime.live import Live, Writer
from actorgraph.runtime.mailbox import Mailbox
from actorgraph.runtime.missing_keys import note_missing
from actorgraph.runtime.stray import is_stopped
from actorgraph.values.constants import CALL, PREVIOUS
from actorgraph.values.run import (
    Event,
    StartHandler,
    StartTask,
    Task,
    TaskCancelled,
    TaskDrained,
    TaskEscaped,
    TaskFailed,
    TaskInterrupted,
    TaskResult,
    TaskSucceeded,
)

UNBROKEN_CALLS_MAX = 32


class Surroundings(msgspec.Struct):
    """What a run's tasks have in common.

    Attributes:
        values: the run's state; written only between supersteps, when no task runs.
        context: the caller's; every task runs in a copy.
        lineage: what the graphs that nodes run take from this run.
        report: takes the events.
        warn: takes a sentence about something that a node did.
        live: takes what tasks send while they run; None where nobody reads that.
        inherit: hands a task's config to the LangChain calls in it; None where it needn't.
    """

    plan: Plan
    values: Callable[[], dict[str, Any]]
    config: dict[str, Any]
    context: Context
    write: Writer
    bare: list[Any]
    lineage: Lineage
    report: Callable[[Event], None]
    warn: Callable[[str, str], None]
    live: Live | None
    inherit: Inherit | None = None


class NodeActorStatistics(msgspec.Struct, frozen=True):
    """What a node actor has done: calls ended, calls running now, most at once.

    Attributes:
        abandoned: calls of a sync node that were cancelled and go on in their thread.
    """

    calls: int
    running: int
    running_max: int
    abandoned: int


class NodeActor:
    """One node of one run. See the module's text."""

    def __init__(self, node: NodePlan, around: Surroundings, group: TaskGroup) -> None:
        self._node = runnable_here(node)
        self._around = around
        self._group = group
        self._inbox: Mailbox[StartTask | None] = Mailbox()
        self._scopes: set[anyio.CancelScope] = set()
        self._cancellation = anyio.get_cancelled_exc_class()
        self._idle = True
        self._cancelled = False
        self._calls = self._running = self._most = self._abandoned = 0

    @property
    def name(self) -> str:
        """The node's."""
        return self._node.name

    def assign(self, start: StartTask) -> None:
        """Give it a task. Never waits."""
        self._running += 1
        self._most = max(self._most, self._running)
        if self._idle:
            self._idle = False
            self._inbox.put(start)
        else:
            self._group.start_soon(self._child, start)

    def cancel(self) -> None:
        """Stop every call; what was assigned and not begun is reported as cancelled too."""
        self._cancelled = True
        for scope in tuple(self._scopes):
            scope.cancel()
        while (start := self._inbox.get_nowait()) is not None:
            self._end(TaskCancelled(start.task.id))
        self.stop()

    def stop(self) -> None:
        """End once idle."""
        self._inbox.put(None)

    def statistics(self) -> NodeActorStatistics:
        """What it has done so far."""
        return NodeActorStatistics(self._calls, self._running, self._most, self._abandoned)

    async def serve(self) -> None:
        """Run one assigned task after the other."""
        unbroken = 0
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            inbox = self._inbox
            while True:
                try:
                    start = inbox.get_nowait() if inbox.items else await inbox.get()
                    if start is None:
                        return
                    await self._perform(start, first=True)
                    # A node that never waits must not keep the event loop from everybody else.
                    unbroken += 1
                    if unbroken == UNBROKEN_CALLS_MAX:
                        unbroken = 0
                        await anyio.lowlevel.checkpoint()
                except self._cancellation:
                    if is_stopped():
                        raise

    async def _child(self, start: StartTask) -> None:
        if self._cancelled:
            self._end(TaskCancelled(start.task.id))
            return
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            await self._perform(start)
        self._scopes.discard(scope)

    def _end(self, event: Event, *, first: bool = False) -> None:
        self._idle = self._idle or first  # before the report: it may bring the next task
        self._running -= 1
        self._calls += 1
        self._around.report(event)

    async def _perform(self, start: StartTask, *, first: bool = False) -> None:
        """Call the node, again if its policy says so; whatever happens, send exactly one event."""
        task, around = start.task, self._around
        scope: TaskScope | None = None
        try:
            while True:
                scope, calling = self._attempt(start, scope)
                try:
                    made = calling if task.timeout is None else within(task.timeout, scope, calling)
                    event = self._event(task, scope, await made)
                except self._cancellation as error:
                    scope.cancelled = True
                    self._abandoned += not self._node.is_async
                    if is_stopped():
                        self._end(TaskCancelled(task.id))
                        raise
                    event = TaskFailed(task.id, _own_cancellation(task, error))
                except BaseException as error:  # noqa: BLE001 - the run decides what it means
                    event = self._verdict(task, scope, error)
                if not self._node.retry or not await self._retries(scope, event):
                    break
            scope.over = task.timeout is not None or scope.has_called
        except self._cancellation:
            raise
        except BaseException as error:  # noqa: BLE001 - of a policy's function, or of a callback
            event = TaskFailed(task.id, error)
        if around.live is None:
            self._end(event, first=first)
            return
        try:
            await around.live.pace()
        except self._cancellation:
            if is_stopped():
                raise
        finally:
            self._end(event, first=first)

    def _attempt(
        self, start: StartTask, before: TaskScope | None
    ) -> tuple[TaskScope, InContext[Made]]:
        """A call of the node, ready to be awaited, in a context of its own."""
        around, node = self._around, self._node
        scope = TaskScope(start.task, around.config, around.write, around.bare, around.lineage)
        if type(start) is StartHandler:
            scope.error = start.error
        context = around.context.copy()
        if start.task.path[-1] == CALL and around.lineage.calls is not None:
            called = around.lineage.calls[start.task.id]
            scope.caller, context = called.caller, called.context.copy()
            scope.progress = called.caller.progress
        context.run(CURRENT.set, scope)
        live = around.live
        if node.retry or start.task.timeout is not None or scope.progress is not None:
            live = guard(scope, live, before)
        if around.inherit is not None:
            around.inherit(scope, context)
        if live is not None:
            messages.attach(live, node, scope, context, start.given)
        if start.task.timeout is not None:
            hear(start.task.timeout, scope, context)
        if scope.progress is not None:
            scope.progress()
        values = around.values()
        if PREVIOUS in values:
            scope.previous = values[PREVIOUS]
        cached = node.cache is not None and around.lineage.cache is not None
        calling = call_cached if cached else call_node
        call = calling(around.plan, node, values, start.given, scope)
        return scope, InContext(context, call, around.live)

    async def _retries(self, scope: TaskScope, event: Event) -> bool:
        """Wait for the next attempt, if there is one."""
        if type(event) is not TaskFailed:
            return False
        try:
            return await wait_again(self._node.retry, scope, event.error)
        except self._cancellation:
            if is_stopped():
                self._end(TaskCancelled(event.task))
                raise
            return False

    def _event(self, task: Task, scope: TaskScope, made: Made) -> Event:
        """What a call that returned means."""
        writes, dropped = made
        if scope.raised:
            self._around.warn("swallowed", task.name)
            return _asked(task, scope)
        if scope.drained is not None:
            return TaskDrained(task.id, scope.drained)
        for sentence in dropped:
            self._around.warn("dropped", sentence)
        if scope.failed_calls:
            warn_of_lost_errors(scope)
        if scope.messages is not None:
            messages.returned(scope, self._node, self._around.plan, writes)
        answers = tuple(scope.answers)
        return TaskSucceeded(
            TaskResult(task.id, tuple(writes), answers, scope.took_bare, scope.cached)
        )

    def _verdict(self, task: Task, scope: TaskScope, error: BaseException) -> Event:
        error = translated(error)
        counts = real_error(error)
        if isinstance(counts, ParentCommand):
            return TaskEscaped(task.id, counts.command)
        if counts is None:
            scope.ask_unnamed(error)
            return _asked(task, scope)
        if scope.drained is not None:
            return TaskDrained(task.id, scope.drained)
        if isinstance(counts, Exception):
            note_missing(counts, task, self._node, self._around.values())
            add_note(counts, f"During task with name {task.name!r} and id {task.id!r}")
        return TaskFailed(task.id, counts)


def _asked(task: Task, scope: TaskScope) -> TaskInterrupted:
    return TaskInterrupted(task.id, tuple(scope.raised), tuple(scope.answers), scope.took_bare)


def _own_cancellation(task: Task, error: BaseException) -> NodeCancelledError:
    raised = NodeCancelledError(
        f"node {task.name!r} raised {type(error).__name__}, though nobody cancelled the run",
        do="don't cancel the current task inside a node; use a task group of its own",
        node=task.name,
    )
    raised.__cause__ = error
    return raised
