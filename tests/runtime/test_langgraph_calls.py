"""LangGraph's functions, tools and graphs called in nodes: as in a node of LangGraph's own."""

import asyncio
import operator
import subprocess
import sys
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage as TheirAIMessage
from langchain_core.runnables import RunnableConfig
from langgraph import func as their_func
from langgraph import graph as theirs
from langgraph import types as their_types
from langgraph.checkpoint.memory import InMemorySaver as TheirSaver
from langgraph.config import get_config as their_config
from langgraph.config import get_store as their_get_store
from langgraph.config import get_stream_writer as their_writer
from langgraph.errors import GraphInterrupt as TheirInterrupt
from langgraph.graph.message import push_message as their_push
from langgraph.prebuilt import InjectedState as TheirState
from langgraph.prebuilt import ToolNode as TheirToolNode
from langgraph.prebuilt import ToolRuntime as TheirToolRuntime
from langgraph.runtime import get_runtime as their_runtime
from langgraph.store.memory import InMemoryStore as TheirStore
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

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
    add_messages,
    interrupt,
    is_invalid_resume,
)
from actorgraph.errors import OutsideRunError
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import ToolNode
from actorgraph.stores import InMemoryStore
from tests.support.graphs import at


class Log(TypedDict, total=False):
    count: int
    log: Annotated[list, operator.add]
    messages: Annotated[list, add_messages]


def then(state):
    return {"log": ["then"]}


def graph_of(*nodes, store: Any = None, saver: Any = None, **options: Any) -> Any:
    """The nodes beside each other, and one after them that says that it ran."""
    builder = StateGraph(Log).add_node("then", then)
    for place, node in enumerate(nodes):
        builder.add_node(f"n{place}", node).add_edge(START, f"n{place}")
    builder.add_edge([f"n{place}" for place in range(len(nodes))], "then")
    saver = InMemorySaver() if saver is None else saver
    return builder.compile(checkpointer=saver or None, store=store, **options)


async def answered(graph: Any, *answers: Any, given: Any = None) -> tuple[list, Any]:
    """Run a graph, answering each question by its id; what was asked, and the result."""
    asked = []
    result = await graph.ainvoke(given or {"log": []}, at())
    left = list(answers)
    while "__interrupt__" in result and len(asked) <= len(answers):
        (question,) = (await graph.aget_state(at())).interrupts
        asked.append(question.value)
        result = await graph.ainvoke(Command(resume={question.id: left.pop(0)}), at())
    return asked, result


