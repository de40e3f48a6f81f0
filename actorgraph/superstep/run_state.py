"""RunState: everything that decides what a run does next. One supervisor owns it.

OpenCalls, a part of it, holds the `@task` calls of the current superstep.
"""

from collections import deque
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.errors import GraphDrained, NodeError
from actorgraph.plan.plan import Plan
from actorgraph.superstep.nesting import Nested
from actorgraph.superstep.stored_calls import StoredCalls
from actorgraph.values.alarms import NO_TIMINGS, Timing
from actorgraph.values.checkpoint import NO_PLACES, LeftTask
from actorgraph.values.commands import Interrupt
from actorgraph.values.ids import CheckpointId, TaskId
from actorgraph.values.policies import Durability, RunPolicy
from actorgraph.values.run import (
    NO_DELTAS,
    LedgerEntry,
    RunOutcome,
    StoredPlace,
    Task,
    TaskResult,
)
from actorgraph.values.stream_items import StreamItem

Mint = Callable[[int, bytes | None], CheckpointId]
"""Makes the id of a checkpoint from its step and its parent; injected, so that tests choose."""


NO_CHANNELS: AbstractSet[str] = frozenset()


class RunState:
    """The state of one run. Mutable, never shared, never read by a task.

    Attributes:
        saves_at_once: whether rows are sent when they are made. In exit mode they wait for the
            final save; without a saver nothing is stored.
        values: the cells.
        versions: channel -> version of its last change.
        seen: node -> channel -> version that the node has run with (see `apply`).
        max_version: the highest version of any branch.
        step: the step of the newest checkpoint; -1 for an input's, -2 before the first.
        checkpoint: id of the newest checkpoint in memory.
        head: id of the newest checkpoint sent to the saver.
        anchor: id of the newest checkpoint of this run's own branch that the saver has.
        tasks: this superstep's tasks by id, in plan order.
        due: those that have not started.
        running: those that have, and `@task` calls.
        results: the finished ones.
        interrupted: those with open questions -> the questions; () if a subgraph was drained.
        open: whether this superstep's tasks may start.
        generation: of the control rows that the run writes.
        answering: whether its root run brings answers by id and nothing else: tasks whose
            questions have none are left alone.
        left_waiting: ids of the tasks that are left alone.
        unaddressed_answer: [answer] while one that was given without an id is unused.
        refused: the error that refused an answer; the run fails with it when it would pause.
        handled: task id of an error handler -> the failure that it handles.
        barrier: number of the save that must be durable before any other task starts.
        pause: the kind of breakpoint at which the run pauses.
        stopping: returns why the run is to stop before its next superstep, or None.
        steps: (number of the save, id) of each step whose result is not durable yet; None
            before the first.
        drained: the error of a drained subgraph.
        steps_left: supersteps until the recursion limit.
        visits: supersteps of each node, counted where the policy limits them.
        send_round: how often Commands have replaced this superstep's pending Sends.
        calls: the `@task` calls that its tasks have made; None before the first.
        returned: the results of calls and of steps, by id.
        nested: its place as a subgraph's run, or None.
        places: id of a task as this graph makes it -> its place as it was stored, where they
            differ; of the tasks that the run starts with.
        left: the finished tasks of removed nodes, whose writes are folded with the others.
        stored_ids: of tasks and questions that were stored, in a run under renamed `@task`s.
        stored_calls: the `@task` calls of a stored superstep that it goes on with.
        dropped: a sentence for each unknown key of its input.
        sent: number of the newest save sent.
        durable: number of the newest save acknowledged.
        unsaved_steps: in async mode, numbers of the saves with checkpoints that are not durable
            yet.
        unflushed: rows that wait for the final save.
        held: (number of the save, chunk) of each chunk that is not delivered yet; None before
            the first.
        dirty: the channels that have changed since the last checkpoint sent.
        deltas: counters of the DeltaChannels (see `superstep.deltas`).
        whole: the DeltaChannels that the next checkpoint stores whole.
        has_output: whether a superstep has changed an output key.
        preview: the output of a pause, with the writes of finished tasks.
        outcome: how the run leaves; None while it goes on.
        final_save_due: whether the final save is still to be sent.
        failure: the error of a refused save.
        timings: interrupt id -> times of the stored questions that have some.
        now: when the run begins, by the store's clock in microseconds since 1970-01-01 UTC; 0 if it
            may not answer questions that are due.
        sets_alarm: whether the thread may have an alarm, or gets one, so that the end of the run
            has to say which.
    """

    __slots__ = (
        "anchor",
        "answering",
        "barrier",
        "calls",
        "checkpoint",
        "deltas",
        "dirty",
        "drained",
        "dropped",
        "due",
        "durable",
        "failure",
        "final_save_due",
        "generation",
        "handled",
        "has_output",
        "has_saver",
        "head",
        "held",
        "interrupted",
        "left",
        "left_waiting",
        "max_version",
        "mint",
        "namespace",
        "nested",
        "now",
        "open",
        "outcome",
        "parent",
        "pause",
        "places",
        "plan",
        "policy",
        "preview",
        "refused",
        "results",
        "returned",
        "running",
        "saves_at_once",
        "seen",
        "send_round",
        "sent",
        "sets_alarm",
        "source",
        "step",
        "steps",
        "steps_left",
        "stopping",
        "stored_calls",
        "stored_ids",
        "tasks",
        "thread_id",
        "timings",
        "unaddressed_answer",
        "unflushed",
        "unsaved_steps",
        "updated",
        "values",
        "versions",
        "visits",
        "whole",
    )

    places: Mapping[str, StoredPlace]
    left: tuple[LeftTask, ...]
    stored_ids: AbstractSet[str]
    preview: Any
    returned: dict[str, Any]
    stored_calls: StoredCalls

    def __init__(self, plan: Plan, policy: RunPolicy, mint: Mint, *, has_saver: bool) -> None:
        self.plan = plan
        self.policy = policy
        self.mint = mint
        self.has_saver = has_saver
        self.saves_at_once = has_saver and policy.durability is not Durability.EXIT
        self.thread_id = self.namespace = ""
        self.nested: Nested | None = None
        self.values: dict[str, Any] = plan.initial_values() if plan.firsts else {}
        self.versions: dict[str, Any] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        self.max_version: Any = 0
        self.step, self.source = -2, "input"
        self.checkpoint: bytes = mint(-2, None)
        self.parent: bytes | None = None
        self.head: bytes | None = None
        self.anchor: bytes | None = None
        self.updated: tuple[str, ...] | None = None
        self.tasks: dict[str, Task] = {}
        self.due: deque[Task] = deque()
        self.running: dict[str, Task] = {}
        self.results: dict[str, TaskResult] = {}
        self.interrupted: dict[str, Any] = {}
        self.calls: OpenCalls | None = None
        self.generation = 1
        self.left_waiting: tuple[str, ...] = ()
        self.unaddressed_answer: list[Any] = []
        self.places, self.left, self.stored_ids, self.preview = NO_PLACES, (), NO_CHANNELS, None
        self.returned, self.stored_calls = {}, {}
        self.pause: Literal["interrupt_before", "interrupt_after"] = "interrupt_after"
        self.stopping: Callable[[], str | None] | None = None
        self.refused: BaseException | None = None
        self.drained: GraphDrained | None = None
        self.steps: deque[tuple[int, TaskId]] | None = None
        self.visits: dict[str, int] = {}
        self.steps_left = policy.recursion_limit
        self.handled: dict[str, NodeError] = {}
        self.sent = self.durable = self.barrier = self.send_round = self.now = 0
        self.unsaved_steps: deque[int] = deque()
        self.dirty: set[str] = set()
        self.deltas: Mapping[str, tuple[int, int]] = NO_DELTAS
        self.whole: AbstractSet[str] = NO_CHANNELS
        self.unflushed: list[LedgerEntry] = []
        self.held: deque[tuple[int, StreamItem]] | None = None
        self.dropped: list[str] = []
        self.has_output = self.answering = False
        self.outcome: RunOutcome | None = None
        self.open = self.final_save_due = self.sets_alarm = False
        self.failure: BaseException | None = None
        self.timings: Mapping[str, Timing] = NO_TIMINGS

    def read(self, channel: str) -> Any:
        """Read a cell as nodes and readers see it; EMPTY if it has no value."""
        value = self.values.get(channel, EMPTY)
        if channel in self.plan.opaque:
            return self.plan.channels[channel].read(value)
        return value


