"""Types for asking a person to review a tool call, and for the answer."""

from typing import Any, Literal, TypedDict


class HumanInterruptConfig(TypedDict):
    """Actions allowed to the person: skip the call, respond to it, edit it, or accept it."""

    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class ActionRequest(TypedDict):
    """The call to review: the tool's name and its arguments."""

    action: str
    args: dict[str, Any]


class HumanInterrupt(TypedDict):
    """The request for a review: pass it to `interrupt()`."""

    action_request: ActionRequest
    config: HumanInterruptConfig
    description: str | None


class HumanResponse(TypedDict):
    """The answer: `args` is text for "response", the edited call for "edit", else None."""

    type: Literal["accept", "ignore", "response", "edit"]
    args: str | ActionRequest | None