class TestInterrupt:
    async def test_it_pauses_and_is_answered(self):
        """
        LangGraph's interrupt in a node: the question is ours, and its answer is what it returns.
        """
        graph = graph_of(lambda state: {"log": [their_types.interrupt("why?")]})

        asked, result = await answered(graph, "because")

        assert (asked, result["log"]) == (["why?"], ["because", "then"])

    @pytest.mark.parametrize("kind", ["sync", "async"])
    async def test_several_of_both_libraries_in_turn(self, kind):
        """
        The n-th question of a node gets the n-th answer, whichever library asks it; None is one.
        """

        def ask(state):
            return {
                "log": [
                    their_types.interrupt("a?"),
                    interrupt("b?"),
                    their_types.interrupt("c?"),
                    their_types.interrupt("d?"),
                ]
            }

        async def ask_async(state):
            return ask(state)

        asked, result = await answered(
            graph_of(ask if kind == "sync" else ask_async), 1, None, None, 4
        )

        assert asked == ["a?", "b?", "c?", "d?"]
        assert result["log"] == [1, None, None, 4, "then"]

    def test_in_blocking_code_and_without_an_id(self):
        """
        Without an event loop of the caller's, answered by `Command(resume=...)` of either library.
        """
        graph = graph_of(
            lambda state: {"log": [their_types.interrupt("a?"), their_types.interrupt("b?")]}
        )

        assert graph.invoke({"log": []}, at())["__interrupt__"][0].value == "a?"
        assert graph.invoke(Command(resume=1), at())["__interrupt__"][0].value == "b?"
        assert graph.invoke(their_types.Command(resume=2), at())["log"] == [1, 2, "then"]

    async def test_in_parallel_nodes(self):
        """
        Each answer reaches the node that asked.
        """
        graph = graph_of(
            lambda state: {"log": [their_types.interrupt("a?")]},
            lambda state: {"log": [their_types.interrupt("b?")]},
        )
        await graph.ainvoke({"log": []}, at())
        asked = (await graph.aget_state(at())).interrupts

        result = await graph.ainvoke(Command(resume={q.id: q.value.upper() for q in asked}), at())

        assert [q.value for q in asked] == ["a?", "b?"]
        assert result["log"] == ["A?", "B?", "then"]

    async def test_in_two_tools_at_once(self):
        """
        Tools of one node that ask with LangGraph's interrupt are answered one by one.
        """

        def act(word: str) -> str:
            """Act."""
            return f"{word}:{their_types.interrupt(word)}:{their_types.interrupt(word * 2)}"

        calls = [{"name": "act", "args": {"word": w}, "id": w} for w in ("a", "b")]
        graph = graph_of(ToolNode([act]))
        result = await graph.ainvoke({"messages": [AIMessage("", tool_calls=calls)]}, at())
        for _ in range(2):
            asked = (await graph.aget_state(at())).interrupts
            answers = {q.id: f"re-{q.value}" for q in asked}
            result = await graph.ainvoke(Command(resume=answers), at())

        assert [m.content for m in result["messages"][1:]] == ["a:re-a:re-aa", "b:re-b:re-bb"]

    async def test_an_answer_that_does_not_fit_is_refused(self):
        """
        The question stays open with its value and schema, and a good answer goes on.
        """

        class Answer(BaseModel):
            n: int

        def ask(state):
            return {"count": their_types.interrupt("n?", response_schema=Answer).n}

        graph = graph_of(ask)
        (question,) = (await graph.ainvoke({"log": []}, at()))["__interrupt__"]

        with pytest.raises(ValidationError) as refused:
            await graph.ainvoke(Command(resume={"n": "x"}), at())

        assert is_invalid_resume(refused.value)
        assert (await graph.aget_state(at())).interrupts == (question,)
        assert question.response_schema["properties"]["n"]["type"] == "integer"
        assert (await graph.ainvoke(Command(resume={"n": "3"}), at()))["count"] == 3

    @pytest.mark.parametrize("kind", [Exception, TheirInterrupt])
    async def test_one_that_is_caught_is_not_dropped(self, kind):
        """
        A node that catches the exception of the question fails; no node after it runs.
        """

        def ask(state):
            try:
                their_types.interrupt("why?")
            except kind:
                return {"log": ["went on"]}

        graph = graph_of(ask)

        with pytest.raises(InvalidUpdateError, match="'n0' caught the exception by which"):
            await graph.ainvoke({"log": []}, at())
        assert (await graph.aget_state(at())).next == ("n0",)


