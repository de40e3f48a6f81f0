"""One task in its run: the run's run_context, the task's scope, the `@task` calls that it makes.

RunContext     what a run passes on to the subgraphs in its nodes
TaskScope   the state of one attempt of one task. Each attempt runs in its own copy of the
            caller's context with `CURRENT` set, and so do the worker threads and the tasks that
            the node starts
TaskCalls   the `@task` calls of one run. A call is a task of the same run, which
            `superstep/calls.py` decides about; here are the function, the caller's context and
            the future
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from copy import copy
from functools import partial
from typing import Any

import anyio
import msgspec

from actorgraph.channels import EMPTY
from actorgraph.errors import (
    GraphDrained,
    GraphInterrupt,
    LostErrorWarning,
    OutsideRunError,
    SchemaMismatchError,
)
from actorgraph.errors.texts import error_repr
from actorgraph.errors.warning_places import warn
from actorgraph.plan.plan import NodePlan
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.time_travel import TimeTravel
from actorgraph.runtime.task.cache_reads import Reads, noted, reads_of
from actorgraph.runtime.task.futures import TaskFuture, stopped_error
from actorgraph.runtime.task.live import MessageTap, Writer
from actorgraph.runtime.task.observer import CallObserver
from actorgraph.runtime.task.result_cache import ResultCache
from actorgraph.runtime.task.runtime import NO_RESOURCES, RunResources, Runtime, Stopping
from actorgraph.runtime.task.task_places import run_metadata, task_metadata
from actorgraph.superstep.calls import call_place, check_call
from actorgraph.superstep.run_state import RunState
from actorgraph.values.alarms import Timing
from actorgraph.values.commands import Interrupt, RunControl
from actorgraph.values.constants import CALL, PUSH
from actorgraph.values.ids import TaskId, as_text, interrupt_id
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import AnswerCall, CallDropped, Event, StepKept, Task, TaskCalled, Write

Inherit = Callable[["TaskScope", Context], None]
"""Passes a task's config on to the calls in its context."""


class RunContext(msgspec.Struct):
    """One run, as its tasks and its subgraphs see it.

    Attributes:
        thread_id: the run's thread; "" if it has none.
        namespace: the run's; "" for a root run.
        run: id of the root run, which has the thread's claim.
        epoch: of that claim.
        host: the saver's actors; None without a saver.
        policy: its durability is inherited by subgraphs.
        broadcast: the reader's buffer; None without a reader.
        state: of the run, which its supervisor changes; see the methods below.
        loaded: the checkpoint that the run started from; tasks of a later one are new.
        routed: answers to questions of this run and below it, by interrupt id.
        time_travel: the time travel that it is part of; None for a run at its thread's head.
        resources: context and stores for its nodes.
        above: the task that it runs in; None for a root run.
        nested: whether it runs in a node of another run.
        owns: whether it has the thread's claim itself.
        progress: postpones the idle timeout of a node above; None without one.
        stopping: the run's control and deadline.
        depth: number of runs above it.
        cache: of its nodes' results; None without one.
        calls: the `@task` calls of its tasks; set by the supervisor.
        untracked: keys that are never stored, here and in the input of subgraphs.
    """

    thread_id: str
    namespace: str
    run: bytes
    epoch: int
    host: Host | None
    policy: RunPolicy
    broadcast: Broadcast | None
    state: RunState
    loaded: bytes | None
    routed: Mapping[str, Any]
    time_travel: TimeTravel | None = None
    resources: RunResources = NO_RESOURCES
    above: "TaskScope | None" = None
    nested: bool = False
    owns: bool = True
    progress: Callable[[], None] | None = None
    stopping: Stopping = msgspec.field(default_factory=Stopping)
    depth: int = 0
    cache: ResultCache | None = None
    calls: "TaskCalls | None" = None
    untracked: frozenset[str] = frozenset()

    def parents(self) -> Mapping[str, str]:
        """Namespace -> newest checkpoint id, of this run and of those above it."""
        state = self.state
        above = state.nested.parents if state.nested else {}
        return {**above, state.namespace: as_text(state.checkpoint)}

    def base(self) -> bytes:
        """The id of the newest checkpoint, on which the running tasks build."""
        return self.state.checkpoint

    def step(self) -> int:
        """The superstep that runs now."""
        return self.state.step + 1

    def values(self) -> Mapping[str, Any]:
        """The run's state."""
        values = self.state.values
        return {key: values[key] for key in self.state.plan.state_keys if key in values}

    @property
    def control(self) -> RunControl:
        """Requests a drain: that the whole tree of runs stop between supersteps."""
        return self.stopping.control


