"""Every schedule of a graph's parallel tasks ends in the same state: the core, driven by hand.

No event loop, no clock, no store: a task that the core starts waits in a list, a die says which
one ends next, and `advance` gets its event. In every other schedule questions pause the run; in the
rest they are answered at once. A thousand schedules of a graph take a fraction of a second.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from actorgraph.plan.plan import Plan
from actorgraph.superstep.advance import advance
from actorgraph.superstep.begin import begin
from actorgraph.superstep.handover import raised, received
from actorgraph.superstep.results import branch_targets, branch_view, writes_of
from actorgraph.superstep.run_state import RunState
from actorgraph.values.commands import Interrupt
from actorgraph.values.ids import CheckpointId, interrupt_id, uuid6
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import (
    Effect,
    Escaped,
    Event,
    Failed,
    Finish,
    Interrupted,
    RunOutcome,
    StartTask,
    Succeeded,
    Task,
    TaskFailed,
    TaskInterrupted,
    TaskResult,
    TaskSucceeded,
)
from tests.differential.behaviour import act, decide
from tests.differential.builder import Built, Library, builder_of, formed
from tests.differential.schemas import seen_in
from tests.differential.trace import Spec

LIBRARY = Library("actorgraph")
UNSURE = ("fails", "calls")
"""Traits whose effect depends on the schedule: which siblings end before a failure. Tools are left
out with what calls them, since they are called by threads of their own."""


class Asked(Exception):
    """A node, or one of a nested graph, has questions that pause the run."""


@dataclass
class Graph:
    """A spec with its plan, and those of its nested graphs, by node."""

    spec: Spec
    plan: Plan
    nested: bool = False
    inner: "dict[str, Graph]" = field(default_factory=dict)


def graph_of(spec: Spec, *, nested: bool = False) -> Graph:
    """The plan of a spec, without what makes its end a matter of time."""
    sure = steady(spec)
    plan = builder_of(LIBRARY, sure, Built(LIBRARY, sure, None)).compile().plan
    inner = {name: n["graph"] for name, n in sure["nodes"].items() if "graph" in n}
    below = {name: graph_of(graph, nested=True) for name, graph in inner.items()}
    return Graph(sure, plan, nested, below)


def steady(spec: Spec) -> Spec:
    """A copy whose nodes and branches never raise."""
    nodes = {
        name: {"graph": steady(node["graph"])}
        if "graph" in node
        else {"writes": ["log"], "cap": 0, "form": "dict"}
        if "tools" in node
        else {key: value for key, value in node.items() if key not in UNSURE}
        for name, node in spec["nodes"].items()
    }
    branches = [{k: v for k, v in b.items() if k != "raises"} for b in spec["branches"]]
    return {**spec, "nodes": nodes, "branches": branches}


def ticking() -> Callable[[int, bytes | None], CheckpointId]:
    """A minter of ids with a clock of its own."""
    ticks = count(1)
    return lambda step, _: uuid6(next(ticks), step, 0)


@dataclass
class Chance:
    """One schedule: a die, and whether questions pause."""

    seed: int

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.pauses = bool(self.seed % 2)


def play(graph: Graph, given: Any, chance: Chance, limit: int = 12) -> RunOutcome:
    """One run in one random order of completion."""
    state = RunState(graph.plan, RunPolicy(recursion_limit=limit), ticking(), has_saver=False)
    running: list[tuple[Task, Any]] = []
    effects: list[Effect] = begin(state, None, given)
    while True:
        for effect in effects:
            if isinstance(effect, StartTask):
                running.append((effect.task, effect.given))
            elif isinstance(effect, Finish):
                return effect.outcome
        place = chance.dice.randrange(len(running))
        running[place], running[-1] = running[-1], running[place]
        task, seen = running.pop()
        effects = advance(state, event_of(graph, state, task, seen, chance))


def event_of(graph: Graph, state: RunState, task: Task, seen: Any, chance: Chance) -> Event:
    """Run the node of a task; return the event that its actor would report."""
    node, spec = graph.plan.nodes[task.name], graph.spec["nodes"].get(task.name)
    try:
        returned = seen if spec is None else returned_by(graph, state, task, seen, chance)
        writes, _ = writes_of(graph.plan, node, returned, nested=graph.nested)
        own = [b for b in graph.spec["branches"] if b["source"] == task.name]
        for branch, told in zip(node.branches, own, strict=True):
            view = seen_in(branch_view(graph.plan, state.values, branch, writes))
            found = [LIBRARY.Send(*t) if isinstance(t, tuple) else t for t in decide(told, view)]
            writes = [*writes, *branch_targets(graph.plan, task.name, branch, found)]
    except Asked as asked:
        return TaskInterrupted(task.id, asked.args)
    except Exception as error:  # noqa: BLE001 - a nested run fails as its graph does
        return TaskFailed(task.id, error)
    return TaskSucceeded(TaskResult(task.id, tuple(writes)))


def returned_by(graph: Graph, state: RunState, task: Task, seen: Any, chance: Chance) -> Any:
    """A node's return value; a nested graph's is its output, in a random order of its own."""
    name, spec = task.name, graph.spec["nodes"][task.name]
    if "graph" not in spec:
        if spec.get("asks") and chance.pauses:
            raise Asked(Interrupt(f"{name}?0", interrupt_id(task.namespace, 0)))
        answers = [f"re {name}?{k}" for k in range(spec.get("asks", 0))]
        return formed(LIBRARY, spec["form"], act(name, spec, seen_in(seen), answers))
    match play(graph.inner[name], seen, chance, limit=100):
        case Succeeded(values):
            return values
        case Interrupted(_, interrupts):
            raise Asked(*interrupts)
        case Failed(error):
            raise error
        case Escaped(handed):
            return received(graph.plan, graph.plan.nodes[name], state.values, raised(handed))
        case other:
            raise AssertionError(other)


def ending(outcome: RunOutcome) -> Any:
    """The compared part: the values with the questions, or the kind of the error."""
    match outcome:
        case Succeeded(values):
            return values
        case Interrupted(values, interrupts):
            return values, [i.value for i in interrupts]
        case Failed(error):
            return type(error).__name__
        case other:
            return other


def disagreements(spec: Spec, schedules: int) -> list[str]:
    """The ends of the spec's first run that another schedule has not; none if all is well."""
    graph, told = graph_of(spec), []
    given = {"n": spec["turns"][0][1], "log": ["in"]}
    first: dict[bool, Any] = {}
    for seed in range(schedules):
        chance = Chance(seed)
        end = ending(play(graph, given, chance, spec["limit"]))
        if end != first.setdefault(chance.pauses, end):
            told.append(f"schedule {seed}: {end}\n    schedule {seed % 2}: {first[chance.pauses]}")
    return told
