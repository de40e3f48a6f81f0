"""Removals together with what makes them hard: folded values, shared rows, runs that go on."""

from operator import add
from random import Random
from typing import Annotated, Any, TypedDict

import anyio
import pytest

from actorgraph import END, START, ConflictError, SqliteSaver, StateGraph
from actorgraph.channels import DeltaChannel
from tests.savers.test_growing_lists import stored
from tests.savers.test_thread_operations import ids, runs_of, seen
from tests.support.delta_histories import joined
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import ab, at, compiled, history, writer

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


class Folded(TypedDict, total=False):
    """A list whose checkpoints hold it whole every sixth time."""

    log: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=6)]


class TestDeltas:
    @pytest.fixture
    async def graph(self, saver):
        """A graph with a DeltaChannel; its thread has 18 checkpoints by two runs."""
        names = [f"n{place}" for place in range(7)]
        builder = StateGraph(Folded)
        for name in names:
            builder.add_node(name, lambda _, name=name: {"log": [name]})
        for start, end in zip([START, *names], [*names, END], strict=True):
            builder.add_edge(start, end)
        graph = builder.compile(checkpointer=saver)
        for _ in range(2):
            await graph.ainvoke({"log": ["in"]}, at())
        return graph

    @pytest.mark.promise("S124", "C2")
    @pytest.mark.langgraph("F-E24", "F-E25")
    async def test_values_outlive_each_removal(self, saver, graph):
        """
        A thread's value is the same after a copy, a prune and the deletion of the run that it is
        folded from; what it needs of that stays.
        """
        before = (await graph.aget_state(at())).values["log"]
        first, _ = await runs_of(graph, at())
        for thread in ("copy", "pruned", "without"):
            await saver.acopy_thread("t", thread)

        pruned = await saver.aprune(["pruned"])
        removed = await saver.adelete_by_run("without", first)

        assert len(before) == 16
        assert 0 < pruned < 17
        assert 0 < removed < 9
        for thread in ("copy", "pruned", "without"):
            points = await history(graph, at(thread))
            assert points[0].values["log"] == before
            assert (await graph.ainvoke({"log": ["more"]}, at(thread)))["log"][:17] == [
                *before,
                "more",
            ]

    @pytest.mark.promise("C2")
    async def test_none_of_a_chain_can_be_taken_out(self, saver, graph):
        """
        Deleting a checkpoint that a later value is folded from removes nothing.
        """
        points = await ids(graph, at())

        assert await saver.adelete_checkpoints("t", points[-3:-1]) == 0
        assert await saver.adelete_checkpoints("t", points[-2:]) == 2


async def meanwhile(graph, slow, act, given: Any = None, config=None, **options) -> list[Any]:
    """Run a graph; act once its node `slow` is in, then let that out. Returns the chunks."""
    with anyio.fail_after(PATIENCE_S):
        async with graph.astream(given, config or at(), **options) as chunks:
            await slow.entered.wait()
            await act()
            slow.out.set()
            return [chunk async for chunk in chunks]


class TestWhileRunsGoOn:
    @pytest.fixture
    def slow(self):
        return Turnstile({"bar": ["slow"]})

    @pytest.fixture
    def graph(self, saver, slow):
        """START -> a -> slow -> b -> END."""
        nodes = {"a": writer("a"), "slow": slow, "b": writer("b")}
        edges = [(START, "a"), ("a", "slow"), ("slow", "b")]
        return compiled(nodes, edges, checkpointer=saver)

    @pytest.mark.langgraph("F-E23")
    async def test_a_deleted_run_stops(self, saver, graph, slow):
        """
        A run that is deleted while it goes on gets a ConflictError and stores nothing more.
        """

        async def delete() -> None:
            await saver.adelete_for_runs(await runs_of(graph, at()))

        with pytest.raises(ConflictError):
            await meanwhile(graph, slow, delete, {"foo": "x"})

        assert await saver.alist_threads() == []
        assert (await ab(saver).ainvoke({"foo": "y"}, at()))["bar"] == ["a", "b"]

    async def test_a_copy_over_a_deleted_thread(self, saver, graph, slow):
        """
        A copy can take the name of a deleted thread; a run of that one stays refused.
        """
        other = ab(saver)
        await other.ainvoke({"foo": "x"}, at("source"))

        async def replace() -> None:
            await saver.adelete_thread("t")
            await saver.acopy_thread("source", "t")

        with pytest.raises(ConflictError):
            await meanwhile(graph, slow, replace, {"foo": "x"})

        assert await seen(other, at()) == await seen(other, at("source"))

    @pytest.mark.langgraph("F-E25")
    async def test_pruning_does_not_disturb_a_run(self, saver, graph, slow):
        """
        A run whose thread is pruned under it ends as it would have.
        """

        async def prune() -> None:
            assert await saver.aprune(["t"]) == 2

        await meanwhile(graph, slow, prune, {"foo": "x"}, durability="sync")

        points = await history(graph, at())
        assert [point.values["bar"] for point in points] == [
            ["a", "slow", "b"],
            ["a", "slow"],
            ["a"],
        ]

    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_a_replay_of_what_is_gone(self, saver, graph, slow, durability):
        """
        A branch that has a row of its own outlives the removal of its base; one without is
        refused: what it would name is gone.
        """
        slow.out.set()
        await graph.ainvoke({"foo": "x"}, at())
        base = (await ids(graph, at()))[1]
        slow.out, slow.entered = anyio.Event(), anyio.Event()

        async def prune() -> None:
            assert await saver.aprune(["t"])

        branch = meanwhile(graph, slow, prune, config=at(checkpoint_id=base), durability=durability)
        if durability == "exit":
            with pytest.raises(ConflictError, match="continues from"):
                await branch
        else:
            await branch

        points = await history(graph, at())
        assert points[0].values["bar"] == ["a", "slow", "b"]


