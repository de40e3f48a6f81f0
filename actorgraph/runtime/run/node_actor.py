"""Node actors: they run the tasks of one run, one actor per node or `@task` function.

Receives   tasks, from the supervisor, only as many as the run's and the node's limits allow
Sends      exactly one event per task: succeeded, failed, interrupted, drained, escaped, cancelled
Order      a task that comes while another one runs is run concurrently, in a child task
Loops      in a blocking call that runs its graph itself, an async `@task` function, and a task with
           a time limit, are performed in the portal's loop
Ends       when the run ends; `cancel` stops running calls, and each task still sends its event
"""

import asyncio
import math
import sys
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import Context
from time import time_ns
from typing import Any, Protocol

import anyio
import anyio.lowlevel
import msgspec

from actorgraph.bridging import BRIDGE
from actorgraph.errors import (
    GraphDrained,
    InvalidUpdateError,
    NodeCancelledError,
    ParentCommand,
    SchemaMismatchError,
)
from actorgraph.errors.texts import add_note
from actorgraph.loops import on_trio
from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.runtime import portal
from actorgraph.runtime.mailbox import Mailbox
from actorgraph.runtime.run.attempts import (
    call_within,
    listen_for_progress,
    start_attempt,
    times_of,
    wait_for_retry,
)
from actorgraph.runtime.run.error_notes import note_missing, note_no_resource
from actorgraph.runtime.stepper import stepper_here, steps_here
from actorgraph.runtime.task.adopted_questions import adopt_questions
from actorgraph.runtime.task.cache_reads import Reads, reads_of
from actorgraph.runtime.task.call_errors import is_foreign_control_flow, translated
from actorgraph.runtime.task.calling import (
    SYSTEM_LEASE,
    InContext,
    NodeWrites,
    call_cached,
    call_node,
    real_error,
)
from actorgraph.runtime.task.live import LiveStream, Writer
from actorgraph.runtime.task.messages import attach_tap, offer_returned_messages
from actorgraph.runtime.task.scope import (
    CURRENT,
    DEFINED_TASKS,
    UNHEARD,
    Inherit,
    RunContext,
    TaskCalls,
    TaskScope,
    warn_of_lost_errors,
)
from actorgraph.superstep.calls import unclaimed
from actorgraph.superstep.tasks import visible
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

NodeCall = Coroutine[Any, Any, NodeWrites]

UNBROKEN_CALLS_MAX = 32
HOP_CALLS = 4
"""Calls of async nodes that take about as long as one that the loop's thread waits for."""


class RunEnvironment(msgspec.Struct):
    """The parts of a run that all its tasks share.

    Attributes:
        plan: the compiled graph.
        config: the caller's.
        context: the caller's; every task runs in a copy.
        write: sends custom chunks.
        unaddressed_answers: answers without an interrupt id, for the first question asked.
        run_context: the run, as its tasks and subgraphs see it.
        report: takes the events.
        warn: takes a kind, a text and the node's function; see `warn_of_node`.
        live: takes live chunks; None if they aren't read.
        inherit: passes a task's config to the LangChain calls in it; None if it needn't.
    """

    plan: Plan
    config: dict[str, Any]
    context: Context
    write: Writer
    unaddressed_answers: list[Any]
    run_context: RunContext
    report: Callable[[Event], None]
    warn: Callable[[str, str, Callable[..., Any]], None]
    live: LiveStream | None
    inherit: Inherit | None = None


