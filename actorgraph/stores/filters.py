"""Filters of items and listings of namespaces, the same for every store.

Filters     compare as JSON does: a bool is not a number, 1 equals 1.0, and only numbers and texts
            have an order, each their own. A missing field counts as None. A name with periods,
            unless a field has it, leads to a nested one. A filter is never made part of a
            statement's text
Namespaces  as text their labels are joined by periods, which no label contains. In UTF-8 the
            namespaces below `a.b` are those from `a.b.` up to `a.b/`, as "/" follows ".": a range
            of an index
"""

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from actorgraph.stores.item_values import from_text
from actorgraph.stores.operations import ListNamespacesOp, MatchCondition, Namespace

_ORDERS = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether a value matches a filter in every field that the filter names.

    Args:
        value: an item's value.
        wanted: a validated filter (see `check_op`); None and {} match all.
    """
    return not wanted or all(
        _matches_field(_field(value, name), part) for name, part in wanted.items()
    )


def _field(value: Mapping[str, Any], name: str) -> Any:
    """Return a field, or with a name like "user.age" a nested one; None if absent."""
    if "." not in name or name in value:
        return value.get(name)
    found: Any = value
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def may_match(text: str, wanted: Mapping[str, Any] | None) -> bool:
    """Whether a stored value matches a filter; True if it can't be decoded.

    The caller decodes it again and reports the damage.
    """
    try:
        return matches(from_text(text), wanted)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return True


def equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal."""
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


def join_namespace(namespace: Namespace) -> str:
    """Return a namespace as text."""
    return ".".join(namespace)


def split_namespace(text: str) -> Namespace:
    """Return the namespace of a text."""
    return tuple(text.split(".")) if text else ()


def text_range(prefix: Namespace) -> tuple[str, str, str]:
    """Return a prefix as text, and the half-open range of the texts of namespaces below it."""
    text = join_namespace(prefix)
    return text, f"{text}.", f"{text}/"


def listed(op: ListNamespacesOp, there: Iterable[Namespace]) -> list[Namespace]:
    """Return the page of a listing: matching namespaces, sorted, each once."""
    found = {n[: op.max_depth] for n in there if _meets_all(n, op.match_conditions or ())}
    return sorted(found)[op.offset : op.offset + op.limit]


def plain_prefix(op: ListNamespacesOp) -> Namespace:
    """Return labels without wildcards that all namespaces of a listing begin with."""
    for kind, path in op.match_conditions or ():
        if kind == "prefix":
            return tuple(path[: path.index("*")] if "*" in path else path)
    return ()


def _meets_all(namespace: Namespace, conditions: Iterable[MatchCondition]) -> bool:
    return all(_meets(namespace, kind, tuple(path)) for kind, path in conditions)


def _meets(namespace: Namespace, kind: str, path: Namespace) -> bool:
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if kind == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
