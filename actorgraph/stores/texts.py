"""Values of items as JSON text, exactly or not at all.

What comes back is equal to what was stored: whole numbers of any size, text with NUL and lone
surrogates. A tuple comes back as a list, as JSON has no tuples.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from actorgraph.stores.errors import ItemValueError

DEPTH_MAX = 500
_Encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def to_text(value: Any, what: str) -> str:
    """A value as ASCII text.

    Args:
        what: the value's name, for the error's text.
    Raises:
        ItemValueError: JSON has no such thing; the text names its path.
    """
    if found := fault(value):
        path, said = found
        raise ItemValueError(
            f"{what}{path} {said}, so it can't be stored",
            do="store dicts with text keys, lists, text, finite numbers, bools and None",
        )
    try:
        return _Encoder(value)
    except ValueError as error:
        raise ItemValueError(
            f"{what} can't be written as JSON: {error}", do="store such a number as text"
        ) from error


def from_text(text: str | bytes) -> Any:
    """What `to_text` made a text of."""
    return json.loads(text)


def plain(value: Mapping[str, Any] | None) -> Any:
    """A mapping of any class as the dict that is stored."""
    return dict(value) if isinstance(value, Mapping) else value


def fault(value: Any, depth: int = 0) -> tuple[str, str] | None:
    """The path and the nature of the first thing that JSON doesn't have."""
    if value is None or isinstance(value, str | bool | int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", f"is {value!r}")
    if depth > DEPTH_MAX:
        return "", f"is more than {DEPTH_MAX} levels deep, or holds itself"
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                return "", f"has the key {key!r} of type {type(key).__name__}"
            if found := fault(part, depth + 1):
                return f"[{key!r}]{found[0]}", found[1]
        return None
    if isinstance(value, list | tuple):
        for index, part in enumerate(value):
            if found := fault(part, depth + 1):
                return f"[{index}]{found[0]}", found[1]
        return None
    return "", f"is of type {type(value).__name__}"
