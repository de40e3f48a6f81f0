"""Messages of a program's own, and a model that says what a test has written down."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Annotated, Any, TypedDict


@dataclass
class Message:
    content: Any = ""
    id: str | None = None
    name: str | None = None
    additional_kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class HumanMessage(Message):
    type: str = "human"


@dataclass
class SystemMessage(Message):
    type: str = "system"


@dataclass
class AIMessage(Message):
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    type: str = "ai"


@dataclass
class ToolMessage(Message):
    tool_call_id: str = ""
    status: str = "success"
    type: str = "tool"


class Chat(TypedDict, total=False):
    messages: Annotated[list[HumanMessage | SystemMessage | AIMessage | ToolMessage], add]
    user: str


def calling(*calls):
    """A model's message that calls tools: pairs of a name and arguments, numbered from 1."""
    made = [
        {"name": n, "args": a, "id": str(i), "type": "tool_call"}
        for i, (n, a) in enumerate(calls, 1)
    ]
    return AIMessage(tool_calls=made)


def told(messages: Sequence[Any]) -> list[tuple[str, Any]]:
    """Each answer's call, and its text."""
    return [(m.tool_call_id, m.content) for m in messages]
