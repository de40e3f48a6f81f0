"""Tasks, and the messages between the pure core and the actors: events in, effects out.

Most are `gc=False`: thousands are alive at once, none is ever part of a reference cycle (nothing
that they hold knows them), and the collector need not walk them. Those that hold an exception
are tracked, because its traceback's frames may hold them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from actorgraph.errors import GraphDrained, NodeError, ParentCommand
from actorgraph.values.commands import Command, Interrupt
from actorgraph.values.constants import NAMESPACE_END, NAMESPACE_SEPARATOR
from actorgraph.values.ids import TaskId
from actorgraph.values.policies import TimeoutPolicy
from actorgraph.values.stream_items import StreamItem

TaskPath = tuple[str | int, ...]
"""A task's place in its superstep: `("__pregel_pull", node)` or `("__pregel_push", i)`."""

Write = tuple[str, Any]
"""A channel and one value for it, visible from the next superstep on."""


@lru_cache(maxsize=4096)
def path_key(path: TaskPath) -> str:
    """Make a string that sorts as task paths do: nodes by name, then Sends by index."""
    return "~" + ", ".join(f"{p:010d}" if isinstance(p, int) else p for p in path)


class StoredPlace(msgspec.Struct, frozen=True):
    """The place of a waiting task as it was stored, where its node was renamed since.

    Rows of pending writes, ids of questions and namespaces of subgraphs are found by it.

    Attributes:
        id: the task's id.
        name: the name of its node then.
        path: its path then.
    """

    id: str
    name: str
    path: TaskPath


NOTHING_ROUTED: Mapping[str, Any] = MappingProxyType({})


class Task(msgspec.Struct, frozen=True, gc=False):
    """One call of one node in one superstep.

    Attributes:
        triggers: the channels that made it due.
        input: a Send's `arg`; other tasks read the state when they start.
        answers: the resume values for its interrupts, in the order of the questions.
        routed: answers to questions of its subgraphs, by interrupt id.
        timeout: from the Send or the node, in seconds.
        within: the run's own namespace.
        stored: its place as it was stored, if its node was renamed since; else None.
    """

    id: TaskId
    name: str
    path: TaskPath
    triggers: tuple[str, ...]
    input: Any
    answers: tuple[Any, ...] = ()
    timeout: TimeoutPolicy | None = None
    within: str = ""
    routed: Mapping[str, Any] = NOTHING_ROUTED
    stored: StoredPlace | None = None

    @property
    def namespace(self) -> str:
        """The namespace of its subgraphs: `node:task id` below the run's own."""
        own = f"{self.stored.name if self.stored else self.name}{NAMESPACE_END}{self.id}"
        return f"{self.within}{NAMESPACE_SEPARATOR}{own}" if self.within else own


class FailedAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt of a task after which its retry policy made another one.

    Attributes:
        start: microseconds since 1970-01-01 UTC.
        end: the same.
        error: its text.
    """

    start: int
    end: int
    error: str


class TaskTimes(msgspec.Struct, frozen=True, gc=False):
    """When a task ran, for display only: clocks decide nothing.

    Attributes:
        start: when its last attempt began, in microseconds since 1970-01-01 UTC.
        end: when that attempt ended.
        failed: the attempts before it in the same run, the oldest first.
    """

    start: int
    end: int
    failed: tuple[FailedAttempt, ...] = ()


class TaskResult(msgspec.Struct, frozen=True, gc=False):
    """A finished task: its writes in the node's order, and the answers it consumed.

    Attributes:
        times: when it ran; None if that was not measured.
        took_unaddressed: whether it or a subgraph of it used the answer given without an id.
        cached: whether the writes are from a cache.
    """

    task: TaskId
    writes: tuple[Write, ...]
    answers: tuple[Any, ...] = ()
    took_unaddressed: bool = False
    cached: bool = False
    times: TaskTimes | None = None


# --- events: what happened ---


class TaskSucceeded(msgspec.Struct, frozen=True, gc=False):
    """A node returned, and its routers chose where to go."""

    result: TaskResult


class TaskFailed(msgspec.Struct, frozen=True):
    """A node or one of its routers raised; its writes are dropped."""

    task: TaskId
    error: BaseException
    times: TaskTimes | None = None


class TaskInterrupted(msgspec.Struct, frozen=True, gc=False):
    """A node asked questions that have no answer yet; the rest as in `TaskResult`."""

    task: TaskId
    interrupts: tuple[Interrupt, ...]
    answers: tuple[Any, ...] = ()
    took_unaddressed: bool = False
    times: TaskTimes | None = None


class TaskCancelled(msgspec.Struct, frozen=True, gc=False):
    """A node was stopped because the run is leaving."""

    task: TaskId


class TaskCalled(msgspec.Struct, frozen=True, gc=False):
    """A task called a `@task` function, which becomes a task of its own; `caller` waits for it."""

    caller: TaskId
    task: Task


class CallDropped(msgspec.Struct, frozen=True, gc=False):
    """The caller of a `@task` call was cancelled, or cancelled the call."""

    task: TaskId


class StepKept(msgspec.Struct, frozen=True, gc=False):
    """A task has done a step; its result is to be stored under the key."""

    task: Task
    key: str
    value: Any


class MadeFor(msgspec.Struct, frozen=True):
    """The version of the graph above that a Command for it was made for.

    Attributes:
        migrations: how many that graph had.
        converted: channel -> name of a migration -> digest: what its values need no more.
    """

    migrations: int = 0
    converted: Mapping[str, Mapping[str, str]] = msgspec.field(
        default_factory=dict[str, Mapping[str, str]]
    )


class Beside(msgspec.Struct, frozen=True):
    """A write of a task whose superstep another one has ended by a Command for the graph above.

    Attributes:
        whole: whether it is the whole value of its key, which has no reducer in the subgraph.
    """

    key: str
    value: Any
    whole: bool


class HandOver(msgspec.Struct, frozen=True):
    """The Commands and writes that a subgraph's superstep hands to the graph above.

    Attributes:
        parts: in the order of the tasks' paths.
        namespace: of the subgraph; the graphs that one task runs have a number each.
        made_for: of each Command the migrations that the graph above had when it was made; None
            for a Command that no task's row has held.
        nodes: of each Command the node that returned it; fewer where that isn't known.
    """

    parts: tuple[Command[Any] | Beside, ...]
    namespace: str = ""
    made_for: tuple[MadeFor | None, ...] = ()
    nodes: tuple[str, ...] = ()


class TaskEscaped(msgspec.Struct, frozen=True):
    """A subgraph in a `@task` call has commanded the graph above: its caller's node gets that."""

    task: TaskId
    error: ParentCommand


