"""Read and make chat messages: this library's, or LangChain's if the program has imported them.

A message is read by its attributes, regardless of its class. A new message for a conversation
has the classes of the messages that are in it.
"""

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from actorgraph import messages as actorgraph_messages

AI_TYPES = ("ai", "AIMessageChunk")


def kind_of(message: Any) -> str:
    """Return a message's type: "ai", "tool", "human", "system", "remove"; "" for anything else."""
    kind = getattr(message, "type", "")
    return "ai" if kind in AI_TYPES else kind if isinstance(kind, str) else ""


def is_tool_message(thing: Any) -> bool:
    """Whether it is the result of a tool call."""
    return kind_of(thing) == "tool" and hasattr(thing, "tool_call_id")


def tool_calls_of(message: Any) -> list[dict[str, Any]]:
    """Return the tool calls of a model's message: `{"name", "args", "id"}`."""
    return list(getattr(message, "tool_calls", None) or ())


def last_ai(messages: Sequence[Any]) -> Any | None:
    """Return the newest message of a model, or None."""
    return next((m for m in reversed(messages) if kind_of(m) == "ai"), None)


def message_module(messages: Iterable[Any]) -> Any:
    """Return the module with the classes of a conversation's messages; ours for an empty one."""
    for message in messages:
        module = type(message).__module__
        while module:
            found = sys.modules.get(module)
            if hasattr(found, "ToolMessage"):
                return found
            module = module.rpartition(".")[0]
    return actorgraph_messages


def tool_message(like: Any, call: Mapping[str, Any], content: Any, *, error: bool = False) -> Any:
    """Make the ToolMessage that answers a call.

    Args:
        like: the message with the call, or any of the conversation: its classes are used.
        content: text, or a list of content blocks; see `content_of`.
        error: whether the message has the status "error".
    """
    make = message_module([like]).ToolMessage
    status = {"status": "error"} if error else {}
    return make(content=content, name=call["name"], tool_call_id=call["id"], **status)


def content_of(output: Any) -> Any:
    """Convert a tool's return value to message content: text and blocks as they are, else JSON."""
    if isinstance(output, str) or _is_blocks(output):
        return output
    try:
        return json.dumps(msgspec.to_builtins(output, str_keys=True), ensure_ascii=False)
    except (TypeError, ValueError, msgspec.MsgspecError):
        return str(output)


def _is_blocks(output: Any) -> bool:
    return (
        isinstance(output, list)
        and bool(output)
        and all(isinstance(x, dict) and "type" in x for x in cast("list[Any]", output))
    )


def replace_fields(message: Any, **fields: Any) -> Any:
    """Copy a message with some fields replaced."""
    if hasattr(message, "model_copy"):
        return message.model_copy(update=fields)
    if isinstance(message, msgspec.Struct):
        return msgspec.structs.replace(message, **fields)
    return dataclasses.replace(message, **fields)


def messages_of(state: Any, key: str) -> list[Any]:
    """Return the messages of a state: the state itself if it is a list, else those under a key."""
    if isinstance(state, list):
        return cast("list[Any]", state)
    if isinstance(state, Mapping):
        return list(cast("Mapping[str, Any]", state).get(key) or ())
    return list(getattr(state, key, None) or ())
