"""Chat messages as plain data, for programs that have no LangChain.

Their fields are those of LangChain's messages, so that code reads both kinds alike.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

Content = str | list[Any]
"""Text, or a list of texts and content blocks (dicts with a `type`)."""


@dataclass
class BaseMessage:
    """One message of a conversation.

    Attributes:
        content: what it says.
        id: tells it from the others; `add_messages` gives one to those without.
        name: who says it, where that matters.
        additional_kwargs, response_metadata: whatever a model's maker adds.
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
        """The message under a heading with its kind."""
        heading = f" {(self.name or self.type or 'message').title()} Message "
        return f"{heading:=^80}\n\n{self.text}"

    def pretty_print(self) -> None:
        """Print `pretty_repr()`."""
        print(self.pretty_repr())  # noqa: T201 - that is what it is for


def _text_of(block: Any) -> str:
    if isinstance(block, str):
        return block
    found = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
    return str(found.get("text", "")) if found.get("type") == "text" else ""


@dataclass
class HumanMessage(BaseMessage):
    """What a person says."""

    type: ClassVar[str] = "human"


@dataclass
class SystemMessage(BaseMessage):
    """What a model is told to be."""

    type: ClassVar[str] = "system"


@dataclass
class AIMessage(BaseMessage):
    """What a model says, and which tools it wants called.

    Attributes:
        tool_calls: `{"name", "args", "id"}` each.
        usage_metadata: the tokens that it took.
    """

    type: ClassVar[str] = "ai"

    tool_calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]], kw_only=True)
    invalid_tool_calls: list[dict[str, Any]] = field(
        default_factory=list[dict[str, Any]], kw_only=True
    )
    usage_metadata: dict[str, Any] | None = field(default=None, kw_only=True)


@dataclass
class AIMessageChunk(AIMessage):
    """A piece of what a model says; pieces of one message have one id and can be added up."""

    type: ClassVar[str] = "AIMessageChunk"

    def __add__(self, other: "AIMessageChunk") -> "AIMessageChunk":
        """Both pieces as one."""
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
        """The message that the pieces so far make."""
        return AIMessage(**vars(self))


def _joined(one: Content, two: Content) -> Content:
    if isinstance(one, str) and isinstance(two, str):
        return one + two
    return [*([one] if isinstance(one, str) else one), *([two] if isinstance(two, str) else two)]


@dataclass
class ToolMessage(BaseMessage):
    """What a tool returned.

    Attributes:
        tool_call_id: of the call that it answers.
        artifact: what the tool made for the program rather than for the model.
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
        id: of the message, or `REMOVE_ALL_MESSAGES` for all before it.
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
