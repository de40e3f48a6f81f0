"""RunState: everything that decides what a run does next. One supervisor owns it."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from actorgraph.channels import EMPTY
from actorgraph.errors import GraphDrained, NodeError
from actorgraph.plan.graph import Plan
from actorgraph.superstep.nesting import Nested
from actorgraph.superstep.open_calls import OpenCalls
from actorgraph.values.ids import CheckpointId, TaskId
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import NO_DELTAS, LedgerEntry, Outcome, Task, TaskResult
from actorgraph.values.streams import Item

Mint = Callable[[int, bytes | None], CheckpointId]
"""Makes the id of a checkpoint from its step and its parent; injected, so that tests choose."""


class RunState:
    """The state of one run. Mutable, never shared, never read by a task.

    Attributes:
        values: the cells; versions, seen: the coordination (see `apply`).
        step: the step of the newest checkpoint; -1 for an input's.
        checkpoint, head: the newest checkpoint in memory; the newest one handed to the saver.
        anchor: the newest checkpoint of this run's own branch that the saver has.
        tasks: this superstep's tasks in plan order; due: those not started yet.
        results: the finished ones; interrupted: those with open questions.
        refused: why an answer that the run brought was not taken; it fails when it would pause.
        sent, durable: numbers of the newest save handed over and of the newest acknowledged.
        open: whether this superstep's tasks may start; farewell: whether a last save is due.
        handled: what error handlers handle, by the handler's task; barrier: the save that must be
            durable before any other task starts.
        pause: at which kind of breakpoint it has come to a stop, if it has.
        stopping: why the run is to stop before its next superstep, if it is; asked each time.
        steps: the saves that hold steps' results, with their ids, while they are on their way.
        drained: why a run inside of a task has stopped. visits: supersteps of each node, counted
            where the policy limits them.
        send_round: how often Commands have replaced this superstep's pending Sends.
        calls: the calls that its tasks have made; None while there are none. returned: the results
            of calls and of steps, by id.
        nested: its place inside of another run, or None.
        dropped: a sentence for each key of its input that is no channel.
        dirty: the channels whose version rose since the last checkpoint handed over.
        deltas, whole: see `superstep.deltas`.
    """

    __slots__ = (
        "anchor",
        "bare_answer",
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
        "farewell",
        "generation",
        "handled",
        "has_output",
        "has_saver",
        "head",
        "held",
        "interrupted",
        "max_version",
        "mint",
        "namespace",
        "nested",
        "open",
        "outcome",
        "parent",
        "pause",
        "plan",
        "policy",
        "preview",
        "refused",
        "results",
        "returned",
        "running",
        "seen",
        "send_round",
        "sent",
        "source",
        "step",
        "steps",
        "steps_left",
        "stopping",
        "tasks",
        "thread_id",
        "unflushed",
        "unsaved_steps",
        "updated",
        "values",
        "versions",
        "visits",
        "whole",
    )

    def __init__(self, plan: Plan, policy: RunPolicy, mint: Mint, *, has_saver: bool) -> None:
        self.plan = plan
        self.policy = policy
        self.mint = mint
        self.has_saver = has_saver
        self.thread_id = ""
        self.namespace = ""
        self.nested: Nested | None = None
        self.values: dict[str, Any] = plan.initial_values()
        self.versions: dict[str, Any] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        self.max_version: Any = 0
        self.step = -2
        self.source = "input"
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
        self.returned: dict[str, Any] = {}
        self.generation = 1
        self.bare_answer: list[Any] = []
        self.pause: Literal["interrupt_before", "interrupt_after"] = "interrupt_after"
        self.stopping: Callable[[], str | None] | None = None
        self.drained: GraphDrained | None = None
        self.steps: deque[tuple[int, TaskId]] = deque()
        self.visits: Counter[str] = Counter()
        self.steps_left = policy.recursion_limit
        self.handled: dict[str, NodeError] = {}
        self.sent = self.durable = self.barrier = self.send_round = 0
        self.unsaved_steps: deque[int] = deque()
        self.dirty: set[str] = set()
        self.deltas: Mapping[str, tuple[int, int]] = NO_DELTAS
        self.whole: set[str] = set()
        self.unflushed: list[LedgerEntry] = []
        self.held: deque[tuple[int, Item]] = deque()
        self.dropped: list[str] = []
        self.has_output = False
        self.preview: Any = None
        self.outcome: Outcome | None = None
        self.open = self.farewell = False
        self.failure: BaseException | None = None
        self.refused: BaseException | None = None

    def read(self, channel: str) -> Any:
        """What a reader sees of a cell, or EMPTY."""
        value = self.values.get(channel, EMPTY)
        if channel in self.plan.opaque:
            return self.plan.channels[channel].read(value)
        return value
