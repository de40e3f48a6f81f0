"""Chat messages as dataclasses, for programs without LangChain.

Their fields are those of LangChain's messages, so the same code reads both.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

Content = str | list[Any]
"""Text, or a list of texts and content blocks (dicts with a `type`)."""


@dataclass
class BaseMessage:
    """One message of a conversation.

    Attributes:
        content: text, or a list of texts and content blocks.
        id: unique in a conversation; `add_messages` gives one to messages without.
        name: of the author, if there are several with one role.
        additional_kwargs: data of the model's provider.
        response_metadata: data of the model's provider about its response.
    """

    type: ClassVar[str] = ""

    content: Content = ""
    id: str | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    additional_kwargs: dict[str, Any] = field(default_factory=dict[str, Any], kw_only=True)
    response_metadata: dict[str, Any] = field(default_factory=dict[str, Any], kw_only=True)

    @property
    def text(self) -> str:
        """The text of the content, without other blocks."""
        if isinstance(self.content, str):
            return self.content
        return "".join(_text_of(block) for block in self.content)

    def pretty_repr(self) -> str:
        """Format the message under a heading with its role or name."""
        heading = f" {(self.name or self.type or 'message').title()} Message "
        return f"{heading:=^80}\n\n{self.text}"

    def pretty_print(self) -> None:
        """Print `pretty_repr()`."""
        print(self.pretty_repr())  # noqa: T201 - its purpose is to print


def _text_of(block: Any) -> str:
    if isinstance(block, str):
        return block
    found = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
    return str(found.get("text", "")) if found.get("type") == "text" else ""


@dataclass
class HumanMessage(BaseMessage):
    """A message of a person."""

    type: ClassVar[str] = "human"


@dataclass
class SystemMessage(BaseMessage):
    """Instructions to a model."""

    type: ClassVar[str] = "system"


@dataclass
class AIMessage(BaseMessage):
    """A message of a model, with the tool calls that it asks for.

    Attributes:
        tool_calls: `{"name", "args", "id"}` each.
        invalid_tool_calls: those whose arguments the model's client could not parse.
        usage_metadata: the tokens used.
    """

    type: ClassVar[str] = "ai"

    tool_calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]], kw_only=True)
    invalid_tool_calls: list[dict[str, Any]] = field(
        default_factory=list[dict[str, Any]], kw_only=True
    )
    usage_metadata: dict[str, Any] | None = field(default=None, kw_only=True)


@dataclass
class AIMessageChunk(AIMessage):
    """A chunk of a model's message; the chunks of one message have one id and can be added."""

    type: ClassVar[str] = "AIMessageChunk"

    def __add__(self, other: "AIMessageChunk") -> "AIMessageChunk":
        """Join two chunks of a message."""
        return AIMessageChunk(
            _joined(self.content, other.content),
            id=self.id or other.id,
            name=self.name or other.name,
            additional_kwargs={**self.additional_kwargs, **other.additional_kwargs},
            response_metadata={**self.response_metadata, **other.response_metadata},
            tool_calls=[*self.tool_calls, *other.tool_calls],
            usage_metadata=other.usage_metadata or self.usage_metadata,
        )

    def whole(self) -> AIMessage:
        """Make a message of the chunks so far."""
        return AIMessage(**vars(self))


def _joined(one: Content, two: Content) -> Content:
    if isinstance(one, str) and isinstance(two, str):
        return one + two
    return [*([one] if isinstance(one, str) else one), *([two] if isinstance(two, str) else two)]


@dataclass
class ToolMessage(BaseMessage):
    """The result of a tool call.

    Attributes:
        tool_call_id: the id of the call.
        artifact: a result for the program, which the model doesn't get.
        status: "success" or "error".
    """

    type: ClassVar[str] = "tool"

    tool_call_id: str = field(default="", kw_only=True)
    artifact: Any = field(default=None, kw_only=True)
    status: str = field(default="success", kw_only=True)


@dataclass(init=False)
class RemoveMessage(BaseMessage):
    """Removes the message with this id from the list that `add_messages` keeps.

    Args:
        id: of the message to remove, or `REMOVE_ALL_MESSAGES` for all before this one.
    """

    type: ClassVar[str] = "remove"

    def __init__(self, id: str, **fields: Any) -> None:
        super().__init__(fields.pop("content", ""), id=id, **fields)


KINDS: tuple[type[BaseMessage], ...] = (
    HumanMessage,
    SystemMessage,
    AIMessage,
    AIMessageChunk,
    ToolMessage,
    RemoveMessage,
)

ROLES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "user": HumanMessage,
    "ai": AIMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
    "tool": ToolMessage,
    "remove": RemoveMessage,
    "AIMessageChunk": AIMessageChunk,
}