class TestFunctions:
    async def test_each_finds_what_ours_finds(self):
        """
        get_config, get_store, get_stream_writer and get_runtime of LangGraph in a node.
        """
        store = InMemoryStore()
        seen = {}

        async def node(state, config, runtime):
            seen["thread"] = their_config()["configurable"]["thread_id"]
            seen["node"] = their_config()["metadata"]["langgraph_node"]
            seen["store"] = their_get_store() is store
            found = their_runtime()
            seen["context"] = found.context
            seen["task"] = found.execution_info.task_id == runtime.execution_info.task_id
            seen["drain"] = found.drain_requested
            their_writer()("chunk")
            return {"log": ["n"]}

        graph = graph_of(node, store=store)
        chunks = [
            chunk
            async for chunk in graph.astream(
                {"log": []}, at(), stream_mode="custom", context={"user": "u"}
            )
        ]

        assert chunks == ["chunk"]
        assert seen == {
            "thread": "t",
            "node": "n0",
            "store": True,
            "context": {"user": "u"},
            "task": True,
            "drain": False,
        }

    async def test_push_message_writes_and_streams(self):
        """
        LangGraph's push_message writes to the state, and its message is streamed.
        """

        def node(state):
            their_push(TheirAIMessage("hi", id="m1"))
            return {"log": ["n"]}

        graph = graph_of(node)
        chunks = [c async for c in graph.astream({"log": []}, at(), stream_mode="messages")]

        assert [chunk.id for chunk, _ in chunks] == ["m1"]
        assert [m.id for m in (await graph.aget_state(at())).values["messages"]] == ["m1"]

    async def test_push_message_to_an_unknown_key_is_refused(self):
        """
        The node fails instead of dropping the message.
        """
        message = TheirAIMessage("hi", id="m1")
        graph = graph_of(lambda state: their_push(message, state_key="mesages"))

        with pytest.raises(InvalidUpdateError, match="'mesages', which is not a key of the state"):
            await graph.ainvoke({"log": []}, at())

    def test_without_their_graphs(self):
        """
        A program that has loaded LangGraph's functions alone: they find the task, and load no more.
        """
        program = """
import sys
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.types import Command, interrupt
from actorgraph import InMemorySaver, START, StateGraph
from actorgraph.stores import InMemoryStore
def node(state):
    get_stream_writer()("chunk")
    return {"a": interrupt(get_config()["configurable"]["thread_id"]), "b": bool(get_store())}
store = InMemoryStore()
graph = StateGraph(dict).add_node("n", node).add_edge(START, "n")
graph = graph.compile(checkpointer=InMemorySaver(), store=store)
place = {"configurable": {"thread_id": "t"}}
print(list(graph.stream({"a": 0}, place, stream_mode="custom")))
print(graph.invoke(Command(resume=1), place))
print([m for m in sys.modules if m.startswith("langgraph.pregel")])
"""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )

        assert done.stdout.splitlines() == ["['chunk']", "{'a': 1, 'b': True}", "[]"], done.stderr

    async def test_their_task_is_refused(self):
        """
        A @task of LangGraph's: refused as a node when it is added, and when a node calls it.
        """

        @their_func.task
        def double(number):
            return 2 * number

        with pytest.raises(GraphBuildError, match="'n0' is a @task of LangGraph's"):
            graph_of(double)
        graph = graph_of(lambda state: {"count": double(1).result()})
        with pytest.raises(
            OutsideRunError, match=r"task 'double' of LangGraph's was called in .*n0"
        ):
            await graph.ainvoke({"log": []}, at())

    def test_their_builder_is_refused(self):
        """
        A StateGraph that isn't compiled is refused when it is added.
        """
        with pytest.raises(GraphBuildError, match="isn't compiled"):
            graph_of(theirs.StateGraph(Log))

    async def test_their_tool_node(self):
        """
        LangGraph's ToolNode as a node: its tools get the state, the store, the runtime, and ask.
        """
        store, seen = InMemoryStore(), []

        def act(
            word: str,
            state: Annotated[dict, TheirState],
            runtime: TheirToolRuntime,
        ) -> str:
            """Act."""
            seen.append((state["count"], runtime.store is store, runtime.tool_call_id))
            return their_types.interrupt(word)

        call = {"name": "act", "args": {"word": "why?"}, "id": "c1"}
        given = {"messages": [TheirAIMessage("", tool_calls=[call])], "count": 5, "log": []}

        asked, result = await answered(
            graph_of(TheirToolNode([act]), store=store), "because", given=given
        )

        assert asked == ["why?"]
        assert result["messages"][-1].content == "because"
        assert set(seen) == {(5, True, "c1")}

    async def test_nothing_of_a_task_reaches_the_next_or_a_subgraph(self):
        """
        A subgraph's task finds its own; the config that a run shows has no keys of a task.
        """
        seen = []

        def look(state):
            seen.append(their_config()["configurable"]["__pregel_task_id"])
            return {"log": ["x"]}

        inner = StateGraph(Log).add_node("look", look).add_edge(START, "look").compile()
        graph = graph_of(look, inner)
        await graph.ainvoke({"log": []}, at())

        assert len(set(seen)) == 2
        async for snapshot in graph.aget_state_history(at()):
            assert not [k for k in snapshot.config["configurable"] if k.startswith("__")]
            assert not [k for k in snapshot.metadata if k.startswith("__")]


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