class TaskDrained(msgspec.Struct, frozen=True):
    """A subgraph was drained with its run; the node has to run again."""

    task: TaskId
    error: GraphDrained


class StepTimedOut(msgspec.Struct, frozen=True, gc=False):
    """The superstep after step `step` has reached its time limit."""

    step: int


class Saved(msgspec.Struct, frozen=True, gc=False):
    """Every save up to this number is durable."""

    number: int


class SaveFailed(msgspec.Struct, frozen=True):
    """A save was refused: neither it nor any later one of the run is stored."""

    number: int
    error: BaseException


class CancelRequested(msgspec.Struct, frozen=True, gc=False):
    """End the run: requested by a caller, by a reader that disconnected, or by a shutdown.

    Attributes:
        to_others: whether another process is to go on with it.
    """

    to_others: bool = False


Event = (
    TaskSucceeded
    | TaskFailed
    | TaskInterrupted
    | TaskCancelled
    | TaskCalled
    | CallDropped
    | TaskEscaped
    | TaskDrained
    | StepKept
    | StepTimedOut
    | Saved
    | SaveFailed
    | CancelRequested
)


# --- effects: what the actors must now do ---


class StartTask(msgspec.Struct, frozen=True, gc=False):
    """Send the task to its node's actor, with its input."""

    task: Task
    given: Any


class StartHandler(StartTask, frozen=True, gc=True):
    """Send the task of an error handler, with the failure that it handles."""

    error: NodeError


class AnswerCall(msgspec.Struct, frozen=True):
    """Hand the outcome of a `@task` call or of a step to the task that made it.

    Attributes:
        value: its result, if none of the following is set.
        error: the error that it raised.
        interrupts: its open questions.
        drained: the error of a subgraph of it that was drained.
        gone: whether it was stopped, or will not run at all.
    """

    task: TaskId
    value: Any = None
    error: BaseException | None = None
    interrupts: tuple[Interrupt, ...] | None = None
    drained: GraphDrained | None = None
    gone: bool = False


class CancelTasks(msgspec.Struct, frozen=True, gc=False):
    """Stop every running task, or only those in `only`; each one answers with an event."""

    only: tuple[TaskId, ...] = ()


class LedgerEntry(msgspec.Struct, frozen=True, gc=False):
    """Pending writes: those of one task beside a checkpoint.

    Attributes:
        base: the checkpoint.
        index: 0 for the task's own, negative for control (see `CONTROL_INDEX`).
        generation: a later one replaces control rows of the same index.
        times: when the task ran, if the row is of its end.
    """

    base: bytes
    task: TaskId
    path: TaskPath
    index: int
    generation: int
    writes: tuple[Write, ...]
    times: TaskTimes | None = None


NO_DELTAS: Mapping[str, tuple[int, int]] = MappingProxyType({})


