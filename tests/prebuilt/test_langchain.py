"""LangChain's tools and messages in a ToolNode, in a program that has imported them."""

from typing import Annotated

import pytest

from actorgraph.errors import InvalidUpdateError
from actorgraph.prebuilt import (
    InjectedState,
    InjectedToolCallId,
    ToolNode,
    ToolRuntime,
    ValidationNode,
    tools_condition,
)

messages = pytest.importorskip("langchain_core.messages", reason="needs langchain-core")
tools = pytest.importorskip("langchain_core.tools", reason="needs langchain-core")


@tools.tool
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


@tools.tool
def who(
    ask: str,
    user: Annotated[str, InjectedState("user")],
    call: Annotated[str, InjectedToolCallId],
    runtime: ToolRuntime,
) -> str:
    """Greet the user of the state."""
    return f"{user} asks {ask} in {call} {runtime.tool_call_id}"


def calling(name, arguments):
    return messages.AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "c1"}])


@pytest.mark.langgraph("F-M1")
async def test_its_messages_are_answered_with_its_own():
    """
    The answers are of the family of the message that asked, whichever tools run.
    """

    def plain(number: int) -> int:
        return number

    for tool, expected in ((double, "8"), (plain, "4")):
        node = ToolNode([tool])
        name = node.tools_by_name.popitem()[0]
        (answer,) = await node.ainvoke([calling(name, {"number": 4})])

        assert isinstance(answer, messages.ToolMessage)
        assert (answer.content, answer.tool_call_id, answer.name) == (expected, "c1", name)
    assert tools_condition([calling("double", {})]) == "tools"


@pytest.mark.langgraph("F-M2")
async def test_its_tools_are_filled_in():
    """
    Our marks hide arguments from a model in LangChain's tools too, and fill them in.
    """
    node = ToolNode([who])
    given = {"messages": [calling("who", {"ask": "why", "user": "mallory"})], "user": "ann"}

    update = await node.ainvoke(given)

    assert update["messages"][0].content == "ann asks why in c1 c1"
    assert set(who.tool_call_schema.model_fields) == {"ask"}


@pytest.mark.langgraph("F-M1", "F-M2")
async def test_its_validation_errors_omit_injected_arguments():
    """
    Arguments that don't fit are reported to the model; hidden ones are left out of that.
    """
    given = {"messages": [calling("who", {})], "user": "ann"}

    (answer,) = (await ToolNode([who]).ainvoke(given))["messages"]

    assert answer.status == "error"
    assert "ask: Field required" in answer.content
    assert "runtime" not in answer.content


async def test_a_command_must_answer_its_call():
    """
    A LangChain tool that returns something else than a message is checked the same way.
    """
    from actorgraph import Command

    @tools.tool
    def leave() -> Command:
        """Leave."""
        return Command(update={"user": "x"})

    with pytest.raises(InvalidUpdateError, match="matching ToolMessage"):
        await ToolNode([leave]).ainvoke({"messages": [calling("leave", {})]})


@pytest.mark.langgraph("F-M5")
async def test_its_schemas_validate():
    """
    A tool's pydantic schema checks a call in a ValidationNode.
    """
    (answer,) = await ValidationNode([double]).ainvoke([calling("double", {"number": "x"})])

    assert answer.additional_kwargs == {"is_error": True}
