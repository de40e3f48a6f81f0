"""Ids of messages that are written without one: the same whenever the write is folded."""

from hashlib import blake2b
from operator import is_
from typing import Any, cast

from actorgraph.errors import InvalidUpdateError
from actorgraph.messages.conversion import converted, is_message
from actorgraph.messages.kinds import ROLES
from actorgraph.values.commands import Overwrite


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
