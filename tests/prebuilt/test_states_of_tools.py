"""The state that a tool sees: by its schema, however the call came, and as a wrapper left it."""

from dataclasses import dataclass, field, make_dataclass, replace
from operator import add
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest

from actorgraph import START, RemainingSteps, Send, StateGraph
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import InjectedState, ToolCallRequest, ToolNode, ToolRuntime
from tests.prebuilt.chatter import calling, told

MESSAGES = Annotated[list[Any], add]


class AsDict(TypedDict, total=False):
    messages: MESSAGES
    user: str


@dataclass
class AsDataclass:
    messages: MESSAGES = field(default_factory=list)
    user: str = "nobody"


class AsPydantic(pydantic.BaseModel):
    messages: MESSAGES = []
    user: str = "nobody"


class AsStruct(msgspec.Struct):
    messages: MESSAGES = []
    user: str = "nobody"


OBJECTS = [AsDataclass, AsPydantic, AsStruct]


def value_of(state: Any, key: str) -> Any:
    return state[key] if isinstance(state, dict) else getattr(state, key)


def seen(
    runtime: ToolRuntime,
    state: Annotated[Any, InjectedState],
    user: Annotated[str, InjectedState("user")],
) -> str:
    both = [type(s).__name__ + ":" + value_of(s, "user") for s in (runtime.state, state)]
    return " ".join([*both, user])


def by_sends(schema: Any, node: Any, **options: Any) -> Any:
    """A graph that sends each call of its message to the tools, without a state."""
    builder = StateGraph(schema).add_node("tools", node, **options)

    def route(state: Any) -> list[Send]:
        return [Send("tools", [call]) for call in value_of(state, "messages")[-1].tool_calls]

    return builder.add_conditional_edges(START, route, ["tools"]).compile()


def by_edge(schema: Any, node: Any) -> Any:
    return StateGraph(schema).add_node("tools", node).add_edge(START, "tools").compile()


class TestCallsAlone:
    @pytest.mark.parametrize("schema", OBJECTS)
    async def test_a_sent_call_sees_what_an_edge_would_give(self, schema):
        """
        A tool whose call was sent without a state gets the graph's, as its schema makes it.
        """
        given = {"messages": [calling(("seen", {}))]}

        for make in (by_sends, by_edge):
            state = await make(schema, ToolNode([seen])).ainvoke(given)

            name = schema.__name__
            assert told(state["messages"][1:]) == [("1", f"{name}:nobody {name}:nobody nobody")]

    def test_a_blocking_call_sees_the_same(self):
        """
        The state of a sent call is made in a blocking call too.
        """
        graph = by_sends(AsPydantic, ToolNode([seen]))

        state = graph.invoke({"messages": [calling(("seen", {}))], "user": "ann"})

        assert told(state["messages"][1:]) == [("1", "AsPydantic:ann AsPydantic:ann ann")]

    async def test_a_call_without_a_type(self):
        """
        A call of this library's AIMessage, which names no type, can be sent as LangChain's can.
        """
        message = AIMessage("", tool_calls=[{"name": "seen", "args": {}, "id": "1"}])

        state = await by_sends(AsDict, ToolNode([seen])).ainvoke(
            {"messages": [message], "user": "ann"}
        )

        assert told(state["messages"][1:]) == [("1", "dict:ann dict:ann ann")]

    async def test_it_has_the_nodes_own_schema_and_the_steps_left(self):
        """
        The node's input schema decides what is seen, managed values included.
        """

        class Own(TypedDict):
            messages: list[Any]
            left: RemainingSteps

        def keys(runtime: ToolRuntime) -> str:
            return f"{sorted(runtime.state)} {runtime.state['left']}"

        graph = by_sends(AsDict, ToolNode([keys]), input_schema=Own)

        given = {"messages": [calling(("keys", {}))], "user": "ann"}
        state = await graph.ainvoke(given, {"recursion_limit": 9})

        assert told(state["messages"][1:]) == [("1", "['left', 'messages'] 8")]

    async def test_a_node_of_the_program_may_pass_calls_on(self):
        """
        A function that is sent calls, and gives them to tools, gives them the same state.
        """
        tools = ToolNode([seen])

        async def node(calls: Any) -> Any:
            return await tools.ainvoke(calls)

        state = await by_sends(AsDataclass, node).ainvoke({"messages": [calling(("seen", {}))]})

        assert state["messages"][1].content == "AsDataclass:nobody AsDataclass:nobody nobody"

    async def test_a_graph_inside_does_not_see_the_state_above(self):
        """
        Calls in a graph below the one that was sent them find that graph's own state.
        """

        class Inner(TypedDict, total=False):
            calls: list[Any]
            messages: MESSAGES

        def keys(runtime: ToolRuntime) -> str:
            return str(sorted(runtime.state))

        tools = ToolNode([keys])

        async def run(state: Inner) -> Any:
            return await tools.ainvoke(state["calls"])

        inner = StateGraph(Inner).add_node(run).add_edge(START, "run").compile()

        async def node(calls: Any) -> Any:
            return {"messages": (await inner.ainvoke({"calls": calls}))["messages"]}

        state = await by_sends(AsDict, node).ainvoke({"messages": [calling(("keys", {}))]})

        assert state["messages"][1].content == "['calls', 'messages']"


