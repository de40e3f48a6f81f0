"""The form in which agents ask a person about a tool's call, and get the answer."""

from typing import Any, Literal, TypedDict


class HumanInterruptConfig(TypedDict):
    """What the person may do: skip the call, answer it, change it, or let it run."""

    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class ActionRequest(TypedDict):
    """The call: the tool's name, and its arguments."""

    action: str
    args: dict[str, Any]


class HumanInterrupt(TypedDict):
    """The question: pass it to `interrupt()`."""

    action_request: ActionRequest
    config: HumanInterruptConfig
    description: str | None


class HumanResponse(TypedDict):
    """The answer: `args` is a text for "response", the changed call for "edit", else None."""

    type: Literal["accept", "ignore", "response", "edit"]
    args: str | ActionRequest | None
