"""Overwrite: a write that replaces a channel's value instead of being folded into it."""

from dataclasses import dataclass
from typing import Any, Final, Literal, cast

OVERWRITE_KEY: Final = "__overwrite__"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Makes `value` the channel's value, without its reducer.

    The other writes of the same superstep to that channel are dropped, whatever their order;
    two Overwrites in one superstep are refused. `{"__overwrite__": value}` means the same, for
    updates in JSON, and so does the dict that JSON makes of an Overwrite's fields.
    """

    value: Any
    type: Literal["__overwrite__"] = OVERWRITE_KEY


def overwritten(write: object) -> tuple[bool, Any]:
    """Return (whether a write is an Overwrite in one of its forms, its value)."""
    if type(write) is Overwrite:
        return True, write.value
    if type(write) is dict:
        plain = cast("dict[str, Any]", write)
        if len(plain) == 1 and OVERWRITE_KEY in plain:
            return True, plain[OVERWRITE_KEY]
        if len(plain) == 2 and plain.get("type") == OVERWRITE_KEY and "value" in plain:
            return True, plain["value"]
    return False, None
