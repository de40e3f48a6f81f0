"""Streams of graphs that run in nodes: their namespaces and readers."""

import anyio
import pytest

from actorgraph import (
    GraphDrained,
    InMemorySaver,
    RetryPolicy,
    RunControl,
    StateGraph,
    get_message_writer,
    get_stream_writer,
    interrupt,
)
from tests.support.gates import patient_group
from tests.support.graphs import AB, at, in_a_row, side_by_side, writer

ALL = ["values", "updates", "custom", "tasks"]


class Piece:
    """A message of no library."""

    type = "piece"

    def __init__(self, content: str, id: str) -> None:
        self.content = content
        self.id = id


async def leaf(state):
    """A node that writes in every live mode."""
    get_stream_writer()("from below")
    get_message_writer()(Piece("said below", "m1"))
    return {"foo": "leaf"}


def child(**options):
    """A graph with the one node `leaf`."""
    return in_a_row({"leaf": leaf}, **options)


def asks(**options):
    """A node that reads a graph of its own, in a list of chunks."""
    graph, got = child(), []

    async def node(state):
        got.extend([chunk async for chunk in graph.astream({"foo": "in"}, **options)])

    return node, got


async def chunks(graph, given, config=None, **options) -> list:
    """All chunks of a stream."""
    return [chunk async for chunk in graph.astream(given, config, **options)]


def names(namespace) -> list[str]:
    """A namespace without its task ids."""
    return [part.split(":")[0] for part in namespace]


class TestLevels:
    @pytest.mark.langgraph("F-D10", "L99")
    async def test_chunks_name_the_graph_they_come_from(self):
        """
        A namespace is one `node:task id` per level; the run itself is ().
        """
        graph = in_a_row({"sub": child()})

        told = await chunks(graph, {}, stream_mode=["updates", "tasks"], subgraphs=True)

        (started,) = [c for ns, mode, c in told if mode == "tasks" and not ns and "input" in c]
        inner = next(ns for ns, mode, _ in told if mode == "updates")
        assert inner == (f"sub:{started['id']}",)
        assert [ns for ns, mode, _ in told if mode == "updates"][-1] == ()

    @pytest.mark.langgraph("F-D10", "L99")
    async def test_one_mode_is_placed_too(self):
        """
        With one mode by its name a chunk is `(namespace, chunk)`.
        """
        told = await chunks(in_a_row({"sub": child()}), {}, subgraphs=True)

        assert [(names(ns), next(iter(c))) for ns, c in told] == [(["sub"], "leaf"), ([], "sub")]

    @pytest.mark.langgraph("F-D10")
    async def test_two_levels_down(self):
        """
        Each level adds its part.
        """
        graph = in_a_row({"top": in_a_row({"sub": child()})})

        told = await chunks(graph, {}, subgraphs=True)

        assert [names(ns) for ns, _ in told] == [["top", "sub"], ["top"], []]

    @pytest.mark.langgraph("F-D4", "L100")
    async def test_without_subgraphs_nothing_comes_from_below(self):
        """
        Chunks of a child are dropped unless the reader asked for them; custom ones and messages
        too.
        """
        told = await chunks(in_a_row({"sub": child()}), {}, stream_mode=[*ALL, "messages"])

        assert {mode for mode, _ in told} == {"values", "updates", "tasks"}
        assert [c for mode, c in told if mode == "updates"] == [{"sub": {"foo": "leaf", "bar": []}}]

    @pytest.mark.promise("D12")
    @pytest.mark.langgraph("F-D4", "L100")
    async def test_custom_chunks_come_from_below_when_asked_for(self):
        """
        With `subgraphs` a child's custom chunks carry its namespace.
        """
        told = await chunks(in_a_row({"sub": child()}), {}, stream_mode="custom", subgraphs=True)

        assert [(names(ns), chunk) for ns, chunk in told] == [(["sub"], "from below")]

    @pytest.mark.langgraph("F-D10", "F-D17")
    async def test_chunks_come_while_the_child_runs(self):
        """
        A child's chunk is read before its node has ended.
        """
        read = anyio.Event()

        async def wait(state):
            get_stream_writer()("now")
            await read.wait()

        graph = in_a_row({"sub": in_a_row({"wait": wait})})
        async with patient_group():
            stream = graph.astream({}, stream_mode="custom", subgraphs=True)
            assert (await anext(stream))[1] == "now"
            read.set()
            assert [chunk async for chunk in stream] == []

    @pytest.mark.langgraph("F-D11")
    async def test_parts_name_their_namespace(self):
        """
        A v2 part has it as `ns`.
        """
        told = await chunks(in_a_row({"sub": child()}), {}, subgraphs=True, version="v2")

        assert [names(part["ns"]) for part in told] == [["sub"], []]


