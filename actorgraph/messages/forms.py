"""What may stand for a message: a message of ours or LangChain's, a dict, a pair, a string.

Plain forms become messages of the family that the conversation has already; of LangChain's, if the
program has imported it, in a new one. LangChain itself is never imported here.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from actorgraph.errors import InvalidUpdateError, did_you_mean
from actorgraph.messages.kinds import ROLES, AIMessageChunk, BaseMessage

_LANGCHAIN = "langchain_core.messages"


def langchain() -> Any | None:
    """LangChain's module of messages, if the program has imported it."""
    return sys.modules.get(_LANGCHAIN)


def is_message(value: Any) -> bool:
    """Whether this is a message of either family."""
    if isinstance(value, BaseMessage):
        return True
    module = langchain()
    return module is not None and isinstance(value, module.BaseMessage)


def as_list(messages: Any) -> list[Any]:
    """One message or several, as a list."""
    if isinstance(messages, (list, tuple)) and not _is_pair(messages):
        return list(cast("Sequence[Any]", messages))
    return [messages]


def _is_pair(value: Any) -> bool:
    """Whether a tuple is `(role, content)` rather than a sequence of messages."""
    return (
        isinstance(value, tuple)
        and len(cast("tuple[Any, ...]", value)) == 2
        and all(isinstance(part, str) for part in cast("tuple[Any, ...]", value))
    )


def converted(messages: Any, like: Iterable[Any] = ()) -> list[Any]:
    """Messages from any of their forms.

    Args:
        like: the conversation, whose family plain forms join.
    Raises:
        InvalidUpdateError: one can't be a message.
    """
    given = as_list(messages)
    kinds = set(map(type, given))
    if all(map(_is_whole, kinds)):  # the conversation so far, at each update
        return given
    kinds.update(map(type, like))
    ours = langchain() is None or any(issubclass(kind, BaseMessage) for kind in kinds)
    return [_one(value, ours) for value in given]


def _is_whole(kind: type) -> bool:
    """Whether a value of this type is a message already, and no chunk of one."""
    if issubclass(kind, BaseMessage):
        return not issubclass(kind, AIMessageChunk)
    module = langchain()
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
    module = langchain()
    if module is not None and isinstance(value, module.BaseMessageChunk):
        return module.message_chunk_to_message(value)
    if module is not None and (isinstance(value, module.BaseMessage) or not ours):
        return module.convert_to_messages([value])[0]
    return _plain(value)


def _plain(value: Any) -> BaseMessage:
    """A message of ours from a dict, a pair or a string."""
    if isinstance(value, str):
        return ROLES["human"](value)
    if isinstance(value, (tuple, list)) and len(cast("Sequence[Any]", value)) == 2:
        role, content = cast("Sequence[Any]", value)
        return _kind(role)(content)
    if isinstance(value, Mapping):
        return _from_fields(dict(cast("Mapping[str, Any]", value)))
    raise InvalidUpdateError(
        f"{value!r} can't be a message",
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
            f"{role!r} is no role of a message", do=did_you_mean(role, list(ROLES))
        ) from None