class TaskScope:
    """The state of one attempt of one task.

    Attributes:
        task: the task.
        run_context: its run, as subgraphs of the task see it.
        write: sends custom chunks.
        attempt: counts its attempts from 1.
        first_attempt_time: seconds since 1970; set when it is first needed.
        began: when it began, in microseconds since 1970; 0 without a saver, which alone reads it.
        failed: a `FailedAttempt` for each attempt before it.
        over: whether this attempt is over: nothing may be started or written for it any more.
        cancelled: whether the task was abandoned; a sync node in its thread may look.

        answers: the resume values that it has, in the order of its questions.
        asked: number of its questions so far.
        routed: answers to questions of its own and of its subgraphs, by interrupt id.
        unaddressed_answers: answers given without an interrupt id, for the first question
            asked; shared by the run's tasks.
        took_unaddressed: whether it, or a run below it, has used one of those.
        raised: unanswered questions of its own and of its subgraphs.
        caller: the task that called it; None unless it runs a `@task` function.
        calls: number of `@task` calls that it has made itself.
        has_called: whether it, or a part of it, has made any.
        failed_calls: futures of its calls that failed.
        graphs: number of the subgraph that it runs next.
        stride: difference to the number of the one after.
        drained: why a subgraph of it has stopped before its end.
        key: of a part of a task: distinguishes its questions from those of other parts.
        whole: of a part of a task: the scope of the task.
        refused: the error of a call of it that doesn't fit the thread.
        pushed: writes that it makes besides those that it returns.
        made: the node's own writes, for the cache; set only if the node has `reads`.
        cached: whether its writes come from a cache.
        passes_on: whether its node returned keys that only its conditional edges see.
        messages: sends the messages that the task streams; None if they aren't read.
        progress: called at each sign of progress; None without an idle timeout.
        heartbeat: postpones the idle timeout; set only if there is one.
        error: the error that an error handler handles; set only for one.
        previous: the return value that the thread's last run saved; set only if there is one.
        reads: what a cached node has read besides its input; None for any other.
        runtime: the node's `Runtime`; set when it is first needed.
        streamed: ids of the messages that it has streamed; set only if it may begin anew.
        observer: reports the attempt to LangChain's callbacks; None if nothing listens.
    """

    # Class attributes, because most tasks need none of these: making a scope stays cheap.
    asked: int = 0
    attempt: int = 1
    began: int = 0
    cached: bool = False
    caller: "TaskScope | None" = None
    calls: int = 0
    cancelled: bool = False
    drained: "GraphDrained | None" = None
    failed: tuple[Any, ...] = ()
    failed_calls: "tuple[TaskFuture[Any], ...]" = ()
    graphs: int = 0
    has_called: bool = False
    key: str = ""
    messages: "MessageTap | None" = None
    observer: "CallObserver | None" = None
    over: bool = False
    passes_on: bool = False
    reads: Reads | None = None
    refused: SchemaMismatchError | None = None
    stride: int = 1
    took_unaddressed: bool = False
    whole: "TaskScope | None" = None
    error: Any
    first_attempt_time: float
    made: list[Write]
    heartbeat: Callable[[], None]
    previous: Any
    runtime: Runtime[Any]
    streamed: set[Any]

    def __init__(
        self,
        task: Task,
        config: dict[str, Any],
        write: Writer,
        unaddressed_answers: list[Any],
        run_context: RunContext,
    ) -> None:
        self.task = task
        self.run_context = run_context
        self._config = config
        self.write = write
        self.answers = list(task.answers)
        self.routed = {**run_context.routed, **task.routed} if run_context.routed else task.routed
        self.unaddressed_answers = unaddressed_answers
        self.raised: list[Interrupt] = []
        self.pushed: list[Write] = []
        self.progress: Callable[[], None] | None = run_context.progress

    def next_call(self) -> int:
        """Take the number, from 0, of the next `@task` call.

        Raises:
            OutsideRunError: the attempt is over.
        """
        whole = self.whole or self
        if whole.over:
            raise OutsideRunError(
                f"{self.task.name!r} called a task after its attempt had ended",
                do="end what a node starts before the node returns or its timeout ends it",
            )
        if self.progress is not None:
            self.progress()
        whole.has_called = True
        self.calls += 1
        return self.calls - 1

    def next_graph(self) -> int:
        """Take the number, from 0, of the next subgraph that it runs.

        Raises:
            OutsideRunError: the attempt is over, or the run has left.
        """
        calls = self.run_context.calls
        if (self.whole or self).over or (calls is not None and calls.closed):
            raise OutsideRunError(
                f"node {self.task.name!r} started a graph after its attempt had ended",
                do="end what a node starts before the node returns or its timeout ends it",
            )
        if self.progress is not None:
            self.progress()
        self.graphs += self.stride
        return self.graphs - self.stride

    def split(self, keys: Sequence[str]) -> list["TaskScope"]:
        """Scopes for parts of the task that run concurrently, one per key; see `join`."""
        return [self._part(key, place, len(keys)) for place, key in enumerate(keys)]

    def _part(self, key: str, place: int, count: int) -> "TaskScope":
        """The scope of one part, which asks questions and runs subgraphs independently.

        Questions of parts are distinguished by `key`, not by their order, which may differ when
        the task runs again. Their answers are found by interrupt id, as those of subgraphs are.
        Subgraphs of parts have separate numbers: of two parts one takes the even ones.
        """
        part = copy(self)
        # "#" keeps the ids apart from those of the task's own questions, which contain "|n".
        part.key, part.answers, part.asked, part.unaddressed_answers = f"#{key}", [], 0, []
        part.whole, part.raised = self, []
        part.graphs, part.stride = self.graphs + place * self.stride, self.stride * count
        return part

    def join(self, parts: Iterable["TaskScope"]) -> None:
        """Add the unanswered questions of parts that have ended, in the order of the parts."""
        for part in parts:
            self.raised += part.raised
            self.graphs = max(self.graphs, part.graphs - part.stride + self.stride)
            self.took_unaddressed = self.took_unaddressed or part.took_unaddressed

    @property
    def base_config(self) -> dict[str, Any]:
        """The run's config, without the task's namespace and id."""
        return self._config

    @property
    def config(self) -> dict[str, Any]:
        """The caller's config with the task's namespace and id, and its place in the metadata.

        Without `run_id` and `run_name`: they are the run's, not for calls that the task makes.
        """
        task, config = self.task, {k: v for k, v in self._config.items() if k not in _RUN_KEYS}
        own = {"checkpoint_ns": task.namespace, "langgraph_task_id": task.id}
        place = {**(config.get("configurable") or {}), **own}
        metadata = {
            **run_metadata(self),
            **(config.get("metadata") or {}),
            **task_metadata(task, self.run_context.step()),
        }
        made = {**config, "configurable": place, "metadata": metadata}
        reads = reads_of(self)
        return made if reads is None else noted(made, reads)

    def override(self, config: dict[str, Any]) -> None:
        """Replace the run's config for this task; its namespace and id are still added."""
        self._config = config

    def ask(
        self,
        value: Any,
        schema: dict[str, Any] | None = None,
        timing: Callable[[], Timing] | None = None,
    ) -> Any:
        """Answer the task's next question, or end this attempt.

        Args:
            value: the question.
            schema: the JSON schema of the answer, shown with the question.
            timing: makes its times.
        Returns: the answer.
        Raises:
            GraphInterrupt: the answer isn't known yet.
        """
        index = self.asked
        self.asked += 1
        times = None if timing is None else timing()
        if self.find_answer(index, by_id=times is not None and times.sleeps):
            return self.answers[index]
        if times is not None and times.due is not None and times.due <= times.asked:
            self.answers.append(times.own_answer)  # its time had come before it was asked
            return times.own_answer
        identifier = interrupt_id(self.task.namespace + self.key, index)
        question = Interrupt(value, identifier, schema, times)
        self.raised.append(question)
        raise GraphInterrupt((question,))

    def find_answer(self, index: int, *, by_id: bool = False) -> bool:
        """Whether the question of this number is answered; its answer is then in `answers`.

        Args:
            by_id: whether an answer without an id is left for another question.
        """
        if index < len(self.answers):
            return True
        # An answer by id before one without: that was meant for this very question.
        identifier = interrupt_id(self.task.namespace + self.key, index)
        if identifier in self.routed:
            self.answers.append(self.routed[identifier])
            return True
        if self.unaddressed_answers and not by_id:
            try:
                self.answers.append(self.unaddressed_answers.pop())
            except IndexError:  # another task's thread has taken it since the check
                pass
            else:
                self._note_unaddressed_answer()
                return True
        return False

    def _note_unaddressed_answer(self) -> None:
        """Note in this task and those above that an answer without an id has been used."""
        scope: TaskScope | None = self
        while scope is not None:
            scope.took_unaddressed = True
            scope = scope.caller or scope.run_context.above