class Mixed(TypedDict, total=False):
    """Every way in which a value is stored."""

    log: Annotated[list[str], add]
    folded: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=4)]
    other: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=3)]
    text: str
    number: int


def mixed(saver) -> Any:
    """A graph whose three nodes write different keys."""

    def one(state: Mixed) -> Any:
        n = state.get("number", 0) + 1
        return {"log": [f"{n}"] * 3, "folded": [f"f{n}"], "number": n}

    def two(state: Mixed) -> Any:
        return {"log": ["two"], "other": [f"o{state['number']}"], "text": f"t{state['number']}"}

    def three(state: Mixed) -> Any:
        return {"folded": ["three"], "other": ["three"], "log": [str(len(state["log"]))]}

    builder = StateGraph(Mixed)
    for node in (one, two, three):
        builder.add_node(node)
    builder.add_edge(START, "one").add_edge("one", "two")
    builder.add_edge("two", "three").add_edge("three", END)
    return builder.compile(checkpointer=saver)


LATER = [pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3)]


@pytest.mark.one_loop
class TestRandomThreads:
    @pytest.mark.promise("S124", "C2")
    @pytest.mark.every_loop("sqlite-memory")
    @pytest.mark.parametrize("seed", [0, *LATER])
    async def test_remaining_checkpoints_keep_their_values(self, saver, seed):
        """
        After any removals of any thread with branches every checkpoint that is left has its
        values, and the thread goes on.
        """
        choose, graph = Random(seed), mixed(saver)
        known: dict[str, Any] = {}
        for _ in range(12):
            await self.act(choose, graph, saver, known)
            points = await history(graph, at())
            for point in points:
                name = point.config["configurable"]["checkpoint_id"]
                assert known.setdefault(name, point.values) == point.values
            if points:
                value = (await graph.ainvoke({"text": "more"}, at()))["log"]
                before = points[0].values.get("log", [])
                assert value[: len(before)] == before

    async def act(self, choose: Random, graph, saver, known: dict[str, Any]) -> None:
        """One random thing that happens to the thread."""
        stored = [point async for point in saver.alist(at())]
        points = [point.config["configurable"]["checkpoint_id"] for point in stored]
        if not points:
            await graph.ainvoke({"text": "begin"}, at())
            return
        some = choose.sample(points, min(len(points), 3))
        kind = choose.choice(["replay", "replay", "update", "prune", "last", "points", "run"])
        if kind == "replay":
            await graph.ainvoke(None, at(checkpoint_id=some[0]))
        elif kind == "update":
            await graph.aupdate_state(at(checkpoint_id=some[0]), {"log": ["u"], "folded": ["u"]})
        elif kind == "prune":
            await saver.aprune(["t"])
        elif kind == "last":
            await saver.aprune("t", choose.randrange(4))
        elif kind == "points":
            await saver.adelete_checkpoints("t", some)
        else:
            await saver.adelete_by_run("t", choose.choice(await runs_of(graph, at())))


def rows(path) -> list[int]:
    """How many rows of values and of writes a file has."""
    return [stored(path, table)[0] for table in ("ranges", "writes", "blobs")]


async def test_space_is_given_back(tmp_path):
    """
    Pruning removes values, ledgers and list rows that no checkpoint names, and those only.
    """
    path = tmp_path / "runs.db"
    async with SqliteSaver(path) as saver:
        graph = mixed(saver)
        for _ in range(6):
            await graph.ainvoke({"text": "x"}, at())
        base = (await ids(graph, at()))[9]
        fork = await graph.aupdate_state(at(checkpoint_id=base), {"log": ["branch"]})
        await graph.ainvoke(None, fork)
        value = (await graph.aget_state(at())).values
        await saver.acopy_thread("t", "u")
        await saver.adelete_thread("t")
        before = rows(path)
        await saver.aprune(["u"])
        after = rows(path)
        assert (await graph.aget_state(at("u"))).values == value
        await saver.aprune(["u"], strategy="delete")
        await saver.acopy_thread("u", "t")

    assert all(many > 0 for many in after)
    assert after < before, (after, before)
    assert rows(path) == [0, 0, 0]