class OpenCalls(msgspec.Struct):
    """The calls of one superstep, by task ids.

    Attributes:
        due: the calls that have not started, in the order in which they were made.
        callers: call -> the task that made it, until the call has ended.
        of: task -> its open calls; a task without open calls is not in it.
        ended: the end event of each task that waits for its calls to end.
        asked: task -> the questions of its calls, by interrupt id.
        drained: task -> why a subgraph in one of its calls was drained.
        broken: the tasks of which a call was stopped because the run is leaving.
        dropped: the calls that are being stopped.
        again: those of them that were made once more.
        answers: call -> the answers that it had used in an earlier run.
        waiting: interrupt id -> question that has no answer yet, of the calls that asked it; only
            in a run that leaves such calls alone.
    """

    due: dict[str, Task] = {}
    callers: dict[str, str] = {}
    of: dict[str, set[str]] = {}
    ended: dict[str, Any] = {}
    asked: dict[str, dict[str, Interrupt]] = {}
    drained: dict[str, GraphDrained] = {}
    broken: set[str] = set()
    dropped: set[str] = set()
    again: set[str] = set()
    answers: Mapping[str, tuple[Any, ...]] = {}
    waiting: Mapping[str, Interrupt] = {}

    def open(self, caller: str, task: Task) -> None:
        """Queue a call."""
        self.callers[task.id] = caller
        self.of.setdefault(caller, set()).add(task.id)
        self.due[task.id] = task

    def close(self, identifier: str) -> str:
        """Remove a call that has ended; returns the task that made it."""
        self.dropped.discard(identifier)
        self.again.discard(identifier)
        caller = self.callers.pop(identifier)
        left = self.of[caller]
        left.discard(identifier)
        if not left:
            del self.of[caller]
        return caller

    def restart(self, task: Task) -> None:
        """Queue a call again that has stopped and was made once more meanwhile."""
        self.dropped.discard(task.id)
        self.again.discard(task.id)
        self.due[task.id] = task