_RUN_KEYS = ("run_id", "run_name")

UNHEARD = Interrupt(None)
"""Marks in `TaskScope.raised` a question of LangGraph's whose exception has not arrived."""


CURRENT: ContextVar[TaskScope] = ContextVar("actorgraph_task")
DEFINED_TASKS: set[str] = set()  # the names of this process's `@task`s


def current(what: str) -> TaskScope:
    """The running task.

    Args:
        what: the function that needs it, for the error.
    Raises:
        OutsideRunError: not called in a node.
    """
    try:
        return CURRENT.get()
    except LookupError:
        raise OutsideRunError(
            f"{what} was called outside of a node",
            do="call it in a node, or in a function that a node calls",
        ) from None


def get_config() -> dict[str, Any]:
    """Get the config of the running task: the caller's, with the task's namespace.

    Raises:
        OutsideRunError: not called in a node.
    """
    return current("get_config()").config


def get_stream_writer() -> Writer:
    """Get a function that sends its argument to the readers of `stream_mode="custom"`.

    A node that may be faster than its reader uses `await writer.asend(chunk)`.

    Raises:
        OutsideRunError: not called in a node.
    """
    return current("get_stream_writer()").write


class TaskCall(msgspec.Struct, frozen=True):
    """One call of a `@task` function.

    Attributes:
        node: the function as a node.
        caller: the task that made the call.
        context: the caller's, copied at the call.
        futures: of this call and of the same call in earlier attempts of the caller.
    """

    node: NodePlan
    caller: TaskScope
    context: Context
    futures: list[TaskFuture[Any]]


