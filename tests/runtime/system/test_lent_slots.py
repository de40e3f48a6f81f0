"""Runs that wait, in a node, for other runs of their system, while all slots are taken."""

import asyncio
from typing import Any, TypedDict

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from actorgraph import START, ActorSystem, InMemorySaver, StateGraph
from actorgraph.dispatch import InMemoryDispatcher
from tests.support.gates import PATIENCE_S


class State(TypedDict, total=False):
    """How many runs deep, and the names of those that have ended."""

    depth: int
    done: list[int]


class Family:
    """A system with one slot, whose runs start others and wait for them.

    Attributes:
        most: of runs that were in a node and waited for no other, at once.
    """

    def __init__(self, how: str, **options: Any) -> None:
        self.system: Any = None
        self.how = how
        self.now = self.most = 0
        node = self.blocking if how in ("blocking", "own loop") else self.node
        graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
        self.options = {"max_runs": 1, "saver": InMemorySaver(), **options}
        self.graphs = {"g": graph}

    async def node(self, state: State) -> State:
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.lowlevel.checkpoint()
        self.now -= 1
        depth = state["depth"]
        below = await self.below(depth - 1) if depth else []
        return {"done": [*below, depth]}

    def blocking(self, state: State) -> State:
        if self.how == "blocking" or not state["depth"]:
            return anyio.from_thread.run(self.node, state)
        run = anyio.from_thread.run(self.system.start, "g", None, {"depth": state["depth"] - 1})
        return {"done": [*asyncio.run(run.result())["done"], state["depth"]]}

    async def below(self, depth: int) -> list[int]:
        """Start a run and wait for it."""
        given = {"depth": depth}
        if self.how == "map":
            batch = self.system.map("g", [given], key=lambda one: f"d{one['depth']}")
            (only,) = [result async for result in batch]
            return only.output["done"]
        run = await self.system.start("g", None, given)
        if self.how == "events":
            async for _ in run.events():
                pass
        if self.how == "join":
            return (await self.system.join(run.id))["done"]
        if self.how == "wait":
            await run.wait()
        return (await run.result())["done"]

    async def run(self, depth: int) -> list[int]:
        """Run a run, and those that it starts."""
        async with ActorSystem(self.graphs, **self.options) as self.system:
            with anyio.fail_after(PATIENCE_S):
                run = await self.system.start("g", None, {"depth": depth})
                found = await run.result()
            assert self.system.statistics().active == 0
            assert len(self.system._actor.lent) == 0  # noqa: SLF001 - all are taken back
            return found["done"]


@pytest.mark.parametrize("how", ["result", "wait", "join", "events", "map", "blocking", "own loop"])
async def test_a_run_that_waits_lends_its_slot(how):
    """
    Three runs deep over one slot: each ends, and no two are busy at once.
    """
    family = Family(how)

    assert await family.run(2) == [0, 1, 2]
    assert family.most == 1


async def test_a_worker_with_a_dispatcher_lends_too():
    """
    A run beyond the slots is stored for any worker, and this one takes it.
    """
    family = Family("result", dispatcher=InMemoryDispatcher())

    assert await family.run(2) == [0, 1, 2]


async def test_the_limit_of_a_graph_is_lent_too():
    """
    A run waits for another one of its graph, of which a worker has one at a time.
    """
    family = Family("result", dispatcher=InMemoryDispatcher(), max_runs=5, max_runs_of={"g": 1})

    assert await family.run(1) == [0, 1]


async def test_a_wait_that_is_left_takes_the_slot_back():
    """
    After a wait with a time limit the run has its slot again, and others wait for it.
    """
    family = Family("result")
    hold = anyio.Event()
    found: list[Any] = []

    async def node(state: State) -> State:
        if state["depth"]:
            other = await family.system.start("g", None, {"depth": 0})
            with anyio.move_on_after(0.05):
                await other.result()
            third = await family.system.start("g", None, {"depth": 0})
            await anyio.wait_all_tasks_blocked()
            found.append((other.status, third.status))
            hold.set()
            await third.result()
        else:
            await hold.wait()
        return {"done": []}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
    family.graphs = {"g": graph}
    await family.run(1)

    assert found == [("running", "pending")]