class TestAChildWithAReader:
    @pytest.mark.langgraph("F-D19")
    @pytest.mark.parametrize("mode", ["updates", "custom", "messages"])
    async def test_it_reads_its_own_graph(self, mode):
        """
        A node that streams a graph gets that graph's chunks, though the parent has no reader.
        """
        node, got = asks(stream_mode=mode)

        told = await chunks(in_a_row({"node": node}), {}, stream_mode=["updates", "custom"])

        assert len(got) == 1
        assert told == [("updates", {"node": None})]

    @pytest.mark.langgraph("F-D10", "F-D19")
    async def test_a_reader_of_all_levels_reads_it_as_well(self):
        """
        With `subgraphs` the reader above gets what the node reads, and modes that it doesn't.
        """
        node, got = asks(stream_mode="updates")

        told = await chunks(in_a_row({"node": node}), {}, stream_mode=ALL, subgraphs=True)

        inner = [mode for ns, mode, _ in told if names(ns) == ["node"]]
        assert got == [{"leaf": {"foo": "leaf"}}]
        assert inner == ["values", "tasks", "custom", "updates", "tasks", "values"]

    async def test_a_slow_reader_above_paces_it(self):
        """
        The slower of the two readers slows the graph down; none of them misses a chunk.
        """

        async def count(state):
            for n in range(30):
                get_stream_writer()(n)
                await anyio.lowlevel.checkpoint()

        inner = in_a_row({"count": count})
        got = []

        async def node(state):
            got.extend([n async for n in inner.astream({}, stream_mode="custom")])

        stream = in_a_row({"node": node}).astream(
            {}, stream_mode="custom", subgraphs=True, buffer=2
        )
        async with patient_group():
            told = [n async for _, n in stream]

        assert told == got == list(range(30))

    @pytest.mark.langgraph("F-D19")
    async def test_a_graph_on_another_thread_stays_apart(self):
        """
        A child with a thread of its own is a run of its own: its chunks go to its reader, not
        above.
        """
        graph, got = child(checkpointer=InMemorySaver()), []

        async def node(state):
            stream = graph.astream({"foo": "in"}, at("other"), stream_mode="custom")
            got.extend([chunk async for chunk in stream])

        above = in_a_row({"node": node}, checkpointer=InMemorySaver())
        told = await chunks(above, {}, at(), stream_mode="custom", subgraphs=True)

        assert (got, told) == (["from below"], [])

    async def test_the_end_of_a_child_is_not_the_end_of_the_reader(self):
        """
        A child that is cancelled, by its node's time limit, leaves the reader above reading on.
        """
        calls = []

        async def hangs_once(state):
            calls.append(1)
            get_stream_writer()(len(calls))
            if len(calls) == 1:
                await anyio.sleep_forever()
            return {"foo": "at last"}

        inner = in_a_row({"hangs": hangs_once})

        async def node(state):
            return await inner.ainvoke(state)

        again = RetryPolicy(retry_on=Exception, initial_interval=0.001, jitter=False)
        builder = StateGraph(AB)
        builder.add_node("node", node, timeout=0.05, retry_policy=again)
        builder.add_edge("__start__", "node")
        async with patient_group():
            told = await chunks(
                builder.compile(), {}, stream_mode=["custom", "updates"], subgraphs=True
            )

        assert [c for _, mode, c in told if mode == "custom"] == [1, 2]
        assert told[-1] == ((), "updates", {"node": {"foo": "at last", "bar": []}})


class TestBreakpointsBelow:
    @staticmethod
    def stops(**options):
        """A graph that pauses before its second node."""
        nodes = {"i1": writer("i1"), "i2": writer("i2")}
        return in_a_row(nodes, interrupt_before=["i2"], **options)

    @staticmethod
    async def pauses(graph) -> list:
        """The levels of the chunks of pauses, and what they hold, in a list of all modes."""
        config, found = at(), []
        async for ns, _, chunk in graph.astream(
            {}, config, stream_mode=["updates", "values"], subgraphs=True
        ):
            if "__interrupt__" in chunk:
                found.append((len(ns), len(chunk["__interrupt__"])))
        return found

    @pytest.mark.parametrize("levels", [1, 2, 3])
    async def test_the_root_alone_has_a_chunk(self, levels):
        """
        A breakpoint of a graph at any depth is one empty pause, of the root run.
        """
        graph = self.stops()
        for _ in range(levels - 1):
            graph = in_a_row({"inner": graph})
        root = in_a_row({"inner": graph}, checkpointer=InMemorySaver())

        assert await self.pauses(root) == [(0, 0)]

    async def test_several_have_one_chunk(self):
        """
        Two graphs that stop side by side pause the root once.
        """
        nodes = {"x": self.stops(), "y": self.stops()}

        assert await self.pauses(side_by_side(nodes, checkpointer=InMemorySaver())) == [(0, 0)]

    async def test_beside_a_question_there_is_none(self):
        """
        A run that pauses with a question has that question's chunks only.
        """

        async def asks(state):
            interrupt("?")

        nodes = {"x": self.stops(), "asks": asks}
        graph = side_by_side(nodes, checkpointer=InMemorySaver())

        assert await self.pauses(graph) == [(0, 1), (0, 1)]

    async def test_a_question_below_has_a_chunk_at_each_level(self):
        """
        In "updates" the graph that asks has one, and so has each graph above.
        """

        async def asks(state):
            interrupt("?")

        graph = in_a_row({"sub": in_a_row({"asks": asks})}, checkpointer=InMemorySaver())

        told = await chunks(graph, {}, at(), stream_mode="updates", subgraphs=True)

        assert [len(ns) for ns, chunk in told if "__interrupt__" in chunk] == [1, 0]

    async def test_a_drained_graph_below_has_none(self):
        """
        A run that is drained while a subgraph runs has no chunk of a pause.
        """
        control = RunControl()

        async def drains(state):
            control.request_drain()

        inner = in_a_row({"drains": drains, "late": writer("late")})
        graph = in_a_row({"sub": inner}, checkpointer=InMemorySaver())
        stream = graph.astream({}, at(), control=control)

        with pytest.raises(GraphDrained):  # and not a chunk before
            await anext(stream)