class NewCheckpoint(msgspec.Struct, frozen=True, gc=False):
    """A checkpoint to store: what changed since the last stored one, and the coordination.

    Attributes:
        changed: channel -> value of the cells whose version rose; EMPTY where cleared.
        versions: channel -> version; complete.
        seen: node -> channel -> version that the node has run with; complete.
        next: the nodes that run next, in definition order.
        highest: the highest version that any branch of the namespace uses; 0 if it is in
            `versions`.
        deltas: DeltaChannel whose value the checkpoint does not hold -> (supersteps that have
            written it, checkpoints stored) since one held it.
        folds: whether their values are the parent's with the parent's ledger folded in; else they
            are the parent's.
        unwritten: the channels in `changed` whose version did not rise.
    """

    id: bytes
    parent: bytes | None
    step: int
    source: str
    changed: dict[str, Any]
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    updated: tuple[str, ...] | None
    next: tuple[str, ...]
    metadata: dict[str, Any]
    highest: Any = 0
    deltas: Mapping[str, tuple[int, int]] = NO_DELTAS
    folds: bool = False
    unwritten: frozenset[str] = frozenset()


class ClaimIntent(msgspec.Struct, frozen=True, gc=False):
    """A run's claim of its thread, before its first node starts.

    Attributes:
        head: the newest checkpoint that it has read; another one at commit is a conflict.
        mode: its durability.
        input: the input, if no checkpoint of this save holds it; else None.
        has_input: whether `input` is set.
        resumes: ids of the interrupts that it answers.
    """

    head: bytes | None
    mode: str
    input: Any = None
    has_input: bool = False
    resumes: tuple[str, ...] = ()


class Save(msgspec.Struct, frozen=True, gc=False):
    """Store this, all or nothing, after every earlier save of the run.

    Attributes:
        number: counts the run's saves from 1.
        head: the head that the thread must have.
        ends: the status with which the run leaves; None while it goes on.
        alarm: when the thread's open questions do something by themselves, in microseconds since
            1970-01-01 UTC; 0 for never, None to leave what is stored.
    """

    number: int
    head: bytes | None
    claim: ClaimIntent | None = None
    ledger: tuple[LedgerEntry, ...] = ()
    checkpoints: tuple[NewCheckpoint, ...] = ()
    ends: str | None = None
    alarm: int | None = None


class Emit(msgspec.Struct, frozen=True, gc=False):
    """Hand chunks to the readers, in order."""

    chunks: tuple[StreamItem, ...]


class Succeeded(msgspec.Struct, frozen=True):
    """The run has nothing left to do. `values` is its output."""

    values: Any


class Interrupted(msgspec.Struct, frozen=True):
    """The run waits: for answers to `interrupts`, or, without any, to be continued."""

    values: Any
    interrupts: tuple[Interrupt, ...]


class Failed(msgspec.Struct, frozen=True):
    """The run stopped on an error."""

    error: BaseException


class Drained(Failed, frozen=True):
    """The run stopped between two supersteps because a drain was requested."""


class Cancelled(msgspec.Struct, frozen=True):
    """The run was cancelled.

    Attributes:
        to_others: whether another process is to go on with it.
    """

    to_others: bool = False


class Escaped(msgspec.Struct, frozen=True):
    """The run of a subgraph ended because its nodes returned Commands for the graph above."""

    handed: HandOver


STATUS: dict[type, str] = {
    Succeeded: "success",
    Interrupted: "interrupted",
    Failed: "error",
    Cancelled: "cancelled",
    Escaped: "escaped",
    Drained: "drained",
}
"""Outcome -> the status that is stored and logged; see `status_of`."""

RunOutcome = Succeeded | Interrupted | Failed | Cancelled | Escaped


def status_of(outcome: RunOutcome) -> str:
    """Return the status to store; Ctrl-C in a function counts as a cancellation of its run."""
    if type(outcome) is Failed and isinstance(outcome.error, KeyboardInterrupt):
        return STATUS[Cancelled]
    return STATUS[type(outcome)]


class Finish(msgspec.Struct, frozen=True):
    """The run has left; all its saves are durable or refused."""

    outcome: RunOutcome


Effect = StartTask | AnswerCall | CancelTasks | Save | Emit | Finish


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """The task and the run in which a node is called.

    Attributes:
        checkpoint_id: the checkpoint that the task follows.
        checkpoint_ns: the task's namespace, `node:task id` below the run's own.
        task_id: the same for every attempt of the task, also after a crash.
        thread_id: None for a run without a saver.
        run_id: the call's `run_id`; the run's own id if the call's config has none.
        node_attempt: counts the task's attempts in this run from 1.
        node_first_attempt_time: seconds since 1970 when the first of them began; for a task
            without a retry policy, when the node first read it.
        idempotency_key: unique to the task in its thread, and the same when the task runs again;
            for requests to services that ignore repetitions.
    """

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None
    idempotency_key: str = ""

    def patch(self, **overrides: Any) -> "ExecutionInfo":
        """Copy with some fields replaced."""
        return replace(self, **overrides)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The request of a server that runs graphs; nodes get None without a server.

    Attributes:
        assistant_id: named by the request.
        graph_id: named by the request.
        user: its author, as the server's authentication describes them.
    """

    assistant_id: str
    graph_id: str
    user: Any = None
