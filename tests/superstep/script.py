"""A run driven by hand: events in, effects out, and a store that keeps what was saved.

`Script` plays the supervisor, the node actors and the persistence actor of one run, one event
at a time. `Store` keeps a thread's rows as a saver would and gives them back as `Restored`, so
that a next Script can go on from there.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.plan import Plan
from actorgraph.superstep.advance import advance
from actorgraph.superstep.begin import begin
from actorgraph.superstep.results import branch_targets, branch_view, writes_of
from actorgraph.superstep.run_state import RunState
from actorgraph.values.checkpoint import OpenClaim, Restored, StoredWrite
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import START
from actorgraph.values.ids import CheckpointId, interrupt_id, uuid6
from actorgraph.values.policies import Durability, RunPolicy
from actorgraph.values.run import (
    CancelRequested,
    Effect,
    Emit,
    Event,
    Finish,
    LedgerEntry,
    NewCheckpoint,
    RunOutcome,
    Save,
    Saved,
    SaveFailed,
    StartTask,
    Task,
    TaskCancelled,
    TaskFailed,
    TaskInterrupted,
    TaskResult,
    TaskSucceeded,
)
from actorgraph.values.stream_items import StreamItem

E = TypeVar("E", bound=Effect)


def kinds(effects: Iterable[Effect]) -> list[str]:
    """The effects' class names."""
    return [type(effect).__name__ for effect in effects]


def only(kind: type[E], effects: Iterable[Effect]) -> list[E]:
    """The effects of one class."""
    return [effect for effect in effects if isinstance(effect, kind)]


def started(effects: Iterable[Effect]) -> list[str]:
    """The nodes that the effects start, in order."""
    return [effect.task.name for effect in only(StartTask, effects)]


def rows(save: Save) -> list[tuple[str, int]]:
    """The ledger rows of a save: whose, and their index."""
    return [(str(entry.path[-1]) if entry.path else "", entry.index) for entry in save.ledger]


def graph(
    schema: Any,
    nodes: dict[str, Callable[..., Any]],
    edges: Iterable[tuple[str | list[str], str]],
    **options: Any,
) -> Plan:
    """A plan of these nodes and edges."""
    builder = GraphBuilder(schema)
    for name, action in nodes.items():
        builder.add_node(name, action)
    for start, end in edges:
        builder.add_edge(start, end)
    return make_plan(builder, name="g", **options)


def idle(state: Any) -> None:
    """A node that is never called: the script says what it returns."""


def chain(schema: Any, *names: str, **options: Any) -> Plan:
    """START -> the first name -> the second ..."""
    stops = [START, *names]
    edges = list(zip(stops, names, strict=False))
    return graph(schema, dict.fromkeys(names, idle), edges, **options)


class Store:
    """A thread's rows. One clock for all of its runs, so that ids rise."""

    def __init__(self) -> None:
        self.points: dict[bytes, NewCheckpoint] = {}
        self.values: dict[bytes, dict[str, Any]] = {}
        self.ledger: list[LedgerEntry] = []
        self.claim: OpenClaim | None = None
        self.statuses: list[str] = []
        self.saves: list[Save] = []
        self._ticks = 0

    def mint(self, step: int, parent: bytes | None) -> CheckpointId:
        """A new checkpoint id, above all others."""
        self._ticks += 1
        return uuid6(self._ticks, step, 0)

    @property
    def head(self) -> bytes | None:
        """The newest checkpoint."""
        return list(self.points)[-1] if self.points else None

    def take(self, save: Save) -> None:
        """Store a save; refuses what a saver would refuse."""
        assert save.head == self.head, "the head has moved"
        self.saves.append(save)
        if save.claim is not None:
            claim = save.claim
            self.claim = OpenClaim(b"r" * 16, claim.mode, claim.input, claim.has_input)
        for entry in save.ledger:
            key = (entry.base, entry.task, entry.index, entry.generation)
            if key not in {(e.base, e.task, e.index, e.generation) for e in self.ledger}:
                self.ledger.append(entry)
        for point in save.checkpoints:
            assert point.id not in self.points
            values = {**self.values.get(point.parent or b"", {}), **point.changed}
            self.points[point.id] = point
            self.values[point.id] = {c: v for c, v in values.items() if v is not EMPTY}
        if save.ends is not None:
            self.statuses.append(save.ends)
            self.claim = None

    def restored(self, at: int = -1) -> Restored | None:
        """One checkpoint as a saver gives it back; by default the newest."""
        if not self.points:
            return None
        point = list(self.points.values())[at]
        versions = [v for p in self.points.values() for v in p.versions.values()]
        return Restored(
            id=point.id,
            parent=point.parent,
            sequence=1,
            namespace="",
            step=point.step,
            source=point.source,
            created=0,
            run=None,
            graph="g",
            values=dict(self.values[point.id]),
            versions=point.versions,
            seen=point.seen,
            updated=point.updated,
            next=point.next,
            metadata={},
            ledger=tuple(
                StoredWrite(e.task, e.path, e.index, e.generation, e.writes)
                for e in self.ledger
                if e.base == point.id
            ),
            version_floor=max(versions, default=0),
            head=self.head or b"",
            claim=self.claim if point.id == self.head else None,
        )