class TaskCalls:
    """The `@task` calls of one run, and the results of its tasks' steps (`astep`, `step`).

    Args:
        report: takes the events.
        state: of the run; its `returned` is read.

    Attributes:
        report: takes the events; replaced when the run has left.
        running_steps: step id -> a gate that opens when the step has ended; of async nodes.
        limiter: limits the worker threads of sync nodes; set when the run begins.
        closed: whether the run has left.
    """

    def __init__(self, report: Callable[[Event], None], state: RunState) -> None:
        self.report = report
        self._state = state
        self._called: dict[str, TaskCall] = {}
        self._steps: dict[str, TaskFuture[Any]] = {}
        self._lock = threading.Lock()
        self.running_steps: dict[str, Gate] = {}
        self.limiter: anyio.CapacityLimiter | None = None
        self.closed = False

    @property
    def are_open(self) -> bool:
        """Whether a call, or a step, waits for its outcome."""
        return bool(self._steps or self._called)

    def __getitem__(self, identifier: str) -> TaskCall:
        return self._called[identifier]

    def get(self, identifier: str) -> TaskCall | None:
        """Return the call behind a task; None if the task is not an open `@task` call."""
        return self._called.get(identifier)

    def request(self, caller: TaskScope, node: NodePlan, given: Any) -> TaskFuture[Any]:
        """Start a function as a task of its own.

        Args:
            caller: the task that calls it.
            node: the function as a node.
            given: `(args, kwargs)`.
        Returns: the future of its return value.
        Raises:
            OutsideRunError: the caller's attempt is over.
            SchemaMismatchError: the thread has another call in its place; the attempt fails by
                that, whatever becomes of the error.
        """
        if (refused := (caller.whole or caller).refused) is not None:
            raise refused
        number, base = caller.next_call(), caller.run_context.base()
        place = caller.key, number
        number, identifier, stored = call_place(self._state, base, caller.task, place, node.name)
        caller.calls = max(caller.calls, number + 1)  # a thread may have made the next meanwhile
        try:
            check_call(self._state, caller.task, (number, node.name), identifier, DEFINED_TASKS)
        except SchemaMismatchError as error:
            (caller.whole or caller).refused = error
            raise
        task = Task(
            id=identifier,
            name=node.name,
            path=stored.path if stored else (PUSH, *caller.task.path, number, node.name, CALL),
            triggers=(PUSH,),
            input=given,
            timeout=node.timeout,
            within=caller.task.namespace,
            routed=caller.routed,
            stored=stored,
        )
        drop = partial(self._drop, identifier)
        future: TaskFuture[Any] = TaskFuture(node.name, caller, drop, self.limiter)
        with self._lock:
            known = self._called.get(identifier)
            # An earlier attempt of the caller, cancelled since, may have made the same call.
            futures = [future] if known is None else [*known.futures, future]
            if self.closed:
                future.settle(None, stopped_error(node.name))
                return future
            self._called[identifier] = TaskCall(node, caller, copy_context(), futures)
        self.report(TaskCalled(caller.task.id, task))
        return future

    def step_result(self, identifier: str) -> Any:
        """The stored result of a step; EMPTY if absent."""
        return self._state.returned.get(identifier, EMPTY)

    def store_step(
        self, scope: TaskScope, identifier: str, key: str, value: Any
    ) -> TaskFuture[Any]:
        """Store the result of a step; the future has it once it is durable."""
        future: TaskFuture[Any] = TaskFuture(f"step {key}", scope, None, self.limiter)
        with self._lock:
            if self.closed:
                future.settle(None, stopped_error(future.name))
                return future
            self._steps[identifier] = future
        self.report(StepKept(scope.task, key, value))
        return future

    def _drop(self, identifier: TaskId) -> None:
        self.report(CallDropped(identifier))

    def close(self) -> None:
        """End the calls of a run that has left: fail open futures, refuse later calls.

        Threads of abandoned sync nodes may still wait for a future, or make a call.
        """
        with self._lock:
            self.closed = True
            if not self._steps and not self._called:
                return
            waiting = [*self._steps.values()]
            waiting += [future for called in self._called.values() for future in called.futures]
        for future in waiting:
            if not future.done():
                future.settle(None, stopped_error(future.name))

    def answer(self, effect: AnswerCall) -> None:
        """Set the outcome of a call, or of the storing of a step, in its futures."""
        step = self._steps.pop(effect.task, None)
        if step is not None:
            step.settle(effect.value)
            return
        with self._lock:
            called = self._called.pop(effect.task, None)
        if called is None:
            return
        error = effect.drained if effect.error is None else effect.error
        if effect.interrupts is not None:
            error = GraphInterrupt(effect.interrupts)
        elif effect.gone:
            error = stopped_error(called.node.name)
        for future in called.futures:
            future.settle(effect.value, error)
        if effect.error is not None:
            caller = called.caller.whole or called.caller
            caller.failed_calls = (*caller.failed_calls, called.futures[-1])
            if caller.over:
                # Warnings may be errors here, and no code of the program is there to get one.
                with suppress(LostErrorWarning):
                    warn_of_lost_errors(caller)


def warn_of_lost_errors(caller: TaskScope) -> None:
    """Warn of calls that failed, if their caller has returned without reading the errors."""
    failed, caller.failed_calls = caller.failed_calls, ()
    node = caller.run_context.state.plan.callable.get(caller.task.name)
    for future in failed:
        if not future.looked_at and (error := future.exception()) is not None:
            warn(
                f"task {future.name!r} raised {error_repr(error)}, and "
                f"{caller.task.name!r} returned without waiting for it; the run goes on\n"
                "  Do this: await the future, or call its result()",
                LostErrorWarning,
                about=None if node is None else node.call,
            )
