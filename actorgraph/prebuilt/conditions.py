"""The route of an agent after its model has answered."""

from typing import Any, Literal

from actorgraph.errors import InvalidUpdateError
from actorgraph.prebuilt.chat import messages_of, tool_calls_of


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Route to "tools" if the last message has tool calls, else to the end.

    Args:
        state: a state with messages, or a list of messages.
        messages_key: the key of the messages in the state.
    Raises:
        InvalidUpdateError: there are no messages.
    """
    messages = messages_of(state, messages_key)
    if not messages:
        raise InvalidUpdateError(
            f"No messages found in input state to tool_edge: {state}",
            do=f"route after a node that writes {messages_key!r}, or pass messages_key=",
        )
    return "tools" if tool_calls_of(messages[-1]) else "__end__"