class Script:
    """One run.

    Args:
        store: the thread; a new one by default. None runs without a saver.
        settings: of the run's policy.
    """

    def __init__(
        self,
        plan: Plan,
        durability: Durability = Durability.SYNC,
        *,
        store: Store | None = None,
        saver: bool = True,
        **settings: Any,
    ) -> None:
        self.plan = plan
        self.store = store or Store()
        policy = RunPolicy(durability=durability, **settings)
        self.state = RunState(plan, policy, self.store.mint, has_saver=saver)
        self.state.thread_id = "t"
        self.running: dict[str, Task] = {}
        self.given: list[tuple[str, Any]] = []
        self.sent: list[Save] = []
        self.chunks: list[StreamItem] = []
        self.finishes: list[RunOutcome] = []

    def begin(self, given: Any, *, at: int = -1) -> list[Effect]:
        """Start the run on the thread's newest checkpoint, or another one."""
        return self._note(begin(self.state, self.store.restored(at), given))

    def event(self, event: Event) -> list[Effect]:
        """Hand over one event."""
        return self._note(advance(self.state, event))

    def task(self, name: str, at: int = 0) -> Task:
        """A running task of a node; the `at`-th when there are several."""
        return [task for task in self.running.values() if task.name == name][at]

    def finish(
        self, name: str, returned: Any = None, *, at: int = 0, **update: Any
    ) -> list[Effect]:
        """A node returns an update, or any other value; its branches are asked too."""
        task = self.running.pop(self.task(name, at).id)
        return self.event(TaskSucceeded(self._result(task, returned or update)))

    def _result(self, task: Task, returned: Any) -> TaskResult:
        node = self.plan.callable[task.name]
        writes, _ = writes_of(self.plan, node, returned)
        for branch in node.branches:
            view = branch_view(self.plan, self.state.values, branch, writes)
            writes = [*writes, *branch_targets(self.plan, task.name, branch, branch.path(view))]
        return TaskResult(task.id, tuple(writes), task.answers)

    def fail(self, name: str, error: BaseException, *, at: int = 0) -> list[Effect]:
        """A node raises."""
        return self.event(TaskFailed(self.running.pop(self.task(name, at).id).id, error))

    def ask(self, name: str, question: Any, *, at: int = 0) -> list[Effect]:
        """A node asks a question that has no answer yet."""
        task = self.running.pop(self.task(name, at).id)
        asked = Interrupt(question, interrupt_id(task.namespace, len(task.answers)))
        return self.event(TaskInterrupted(task.id, (asked,), task.answers))

    def stop(self, name: str, *, at: int = 0) -> list[Effect]:
        """A node that was cancelled has stopped."""
        return self.event(TaskCancelled(self.running.pop(self.task(name, at).id).id))

    def saved(self, number: int | None = None) -> list[Effect]:
        """Everything up to this save, or all that was sent, is durable."""
        upto = self.state.sent if number is None else number
        for save in self.sent:
            if save.number <= upto and save not in self.store.saves:
                self.store.take(save)
        return self.event(Saved(upto))

    def refuse(self, number: int, error: BaseException) -> list[Effect]:
        """A save fails."""
        return self.event(SaveFailed(number, error))

    def cancel(self) -> list[Effect]:
        """A request from outside to end the run."""
        return self.event(CancelRequested())

    def play(self, given: Any, nodes: dict[str, Callable[[Any], Any]] | None = None) -> Any:
        """Run to the end: call each node at once, first started first; save at once."""
        self.begin(given)
        while self.running or self.state.durable < self.state.sent:
            if self.state.durable < self.state.sent:
                self.saved()
                continue
            task = next(iter(self.running.values()))
            call = (nodes or {}).get(task.name, self.plan.nodes[task.name].call)
            value = next(v for i, v in reversed(self.given) if i == task.id)
            self._settle(task, call, value)
        return self.outcome

    def _settle(self, task: Task, call: Callable[[Any], Any], value: Any) -> None:
        del self.running[task.id]
        try:
            result = self._result(task, call(value))
        except Exception as error:  # noqa: BLE001 - a node may raise anything
            self.event(TaskFailed(task.id, error))
        else:
            self.event(TaskSucceeded(result))

    @property
    def outcome(self) -> RunOutcome:
        """How the run ended. It ends one way, however often it says so."""
        outcome, *again = self.finishes
        assert all(other is outcome for other in again)
        return outcome

    @property
    def names(self) -> list[str]:
        """The running tasks' nodes, in the order they were started."""
        return [task.name for task in self.running.values()]

    def streamed(self, mode: str) -> list[Any]:
        """The chunks delivered so far in one mode."""
        return [chunk for _, kind, chunk in self.chunks if kind == mode]

    def _note(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            match effect:
                case StartTask(task, given):
                    assert task.id not in self.running
                    self.running[task.id] = task
                    self.given.append((task.id, given))
                case Save():
                    self.sent.append(effect)
                case Emit(chunks):
                    self.chunks.extend(chunks)
                case Finish(outcome):
                    self.finishes.append(outcome)
                case _:
                    pass
        return effects


def snapshot(state: RunState) -> tuple[Any, ...]:
    """Copies of what `apply` may change, to compare."""
    return (
        dict(state.values),
        dict(state.versions),
        {name: dict(seen) for name, seen in state.seen.items()},
        set(state.dirty),
        state.max_version,
    )


def names_of(tasks: Sequence[Task]) -> list[str]:
    """The tasks' nodes."""
    return [task.name for task in tasks]


def with_values(store: Store, **changes: Any) -> Restored:
    """The thread's newest checkpoint with some of its fields replaced."""
    restored = store.restored()
    assert restored is not None
    return msgspec.structs.replace(restored, **changes)
