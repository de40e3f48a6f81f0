"""Chat messages of whatever family a program uses: ours, or LangChain's if it has imported them.

A message is read by its attributes. One that is made for a conversation is of the family of the
messages that are in it.
"""

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from actorgraph import messages as actorgraph_messages

AI_TYPES = ("ai", "AIMessageChunk")


def kind_of(message: Any) -> str:
    """What a message is: "ai", "tool", "human", "system", "remove"; "" if it is none."""
    kind = getattr(message, "type", "")
    return "ai" if kind in AI_TYPES else kind if isinstance(kind, str) else ""


def is_tool_message(thing: Any) -> bool:
    """Whether it is the result of a tool's call."""
    return kind_of(thing) == "tool" and hasattr(thing, "tool_call_id")


def tool_calls_of(message: Any) -> list[dict[str, Any]]:
    """The calls that a model's message asks for: `{"name", "args", "id"}`."""
    return list(getattr(message, "tool_calls", None) or ())


def last_ai(messages: Sequence[Any]) -> Any | None:
    """The newest message of a model."""
    return next((m for m in reversed(messages) if kind_of(m) == "ai"), None)


def family(messages: Iterable[Any]) -> Any:
    """The module with the classes of a conversation's messages; ours for a new one."""
    for message in messages:
        module = type(message).__module__
        while module:
            found = sys.modules.get(module)
            if hasattr(found, "ToolMessage"):
                return found
            module = module.rpartition(".")[0]
    return actorgraph_messages


def tool_message(like: Any, call: Mapping[str, Any], content: Any, *, error: bool = False) -> Any:
    """The answer to a call.

    Args:
        like: the message that asked, or any of the conversation.
        content: text, or a list of content blocks; see `content_of`.
    """
    make = family([like]).ToolMessage
    status = {"status": "error"} if error else {}
    return make(content=content, name=call["name"], tool_call_id=call["id"], **status)


def content_of(output: Any) -> Any:
    """What a tool returned as a message's content: text, content blocks, or JSON of the rest."""
    if isinstance(output, str) or _is_blocks(output):
        return output
    try:
        return msgspec.json.encode(output).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        return str(output)


def _is_blocks(output: Any) -> bool:
    return (
        isinstance(output, list)
        and bool(output)
        and all(isinstance(x, dict) and "type" in x for x in cast("list[Any]", output))
    )


def changed(message: Any, **fields: Any) -> Any:
    """A copy of a message with some fields replaced."""
    if hasattr(message, "model_copy"):
        return message.model_copy(update=fields)
    if isinstance(message, msgspec.Struct):
        return msgspec.structs.replace(message, **fields)
    return dataclasses.replace(message, **fields)


def messages_of(state: Any, key: str) -> list[Any]:
    """The messages of a state: a list of them, or what it has under a key."""
    if isinstance(state, list):
        return cast("list[Any]", state)
    if isinstance(state, Mapping):
        return list(cast("Mapping[str, Any]", state).get(key) or ())
    return list(getattr(state, key, None) or ())
