"""Ids of messages that are written without one, before the write is stored.

They are the same whenever the write is folded: now, after a crash, for a snapshot, and when a
DeltaChannel is rebuilt from its writes. `assign_message_ids` is for channels that hold messages
only, `stamp_objects` for those that may hold other data. Each looks into a list, a tuple, an
Overwrite in either form, and at a message alone; an empty id counts as none.
"""

from collections.abc import Callable
from hashlib import blake2b
from operator import is_
from typing import Any, cast

from actorgraph.errors import InvalidUpdateError
from actorgraph.messages.conversion import converted, is_message, is_pair
from actorgraph.messages.kinds import ROLES
from actorgraph.values.commands import Overwrite, overwritten

_ROLES = frozenset({*ROLES, "function"})


def assign_message_ids(write: Any, seed: str) -> Any:
    """Give the messages of one write their ids; those in an Overwrite become messages too.

    Args:
        write: a message in any form, or a list of them, also in an Overwrite.
        seed: the place of the write; the same seed gives the same ids.
    Returns: the write itself if nothing in it changes.
    """
    replaces, value = overwritten(write)
    if not replaces:
        return _each(write, seed, _stamped)
    made = _each(value, seed, _made)
    return write if made is value else Overwrite(made)


def stamp_objects(write: Any, seed: str) -> Any:
    """Give the messages in one write of any data their ids; see `assign_message_ids`.

    Only objects and dicts of messages count: a string or a pair may be something else. A dict of a
    message in a list becomes a message; in an Overwrite, which no reducer sees, it stays a dict.

    Args:
        write: a value or a list of values, also in an Overwrite.
        seed: the place of the write.
    Returns: the write itself if nothing in it changes.
    """
    replaces, value = overwritten(write)
    if not replaces:
        return _each(write, seed, _stamped_object)
    _each(value, seed, _stamped_message)  # objects keep their place: nothing is made
    return write


def _each(value: Any, seed: str, give: Callable[..., Any]) -> Any:
    """Complete a value, or each item of a list or a tuple.

    Args:
        give: takes a value, its seed, and whether it is an item of several.
    """
    if not isinstance(value, (list, tuple)) or is_pair(value):
        return give(value, f"{seed}:0", among=False)
    items = cast("list[Any] | tuple[Any, ...]", value)
    made = [give(item, f"{seed}:{place}", among=True) for place, item in enumerate(items)]
    if len(made) == len(items) and all(map(is_, made, items)):
        return items
    return made if isinstance(items, list) else tuple(made)


def _stamped(value: Any, seed: str, *, among: bool) -> Any:
    """Give one message an id; it keeps its form if that has room for an id."""
    if is_message(value):
        if not value.id and value.type != "remove":
            value.id = _id_at(seed)
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        is_one = "role" in fields or "type" in fields
        return {**fields, "id": _id_at(seed)} if is_one and not fields.get("id") else fields
    return _made(value, seed, among=among) if isinstance(value, (str, tuple)) else value


def _made(value: Any, seed: str, *, among: bool) -> Any:
    """Make a message with an id of any form."""
    if not is_message(value):
        try:
            (value,) = converted([value])
        except (InvalidUpdateError, ValueError, NotImplementedError):
            return value  # the reducer raises the error when the superstep ends
    return _stamped(value, seed, among=among)


def _stamped_message(value: Any, seed: str, *, among: bool) -> Any:
    return _stamped(value, seed, among=among) if is_message(value) else value


def _stamped_object(value: Any, seed: str, *, among: bool) -> Any:
    if not isinstance(value, dict):
        return _stamped_message(value, seed, among=among)
    fields = cast("dict[str, Any]", value)
    kinds = [fields.get("role"), fields.get("type")]
    is_one = any(isinstance(kind, str) and kind in _ROLES for kind in kinds)
    if not is_one or not ("content" in fields or "tool_calls" in fields):
        return fields
    return _made(fields, seed, among=among) if among else _stamped(fields, seed, among=among)


def _id_at(seed: str) -> str:
    h = blake2b(seed.encode(), digest_size=16).hexdigest()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
