"""add_messages: the reducer of a conversation. Merges by id; a RemoveMessage removes one.

There is one merge (`merged`): an update gives what its messages give one after another, whether
they come in one list, in several writes of a superstep or in several updates. A message that is
written without an id gets one before (`messages/stamps.py`).
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, TypedDict, cast, overload
from uuid import uuid4

from actorgraph.errors import InvalidUpdateError
from actorgraph.messages.conversion import as_list, converted, is_message
from actorgraph.messages.open_calls import answer_given_up
from actorgraph.messages.openai_format import formatted
from actorgraph.messages.stamps import assign_message_ids

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
        format: "langchain-openai" converts each message's content to OpenAI's blocks and leaves
            the rest of it, its id too; needs LangChain.
        open_calls: "answer" gives a tool call the answer "cancelled" (a ToolMessage with the
            status "error") when another message follows it: its run has ended without one. A late
            answer takes its place. Default: such a call stays open.
    Returns: the merged list; the arguments' lists are not changed, messages without an id get one.
    Raises:
        InvalidUpdateError: a value can't be converted to a message, a RemoveMessage names an
            unknown id, or `format` or `open_calls` is unknown.
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
    if None in known or "" in known:
        _add_ids(old)
        known = {message.id for message in old}
    _add_ids(new)
    if format is not None:  # before the merge: one message may become several
        old, new = formatted(old, format), formatted(new, format)
        known = {message.id for message in old}
    # A chat appends: then one look at the ids of the conversation, at each update, is enough.
    appended = _are_appended(known, new)
    result = [*old, *new] if appended else merged(old, new)
    if open_calls is not None:
        result = answer_given_up(old, new if appended else None, result)
    return result


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
        if not message.id and message.type != "remove":
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


def merged(old: Sequence[Any], new: Sequence[Any], *, lenient: bool = False) -> list[Any]:
    """Merge messages into a conversation, one after another.

    A known id takes the place of the message that has it, an unknown one goes to the end, also
    where this update has removed it before. Messages without an id, which only DeltaChannels
    have, are appended.

    Args:
        lenient: ignore a RemoveMessage whose id nothing has.
    Raises:
        InvalidUpdateError: a RemoveMessage names an id that nothing has, or has had here.
    """
    cleared = _place_of_clear(new)
    result: list[Any] = list(old) if cleared is None else []
    places = {m.id: place for place, m in enumerate(result) if m.id is not None}
    repeats = len(places) != len(result)  # a list that was given an id twice
    removed: set[str] = set()
    for message in new if cleared is None else new[cleared + 1 :]:
        place = places.get(message.id)
        if message.type == "remove":
            if place is not None:
                removed.add(message.id)
                del places[message.id]
                result[place] = None
                if repeats:
                    gone = message.id
                    result = [None if m is None or m.id == gone else m for m in result]
            elif message.id not in removed and not lenient:
                raise _unknown(message.id)
        elif place is not None:
            result[place] = message
        else:
            if message.id is not None:
                places[message.id] = len(result)
            result.append(message)
    return [message for message in result if message is not None] if removed else result


def _place_of_clear(messages: Sequence[Any]) -> int | None:
    """Find the last message that removes all before it."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].type == "remove" and messages[place].id == REMOVE_ALL_MESSAGES:
            return place
    return None


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
    given = [message for write in writes for message in as_list(write)]
    return merged(old, converted(given, old), lenient=True)


def _unknown(identifier: str) -> InvalidUpdateError:
    return InvalidUpdateError(
        f"Attempting to delete a message with an ID that doesn't exist ({identifier!r})",
        do="take the id from a message of the state",
    )


class MessagesState(TypedDict):
    """A state with one key: the messages of a conversation."""

    messages: Annotated[list[Any], add_messages]


for _reducer in (add_messages, messages_delta_reducer):
    # A function has no such attribute by its type.
    setattr(_reducer, "stamp", assign_message_ids)  # noqa: B010
