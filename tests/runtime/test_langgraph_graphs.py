"""LangGraph's graphs in nodes, and graphs in nodes of LangGraph's."""

import asyncio
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph import graph as theirs
from langgraph import types as their_types
from langgraph.checkpoint.memory import InMemorySaver as TheirSaver
from langgraph.config import get_stream_writer as their_writer
from langgraph.runtime import get_runtime as their_runtime
from langgraph.store.memory import InMemoryStore as TheirStore

from actorgraph import (
    START,
    Command,
    GraphBuildError,
    GraphDrained,
    InMemorySaver,
    InvalidConfigError,
    InvalidUpdateError,
    RunControl,
    StateGraph,
    interrupt,
)
from actorgraph.stores import InMemoryStore
from tests.support.graphs import at
from tests.support.mixed_graphs import Log, answered, graph_of, then


def asking(question: str, *, saver: Any = None, steps: list | None = None, **more: Any) -> Any:
    """A graph of LangGraph's: a first node that notes that it ran, and one that asks."""

    def first(state):
        if steps is not None:
            steps.append(question)
        return {"log": [f"first {question}"]}

    def ask(state):
        return {"log": [their_types.interrupt(question)]}

    builder = theirs.StateGraph(Log).add_node("first", first).add_node("ask", ask)
    builder.add_edge(theirs.START, "first").add_edge("first", "ask")
    return builder.compile(checkpointer=saver, **more)


