"""Chat messages: our own classes, the conversion of other forms, and their reducer."""

from actorgraph.messages.add_messages import (
    REMOVE_ALL_MESSAGES,
    MessagesState,
    add_messages,
    messages_delta_reducer,
)
from actorgraph.messages.kinds import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from actorgraph.messages.open_calls import answer_open_calls

_messages_delta_reducer = messages_delta_reducer

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AIMessage",
    "AIMessageChunk",
    "BaseMessage",
    "HumanMessage",
    "MessagesState",
    "RemoveMessage",
    "SystemMessage",
    "ToolMessage",
    "add_messages",
    "answer_open_calls",
    "messages_delta_reducer",
]
