"""Threads in the states that the tests begin from: waiting, failed, half done."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.plan.plan import Plan
from actorgraph.superstep import begin
from actorgraph.superstep.run_state import RunState
from actorgraph.values.constants import START
from actorgraph.values.policies import Durability, RunPolicy
from actorgraph.values.run import LedgerEntry
from tests.superstep.script import Script, Store, graph, idle

SYNC, ASYNC, EXIT = Durability
MODES = pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])


class State(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


EDGES: list[Any] = [(START, "a"), (START, "b"), (["a", "b"], "c")]
PAIR = graph(State, dict.fromkeys("abc", idle), EDGES)


def thread(*asking: str, mode: Durability = SYNC, finished: tuple[str, ...] = ()) -> Store:
    """A thread on which some of a and b wait for answers, some have finished, the rest failed."""
    run = Script(PAIR, mode)
    run.begin({"text": "x"})
    run.saved()
    for name in finished:
        run.finish(name, log=[name])
    for name in asking:
        run.ask(name, f"{name}?")
    for name in list(run.names):
        run.fail(name, ValueError("no"))
    run.saved()
    return run.store


def again(store: Store, given: Any, mode: Durability = SYNC) -> Script:
    """A next run on the thread, its claim acknowledged."""
    run = Script(PAIR, mode, store=store)
    run.begin(given)
    run.saved()
    return run


def state_at(store: Store, at: int = -1) -> RunState:
    """A run state at a checkpoint of a thread."""
    state = RunState(PAIR, RunPolicy(), store.mint, has_saver=True)
    state.thread_id = "t"
    restored = store.restored(at)
    if restored is not None:
        begin.restore(state, restored)
    return state


def parallel(*names: str) -> Plan:
    """START -> all of these at once -> end."""
    edges: list[Any] = [(START, name) for name in names]
    return graph(State, dict.fromkeys([*names, "end"], idle), [*edges, (list(names), "end")])


def three(mode: Durability = SYNC, **settings: Any) -> Script:
    """A run in which a, b and c are running."""
    run = Script(parallel("a", "b", "c"), mode, **settings)
    run.begin({"text": "x"})
    run.saved()
    assert run.names == ["a", "b", "c"]
    return run


def stored(run: Script) -> dict[tuple[str, int], LedgerEntry]:
    """The ledger rows beside the newest checkpoint, by node and index."""
    found = [e for e in run.store.ledger if e.base == run.store.head]
    return {(str(e.path[-1]), e.index): e for e in found}