class TestGraphs:
    async def test_called_by_hand_it_asks_and_goes_on(self, anyio_backend):
        """
        A node that calls a graph and takes its result apart: asked, resumed where it stopped.
        """
        steps = []
        inner = asking("one?", saver=TheirSaver(), steps=steps)

        def by_hand(state, config):
            return {"log": inner.invoke({"log": []}, config)["log"][-1:]}

        async def without_a_config(state):
            return {"log": (await inner.ainvoke({"log": []}))["log"][-1:]}

        # LangGraph's async code needs asyncio.
        for node in (by_hand, without_a_config) if anyio_backend == "asyncio" else (by_hand,):
            steps.clear()
            asked, result = await answered(graph_of(node), "yes")
            assert (asked, result["log"], steps) == (["one?"], ["yes", "then"], ["one?"])

    async def test_called_by_hand_without_a_checkpointer_it_is_refused(self):
        """
        Its question can't be resumed: the node fails, and the next one doesn't run.
        """
        inner = asking("one?")
        graph = graph_of(lambda state, config: {"log": inner.invoke({"log": []}, config)["log"]})

        with pytest.raises(InvalidUpdateError, match=r"asks 'one\?' and has no checkpointer"):
            await graph.ainvoke({"log": []}, at())
        assert (await graph.aget_state(at())).next == ("n0",)

    async def test_called_several_times_in_one_node(self):
        """
        Each call has its own questions; a call that has ended isn't run again.
        """
        steps, saver = [], TheirSaver()
        graphs = [asking(q, saver=saver, steps=steps) for q in ("one?", "two?")]

        def node(state):
            return {"log": [g.invoke({"log": []})["log"][-1] for g in (*graphs, graphs[0])]}

        asked, result = await answered(graph_of(node), 1, 2, 3)

        assert (asked, result["log"]) == (["one?", "two?", "one?"], [1, 2, 3, "then"])
        assert steps == ["one?", "two?", "one?"]

    async def test_two_nodes_that_share_one_checkpointer(self):
        """
        Their states are apart, and so are those of two runs of a node.
        """
        saver = TheirSaver()
        graph = graph_of(asking("a?", saver=saver), asking("b?", saver=saver))
        for turn in (1, 2):
            await graph.ainvoke({"log": []}, at())
            asked = (await graph.aget_state(at())).interrupts
            answers = {q.id: f"{q.value}{turn}" for q in asked}
            result = await graph.ainvoke(Command(resume=answers), at())

        assert sorted(set(result["log"])) == sorted(
            {"first a?", "first b?", "then", "a?1", "b?1", "a?2", "b?2"}
        )

    async def test_custom_chunks_reach_the_reader(self):
        """
        Chunks that a graph of LangGraph's writes in a node are streamed by the run.
        """

        def write(state):
            their_writer()("chunk")
            return {"log": ["w"]}

        inner = theirs.StateGraph(Log).add_node("w", write).add_edge(theirs.START, "w").compile()

        for node in (inner, lambda state: inner.invoke({"log": []})):
            stream = graph_of(node).astream({"log": []}, at(), stream_mode="custom")
            assert [chunk async for chunk in stream] == ["chunk"]

    async def test_the_context_and_the_store_reach_its_nodes(self):
        """
        The run's context and store; and the graph's own store in a run without one.
        """
        seen = []

        def look(state, runtime: Any = None):
            seen.append((their_runtime().context, their_runtime().store))
            return {}

        own, ours = TheirStore(), InMemoryStore()
        builder = theirs.StateGraph(Log).add_node("l", look).add_edge(theirs.START, "l")
        for store in (ours, None):
            graph = graph_of(builder.compile(store=own), store=store)
            await graph.ainvoke({"log": []}, at(), context={"user": "u"})

        assert seen == [({"user": "u"}, ours), ({"user": "u"}, own)]

    def test_one_that_shares_a_checkpointer_is_refused(self):
        """
        checkpointer=True needs a graph of LangGraph's above, and is refused.
        """
        with pytest.raises(GraphBuildError, match="checkpointer=True"):
            graph_of(asking("one?", saver=True))

    async def test_its_own_thread_is_its_own_run(self):
        """
        A call with a thread id of its own runs apart from the node: its result has its question.
        """
        inner = asking("one?", saver=TheirSaver())

        def node(state):
            return {"count": len(inner.invoke({"log": []}, at("other"))["__interrupt__"])}

        assert (await graph_of(node).ainvoke({"log": []}, at()))["count"] == 1
        assert inner.get_state(at("other")).next == ("ask",)

    async def test_a_command_for_the_graph_above(self):
        """
        `Command(graph=PARENT)` of a graph that a node calls by hand leads to our nodes.
        """

        def up(state):
            return their_types.Command(graph="__parent__", update={"count": 7}, goto="other")

        inner = theirs.StateGraph(Log).add_node("up", up).add_edge(theirs.START, "up").compile()
        builder = StateGraph(Log).add_node(
            "n", lambda s: {**inner.invoke(s)}, destinations=("other",)
        )
        graph = builder.add_node("other", then).add_edge(START, "n").compile()

        result = await graph.ainvoke({"log": []})
        assert (result["count"], result["log"]) == (7, ["then"])

    async def test_a_drain_reaches_it(self):
        """
        A run that is drained while a graph of LangGraph's runs goes on where that one stopped.
        """
        control, steps = RunControl(), []

        def one(state):
            steps.append(1)
            control.request_drain()
            return {"log": ["one"]}

        def two(state):
            steps.append(2)
            return {"log": ["two"]}

        builder = theirs.StateGraph(Log).add_node("one", one).add_node("two", two)
        builder.add_edge(theirs.START, "one").add_edge("one", "two")
        graph = graph_of(builder.compile(checkpointer=TheirSaver()))

        with pytest.raises(GraphDrained):
            await graph.ainvoke({"log": []}, at(), control=control)
        assert steps == [1]
        assert (await graph.ainvoke(None, at()))["log"] == ["one", "two", "then"]
        assert steps == [1, 2]

    async def test_our_question_in_its_node(self):
        """
        Our interrupt() in a node of LangGraph's in a node of ours is asked, and answered.
        """

        def ask(state):
            return {"log": [interrupt("ours?")]}

        builder = theirs.StateGraph(Log).add_node("ask", ask).add_edge(theirs.START, "ask")
        graph = graph_of(builder.compile(checkpointer=TheirSaver()))

        asked, result = await answered(graph, "yes")

        assert (asked, result["log"]) == (["ours?"], ["yes", "then"])

    def test_two_that_are_called_at_once_by_hand(self):
        """
        Concurrent calls of one node: each question is asked, and each answer reaches its call.
        """
        saver = TheirSaver()
        graphs = {name: asking(f"{name}?", saver=saver) for name in "ab"}

        async def node(state):
            done = await asyncio.gather(*(g.ainvoke({"log": []}) for g in graphs.values()))
            return {"log": [d["log"][-1] for d in done]}

        async def run():
            return await answered(graph_of(node), 1, 2)

        asked, result = asyncio.run(run())

        assert sorted(asked) == ["a?", "b?"]
        assert sorted(result["log"][:2]) == [1, 2]


