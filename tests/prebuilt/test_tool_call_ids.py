"""Tool calls without an id: the call is named, not the tool."""

from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import AIMessage as LangChainMessage

from actorgraph import messages as ours
from actorgraph.errors import InvalidUpdateError
from actorgraph.graph import START, StateGraph
from actorgraph.messages import add_messages
from actorgraph.prebuilt import ToolNode, ValidationNode, create_react_agent
from tests.prebuilt.scripted import Script

WHOLE = {"name": "add", "args": {"a": 1}, "id": "x"}
ABSENT = {"name": "add", "args": {"a": 1}}
NONE = {**ABSENT, "id": None}
OPENAI = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
MESSAGES = {
    "ours": ours.AIMessage("", tool_calls=[WHOLE, ABSENT], id="m1"),
    "ours-none": ours.AIMessage("", tool_calls=[WHOLE, NONE], id="m1"),
    "langchain": LangChainMessage("", tool_calls=[WHOLE, NONE], id="m1"),
    "dict": {"role": "assistant", "content": "", "tool_calls": [WHOLE, ABSENT], "id": "m1"},
    "openai": {
        "role": "assistant",
        "content": "",
        "tool_calls": [{**OPENAI, "id": "x"}, OPENAI],
        "id": "m1",
    },
}
SAID = r"call 2 of message 'm1', of tool 'add', has no id"


class State(TypedDict):
    messages: Annotated[list, add_messages]


ran = []


def add(a: int) -> int:
    """Add one."""
    ran.append(a)
    return a + 1


def graph_of(node):
    """A graph whose only node is this one."""
    return StateGraph(State).add_node("tools", node).add_edge(START, "tools").compile()


@pytest.mark.parametrize("form", MESSAGES)
@pytest.mark.parametrize("handled", [False, True])
async def test_a_tool_node(form, handled):
    """
    The message, the call and the tool are named, nothing has run, and the model isn't answered.
    """
    ran.clear()
    graph = graph_of(ToolNode([add], handle_tool_errors=handled))
    with pytest.raises(InvalidUpdateError, match=SAID) as caught:
        await graph.ainvoke({"messages": [MESSAGES[form]]})
    assert '"id": "call_1"' in str(caught.value)
    assert ran == []


@pytest.mark.parametrize("call", [ABSENT, NONE], ids=["absent", "none"])
async def test_calls_without_a_message(call):
    """
    A list of calls, and one call with a state, are refused alike.
    """
    direct = [{**WHOLE, "type": "tool_call"}, {**call, "type": "tool_call"}]
    with pytest.raises(InvalidUpdateError, match="call 2 of the input, of tool 'add', has no id"):
        await ToolNode([add]).ainvoke(direct)
    sent = {"__type": "tool_call_with_context", "tool_call": call, "state": {"messages": []}}
    with pytest.raises(InvalidUpdateError, match="call 1 of the input, of tool 'add', has no id"):
        await ToolNode([add]).ainvoke(sent)


@pytest.mark.parametrize("form", MESSAGES)
async def test_a_validation_node(form):
    """
    So is a call that is only checked.
    """
    with pytest.raises(InvalidUpdateError, match=SAID):
        await graph_of(ValidationNode([add])).ainvoke({"messages": [MESSAGES[form]]})


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_an_agent(version):
    """
    An agent's model that gives a call no id, and a history that has such a call, are named.
    """
    agent = create_react_agent(Script(MESSAGES["ours"]), [add], version=version)
    with pytest.raises(InvalidUpdateError, match="has no id"):
        await agent.ainvoke({"messages": [("user", "hi")]})
    with pytest.raises(InvalidUpdateError, match=SAID):
        await agent.ainvoke({"messages": [MESSAGES["ours"], ("user", "hi")]})


async def test_an_empty_id():
    """
    An empty id is an id, as in LangGraph: the answer has it.
    """
    message = ours.AIMessage("", tool_calls=[{**ABSENT, "id": ""}])
    found = await graph_of(ToolNode([add])).ainvoke({"messages": [message]})
    assert found["messages"][-1].tool_call_id == ""
