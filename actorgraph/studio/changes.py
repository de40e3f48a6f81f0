"""The changes of a step: two JSON-like states compared key by key, as rows of a page. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeGuard

import msgspec

from actorgraph.web.http.json_equality import equal_json

ROWS_MAX = 200
"""Changes that are listed; the rest is counted."""
DEPTH_MAX = 6
"""Levels that are compared; deeper values are compared as wholes."""

Kind = Literal["added", "changed", "removed"]


class Change(msgspec.Struct, frozen=True):
    """One difference.

    Attributes:
        path: such as `messages[2].content`.
        before: None for an added value.
        after: None for a removed one.
    """

    path: str
    kind: Kind
    before: Any = None
    after: Any = None


class Changes(msgspec.Struct, frozen=True):
    """The differences of two states.

    Attributes:
        rows: at most `ROWS_MAX`, in the order of the newer state.
        more: differences that are not listed.
    """

    rows: tuple[Change, ...] = ()
    more: int = 0


def changes(before: Any, after: Any) -> Changes:
    """Compare two states of plain data (dicts, lists, scalars).

    A list that has grown at its end shows the new items alone; any other list is compared by
    position.
    """
    rows: list[Change] = []
    more = 0
    for change in _walk("", before, after, 0):
        if len(rows) < ROWS_MAX:
            rows.append(change)
        else:
            more += 1
    return Changes(tuple(rows), more)


def _walk(path: str, before: Any, after: Any, depth: int) -> Iterator[Change]:
    if _same(before, after):
        return
    if depth < DEPTH_MAX and isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _mappings(path, before, after, depth)
    elif depth < DEPTH_MAX and _is_list(before) and _is_list(after):
        yield from _lists(path, before, after, depth)
    else:
        yield Change(path or "state", "changed", before, after)


def _mappings(
    path: str, before: Mapping[Any, Any], after: Mapping[Any, Any], depth: int
) -> Iterator[Change]:
    for key, value in after.items():
        place = f"{path}.{key}" if path else str(key)
        if key in before:
            yield from _walk(place, before[key], value, depth + 1)
        else:
            yield Change(place, "added", after=value)
    for key, value in before.items():
        if key not in after:
            yield Change(f"{path}.{key}" if path else str(key), "removed", before=value)


def _lists(path: str, before: Sequence[Any], after: Sequence[Any], depth: int) -> Iterator[Change]:
    shared = min(len(before), len(after))
    for at in range(shared):
        yield from _walk(f"{path}[{at}]", before[at], after[at], depth + 1)
    for at in range(shared, len(after)):
        yield Change(f"{path}[{at}]", "added", after=after[at])
    for at in range(shared, len(before)):
        yield Change(f"{path}[{at}]", "removed", before=before[at])


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON; 1 doesn't equal 1.0 here, which is shown otherwise."""
    scalars = not isinstance(one, Mapping | list | tuple)
    return (type(one) is type(other) or not scalars) and equal_json(one, other)
