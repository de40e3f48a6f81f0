"""ToolNode: calls in, answers out, in every form that a graph may use."""

from typing import Annotated, Any, Literal

import anyio
import msgspec
import pydantic
import pytest

from actorgraph import END, START, Command, Send, StateGraph
from actorgraph.errors import GraphBuildError, InvalidUpdateError
from actorgraph.prebuilt import InjectedToolCallId, ToolNode, tools_condition
from tests.prebuilt.chatter import (
    AIMessage,
    Chat,
    HumanMessage,
    ToolMessage,
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
    async def test_a_state_is_answered_with_an_update(self):
        """
        The calls of the newest model's message are answered in their order, under the same key.

        LangGraph: F-M1.
        """
        messages = [calling(("double", {"number": 1})), HumanMessage("?")]
        messages.append(
            calling(("double", {"number": 4}), ("greet", {"name": "Ann", "loud": True}))
        )

        update = await ToolNode([double, greet]).ainvoke({"messages": messages})

        assert told(update["messages"]) == [("1", "8"), ("2", "hello Ann!")]
        assert [m.name for m in update["messages"]] == ["double", "greet"]

    async def test_a_list_is_answered_with_a_list(self):
        """
        A bare list of messages, and a list of calls, are answered without a key, and with one.

        LangGraph: F-M1.
        """
        node = ToolNode([double], messages_key="chat")
        message = calling(("double", {"number": 4}))

        assert told(await node.ainvoke([message])) == [("1", "8")]
        assert told((await node.ainvoke({"chat": [message]}))["chat"]) == [("1", "8")]

    async def test_a_send_may_carry_one_call(self):
        """
        One call with the state it belongs to is answered like a state.

        LangGraph: F-M1.
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

    async def test_tools_run_at_once(self):
        """
        Two tools that wait for each other both finish, async ones and those in threads.

        LangGraph: F-M1.
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

    async def test_in_a_graph(self):
        """
        An agent's loop: the route goes to the tools while the model calls some.

        LangGraph: F-M1, F-M3.
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
    @pytest.mark.parametrize("wrap", [list, lambda m: {"messages": m}])
    def test_calls_lead_to_the_tools(self, wrap):
        """
        The route is "tools" if the last message calls some, else the end.

        LangGraph: F-M3.
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
    async def test_they_get_the_types_of_the_signature(self):
        """
        Structs and pydantic models are made, numbers in text are read, defaults are the tool's.

        LangGraph: F-M1.
        """
        seen = []

        def shape(point: Point, size: Size, scale: float = 2.0, *names: str, tag="t") -> str:
            seen.append((point, size, scale, tag))
            return "ok"

        call = ("shape", {"point": {"x": "3"}, "size": {"width": 4}})
        assert told(await ToolNode([shape]).ainvoke([calling(call)])) == [("1", "ok")]
        assert seen == [(Point(3, 0), Size(width=4), 2.0, "t")]

    @pytest.mark.parametrize(
        ("arguments", "told_of"),
        [
            ({"number": "four"}, "Expected `int`, got `str`"),
            ({}, "missing required field `number`"),
        ],
    )
    async def test_what_does_not_fit_is_told_to_the_model(self, arguments, told_of):
        """
        By default wrong arguments become an answer with status "error", and nothing runs.

        LangGraph: F-M1.
        """
        (answer,) = await ToolNode([double]).ainvoke([calling(("double", arguments))])

        assert answer.status == "error"
        assert f"Error invoking tool 'double' with kwargs {arguments} with error:" in answer.content
        assert told_of in answer.content

    async def test_an_unknown_tool_is_told_to_the_model(self):
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

    @pytest.mark.parametrize(("tool", "text"), [(3, "3 is no tool"), (lambda x: x, "needs a name")])
    def test_what_is_no_tool_is_refused(self, tool, text):
        """
        Numbers, and functions without a name, are refused when the node is made.
        """
        with pytest.raises(GraphBuildError, match=text):
            ToolNode([tool])


class TestErrors:
    @pytest.mark.parametrize("handling", [False, KeyError, (KeyError, TypeError)])
    async def test_a_failure_is_raised(self, handling):
        """
        What isn't handled fails the node as the tool raised it.

        LangGraph: F-M1.
        """
        with pytest.raises(ValueError, match="7"):
            await ToolNode([fails], handle_tool_errors=handling).ainvoke(
                [calling(("fails", {"number": 7}), ("fails", {"number": 7}))]
            )

    async def test_a_tools_own_failure_is_raised_by_default(self):
        """
        Without a setting only wrong arguments are told to the model.

        LangGraph: F-M1.
        """
        with pytest.raises(ValueError, match="7"):
            await ToolNode([fails]).ainvoke([calling(("fails", {"number": 7}))])

    @pytest.mark.parametrize(
        ("handling", "text"),
        [
            (True, "Error: ValueError(7)\n Please fix your mistakes."),
            ("try again", "try again"),
            (ValueError, "Error: ValueError(7)\n Please fix your mistakes."),
            ((KeyError, ValueError), "Error: ValueError(7)\n Please fix your mistakes."),
            (lambda error: f"no: {error}", "no: 7"),
        ],
    )
    async def test_a_failure_is_told_to_the_model(self, handling, text):
        """
        True, a text, exceptions or a function say what becomes an answer, and which.

        LangGraph: F-M1.
        """
        node = ToolNode([fails], handle_tool_errors=handling)

        (answer,) = await node.ainvoke([calling(("fails", {"number": 7}))])

        assert (answer.content, answer.status, answer.name) == (text, "error", "fails")

    async def test_a_handler_takes_what_its_parameter_says(self):
        """
        A function handles the exceptions by which its parameter is annotated, and no others.

        LangGraph: F-M1.
        """

        def only_keys(error: KeyError | TypeError) -> str:
            return "handled"

        with pytest.raises(ValueError, match="7"):
            await ToolNode([fails], handle_tool_errors=only_keys).ainvoke(
                [calling(("fails", {"number": 7}))]
            )

    def test_a_handler_of_something_else_is_refused(self):
        """
        A parameter that is no exception is seen when the node is made.
        """

        def wrong(error: int) -> str:
            return ""

        with pytest.raises(GraphBuildError, match="which is no exception"):
            ToolNode([fails], handle_tool_errors=wrong)


class TestResults:
    async def test_results_become_text(self):
        """
        Texts and content blocks stay; anything else becomes JSON, or its text.
        """

        class Odd:
            def __str__(self):
                return "odd"

        def give(what: str) -> Any:
            return {"text": "é", "json": {"é": [1, None]}, "blocks": [{"type": "text"}]}.get(
                what, Odd()
            )

        calls = [("give", {"what": what}) for what in ("text", "json", "blocks", "odd")]
        answers = await ToolNode([give]).ainvoke([calling(*calls)])

        assert [m.content for m in answers] == ["é", '{"é":[1,null]}', [{"type": "text"}], "odd"]

    async def test_a_command_goes_through(self):
        """
        A tool may update the state and route; the node then returns a list of updates.

        LangGraph: F-M1.
        """

        def login(user: str, call: Annotated[str, InjectedToolCallId]) -> Command:
            answer = ToolMessage("welcome", tool_call_id=call)
            return Command(update={"messages": [answer], "user": user}, goto="home")

        message = calling(("login", {"user": "ann"}), ("double", {"number": 1}))
        made = await ToolNode([login, double]).ainvoke({"messages": [message]})

        assert made[0].goto == "home"
        assert made[0].update["user"] == "ann"
        assert made[0].update["messages"][0].name == "login"
        assert told(made[1]["messages"]) == [("2", "2")]

    async def test_a_graph_takes_commands_and_updates(self):
        """
        What the node returns with a Command among the results is applied by the graph.

        LangGraph: F-M1.
        """

        def login(user: str, call: Annotated[str, InjectedToolCallId]) -> Command:
            return Command(
                update={"messages": [ToolMessage("hi", tool_call_id=call)], "user": user},
                goto="home",
            )

        async def home(state: Chat):
            return {"messages": [AIMessage(f"home of {state['user']}")]}

        builder = StateGraph(Chat).add_node(home)
        builder.add_node("tools", ToolNode([login, double]), destinations=["home"])
        graph = builder.add_edge(START, "tools").compile()
        calls = calling(("login", {"user": "ann"}), ("double", {"number": 1}))

        result = await graph.ainvoke({"messages": [calls]})

        assert [m.content for m in result["messages"]] == ["", "hi", "2", "home of ann"]

    async def test_a_list_of_results(self):
        """
        A tool may return several messages and Commands, one of which answers its call.

        LangGraph: F-M1.
        """

        def several(call: Annotated[str, InjectedToolCallId]) -> list[Any]:
            return [Command(update={"user": "bo"}), ToolMessage("done", tool_call_id=call)]

        made = await ToolNode([several]).ainvoke({"messages": [calling(("several", {}))]})

        assert made[0].update == {"user": "bo"}
        assert told(made[1]["messages"]) == [("1", "done")]

    async def test_sends_to_the_parent_become_one_command(self):
        """
        Several tools that hand over to nodes of the parent graph make one Command.
        """

        def hand(to: str) -> Command:
            return Command(graph=Command.PARENT, goto=[Send(to, {})])

        message = calling(("hand", {"to": "a"}), ("hand", {"to": "b"}))
        made = await ToolNode([hand]).ainvoke({"messages": [message]})

        assert made == [Command(graph=Command.PARENT, goto=[Send("a", {}), Send("b", {})])]

    @pytest.mark.parametrize(
        ("result", "given", "text"),
        [
            (Command(update={"user": "x"}), {}, "matching ToolMessage in Command.update"),
            (Command(update={"user": "x"}), [], "a dict only when"),
            (Command(update=[AIMessage()]), {}, "a list only when"),
            ([ToolMessage(tool_call_id="9"), Command()], {}, "with 0 messages bound"),
            ([ToolMessage(tool_call_id="1")] * 2, {}, "with 2 messages bound"),
            ([ToolMessage(tool_call_id="1"), 3], {}, "invalid element types"),
        ],
    )
    async def test_a_call_without_its_answer_is_refused(self, result, given, text):
        """
        Models refuse a conversation in which a call has no answer, so the node does first.

        LangGraph: F-M1.
        """

        def give() -> Any:
            return result

        message = calling(("give", {}))
        with pytest.raises(InvalidUpdateError, match=text):
            await ToolNode([give]).ainvoke([message] if given == [] else {"messages": [message]})