def redacted(state: Any) -> Any:
    if isinstance(state, dict):
        return {**state, "user": "-"}
    if isinstance(state, pydantic.BaseModel):
        return state.model_copy(update={"user": "-"})
    if isinstance(state, msgspec.Struct):
        return msgspec.structs.replace(state, user="-")
    return replace(state, user="-")


def assigned(request: ToolCallRequest, state: Any) -> ToolCallRequest:
    request.state = state
    return request


def assigned_below(request: ToolCallRequest, state: Any) -> ToolCallRequest:
    request.runtime.state = state
    return request


def with_runtime(request: ToolCallRequest, state: Any) -> ToolCallRequest:
    return request.override(runtime=replace(request.runtime, state=state))


WAYS = {
    "override": lambda request, state: request.override(state=state),
    "a runtime of its own": with_runtime,
    "dataclasses.replace": lambda request, state: replace(request, state=state),
    "assigned": assigned,
    "assigned to the runtime": assigned_below,
}


class TestWrappersState:
    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
    @pytest.mark.parametrize("make", [by_edge, by_sends])
    @pytest.mark.parametrize("schema", [AsDict, *OBJECTS])
    async def test_a_tool_sees_no_state_but_the_wrappers(self, schema, make, way):
        """
        A value that a wrapper takes out of the state, in any way, is gone from each way to read it.
        """

        def wrap(request: ToolCallRequest, run: Any) -> Any:
            return run(way(request, redacted(request.state)))

        async def awrap(request: ToolCallRequest, run: Any) -> Any:
            return await run(way(request, redacted(request.state)))

        given = {"messages": [calling(("seen", {}))], "user": "ann"}

        for option in ({"wrap_tool_call": wrap}, {"awrap_tool_call": awrap}):
            state = await make(schema, ToolNode([seen], **option)).ainvoke(given)

            kind = "dict" if schema is AsDict else schema.__name__
            assert told(state["messages"][1:]) == [("1", f"{kind}:- {kind}:- -")]

    def test_the_request_itself_stays_as_it_was(self):
        """
        A changed copy has its own runtime; one without a new state keeps the runtime.
        """
        runtime: Any = ToolRuntime({"user": "ann"}, None, {}, print, "1")
        request = ToolCallRequest({"name": "seen"}, None, runtime.state, runtime)

        assert request.override(state={"user": "-"}).runtime.state == {"user": "-"}
        assert (request.state, runtime.state) == ({"user": "ann"}, {"user": "ann"})
        assert request.override(tool_call={"name": "x"}).runtime is runtime

    @pytest.mark.parametrize("runtime", [None, make_dataclass("Stand", ["state"])(1)])
    def test_other_objects_as_the_runtime_stay_as_they_are(self, runtime):
        """
        Outside of a graph there may be no runtime, or a program's own object.
        """
        request = ToolCallRequest({"name": "seen"}, None, {}, runtime)

        assert request.override(state={"user": "-"}).runtime is runtime
