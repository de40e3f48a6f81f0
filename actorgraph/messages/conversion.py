"""Conversion of any form of a message: an object of ours or LangChain's, a dict, a pair, a string.

Dicts, pairs and strings become messages of the library whose messages the conversation has already;
of LangChain's, if the program has imported it, in a new one. LangChain is never imported here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from actorgraph.bridging import BRIDGE
from actorgraph.errors import InvalidUpdateError, did_you_mean
from actorgraph.messages.call_ids import check_call_ids
from actorgraph.messages.kinds import ROLES, AIMessageChunk, BaseMessage


def is_message(value: Any) -> bool:
    """Whether a value is a message of ours or of LangChain's."""
    if isinstance(value, BaseMessage):
        return True
    module = BRIDGE.messages()
    return module is not None and isinstance(value, module.BaseMessage)


def as_list(messages: Any) -> list[Any]:
    """Make a list of one message or of several."""
    if isinstance(messages, (list, tuple)) and not is_pair(messages):
        return list(cast("Sequence[Any]", messages))
    return [messages]


def is_pair(value: Any) -> bool:
    """Whether a tuple is `(role, content)` rather than a sequence of messages."""
    return (
        isinstance(value, tuple)
        and len(cast("tuple[Any, ...]", value)) == 2
        and all(isinstance(part, str) for part in cast("tuple[Any, ...]", value))
    )


def converted(messages: Any, like: Iterable[Any] = ()) -> list[Any]:
    """Convert messages from any of their forms.

    Args:
        messages: one, or a list of them.
        like: the conversation, whose library decides about dicts, pairs and strings.
    Raises:
        InvalidUpdateError: a value can't be converted.
    """
    given = as_list(messages)
    kinds = set(map(type, given))
    if all(map(_is_whole, kinds)):  # fast path for the conversation so far, at each update
        return given
    ours = BRIDGE.messages() is None or any(
        issubclass(kind, BaseMessage) for kind in kinds.union(map(type, like))
    )
    return [_one(value, ours) for value in given]


def _is_whole(kind: type) -> bool:
    """Whether values of this type are whole messages, not chunks or other forms."""
    if issubclass(kind, BaseMessage):
        return not issubclass(kind, AIMessageChunk)
    module = BRIDGE.messages()
    return (
        module is not None
        and issubclass(kind, module.BaseMessage)
        and not issubclass(kind, module.BaseMessageChunk)
    )


def _one(value: Any, ours: bool) -> Any:
    if isinstance(value, AIMessageChunk):
        return value.whole()
    if isinstance(value, BaseMessage):
        return value
    module = BRIDGE.messages()
    if module is not None and isinstance(value, module.BaseMessageChunk):
        return module.message_chunk_to_message(value)
    if module is not None and (isinstance(value, module.BaseMessage) or not ours):
        if isinstance(value, dict) and "tool_calls" in value and "content" not in value:
            value = {**cast("dict[str, Any]", value), "content": ""}  # a model's dump without None
        try:
            return module.convert_to_messages([value])[0]
        except (KeyError, TypeError):  # what LangChain says of a call without an id
            if isinstance(value, dict):
                check_call_ids(cast("dict[str, Any]", value).get("tool_calls") or (), value)
            raise
    return _plain(value)


def _plain(value: Any) -> BaseMessage:
    """Make a message of ours from a dict, a pair or a string."""
    if isinstance(value, str):
        return ROLES["human"](value)
    if isinstance(value, (tuple, list)) and len(cast("Sequence[Any]", value)) == 2:
        role, content = cast("Sequence[Any]", value)
        return _kind(role)(content)
    if isinstance(value, Mapping):
        return _from_fields(dict(cast("Mapping[str, Any]", value)))
    raise InvalidUpdateError(
        f"Expected a message, got {value!r}",
        do='use a message, a dict such as {"role": "user", "content": "hi"}, a pair or a string',
    )


def _from_fields(given: dict[str, Any]) -> BaseMessage:
    kind = _kind(given.pop("role", None) or given.pop("type", None))
    given.pop("type", None)
    known = {f.name for f in fields(kind)}
    extra = {k: given.pop(k) for k in list(given) if k not in known}
    if given.get("content") is None:
        given["content"] = ""
    message = kind(**given)
    message.additional_kwargs.update(extra)
    return message


def _kind(role: Any) -> type[BaseMessage]:
    try:
        return ROLES[role]
    except (KeyError, TypeError):
        raise InvalidUpdateError(
            f"Unknown role of a message: {role!r}", do=did_you_mean(role, list(ROLES))
        ) from None
