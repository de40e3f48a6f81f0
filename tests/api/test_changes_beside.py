"""The check of threads says what a resume does: joins, reducers, subgraphs, waiting inputs."""

import contextlib
import operator
from typing import Annotated, Any, TypedDict

import anyio
import anyio.lowlevel
import pytest

from actorgraph import START, ActorSystem, Command, InMemorySaver, Send, StateGraph, interrupt
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.errors import SchemaMismatchError
from actorgraph.types import Migration
from actorgraph.values.graph_changes import ResumeVerdict
from tests.support.graphs import at

pytestmark = pytest.mark.filterwarnings(
    "ignore::actorgraph.errors.UnreachableNodeWarning",
    "ignore::actorgraph.errors.OtherGraphWarning",
)


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class Bare(TypedDict, total=False):
    log: list[str]


def says(name: str) -> Any:
    return lambda _: {"log": [name]}


def asks(_: Any) -> Any:
    return {"log": [interrupt("sure?")]}


def fails(_: Any) -> Any:
    raise ValueError


def parallel(saver: Any, schema: Any = State, *migrations: Migration, **nodes: Any) -> Any:
    """Nodes that start together, and `end`, which joins them."""
    builder = StateGraph(schema)
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge(START, name)
    builder.add_node("end", says("end")).add_edge([*nodes], "end")
    return builder.compile(saver, name="g", migrations=migrations)


async def verdict_of(graph: Any, saver: Any) -> ResumeVerdict:
    (group,) = (await check_threads({"g": graph}, saver)).groups
    return group.verdict


class TestJoins:
    @pytest.mark.parametrize("old", [fails, says("old")])
    @pytest.mark.parametrize("led", [("new",), ("new", "other")])
    async def test_nodes_in_place_of_a_start_are_starts(self, old, led):
        """
        A start that finished counts as those in its place, and these run where it has not.
        """
        saver, nodes = InMemorySaver(), {"ask": asks, "old": old}
        first = parallel(saver, **nodes)
        with contextlib.suppress(ValueError):
            await first.ainvoke({"log": []}, {**at(), "max_concurrency": 1})
        now = {name: says(name) for name in led}
        graph = parallel(saver, State, Migration(goto={"old": led}), ask=asks, **now)

        assert await verdict_of(graph, saver) is ResumeVerdict.MIGRATED
        waits = (await graph.aget_state(at())).interrupts
        result = await graph.ainvoke(Command(resume="yes") if waits else None, at())
        if not waits:
            result = await graph.ainvoke(Command(resume="yes"), at())

        wanted = [*led] if old is fails else ["old"]
        assert sorted(result["log"]) == sorted(["yes", "end", *wanted])


class TestComposition:
    async def test_a_name_may_be_given_back(self):
        """
        Threads of both names go on, whichever they have.
        """
        both = (Migration(nodes={"ask": "confirm"}), Migration(nodes={"confirm": "ask"}))
        for name in ("ask", "confirm"):
            saver = InMemorySaver()
            await parallel(saver, **{name: asks}).ainvoke({"log": []}, at())
            graph = parallel(saver, State, *both, ask=asks)
            assert (await graph.ainvoke(Command(resume="y"), at()))["log"] == ["y", "end"]

    async def test_a_node_in_place_of_one_may_be_removed_too(self):
        """
        The last one runs.
        """
        saver = InMemorySaver()
        await parallel(saver, a=asks).ainvoke({"log": []}, at())
        since = (Migration(goto={"a": "b"}), Migration(goto={"b": "c"}))
        graph = parallel(saver, State, *since, c=says("c"))
        assert (await graph.ainvoke(None, at()))["log"] == ["c", "end"]


