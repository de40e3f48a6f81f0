"""add_messages: the reducer of a conversation. Merges by id; a RemoveMessage removes one.

A message that is written without an id gets one that is the same whenever the write is folded
(`stamp`).
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from hashlib import blake2b
from operator import is_
from typing import Annotated, Any, Literal, TypedDict, cast, overload
from uuid import uuid4

from actorgraph.errors import InvalidUpdateError
from actorgraph.messages.conversion import as_list, converted, is_message, langchain
from actorgraph.messages.kinds import ROLES
from actorgraph.messages.open_calls import answer_given_up
from actorgraph.values.commands import Overwrite

REMOVE_ALL_MESSAGES = "__remove_all__"
Messages = Any
"""A message in any of its forms, or a list of them."""

OpenCalls = Literal["answer"] | None
"""The treatment of tool calls without an answer: see `add_messages`."""


@overload
def add_messages(
    left: None = None,
    right: None = None,
    *,
    format: str | None = None,
    open_calls: OpenCalls = None,
) -> Callable[[Messages, Messages], list[Any]]: ...
@overload
def add_messages(
    left: Messages,
    right: Messages,
    *,
    format: str | None = None,
    open_calls: OpenCalls = None,
) -> list[Any]: ...
def add_messages(
    left: Messages = None,
    right: Messages = None,
    *,
    format: str | None = None,
    open_calls: OpenCalls = None,
) -> Any:
    """Merge messages into a conversation by id; a message with a known id replaces that message.

    Args:
        left: the conversation, in any form: objects, dicts, `(role, content)`, strings.
        right: the messages to merge. Without both, a reducer with these options is returned.
        format: "langchain-openai" converts each message's content to OpenAI's blocks; needs
            LangChain.
        open_calls: "answer" gives a tool call the answer "cancelled" (a ToolMessage with the
            status "error") when another message follows it: its run has ended without one. A late
            answer takes its place. Default: such a call stays open.
    Returns: the merged list; the arguments' lists are not changed, messages without an id get one.
    Raises:
        InvalidUpdateError: a value can't be converted to a message, a RemoveMessage names an
            unknown id, or `open_calls` is unknown.
    """
    if open_calls not in {None, "answer"}:
        raise InvalidUpdateError(
            f"Unknown open_calls {open_calls!r}", do='use open_calls="answer", or leave it out'
        )
    if left is None and right is None:
        return _with_options(format, open_calls)
    if left is None or right is None:
        raise InvalidUpdateError(
            "add_messages() got one list of messages; Must specify non-null arguments for both "
            "'left' and 'right'",
            do="pass an empty list for no messages",
        )
    old = converted(left, as_list(right))
    new = converted(right, old)
    known = {message.id for message in old}
    if None in known:
        _add_ids(old)
        known = {message.id for message in old}
    _add_ids(new)
    # A chat appends: then one look at the ids of the conversation, at each update, is enough.
    appended = _are_appended(known, new)
    result = [*old, *new] if appended else merged(old, new)
    if open_calls is not None:
        result = answer_given_up(old, new if appended else None, result)
    return _formatted(result, format)


@lru_cache(maxsize=8)
def _with_options(
    format: str | None, open_calls: OpenCalls
) -> Callable[[Messages, Messages], list[Any]]:
    """Make the reducer with these options; the same object each time, so that schemas agree."""
    made = partial(add_messages, format=format, open_calls=open_calls)
    # Else a tool that had finished beside a cancelled one would be answered "cancelled" too.
    setattr(made, "keeps_finished", open_calls is not None)  # noqa: B010 - as below
    return cast("Callable[[Messages, Messages], list[Any]]", made)


def _add_ids(messages: Sequence[Any]) -> None:
    for message in messages:
        if message.id is None:
            message.id = str(uuid4())


def _are_appended(known: AbstractSet[str], new: Sequence[Any]) -> bool:
    """Whether merging messages with these ids into a conversation only appends them.

    Args:
        known: the ids of the conversation.
    """
    ids = {message.id for message in new}
    return (
        len(ids) == len(new)
        and known.isdisjoint(ids)
        and not any(message.type == "remove" for message in new)
    )


def merged(old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """Merge two lists of messages that all have ids.

    Raises:
        InvalidUpdateError: a RemoveMessage names an unknown id.
    """
    for place in range(len(new) - 1, -1, -1):
        if new[place].type == "remove" and new[place].id == REMOVE_ALL_MESSAGES:
            return list(new[place + 1 :])
    result = list(old)
    places = {message.id: place for place, message in enumerate(old)}
    removed: set[str] = set()
    for message in new:
        place = places.get(message.id)
        if message.type == "remove":
            if place is None:
                raise _unknown(message.id)
            removed.add(message.id)
            continue
        removed.discard(message.id)
        if place is None:
            places[message.id] = len(result)
            result.append(message)
        else:
            result[place] = message
    return [message for message in result if message.id not in removed] if removed else result


def messages_delta_reducer(state: Sequence[Any], writes: Sequence[Messages]) -> list[Any]:
    """Merge several writes into a conversation: `add_messages` for a DeltaChannel, in one pass.

    A RemoveMessage with an unknown id is ignored, because a list of writes may be split anywhere.

    Args:
        state: the conversation; not changed.
        writes: each a message in any form, or a list of them.
    Raises:
        InvalidUpdateError: a value can't be converted to a message.
    """
    old = list(state) if all(map(is_message, state)) else converted(list(state))
    given = [m for w in writes for m in (cast("list[Any]", w) if isinstance(w, list) else [w])]
    result: list[Any] = old
    places = {m.id: place for place, m in enumerate(old) if m.id is not None}
    for message in converted(given, old):
        known = places.get(message.id) if message.id is not None else None
        if message.type == "remove":
            if message.id == REMOVE_ALL_MESSAGES:
                result, places = [], {}
            elif known is not None:
                result[known] = None
                del places[message.id]
        elif known is not None:
            result[known] = message
        else:
            if message.id is not None:
                places[message.id] = len(result)
            result.append(message)
    return [message for message in result if message is not None]


def _unknown(identifier: str) -> InvalidUpdateError:
    return InvalidUpdateError(
        f"Attempting to delete a message with an ID that doesn't exist ({identifier!r})",
        do="take the id from a message of the state",
    )


def _formatted(messages: list[Any], format: str | None) -> list[Any]:
    if format is None:
        return messages
    module = langchain()
    if format != "langchain-openai" or module is None:
        raise InvalidUpdateError(
            f"Unknown format {format!r}"
            if module is not None
            else f"format={format!r} needs LangChain, which the program has not imported",
            do='use format="langchain-openai" and import langchain_core.messages',
        )
    return module.convert_to_messages(module.convert_to_openai_messages(messages))


class MessagesState(TypedDict):
    """A state with one key: the messages of a conversation."""

    messages: Annotated[list[Any], add_messages]


def stamp(write: Any, seed: str) -> Any:
    """Give the messages of one write their ids before it is stored.

    The ids are the same whenever the write is folded: now, after a crash, or for a snapshot.

    Args:
        write: a message in any form, or a list of them.
        seed: the place of the write; the same seed gives the same ids.
    """
    if isinstance(write, list):
        return [_stamped(m, f"{seed}:{i}") for i, m in enumerate(cast("list[Any]", write))]
    return _stamped(write, f"{seed}:0")


def _stamped(value: Any, seed: str) -> Any:
    """Give one message an id; it keeps its form if that has room for an id."""
    if is_message(value):
        if value.id is None:
            value.id = _id_at(seed)
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        is_one = ("role" in fields or "type" in fields) and "content" in fields
        return {"id": _id_at(seed), **fields} if is_one and not fields.get("id") else fields
    if isinstance(value, (str, tuple)):
        try:
            (message,) = converted(value)
        except (InvalidUpdateError, ValueError):
            return cast("Any", value)  # the reducer raises the error when the superstep ends
        return _stamped(message, seed)
    return value


def stamp_objects(write: Any, seed: str) -> Any:
    """Give the messages in one write of any data their ids; see `stamp`.

    Only objects and dicts of messages count: a string or a pair may be something else.

    Args:
        write: a value or a list of values, also in an Overwrite.
        seed: the place of the write.
    """
    if isinstance(write, list):
        items = cast("list[Any]", write)
        made = [_stamped_object(item, f"{seed}:{i}") for i, item in enumerate(items)]
        return items if all(map(is_, made, items)) else made
    if isinstance(write, Overwrite):
        stamp_objects(write.value, seed)
        return write
    return _stamped_object(write, f"{seed}:0")


def _stamped_object(value: Any, seed: str) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        kinds = [fields.get("role"), fields.get("type")]
        known = any(isinstance(kind, str) and kind in ROLES for kind in kinds)
        return _stamped(fields, seed) if known else fields
    return _stamped(value, seed) if is_message(value) else value


def _id_at(seed: str) -> str:
    h = blake2b(seed.encode(), digest_size=16).hexdigest()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


for _reducer in (add_messages, messages_delta_reducer):
    setattr(_reducer, "stamp", stamp)  # noqa: B010 - a function has no such attribute by type
