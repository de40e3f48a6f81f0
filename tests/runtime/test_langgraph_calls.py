"""LangGraph's functions and tools called in nodes: as in a node of LangGraph's own."""

import subprocess
import sys
from typing import Annotated

import pytest
from langchain_core.messages import AIMessage as TheirAIMessage
from langchain_core.tools import tool
from langgraph import func as their_func
from langgraph import graph as theirs
from langgraph import types as their_types
from langgraph.config import get_config as their_config
from langgraph.config import get_store as their_get_store
from langgraph.config import get_stream_writer as their_writer
from langgraph.errors import GraphInterrupt as TheirInterrupt
from langgraph.graph.message import push_message as their_push
from langgraph.prebuilt import InjectedState as TheirState
from langgraph.prebuilt import ToolNode as TheirToolNode
from langgraph.prebuilt import ToolRuntime as TheirToolRuntime
from langgraph.runtime import get_runtime as their_runtime
from pydantic import BaseModel, ValidationError

from actorgraph import (
    START,
    Command,
    GraphBuildError,
    InvalidUpdateError,
    StateGraph,
    interrupt,
    is_invalid_resume,
)
from actorgraph.errors import OutsideRunError
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import ToolNode
from actorgraph.stores import InMemoryStore
from tests.support.graphs import at
from tests.support.mixed_graphs import Log, answered, graph_of


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

    @pytest.mark.parametrize("handling", [True, False])
    def test_a_tool_of_langchain_with_their_runtime(self, handling):
        """
        Our ToolNode injects LangGraph's ToolRuntime where pydantic demands that class.
        """
        seen = []

        @tool
        def look(a: int, runtime: TheirToolRuntime) -> str:
            """Look."""
            runtime.emit_output_delta("half")
            info = runtime.execution_info
            seen.append((type(runtime), runtime.tool_call_id, runtime.state["count"], info.task_id))
            return f"{a}"

        graph = graph_of(ToolNode([look], handle_tool_errors=handling))
        call = {"name": "look", "args": {"a": 1}, "id": "c1"}
        given = {"messages": [TheirAIMessage("", tool_calls=[call])], "count": 5, "log": []}
        chunks = list(graph.stream(given, at(), stream_mode="tools"))

        assert [c["delta"] for c in chunks if c["event"] == "tool-output-delta"] == ["half"]
        assert chunks[-1]["output"].content == "1"
        assert seen[0][:3] == (TheirToolRuntime, "c1", 5)
        assert seen[0][3]

    @pytest.mark.parametrize("handling", [True, False])
    def test_the_model_gets_no_reply_about_injected_values(self, handling):
        """
        An error that concerns only injected arguments fails the node, without their values.
        """

        @tool
        def look(a: int, count: Annotated[int, TheirState("log")]) -> str:
            """Look."""
            return f"{a}{count}"

        graph = graph_of(ToolNode([look], handle_tool_errors=handling))
        call = {"name": "look", "args": {"a": 1}, "id": "c1"}
        given = {"messages": [TheirAIMessage("", tool_calls=[call])], "log": ["hidden"]}

        with pytest.raises(InvalidUpdateError, match="refuses what the graph injects: count") as e:
            graph.invoke(given, at())
        assert "hidden" not in str(e.value)

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