@pytest.mark.filterwarnings("ignore:The 'config' parameter")
class TestInTheirGraphs:
    """Our graphs in nodes of LangGraph's."""

    @staticmethod
    def around(node):
        """LangGraph's graph of a node and one after it."""
        builder = theirs.StateGraph(Log).add_node("n", node).add_node("then", then)
        builder.add_edge(theirs.START, "n").add_edge("n", "then")
        return builder.compile(checkpointer=TheirSaver())

    @staticmethod
    def asking(**options):
        """Our graph that asks."""
        builder = StateGraph(Log).add_node("a", lambda state: {"log": [interrupt("why?")]})
        return builder.add_edge(START, "a").compile(**options)

    def test_one_that_does_not_pause_works(self):
        """
        As a node, and called by hand, without a config and with the node's.
        """
        ours = StateGraph(Log).add_node("a", lambda state: {"log": ["a"]}).add_edge(START, "a")
        ours = ours.compile()

        def by_hand(state):
            return ours.invoke(state)

        for node in (ours, ours.invoke, by_hand):
            assert self.around(node).invoke({"log": []}, at())["log"] == ["a", "then"]

    def test_a_question_is_not_dropped(self):
        """
        LangGraph could not resume our graph: its node fails, and the next one doesn't run.
        """
        ours = self.asking()

        for node in (ours, ours.invoke, by_stream(ours)):
            graph = self.around(node)
            with pytest.raises(
                InvalidUpdateError, match=r"asks 'why\?' in a node of a graph of Lang"
            ):
                graph.invoke({"log": []}, at())
            assert graph.get_state(at()).next == ("n",)

    def test_a_breakpoint_is_not_dropped(self):
        """
        Nor is a stop at a breakpoint of our graph taken for its end.
        """
        ours = self.asking(interrupt_before=["a"])

        with pytest.raises(
            InvalidUpdateError, match="stopped at a breakpoint in a node of a graph"
        ):
            self.around(ours.invoke).invoke({"log": []}, at())

    def test_a_checkpointer_of_its_own_needs_a_thread_of_its_own(self):
        """
        LangGraph's config addresses a checkpoint of LangGraph's: refused before anything runs.
        """
        ours = self.asking(checkpointer=InMemorySaver())

        def with_config(state, config: RunnableConfig):
            return ours.invoke(state, config)

        with pytest.raises(InvalidConfigError, match="got the config of a task of LangGraph's"):
            self.around(with_config).invoke({"log": []}, at())

    def test_on_a_thread_of_its_own_it_pauses(self):
        """
        The node gets the question, and may answer it itself.
        """
        ours = self.asking(checkpointer=InMemorySaver())

        def node(state):
            (question,) = ours.invoke({"log": []}, at("own"))["__interrupt__"]
            return ours.invoke(Command(resume=question.value.upper()), at("own"))

        assert self.around(node).invoke({"log": []}, at())["log"] == ["WHY?", "then"]


def by_stream(graph):
    """A node that streams a graph."""

    def node(state):
        return [chunk for chunk in graph.stream(state) if "__interrupt__" not in chunk][-1:]

    return node
