"""Tools that are gone while their questions wait: no answer of a person is left out."""

from typing import Any

import pytest

from actorgraph import START, Command, InMemorySaver, MessagesState, Send, StateGraph, interrupt
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.errors import SchemaMismatchError
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import ToolNode, create_react_agent
from actorgraph.values.graph_changes import ResumeVerdict
from tests.prebuilt.scripted import Script
from tests.support.graphs import at

pytestmark = pytest.mark.each_value


def ask(q: str) -> str:
    """Ask a person."""
    return str(interrupt(q))


def other(q: str) -> str:
    """Do something else."""
    return q


def ask_a_person(q: str) -> str:
    """Ask a person, under a new name."""
    return str(interrupt(q))


def calls(*names: str) -> AIMessage:
    made = [{"name": name, "args": {"q": name}, "id": str(i)} for i, name in enumerate(names)]
    return AIMessage("", id="m", tool_calls=made)


def by_edge(node: Any, *names: str) -> Any:
    builder = StateGraph(MessagesState).add_node("model", lambda _: {"messages": [calls(*names)]})
    builder.add_node("tools", node).add_edge(START, "model").add_edge("model", "tools")
    return builder


def sent(call: Any) -> Send:
    told = {
        "__type": "tool_call_with_context",
        "tool_call": call,
        "state": {"messages": [calls("ask")]},
    }
    return Send("tools", told)


def by_sends(node: Any, *names: str) -> Any:
    sends = [sent(call) for call in calls(*names).tool_calls]
    builder = StateGraph(MessagesState).add_node("tools", node)
    builder.add_node("model", lambda _: Command(goto=sends), destinations=("tools",))
    return builder.add_edge(START, "model")


def below(node: Any, *names: str) -> Any:
    builder = StateGraph(MessagesState).add_node("agent", by_edge(node, *names).compile())
    return builder.add_edge(START, "agent")


def two_below(node: Any, *names: str) -> Any:
    builder = StateGraph(MessagesState).add_node("team", below(node, *names).compile())
    return builder.add_edge(START, "team")


FORMS = [by_edge, by_sends, below, two_below]


def replies(result: Any) -> list[Any]:
    return [m.content for m in result["messages"] if m.type == "tool"]


class TestRemovedTools:
    @pytest.mark.every_saver
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("names", [("ask",), ("other", "ask"), ("ask", "other", "nonsense")])
    async def test_its_question_stays_open(self, saver, form, names):
        """
        The check and the resume say the same of a tool that is gone, and nothing is stored; with
        the tool back, the same answer goes to it.
        """
        made = form(ToolNode([ask, other]), *names).compile(checkpointer=saver)
        await made.ainvoke({"messages": []}, at())
        gone = form(ToolNode([other]), *names).compile(checkpointer=saver)

        (group,) = (await check_threads({"main": gone}, saver)).groups
        assert group.verdict is ResumeVerdict.REFUSED
        (reason,) = group.reasons
        assert "call of tool 'ask'" in reason.text
        with pytest.raises(SchemaMismatchError, match=r"thread '.*call of tool 'ask'") as error:
            await gone.ainvoke(Command(resume="yes"), at())
        assert "a tool named 'ask'" in error.value.do
        assert [q.value for q in (await made.aget_state(at())).interrupts] == ["ask"]
        assert "yes" in replies(await made.ainvoke(Command(resume="yes"), at()))

    @pytest.mark.parametrize("form", FORMS)
    async def test_a_renamed_one_under_both_names(self, form):
        """
        The advice is enough: a node that has the tool under both names goes on.
        """
        saver = InMemorySaver()
        await form(ToolNode([ask]), "ask").compile(checkpointer=saver).ainvoke({}, at())
        renamed = form(ToolNode([ask_a_person]), "ask").compile(checkpointer=saver)
        with pytest.raises(SchemaMismatchError, match="call of tool 'ask'"):
            await renamed.ainvoke(Command(resume="yes"), at())
        both = form(ToolNode([ask_a_person, ask]), "ask").compile(checkpointer=saver)

        assert replies(await both.ainvoke(Command(resume="yes"), at())) == ["yes"]

    @pytest.mark.parametrize("version", ["v1", "v2"])
    async def test_in_an_agent(self, version):
        """
        Agents are refused as nodes of a program's own are, in both of their versions.
        """
        saver = InMemorySaver()

        def agent(*tools: Any) -> Any:
            model = Script(calls("other", "ask"), AIMessage("done"))
            return create_react_agent(model, list(tools), checkpointer=saver, version=version)

        await agent(ask, other).ainvoke({"messages": [("user", "hi")]}, at())

        with pytest.raises(SchemaMismatchError, match="call of tool 'ask'"):
            await agent(other).ainvoke(Command(resume="yes"), at())

    @pytest.mark.parametrize("names", [("ask",), ("other", "ask")])
    async def test_behind_a_wrapper(self, names):
        """
        A wrapper may answer calls of other tools; where it doesn't, the run fails, whatever is
        handled, and the answer is there when the tool is back.
        """
        saver = InMemorySaver()

        def graph(*tools: Any) -> Any:
            node = ToolNode(
                tools, wrap_tool_call=lambda request, run: run(request), handle_tool_errors=True
            )
            return by_edge(node, *names).compile(checkpointer=saver)

        await graph(ask, other).ainvoke({"messages": []}, at())
        with pytest.raises(SchemaMismatchError, match="a question of tool 'ask'"):
            await graph(other).ainvoke(Command(resume="yes"), at())

        assert "yes" in replies(await graph(ask, other).ainvoke(None, at()))

    async def test_mistakes_of_the_model_are_replied_to(self):
        """
        A call of a tool that never was doesn't hold up the answers of others, in a node that is a
        function neither.
        """
        node = ToolNode([ask])

        async def model_and_tools(_: Any) -> Any:
            mistake = await node.ainvoke({"messages": [calls("nonsense")]})
            right = await node.ainvoke({"messages": [calls("ask")]})
            return {"messages": [*mistake["messages"], *right["messages"]]}

        builder = StateGraph(MessagesState).add_node(model_and_tools)
        graph = builder.add_edge(START, "model_and_tools").compile(checkpointer=InMemorySaver())
        await graph.ainvoke({"messages": []}, at())
        mistake, right = replies(await graph.ainvoke(Command(resume="yes"), at()))

        assert ("nonsense is not a valid tool" in mistake, right) == (True, "yes")
