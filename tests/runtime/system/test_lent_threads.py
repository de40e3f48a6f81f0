"""Plain nodes that wait in their worker threads, while `max_threads` are taken."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

import anyio
import anyio.from_thread
import pytest

from actorgraph import START, ActorSystem, InMemorySaver, StateGraph
from tests.support.gates import PATIENCE_S


class State(TypedDict, total=False):
    """How deep, and the depths that have ended."""

    depth: int
    done: list[int]


class Threads:
    """A system with few worker threads, whose plain nodes wait for others."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.system: Any = None
        self.graph = StateGraph(State).add_node("node", self.node).add_edge(START, "node").compile()

    def node(self, state: State) -> State:
        depth = state.get("depth", 0)
        below = self.below({"depth": depth - 1})["done"] if depth else []
        return {"done": [*below, depth]}

    def below(self, given: State) -> Any:
        """Run what is below, and wait for it in this thread."""
        if self.how == "invoke":
            return self.graph.invoke(given)
        if self.how == "stream":
            return list(self.graph.stream(given, stream_mode="values"))[-1]
        if self.how == "own loop":
            return asyncio.run(self.graph.ainvoke(given))
        if self.how == "pool":
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(
                    contextvars.copy_context().run, self.graph.invoke, given
                ).result()
        if self.how == "ainvoke":
            return anyio.from_thread.run(self.graph.ainvoke, given)
        return anyio.from_thread.run(getattr(self, self.how), given)

    async def result(self, given: State) -> Any:
        return await (await self.system.start("g", None, given)).result()

    async def events(self, given: State) -> Any:
        run = await self.system.start("g", None, given)
        async for _ in run.events():
            pass
        return await run.result()

    async def batch(self, given: State) -> Any:
        batch = self.system.map("g", [given], key=lambda one: f"d{one['depth']}")
        (only,) = [result async for result in batch]
        return only.output

    async def two(self, given: State) -> Any:
        first = await self.system.start("g", None, given)
        async with anyio.create_task_group() as group:
            group.start_soon(first.wait)
            return await self.result(given)


WAYS = ["result", "events", "two", "ainvoke", "invoke", "stream", "own loop", "pool"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("how", [*WAYS, "batch"])
async def test_a_plain_node_that_waits_lends_its_thread(how: str, threads: int):
    """
    More plain nodes than worker threads wait for what needs threads itself: all go on.
    """
    house = Threads(how)
    async with ActorSystem(
        {"g": house.graph}, saver=InMemorySaver(), max_threads=threads
    ) as house.system:
        with anyio.fail_after(PATIENCE_S):
            runs = [
                await house.system.start("g", None, {"depth": 2})
                for _ in range(1 if how == "batch" else threads)
            ]
            found = [(await run.result())["done"] for run in runs]
        limiter = house.system._actor.threads.limiter  # noqa: SLF001 - lent ones are taken back
        assert limiter.total_tokens == threads

    assert found == [[0, 1, 2]] * len(runs)


async def test_the_limit_holds_while_async_nodes_wait():
    """
    An async node that waits has no worker thread, so none is lent: plain nodes run one at a time.
    """
    now = most = 0

    def plain(state: State) -> State:
        nonlocal now, most
        now += 1
        most = max(most, now)
        anyio.from_thread.run(anyio.lowlevel.checkpoint)
        now -= 1
        return {"done": [0]}

    async def waiting(state: State) -> State:
        runs = [await system.start("plain", None, {}) for _ in range(3)]
        return {"done": [(await run.result())["done"][0] for run in runs]}

    graphs = {
        name: StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
        for name, node in {"plain": plain, "waiting": waiting}.items()
    }
    async with ActorSystem(graphs, saver=InMemorySaver(), max_threads=1) as system:
        with anyio.fail_after(PATIENCE_S):
            assert (await (await system.start("waiting", None, {})).result())["done"] == [0, 0, 0]

    assert most == 1
