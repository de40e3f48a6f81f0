"""The contents of messages in OpenAI's form: `add_messages(format="langchain-openai")`.

LangChain converts the content of one message. Everything else of the message stays as it is: its
id, by which the next turn finds it, and what the model's provider has put beside its content.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from actorgraph.bridging import BRIDGE
from actorgraph.errors import InvalidUpdateError
from actorgraph.messages.kinds import BaseMessage, ToolMessage

FORMAT = "langchain-openai"


def formatter(format: str) -> Any:
    """Return LangChain's module of messages, which converts contents.

    Raises:
        InvalidUpdateError: another format, or the program has not imported LangChain.
    """
    module = BRIDGE.messages()
    if format != FORMAT or module is None:
        raise InvalidUpdateError(
            f"Unknown format {format!r}"
            if format != FORMAT
            else f"format={format!r} needs LangChain, which the program has not imported",
            do=f'use format="{FORMAT}" and import langchain_core.messages',
        )
    return module


def formatted(messages: Sequence[Any], format: str | None) -> list[Any]:
    """Give each message's content the form; a message that has it already is not copied.

    Args:
        messages: whole messages with ids. Not modified.
        format: None for no change.
    Returns: results of tools in a person's message, which are messages of their own in OpenAI's
        form, follow it under ids that depend on its id alone.
    """
    if format is None:
        return list(messages)
    module = formatter(format)
    return [made for message in messages for made in _of_one(module, message)]


def _of_one(module: Any, message: Any) -> list[Any]:
    key: Any = message.id
    if isinstance(message.content, str):  # text has one form only
        return [message]
    given = _theirs(module, message) if isinstance(message, BaseMessage) else message
    found = module.convert_to_messages(module.convert_to_openai_messages([given]))
    results = [
        block
        for block in message.content
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]
    made = [_with_content(message, found[0])] if found[0].type == message.type else []
    for place, (one, block) in enumerate(zip(found[len(made) :], results, strict=True), len(made)):
        identifier = key if place == 0 else _later_id(key, place)
        made.append(_answer(message, one, identifier, bool(block.get("is_error"))))
    return made


def _theirs(module: Any, message: BaseMessage) -> Any:
    return module.convert_to_messages([{"type": message.type, **vars(message)}])[0]


def _with_content(message: Any, found: Any) -> Any:
    """Copy a message with another content, and with the calls that were in its content."""
    changed: dict[str, Any] = {"content": found.content}
    if message.type == "ai" and len(found.tool_calls) > len(message.tool_calls):
        changed["tool_calls"] = found.tool_calls
    if isinstance(message, BaseMessage):
        return replace(message, **changed)
    return message.model_copy(update=changed)


def _answer(message: Any, found: Any, identifier: str, failed: bool) -> Any:
    """Make the message of a tool's result that was in a person's message."""
    status = "error" if failed else "success"
    if isinstance(message, BaseMessage):
        call = found.tool_call_id
        return ToolMessage(found.content, id=identifier, tool_call_id=call, status=status)
    return found.model_copy(update={"id": identifier, "status": status})


def _later_id(identifier: str, place: int) -> str:
    return blake2b(f"{identifier}:{place}".encode(), digest_size=16).hexdigest()
