"""ToolNode: calls in, answers out, in every form that a graph may use."""

from typing import Annotated, Literal

import anyio
import msgspec
import pydantic
import pytest

from actorgraph import END, START, StateGraph
from actorgraph.errors import GraphBuildError, InvalidUpdateError
from actorgraph.prebuilt import ToolNode, tools_condition
from tests.prebuilt.chatter import (
    AIMessage,
    Chat,
    HumanMessage,
    calling,
    told,
)


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


async def greet(name: str, *, loud: bool = False) -> str:
    """A greeting."""
    return f"hello {name}" + "!" * loud


def fails(number: int) -> str:
    raise ValueError(number)


class TestForms:
    @pytest.mark.langgraph("F-M1")
    async def test_a_state_is_answered_with_an_update(self):
        """
        The calls of the newest model's message are answered in their order, under the same key.
        """
        messages = [calling(("double", {"number": 1})), HumanMessage("?")]
        messages.append(
            calling(("double", {"number": 4}), ("greet", {"name": "Ann", "loud": True}))
        )

        update = await ToolNode([double, greet]).ainvoke({"messages": messages})

        assert told(update["messages"]) == [("1", "8"), ("2", "hello Ann!")]
        assert [m.name for m in update["messages"]] == ["double", "greet"]

    @pytest.mark.langgraph("F-M1")
    async def test_a_list_is_answered_with_a_list(self):
        """
        A bare list of messages, and a list of calls, are answered without a key, and with one.
        """
        node = ToolNode([double], messages_key="chat")
        message = calling(("double", {"number": 4}))

        assert told(await node.ainvoke([message])) == [("1", "8")]
        assert told((await node.ainvoke({"chat": [message]}))["chat"]) == [("1", "8")]

    @pytest.mark.langgraph("F-M1")
    async def test_a_send_may_carry_one_call(self):
        """
        One call with the state it belongs to is answered like a state.
        """
        message = calling(("double", {"number": 4}), ("double", {"number": 5}))
        given = {"__type": "tool_call_with_context", "state": {"messages": [message]}}

        update = await ToolNode([double]).ainvoke({**given, "tool_call": message.tool_calls[1]})

        assert told(update["messages"]) == [("2", "10")]

    def test_it_can_be_called_without_a_loop(self):
        """
        `invoke` is `ainvoke` for code that has no event loop.
        """
        update = ToolNode([greet]).invoke([calling(("greet", {"name": "Bo"}))])

        assert told(update) == [("1", "hello Bo")]

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ({"messages": []}, "No message found"),
            ({"other": 1}, "No message found"),
            ({"messages": [HumanMessage("?")]}, "No AIMessage found"),
        ],
    )
    async def test_without_a_call_there_is_nothing_to_do(self, given, text):
        """
        A state without a model's message is refused, with the way out.
        """
        with pytest.raises(InvalidUpdateError, match=text):
            await ToolNode([double]).ainvoke(given)

    @pytest.mark.langgraph("F-M1")
    async def test_tools_run_at_once(self):
        """
        Two tools that wait for each other both finish, async ones and those in threads.
        """
        first, second = anyio.Event(), anyio.Event()

        async def one() -> str:
            first.set()
            await second.wait()
            return "one"

        async def two() -> str:
            second.set()
            await first.wait()
            return "two"

        with anyio.fail_after(5):
            update = await ToolNode([one, two]).ainvoke([calling(("one", {}), ("two", {}))])

        assert told(update) == [("1", "one"), ("2", "two")]

    @pytest.mark.langgraph("F-M1", "F-M3")
    async def test_in_a_graph(self):
        """
        An agent's loop: the route goes to the tools while the model calls some.
        """
        script = [calling(("double", {"number": 4})), AIMessage("it is 8")]

        async def agent(state: Chat):
            return {"messages": [script[len(state["messages"]) // 2]]}

        builder = StateGraph(Chat).add_node(agent).add_node(ToolNode([double]))
        builder.add_edge(START, "agent").add_conditional_edges("agent", tools_condition)
        graph = builder.add_edge("tools", "agent").compile()

        result = await graph.ainvoke({"messages": [HumanMessage("2 x 4?")]})

        assert [m.content for m in result["messages"]] == ["2 x 4?", "", "8", "it is 8"]
        assert graph.get_graph().nodes["tools"].metadata == {"__tools": ["double"]}


class TestCondition:
    @pytest.mark.langgraph("F-M3")
    @pytest.mark.parametrize("wrap", [list, lambda m: {"messages": m}])
    def test_calls_lead_to_the_tools(self, wrap):
        """
        The route is "tools" if the last message calls some, else the end.
        """
        call = calling(("double", {"number": 1}))

        assert tools_condition(wrap([HumanMessage(), call])) == "tools"
        assert tools_condition(wrap([call, AIMessage("done")])) == END
        assert tools_condition({"chat": [call]}, messages_key="chat") == "tools"

    def test_no_messages_are_an_error(self):
        """
        A state without messages has no route.
        """
        with pytest.raises(InvalidUpdateError, match="No messages found in input state"):
            tools_condition({"messages": []})


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Size(pydantic.BaseModel):
    width: int


class TestArguments:
    @pytest.mark.langgraph("F-M1")
    async def test_they_get_the_types_of_the_signature(self):
        """
        Structs and pydantic models are made, numbers in text are read, defaults are the tool's.
        """
        seen = []

        def shape(point: Point, size: Size, scale: float = 2.0, *names: str, tag="t") -> str:
            seen.append((point, size, scale, tag))
            return "ok"

        call = ("shape", {"point": {"x": "3"}, "size": {"width": 4}})
        assert told(await ToolNode([shape]).ainvoke([calling(call)])) == [("1", "ok")]
        assert seen == [(Point(3, 0), Size(width=4), 2.0, "t")]

    @pytest.mark.langgraph("F-M1")
    @pytest.mark.parametrize(
        ("arguments", "told_of"),
        [
            ({"number": "four"}, "Expected `int`, got `str`"),
            ({}, "missing required field `number`"),
        ],
    )
    async def test_wrong_arguments_are_reported_to_the_model(self, arguments, told_of):
        """
        By default wrong arguments become an answer with status "error", and nothing runs.
        """
        (answer,) = await ToolNode([double]).ainvoke([calling(("double", arguments))])

        assert answer.status == "error"
        assert f"Error invoking tool 'double' with kwargs {arguments} with error:" in answer.content
        assert told_of in answer.content

    async def test_an_unknown_tool_is_reported_to_the_model(self):
        """
        A call of a tool that isn't there is answered with the names that are.
        """
        (answer,) = await ToolNode([double, greet]).ainvoke([calling(("triple", {}))])

        assert answer.content == "Error: triple is not a valid tool, try one of [double, greet]."
        assert answer.status == "error"

    def test_a_tool_describes_itself(self):
        """
        Name, docstring and signature make the schema that a model is given.
        """

        def find(text: Annotated[str, "what to look for"], kind: Literal["a", "b"] = "a") -> str:
            """Find a text."""
            return text

        tool = ToolNode([find]).tools_by_name["find"]

        assert (tool.name, tool.description) == ("find", "Find a text.")
        assert tool.args_schema["properties"] == {
            "text": {"type": "string", "description": "what to look for"},
            "kind": {"enum": ["a", "b"]},
        }
        assert tool.args_schema["required"] == ["text"]

    @pytest.mark.parametrize(
        ("tool", "text"),
        [(3, "must be a function or a tool object, got 3"), (lambda x: x, "needs a name")],
    )
    def test_an_object_that_is_not_a_tool_is_refused(self, tool, text):
        """
        Numbers, and functions without a name, are refused when the node is made.
        """
        with pytest.raises(GraphBuildError, match=text):
            ToolNode([tool])