class TestRefusals:
    async def refused(self, graph: Any, saver: Any, match: str) -> SchemaMismatchError:
        assert await verdict_of(graph, saver) is ResumeVerdict.REFUSED
        with pytest.raises(SchemaMismatchError, match=match) as error:
            await graph.ainvoke(Command(resume="yes"), at())
        return error.value

    async def test_a_key_that_lost_its_reducer(self):
        """
        Values of two finished tasks can't both be kept.
        """
        saver = InMemorySaver()
        nodes = {"a": says("a"), "b": says("b"), "ask": asks}
        await parallel(saver, **nodes).ainvoke({"log": []}, at())
        graph = parallel(saver, Bare, **nodes)
        error = await self.refused(graph, saver, "2 values of 'log'")
        assert "'log'" in error.do

    async def test_a_subgraph_that_became_a_function(self):
        """
        The work that it has finished would be left out.
        """
        saver = InMemorySaver()
        inner = StateGraph(State).add_node("a", says("a")).add_node("ask", asks)
        below = inner.add_edge(START, "a").add_edge("a", "ask").compile()
        await parallel(saver, sub=below).ainvoke({"log": []}, at())
        await self.refused(parallel(saver, sub=asks), saver, "runs none")

    @pytest.mark.parametrize("stateful", [None, True])
    @pytest.mark.parametrize("deep", [False, True])
    async def test_a_failed_subgraph_that_became_a_function(self, stateful, deep):
        """
        The work that it has finished would be left out: nothing runs, and the subgraph goes on
        under the graph that stored it; or the node begins anew under another name.
        """
        saver = InMemorySaver()
        broken = [True]

        def breaks(_: Any) -> Any:
            if broken:
                raise ValueError("broken")
            return {"log": ["b"]}

        inner = StateGraph(State).add_node("a", says("a")).add_node("b", breaks)
        below = inner.add_edge(START, "a").add_edge("a", "b").compile(stateful)

        def within(node: Any, *migrations: Migration, name: str = "sub") -> Any:
            if not deep:
                return parallel(saver, State, *migrations, **{name: node})
            middle = StateGraph(State).add_node(name, node).add_edge(START, name)
            return parallel(saver, mid=middle.compile(migrations=migrations))

        old = within(below)
        with pytest.raises(ValueError, match="broken"):
            await old.ainvoke({"log": []}, at())
        broken.clear()
        await self.refused(within(says("new")), saver, "unfinished subgraph")
        new = within(says("new"), Migration(goto={"sub": "fresh"}), name="fresh")
        assert await verdict_of(new, saver) is ResumeVerdict.MIGRATED

        assert (await old.ainvoke(None, at()))["log"] == ["a", "b", "end"]

    async def test_a_function_that_may_run_a_graph_goes_on(self):
        """
        A graph behind an object is found by no look at the function: such a node is not refused.
        """
        saver = InMemorySaver()
        inner = StateGraph(State).add_node("ask", asks).add_edge(START, "ask").compile()

        class Helper:
            async def run(self) -> Any:
                return await inner.ainvoke({"log": []})

        helper = Helper()

        async def calls(_: Any) -> Any:
            return await helper.run()

        await parallel(saver, sub=calls).ainvoke({"log": []}, at())
        moved = Migration(nodes={"sub": "team"})
        graph = parallel(saver, State, moved, team=calls)
        assert (await graph.ainvoke(Command(resume="y"), at()))["log"] == ["y", "end"]

    async def test_the_memory_of_a_renamed_node(self):
        """
        A stateful subgraph doesn't begin without what it remembers under its old name.
        """
        saver = InMemorySaver()
        below = StateGraph(State).add_node("a", says("a")).add_edge(START, "a")
        memory = below.compile(checkpointer=True)
        await parallel(saver, sub=memory).ainvoke({"log": []}, at())
        error = await self.refused(parallel(saver, team=memory), saver, "state of the stateful")
        assert "Migration(nodes={'sub'" in error.do
        dropped = parallel(saver, State, Migration(nodes={"sub": None}), team=memory)
        assert await verdict_of(dropped, saver) is ResumeVerdict.MIGRATED

    async def test_a_handler_that_is_gone(self):
        """
        The error names its node.
        """
        saver = InMemorySaver()
        builder = StateGraph(State).add_node("w", fails, error_handler=asks).add_edge(START, "w")
        await (
            builder.add_node("end", says("end"))
            .add_edge(["w"], "end")
            .compile(saver, name="g")
            .ainvoke({"log": []}, at())
        )
        error = await self.refused(parallel(saver, w=fails), saver, "error handler of node 'w'")
        assert "give the node its error handler back" in error.do

    async def test_two_names_that_became_one(self):
        """
        The error says that the new name is taken, and not to write the same migration again.
        """
        saver = InMemorySaver()
        await parallel(saver, a=asks, b=asks).ainvoke({"log": []}, at())
        graph = parallel(saver, State, Migration(nodes={"a": "m", "b": "m"}), m=asks)
        error = await self.refused(graph, saver, "as another one of the same thread is")
        assert "Migration" not in error.do


class Price(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    price: int


class Cents(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    cents: int


class TestRunsThatWait:
    """Runs that were accepted by the version before, and that no system has begun."""

    def graph(self, saver: Any, schema: Any, nodes: list[str], *migrations: Migration) -> Any:
        builder = StateGraph(schema)
        for name in nodes:
            builder.add_node(name, lambda state: {"log": [f"{sorted(state.items())}"]})
        builder.add_edge(START, nodes[0])
        return builder.compile(saver, name="g", migrations=migrations)

    @pytest.mark.parametrize(
        ("given", "cure"),
        [
            ({"log": [], "price": 7}, "channels={'price'"),
            (Command(update={"price": 7}, goto="a"), "channels={'price'"),
            (Command(goto="b"), "nodes={'b'"),
            (Command(goto=Send("b", {"price": 7})), "nodes={'b'"),
        ],
    )
    async def test_their_inputs_are_migrated_or_left(self, given, cure):
        """
        Without a Migration the check refuses such a run and recovery leaves it; with one it runs.
        """
        saver = InMemorySaver()
        before = self.graph(saver, Price, ["a", "b"])
        async with ActorSystem({"g": before}, saver=saver) as system:
            await system.start("g", "t", given, delay_s=0.001)
        plain = self.graph(saver, Cents, ["a", "c"])
        (group,) = (await check_threads({"g": plain}, saver)).groups
        assert group.verdict is ResumeVerdict.REFUSED
        assert cure in group.reasons[0].cure
        async with ActorSystem({"g": plain}, saver=saver) as system:
            assert await system.recover() == []

        moved = Migration(channels={"price": "cents"}, nodes={"b": "c"})
        after = self.graph(saver, Cents, ["a", "c"], moved)
        async with ActorSystem({"g": after}, saver=saver) as system:
            with anyio.fail_after(20):
                while not (runs := await system.recover()):
                    await anyio.lowlevel.checkpoint()
                assert "price" not in str(await runs[0].result())

    async def test_one_may_go_to_a_removed_node(self):
        """
        The node in its place runs.
        """
        saver = InMemorySaver()
        before = self.graph(saver, Price, ["a", "gone"])
        async with ActorSystem({"g": before}, saver=saver) as system:
            await system.start("g", "t", Command(goto="gone"), delay_s=0.001)
        after = self.graph(saver, Price, ["a", "c"], Migration(goto={"gone": "c"}))
        async with ActorSystem({"g": after}, saver=saver) as system:
            with anyio.fail_after(20):
                while not (runs := await system.recover()):
                    await anyio.lowlevel.checkpoint()
                assert len((await runs[0].result())["log"]) == 1
