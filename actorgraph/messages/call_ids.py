"""Ids of tool calls: an answer names its call by the id, so a call without one gets none."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from actorgraph.errors import InvalidUpdateError


def check_call_ids(calls: Iterable[Any], message: Any = None) -> None:
    """Refuse a tool call without an id, before any of them is made.

    Args:
        calls: `{"name", "args", "id"}` each, or as in OpenAI's API. An empty text is an id.
        message: the message with the calls, an object or a dict; None if they came without one.
    Raises:
        InvalidUpdateError: it names the call.
    """
    for place, call in enumerate(calls, 1):
        if isinstance(call, Mapping) and call.get("id") is None:
            raise InvalidUpdateError(
                f"call {place} of {_where(message)}, of tool {_tool(call)!r}, has no id",
                do="give each tool call an id, as models do: "
                '{"name": "search", "args": {}, "id": "call_1"}; the ToolMessage that answers it '
                "names it by tool_call_id",
            )


def _tool(call: Mapping[str, Any]) -> Any:
    function = call.get("function")  # OpenAI's form
    if isinstance(function, Mapping):
        return cast("Mapping[str, Any]", function).get("name")
    return call.get("name")


def _where(message: Any) -> str:
    if message is None:
        return "the input"
    if isinstance(message, Mapping):
        named = cast("Mapping[str, Any]", message).get("id")
    else:
        named = getattr(message, "id", None)
    return f"message {named!r}" if named else "a model's message"
