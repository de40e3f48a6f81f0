"""Whether a value fits a filter: one rule for every store.

JSON's rules: a bool is no number, 1 equals 1.0, numbers and texts have an order of their own and
nothing else has one. A missing field counts as None. What is compared is data all the way: a
filter never becomes part of a statement.
"""

import operator
from collections.abc import Mapping
from typing import Any

from actorgraph.stores.texts import from_text

_ORDERS = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether every field that the filter names has what it wants.

    Args:
        value: an item's value.
        wanted: a checked filter (`checks.check_op`); None and {} fit all.
    """
    return not wanted or all(_matches_field(value.get(name), part) for name, part in wanted.items())


def may_match(text: str, wanted: Mapping[str, Any] | None) -> bool:
    """Whether a stored value fits a filter; one that can't be read is told by whoever shows it."""
    try:
        return matches(from_text(text), wanted)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return True


def equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _matches_field(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compare(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and matches(value, wanted)
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(map(_matches_field, value, wanted))
        )
    return equal(value, wanted)


def _compare(value: Any, name: str, operand: Any) -> bool:
    if name == "$eq":
        return equal(value, operand)
    if name == "$ne":
        return not equal(value, operand)
    ordered = (_is_number(value) and _is_number(operand)) or (
        isinstance(value, str) and isinstance(operand, str)
    )
    return ordered and _ORDERS[name](value, operand)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
