"""Open calls: tool calls of a conversation that have no answer, because their run ended first.

A run that is cancelled, fails or is killed between a model's message and the results of its tools
leaves some. The next message is then behind them, and models refuse a conversation in which a tool
call has no answer right behind the message that makes it.

A call is given up once a message that is not an answer follows it. Until then its tool may still
run, so calls at the end of a conversation that goes on are left open.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from actorgraph.bridging import BRIDGE
from actorgraph.messages.conversion import converted
from actorgraph.messages.kinds import BaseMessage, ToolMessage

CANCELLED = "cancelled"
"""The content of the answer to a call that was given up."""

_PREFIX = "cancelled-"
"""The ids of such answers begin with it."""


def answer_open_calls(messages: Any, *, content: str = CANCELLED) -> list[Any]:
    """Give each tool call exactly one answer, right behind the message that makes the call.

    A call without one gets a ToolMessage with the status "error". An answer at another place is
    moved to its call; of several answers to one call the newest stays. Other messages keep their
    order, and answers without a call their place; but one that was added here goes with its call.

    Args:
        messages: in any of their forms; not modified.
        content: of the messages that are added.
    Returns: a new list. The ids of added messages depend on their calls only.
    Raises:
        InvalidUpdateError: a value can't be converted to a message.
    """
    return _answered(converted(messages), content, keep_newest=False)


def answer_given_up(old: Sequence[Any], new: Sequence[Any] | None, merged: list[Any]) -> list[Any]:
    """Answer the calls that a merge has given up; those at the end of the conversation stay open.

    Args:
        old: the conversation before the merge, the result of an earlier call of this function.
        new: what the merge has appended; None if it did anything else.
        merged: the conversation after the merge. Not modified.
    """
    if new is not None and not _gives_up(old, new):
        return merged
    return _answered(merged, CANCELLED, keep_newest=True)


def _gives_up(old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Whether appended messages follow an open call, or answer another one than those at the end.

    It reads the end of the conversation only: a long one is not read again at each update.
    """
    waiting: set[Any] = set()
    answered: set[Any] = set()
    for message in reversed(old):
        if not _is_answer(message):
            waiting = {call["id"] for call in _calls(message)} - answered
            break
        answered.add(message.tool_call_id)
    for message in new:
        if _is_answer(message):
            if message.tool_call_id not in waiting:
                return True
            waiting.discard(message.tool_call_id)
            continue
        if waiting:
            return True
        waiting = {call["id"] for call in _calls(message)}
    return False


def _answered(messages: list[Any], content: str, *, keep_newest: bool) -> list[Any]:
    """Put the answers behind their calls, and make those that are missing.

    Args:
        keep_newest: leave calls open if nothing but answers follows them.
    """
    maker: dict[Any, int] = {}
    found: dict[int, dict[Any, Any]] = {}
    moved: set[int] = set()
    for place, message in enumerate(messages):
        if _is_answer(message) and message.tool_call_id in maker:
            found.setdefault(maker[message.tool_call_id], {})[message.tool_call_id] = message
            moved.add(place)
            continue
        if _is_answer(message) and _is_stand_in(message):
            moved.add(place)  # its call is gone
            continue
        # Providers repeat ids from turn to turn: an answer belongs to the newest call with its id.
        maker.update((call["id"], place) for call in _calls(message))
    last = max((p for p, m in enumerate(messages) if not _is_answer(m)), default=-1)
    result: list[Any] = []
    for place, message in enumerate(messages):
        if place in moved:
            continue
        result.append(message)
        answers = found.get(place, {})
        result.extend(answers.values())
        if not (keep_newest and place == last):
            missing = [call for call in _calls(message) if call["id"] not in answers]
            result.extend(_stand_in(message, call, content) for call in missing)
    return result


def _stand_in(message: Any, call: dict[str, Any], content: str) -> Any:
    """Make the answer to a call that was given up, of the same library as its message."""
    module = BRIDGE.messages()
    ours = isinstance(message, BaseMessage) or module is None
    make: Any = ToolMessage if ours else getattr(module, "ToolMessage")  # noqa: B009 - by name
    # The same id whenever it is made again: a late answer to a stored one replaces it.
    seed = f"{message.id}:{call['id']}:{CANCELLED}"
    identifier = f"{_PREFIX}{blake2b(seed.encode(), digest_size=16).hexdigest()}"
    return make(
        content=content,
        tool_call_id=call["id"],
        name=call.get("name"),
        id=identifier,
        status="error",
    )


def _is_stand_in(message: Any) -> bool:
    return isinstance(message.id, str) and message.id.startswith(_PREFIX)


def _calls(message: Any) -> Iterable[dict[str, Any]]:
    """The tool calls of a model's message that an answer can name: those with an id."""
    return [call for call in getattr(message, "tool_calls", None) or () if call.get("id")]


def _is_answer(message: Any) -> bool:
    return getattr(message, "type", None) == "tool" and hasattr(message, "tool_call_id")
