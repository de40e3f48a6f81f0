"""Equality of JSON values: True is not 1, and an object contains another one's keys. Pure."""

from collections.abc import Mapping
from typing import Any, cast


def contains(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether metadata has all wanted keys with equal values; true doesn't equal 1."""
    for key, value in wanted.items():
        if key not in metadata or not equal_json(metadata[key], value):
            return False
    return True


def equal_json(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        left, right = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
        return left.keys() == right.keys() and contains(left, right)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        these, those = cast("list[Any]", one), cast("list[Any]", other)
        return len(these) == len(those) and all(map(equal_json, these, those))
    return bool(one == other)
