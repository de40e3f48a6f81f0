"""Return values of tools, and the node's result made of them."""

from typing import Annotated, Any

import pytest

from actorgraph import START, Command, Send, StateGraph
from actorgraph.errors import InvalidUpdateError
from actorgraph.prebuilt import InjectedToolCallId, ToolNode
from tests.prebuilt.chatter import AIMessage, Chat, ToolMessage, calling, told


def double(number: int) -> int:
    return 2 * number


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

        assert [m.content for m in answers] == ["é", '{"é": [1, null]}', [{"type": "text"}], "odd"]

    @pytest.mark.langgraph("F-M1")
    async def test_a_command_goes_through(self):
        """
        A tool may update the state and route; the node then returns a list of updates.
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

    @pytest.mark.langgraph("F-M1")
    async def test_a_graph_takes_commands_and_updates(self):
        """
        The node's result with a Command among the results is applied by the graph.
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

    @pytest.mark.langgraph("F-M1")
    async def test_a_list_of_results(self):
        """
        A tool may return several messages and Commands, one of which answers its call.
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

    @pytest.mark.langgraph("F-M1")
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
        """

        def give() -> Any:
            return result

        message = calling(("give", {}))
        with pytest.raises(InvalidUpdateError, match=text):
            await ToolNode([give]).ainvoke([message] if given == [] else {"messages": [message]})
