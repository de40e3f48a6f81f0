"""Arguments of tools from the graph: state, store, runtime, the call's id. No model sets them."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from actorgraph import START, Send, StateGraph
from actorgraph.errors import InvalidUpdateError
from actorgraph.prebuilt import (
    InjectedState,
    InjectedStore,
    InjectedToolCallId,
    ToolNode,
    ToolRuntime,
)
from actorgraph.prebuilt.tools import tool_of
from tests.prebuilt.chatter import Chat, calling, told


def who(
    ask: str,
    state: Annotated[Any, InjectedState],
    user: Annotated[str, InjectedState("user")],
    call: Annotated[str, InjectedToolCallId],
) -> str:
    """Greet the user of the state."""
    return f"{call}: {user} asks {ask} after {len(state['messages'])} messages"


def maybe(user: Annotated[str, InjectedState("user")] = "nobody") -> str:
    return user


def stored(key: str, store: Annotated[Any, InjectedStore()]) -> str:
    return store[key]


class Kept(dict[str, str]):
    """A store: whatever has `batch` and `abatch`."""

    def batch(self, ops): ...

    async def abatch(self, ops): ...


def running(number: int, runtime: ToolRuntime) -> str:
    runtime.stream_writer({"number": number})
    return f"{runtime.tool_call_id} {runtime.context} {runtime.state['user']} {len(runtime.tools)}"


class TestState:
    @pytest.mark.langgraph("F-M2")
    async def test_the_state_or_a_part_is_filled_in(self):
        """
        Marked arguments come from the state and the call, whatever the model says of them.
        """
        message = calling(("who", {"ask": "why", "user": "mallory", "call": "x"}))

        update = await ToolNode([who]).ainvoke({"messages": [message], "user": "ann"})

        assert told(update["messages"]) == [("1", "1: ann asks why after 1 messages")]

    @pytest.mark.langgraph("F-M2")
    def test_a_model_does_not_see_injected_arguments(self):
        """
        The schema for the model has only what the model may set.
        """
        schema = ToolNode([who]).tools_by_name["who"].args_schema

        assert list(schema["properties"]) == ["ask"]

    @pytest.mark.langgraph("F-M2")
    async def test_a_state_may_be_an_object(self):
        """
        Keys are read as attributes of a state that isn't a dict, and a list is its messages.
        """

        @dataclass
        class State:
            messages: list[Any]
            user: str = "ann"

        def count(messages: Annotated[list[Any], InjectedState("messages")]) -> str:
            return str(len(messages))

        node = ToolNode([maybe, count])

        made = await node.ainvoke(State([calling(("maybe", {}), ("count", {}))]))
        assert told(made["messages"]) == [("1", "ann"), ("2", "1")]
        assert told(await node.ainvoke([calling(("count", {}))])) == [("1", "1")]

    @pytest.mark.langgraph("F-M2")
    async def test_calls_alone_see_the_graphs_state(self):
        """
        A Send that carries calls only finds the state in the run.
        """

        async def route(state: Chat):
            return [Send("tools", [call]) for call in state["messages"][-1].tool_calls]

        builder = StateGraph(Chat).add_node("tools", ToolNode([who]))
        graph = builder.add_conditional_edges(START, route, ["tools"]).compile()
        message = calling(("who", {"ask": "why"}), ("who", {"ask": "how"}))

        state = await graph.ainvoke({"messages": [message], "user": "ann"})

        assert told(state["messages"][1:]) == [
            ("1", "1: ann asks why after 1 messages"),
            ("2", "2: ann asks how after 1 messages"),
        ]

    @pytest.mark.langgraph("F-M2")
    async def test_a_missing_key_needs_a_default(self):
        """
        A key that the state doesn't have leaves the parameter's default, or is an error.
        """
        node = ToolNode([maybe, who])

        made = await node.ainvoke({"messages": [calling(("maybe", {}))]})
        assert told(made["messages"]) == [("1", "nobody")]
        with pytest.raises(InvalidUpdateError, match="'who' needs 'user' of the state"):
            await node.ainvoke({"messages": [calling(("who", {"ask": "why"}))]})


class TestSurroundings:
    @pytest.mark.langgraph("F-M2")
    async def test_a_tool_gets_the_graphs_store(self):
        """
        The store that the graph was compiled with is passed; without one the call is refused.
        """
        builder = StateGraph(Chat).add_node(ToolNode([stored])).add_edge(START, "tools")
        given = {"messages": [calling(("stored", {"key": "k"}))]}

        with pytest.raises(InvalidUpdateError, match="Cannot inject store into tool 'stored'"):
            await builder.compile().ainvoke(given)
        state = await builder.compile(store=Kept(k="v")).ainvoke(given)

        assert told(state["messages"][1:]) == [("1", "v")]

    @pytest.mark.langgraph("F-M2")
    async def test_a_tool_gets_the_runtime(self):
        """
        ToolRuntime has the state, the run's context, the call's id, the tools and a writer.
        """
        builder = StateGraph(Chat, context_schema=dict).add_node(ToolNode([running]))
        graph = builder.add_edge(START, "tools").compile()
        given = {"messages": [calling(("running", {"number": 1}))], "user": "ann"}

        stream = graph.astream(given, context={"a": 1}, stream_mode=["custom", "values"])
        chunks = [chunk async for chunk in stream]

        assert ("custom", {"number": 1}) in chunks
        assert told(chunks[-1][1]["messages"][1:]) == [("1", "1 {'a': 1} ann 1")]

    async def test_outside_of_a_graph_there_is_a_runtime_too(self):
        """
        A node that is called on its own gives tools its input as the state, and no context.
        """
        given = {"messages": [calling(("running", {"number": 1}))], "user": "ann"}

        made = await ToolNode([running]).ainvoke(given)

        assert told(made["messages"]) == [("1", "1 None ann 1")]

    @pytest.mark.langgraph("F-M2")
    def test_a_runtime_may_name_its_context_alone(self):
        """
        `ToolRuntime[Context]` is an annotation like `ToolRuntime[Context, State]`, and is hidden.
        """

        def ask(query: str, runtime: ToolRuntime[int]) -> str:
            """Ask."""
            return query + str(runtime.context)

        made = tool_of(ask)

        assert made.injected.hidden == {"runtime"}

    @pytest.mark.langgraph("F-M2")
    async def test_a_missing_key_is_an_error_of_the_program(self):
        """
        A missing key of the state fails the node, even where all errors of tools are replied to.
        """
        node = ToolNode([who], handle_tool_errors=True)

        with pytest.raises(InvalidUpdateError, match="'who' needs 'user' of the state"):
            await node.ainvoke({"messages": [calling(("who", {"ask": "why"}))]})
