"""Runs that wait, in a node, for what can't end before they have: refused at once."""

import asyncio
from typing import Any, TypedDict

import anyio
import anyio.from_thread
import httpx
import pytest

from actorgraph import START, ActorSystem, InMemorySaver, StateGraph
from actorgraph.dispatch import InMemoryDispatcher
from actorgraph.errors import ThreadBusyError
from actorgraph.web import GraphRoutes
from tests.support.gates import PATIENCE_S


class State(TypedDict, total=False):
    """How a run waits; without it the run ends."""

    how: str


class House:
    """Two systems over one saver, whose runs wait as their input says."""

    def __init__(self, **options: Any) -> None:
        nodes = {"async": self.node, "plain": self.plain}
        self.graphs = {
            name: StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
            for name, node in nodes.items()
        }
        self.saver = InMemorySaver()
        self.options = options
        self.ways: dict[str, Any] = {}
        self.own: Any = None
        self.system: Any = None
        self.other: Any = None

    async def node(self, state: State) -> State:
        how = state.get("how")
        if how:
            await (self.ways.get(how) or getattr(self, how))()
        return {}

    def plain(self, state: State) -> State:
        if state.get("how") == "loop":
            run = anyio.from_thread.run(self.start)
            asyncio.run(run.result())
            return {}
        return anyio.from_thread.run(self.node, state)

    async def start(self, thread: str = "t", how: str = "", **options: Any) -> Any:
        return await self.system.start("async", thread, {"how": how}, if_busy="enqueue", **options)

    async def result(self) -> None:
        await (await self.start()).result()

    async def timed(self) -> None:
        await (await self.start()).result(timeout_s=PATIENCE_S)

    async def delayed(self) -> None:
        await (await self.start(delay_s=0.01)).result()

    async def events(self) -> None:
        async for _ in (await self.start()).events():
            pass

    async def join(self) -> None:
        await self.system.join(self.own.id)

    async def itself(self) -> None:
        await self.own.wait()

    async def elsewhere(self) -> None:
        await (await self.other.start("async", "t", {}, if_busy="enqueue")).result()

    async def circle(self) -> None:
        await (await self.start("u", "result")).result()

    async def rest(self) -> None:
        transport = httpx.ASGITransport(GraphRoutes(self.system))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            asked = {"assistant_id": "async", "input": {}, "multitask_strategy": "enqueue"}
            answer = await client.post("/threads/t/runs", json=asked)
            run = answer.json()["run_id"]
            answer = await client.get(f"/threads/t/runs/{run}/join")
        raise ThreadBusyError(answer.text, do="", run_id=self.own.id)

    async def run(self, how: str, graph: str = "async") -> Any:
        """Run one on thread t; return its error."""
        async with (
            ActorSystem(self.graphs, saver=self.saver, **self.options) as self.system,
            ActorSystem(self.graphs, saver=self.saver) as self.other,
        ):
            self.own = await self.system.start(graph, "t", {"how": how})
            with anyio.fail_after(PATIENCE_S), pytest.raises(ThreadBusyError) as caught:
                await self.own.result()
            return caught.value


WAYS = ["result", "timed", "delayed", "events", "join", "itself", "elsewhere", "circle", "rest"]


@pytest.mark.parametrize("graph", ["async", "plain"])
@pytest.mark.parametrize("how", WAYS)
async def test_a_wait_that_never_ends_is_refused(how: str, graph: str):
    """
    Whichever way a node waits for a run behind its own, it gets an error that names the thread.
    """
    error = await House().run(how, graph)

    assert "thread 't'" in str(error)
    assert how == "circle" or error.run_id


@pytest.mark.parametrize("how", ["result", "events", "itself"])
async def test_workers_with_a_dispatcher_refuse_it_too(how: str):
    """
    The run behind is known from its row alone, and the wait is refused all the same.
    """
    error = await House(dispatcher=InMemoryDispatcher()).run(how)

    assert "thread 't'" in str(error)


async def test_a_function_beside_the_run_may_wait():
    """
    A function that a node starts by `spawn` gets the result of the thread's next run.
    """
    house = House()
    found: list[Any] = []
    done = anyio.Event()

    async def follow(run: Any) -> None:
        found.append(await run.result())
        done.set()

    async def spawning() -> None:
        house.system.spawn(follow, await house.start())

    house.ways["spawning"] = spawning
    async with ActorSystem(house.graphs, saver=house.saver) as house.system:
        run = await house.system.start("async", "t", {"how": "spawning"})
        with anyio.fail_after(PATIENCE_S):
            await run.result()
            await done.wait()

    assert found == [{"how": ""}]


async def test_an_ended_run_of_the_thread_can_be_asked():
    """
    A node may ask for the result of an earlier run of its thread, in memory or from its row.
    """
    house = House()
    found: list[Any] = []

    async def asking() -> None:
        found.append(await house.system.join(first.id))
        found.append(await (await house.other.run(first.id)).wait())

    house.ways["asking"] = asking
    async with (
        ActorSystem(house.graphs, saver=house.saver) as house.system,
        ActorSystem(house.graphs, saver=house.saver) as house.other,
    ):
        first = await house.system.start("async", "t", {"how": ""})
        await first.result()
        with anyio.fail_after(PATIENCE_S):
            await (await house.system.start("async", "t", {"how": "asking"})).result()

    assert found == [{"how": ""}, "success"]