class Spawns(Protocol):
    """Starts tasks, as anyio's TaskGroup does."""

    def start_soon(self, func: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> object:
        """Start a task."""
        ...


class NodeActorStatistics(msgspec.Struct, frozen=True):
    """Figures of one node actor.

    Attributes:
        calls: calls that have ended.
        running: calls that run now.
        running_max: most calls that ran at the same time.
        abandoned: calls of a sync node that were cancelled and continue in their thread.
    """

    calls: int
    running: int
    running_max: int
    abandoned: int


class NodeActor:
    """Runs the tasks of one node of one run; see the module's docstring."""

    def __init__(self, node: NodePlan, environment: RunEnvironment) -> None:
        self._node = BRIDGE.wrap_node(node) if BRIDGE.calls_module in sys.modules else node
        self._environment = environment
        self._inbox: Mailbox[StartTask | None] = Mailbox()
        self._scopes: set[anyio.CancelScope] = set()
        self._idle = True
        self._serves = self._cancelled = False
        self._calls = self._running = self._running_max = self._abandoned = 0

    @property
    def name(self) -> str:
        """The node's name."""
        return self._node.name

    @property
    def _cancellation(self) -> type[BaseException]:
        """Of where the task runs: the actor may have been made in an event loop of a function."""
        return anyio.get_cancelled_exc_class() if on_trio() else CancelledError

    def assign(self, start: StartTask, group: Spawns) -> None:
        """Give it a task. Never waits."""
        self.begin_here()
        if not self._serves:
            self._serves = True
            group.start_soon(self.serve)
        # Most nodes have one task at a time: the actor's own task runs it, without a new one.
        if self._idle:
            self._idle = False
            self._inbox.put(start)
        else:
            group.start_soon(self._child, start)

    def begin_here(self) -> None:
        """Count a task that is performed by `run_task`, outside of the actor's own task.

        `count_end` follows it.
        """
        self._running += 1
        self._running_max = max(self._running_max, self._running)

    def count_end(self) -> None:
        """Count the end of a task."""
        self._running -= 1
        self._calls += 1

    def cancel(self) -> None:
        """Stop all calls; tasks that have not begun are reported as cancelled too."""
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
        """Its figures so far."""
        return NodeActorStatistics(self._calls, self._running, self._running_max, self._abandoned)

    async def serve(self) -> None:
        """Run one assigned task after the other."""
        unbroken = 0
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            items = self._inbox.items
            while True:
                try:
                    start = items.popleft() if items else await self._inbox.get()
                    if start is None:
                        return
                    await self._perform(start, first=True)
                    # A node that never waits must not block the event loop for everything else.
                    # For quick plain functions the loop's thread waits itself: see `hops`.
                    unbroken += 1 if self._node.is_async else HOP_CALLS
                    if unbroken >= UNBROKEN_CALLS_MAX:
                        unbroken = 0
                        await anyio.lowlevel.checkpoint()
                except self._cancellation:
                    if was_requested():
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
        self._idle = self._idle or first  # before the report, which may assign the next task
        self._running -= 1  # as `count_end`, which would be a call more for each task
        self._calls += 1
        self._environment.report(event)

    async def _perform(self, start: StartTask, *, first: bool = False) -> None:
        """Call the node and send exactly one event."""
        try:
            event = await self.run_task(start)
        except self._cancellation:
            self._end(TaskCancelled(start.task.id))
            raise
        live = self._environment.live
        if live is None:
            self._end(event, first=first)
            return
        # The event brings the next superstep: a reader that is behind holds the run here.
        try:
            await live.pace()
        except self._cancellation:
            if was_requested():
                raise
        finally:
            self._end(event, first=first)

    async def run_task(self, start: StartTask) -> Event:
        """Call the node, again if its policy says so.

        Returns: the event for its end; errors are data here.
        Raises: a cancellation that ends the run.
        """
        task = start.task
        needs_loop = task.timeout is not None or (self._node.is_async and task.path[-1] == CALL)
        if needs_loop and steps_here():
            return await self._run_in_portal(start)
        scope: TaskScope | None = None
        live = self._environment.live
        try:
            while True:
                scope, context, call = self._begin_attempt(start, scope)
                try:
                    if task.timeout is not None or SYSTEM_LEASE.get() is not None:
                        writes = await self._call_within(task, scope, context, call)
                    else:
                        # The first step is taken here, and is all of a call that doesn't wait:
                        # so a debugger shows no frame in between.
                        try:
                            trap = context.run(call.send, None)
                        except StopIteration as done:
                            writes = done.value
                        else:
                            writes = await InContext(context, call, live, trap=trap)
                    event = self._success_event(task, scope, writes)
                except self._cancellation as error:
                    scope.cancelled = True  # for `abandoned`: a sync node continues in its thread
                    self._abandoned += not self._node.is_async
                    if was_requested():
                        raise
                    event = TaskFailed(task.id, _own_cancellation(task, error), times_of(scope))
                except BaseException as error:  # noqa: BLE001 - the run decides what it means
                    event = self._failure_event(task, scope, error)
                if not self._node.retry or not await self._retries(scope, event):
                    break
            scope.over = task.timeout is not None or scope.has_called
        except self._cancellation:
            raise
        except BaseException as error:  # noqa: BLE001 - of a policy's function, or of a callback
            event = TaskFailed(task.id, error)
        return event

    async def _call_within(
        self, task: Task, scope: TaskScope, context: Context, call: NodeCall
    ) -> NodeWrites:
        """Await a call within the task's time limits, and that of its system's lease."""
        calling = InContext(context, call, self._environment.live, SYSTEM_LEASE.get())
        if task.timeout is None:
            return await calling
        return await call_within(task.timeout, scope, calling)

    async def _run_in_portal(self, start: StartTask) -> Event:
        try:
            return await portal.awaited(self.run_task, start)
        except self._cancellation:
            raise
        except BaseException as error:  # noqa: BLE001 - of a signal's handler
            return TaskFailed(start.task.id, error)

    def _begin_attempt(
        self, start: StartTask, before: TaskScope | None
    ) -> tuple[TaskScope, Context, NodeCall]:
        """Make the scope and the context of an attempt.

        Args:
            before: the scope of the attempt before; None for the first.
        Returns: the scope, and the call of the node, to be awaited in the context.
        """
        environment, node = self._environment, self._node
        scope = TaskScope(
            start.task,
            environment.config,
            environment.write,
            environment.unaddressed_answers,
            environment.run_context,
        )
        state = environment.run_context.state  # no superstep ends while a task runs
        if state.has_saver:
            scope.began = time_ns() // 1000
        if type(start) is StartHandler:
            scope.error = start.error
        context = environment.context.copy()
        if start.task.path[-1] == CALL and environment.run_context.calls is not None:
            called = environment.run_context.calls[start.task.id]
            scope.caller, context = called.caller, called.context.copy()
            scope.progress = called.caller.progress
        if node.cache is not None and environment.run_context.cache is not None:
            scope.reads = Reads(reads_of(scope))
        context.run(CURRENT.set, scope)
        live = environment.live
        if node.retry or start.task.timeout is not None or scope.progress is not None:
            live = start_attempt(scope, live, before)
        values = visible(state) if state.plan.managed else state.values
        if PREVIOUS in values:
            scope.previous = values[PREVIOUS]
        if environment.inherit is not None:
            environment.inherit(scope, context)
        if live is not None:
            attach_tap(live, node, scope, context, start.given)
        if start.task.timeout is not None:
            listen_for_progress(start.task.timeout, scope, context)
        if scope.progress is not None:
            scope.progress()
        cached = node.cache is not None and environment.run_context.cache is not None
        calling = call_cached if cached else call_node
        return scope, context, calling(environment.plan, node, values, start.given, scope)

    async def _retries(self, scope: TaskScope, event: Event) -> bool:
        """Wait for the next attempt. Returns False after the last."""
        if type(event) is not TaskFailed:
            return False
        try:
            return await wait_for_retry(self._node.retry, scope, event.error)
        except self._cancellation:
            if was_requested():
                raise
            return False

    def _success_event(self, task: Task, scope: TaskScope, result: NodeWrites) -> Event:
        """The event for a call that has returned."""
        writes, dropped = result
        # A question was asked, so the node has caught its exception: it pauses nevertheless.
        if scope.raised:
            if any(question is UNHEARD for question in scope.raised):
                return TaskFailed(task.id, _unheard(task), times_of(scope))
            self._environment.warn("swallowed", task.name, self._node.call)
            return _interrupted(task, scope)
        if scope.drained is not None:
            return TaskDrained(task.id, scope.drained)
        stored = self._environment.run_context.state.stored_calls  # none, nearly always
        if (stored or scope.refused) and (refused := self._refused(task, scope)) is not None:
            return TaskFailed(task.id, refused, times_of(scope))
        for sentence in dropped:
            self._environment.warn("dropped", sentence, self._node.call)
        if scope.failed_calls:
            warn_of_lost_errors(scope)
        if scope.messages is not None:
            offer_returned_messages(scope, self._node, self._environment.plan, writes)
        used = (tuple(scope.answers), scope.took_unaddressed, scope.cached)
        return TaskSucceeded(TaskResult(task.id, tuple(writes), *used, times_of(scope)))

    def _refused(self, task: Task, scope: TaskScope) -> SchemaMismatchError | None:
        """The error of a task that would end without stored results of its calls."""
        return scope.refused or unclaimed(self._environment.run_context.state, task, DEFINED_TASKS)

    def _failure_event(self, task: Task, scope: TaskScope, error: BaseException) -> Event:
        """The event for a call that has raised."""
        error = translated(error, task.name)
        counts = real_error(error)
        if scope.refused is not None and counts is not None:
            return TaskFailed(task.id, scope.refused, times_of(scope))
        if isinstance(counts, ParentCommand):
            if (refused := self._refused(task, scope)) is not None:
                return TaskFailed(task.id, refused, times_of(scope))
            return TaskEscaped(task.id, counts)
        if isinstance(counts, GraphDrained) and is_foreign_control_flow(counts.__cause__):
            scope.drained = scope.drained or counts
        if counts is None:
            adopt_questions(scope, error)
            return _interrupted(task, scope)
        if scope.drained is not None:
            return TaskDrained(task.id, scope.drained)
        if isinstance(counts, Exception):
            note_missing(counts, task, self._node, visible(self._environment.run_context.state))
            note_no_resource(
                counts, self._environment.plan, self._environment.run_context.resources
            )
            add_note(counts, f"During task with name {task.name!r} and id {task.id!r}")
        return TaskFailed(task.id, counts, times_of(scope))


def _unheard(task: Task) -> InvalidUpdateError:
    """The error of a node that caught a question whose text nothing else knows."""
    return InvalidUpdateError(
        f"node {task.name!r} caught the exception by which LangGraph's interrupt() asks, so its "
        "question was not asked",
        do="don't catch Exception around it, or import interrupt from actorgraph",
    )


def _interrupted(task: Task, scope: TaskScope) -> TaskInterrupted:
    used = (tuple(scope.answers), scope.took_unaddressed)
    return TaskInterrupted(task.id, tuple(scope.raised), *used, times_of(scope))


def _own_cancellation(task: Task, error: BaseException) -> NodeCancelledError:
    raised = NodeCancelledError(
        f"node {task.name!r} raised {type(error).__name__}, but the run was not cancelled",
        do="don't cancel the current task inside a node; use a task group of its own",
        node=task.name,
    )
    raised.__cause__ = error
    return raised


class CallActor(NodeActor):
    """A node actor whose calls can be stopped one by one. It ends with the run's task group."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: dict[str, anyio.CancelScope] = {}

    def assign(self, start: StartTask, group: Spawns) -> None:
        """Start a call. Never waits."""
        self.begin_here()
        scope = self._open[start.task.id] = anyio.CancelScope()
        group.start_soon(self._call, start, scope)

    def stop_call(self, identifier: str) -> None:
        """Stop one call, if it runs here."""
        scope = self._open.get(identifier)
        if scope is not None:
            scope.cancel()

    def cancel(self) -> None:
        """Stop all calls."""
        for scope in self._open.values():
            scope.cancel()

    async def _call(self, start: StartTask, scope: anyio.CancelScope) -> None:
        identifier = start.task.id
        if scope.cancel_called:
            self._forget(identifier, scope)
            self._end(TaskCancelled(identifier))
            return
        try:
            with scope:
                await self._perform(start)
        finally:
            self._forget(identifier, scope)

    def _forget(self, identifier: str, scope: anyio.CancelScope) -> None:
        """Remove the scope of a call that has ended."""
        # The report of its end may have started the same call anew, with another scope.
        if self._open.get(identifier) is scope:
            del self._open[identifier]


class TaskActors:
    """Starts actors at their first task, and assigns tasks to them.

    Args:
        nodes: the graph's, by name.
        environment: of the run's tasks.
        calls: the run's `@task` calls.
    """

    STARTS_SLICE = 64
    """Tasks that are started before other tasks of the loop get a turn."""

    def __init__(
        self, nodes: Mapping[str, NodePlan], environment: RunEnvironment, calls: TaskCalls
    ) -> None:
        self._nodes = nodes
        self._environment = environment
        self._calls = calls
        self._of_nodes: dict[str, NodeActor] = {}
        self._of_calls: dict[int, CallActor] = {}
        self._stopped = False

    def of(self, start: StartTask) -> NodeActor:
        """Return the actor of a task: `assign` has it performed in the actor's own task."""
        if start.task.path[-1] == CALL:
            return self._of_function(self._calls[start.task.id].node)
        name = start.task.name  # of a node, or of an error handler
        actor = self._of_nodes.get(name)
        if actor is None:
            actor = self._of_nodes[name] = NodeActor(self._nodes[name], self._environment)
        return actor

    def _of_function(self, node: NodePlan) -> CallActor:
        actor = self._of_calls.get(id(node))  # an actor holds its node, so no other one has its id
        if actor is None:
            actor = self._of_calls[id(node)] = CallActor(node, self._environment)
        return actor

    def cancel(self, only: Sequence[str] = ()) -> None:
        """Stop all tasks, or only some calls; each sends its event.

        Args:
            only: ids of the calls; none for all tasks.
        """
        for identifier in only:
            called = self._calls.get(identifier)
            if called is not None and id(called.node) in self._of_calls:
                self._of_calls[id(called.node)].stop_call(identifier)
        if not only:
            for actor in (*self._of_nodes.values(), *self._of_calls.values()):
                actor.cancel()

    def stop(self) -> None:
        """End each actor once it is idle; no task is assigned any more."""
        # Called where the end of the run is seen first, and again on its way out.
        if not self._stopped:
            self._stopped = True
            for actor in self._of_nodes.values():
                actor.stop()

    def statistics(self) -> dict[str, NodeActorStatistics]:
        """Figures of each actor, by node name; those of functions under `name()`."""
        by_name = {name: actor.statistics() for name, actor in self._of_nodes.items()}
        for actor in self._of_calls.values():
            by_name[f"{actor.name}()"] = actor.statistics()
        return by_name


def was_requested() -> bool:
    """Whether a caught cancellation ends the run; clears a stray one, which does not.

    On asyncio a node may cancel its own task, which is its actor's. That raises one exception, at
    the task's next `await`, maybe after the node. A request to end the run cancels a scope
    instead, which stays cancelled.
    """
    if steps_here():
        stepper = stepper_here()
        return stepper is not None and stepper.cancelled
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = None if on_trio() else asyncio.current_task()
    while task is not None and task.cancelling():  # else task groups of the next node count it
        task.uncancel()
    return False
