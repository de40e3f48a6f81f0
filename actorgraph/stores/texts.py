"""Values of items as JSON text, and checksums of stored items.

Exact      a value that is read is equal to the stored one: integers of any size, text with NUL and
           lone surrogates. Tuples become lists, as JSON has none. Other values are refused
Checksums  an item that has changed on the disk is an error when it is read by its key, and left
           out of searches with a warning. Rows of older versions have no checksum
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from actorgraph.stores.errors import ItemValueError

DEPTH_MAX = 500
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def to_text(value: Any, name: str) -> str:
    """Encode a value as ASCII JSON text.

    Args:
        name: of the value, for the error's text.
    Raises:
        ItemValueError: JSON can't hold it; the message names the path.
    """
    if found := find_unstorable(value):
        path, problem = found
        raise ItemValueError(
            f"{name}{path} {problem}, so it can't be stored",
            do="store dicts with text keys, lists, text, finite numbers, bools and None",
        )
    try:
        return _encode(value)
    except ValueError as error:
        raise ItemValueError(
            f"{name} can't be written as JSON: {error}", do="store such a number as text"
        ) from error


def from_text(text: str | bytes) -> Any:
    """Decode the text of `to_text`."""
    return json.loads(text)


def to_dict(value: Mapping[str, Any] | None) -> Any:
    """Convert a mapping of any class to the dict that is stored."""
    return dict(value) if isinstance(value, Mapping) else value


def find_unstorable(value: Any, depth: int = 0) -> tuple[str, str] | None:
    """Return the path and a description of the first value that JSON can't hold; or None."""
    if value is None or isinstance(value, str | bool | int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", f"is {value!r}")
    if depth > DEPTH_MAX:
        return "", f"is more than {DEPTH_MAX} levels deep, or contains itself"
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                return "", f"has the key {key!r} of type {type(key).__name__}"
            if found := find_unstorable(part, depth + 1):
                return f"[{key!r}]{found[0]}", found[1]
        return None
    if isinstance(value, list | tuple):
        for index, part in enumerate(value):
            if found := find_unstorable(part, depth + 1):
                return f"[{index}]{found[0]}", found[1]
        return None
    return "", f"is of type {type(value).__name__}"
