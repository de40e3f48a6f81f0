"""Types in annotations, and values, that the codec can't store. Pure: nothing is encoded."""

import inspect
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from types import NoneType
from typing import Any, cast, get_args, get_origin

from actorgraph.cli.doctor.facts import TypeFact
from actorgraph.internals import (
    builtin_of,
    class_annotations,
    extension_of,
    fields_in,
    is_schema,
    library_type,
    members_of,
    plain_value,
)

DEPTH_MAX = 12
"""Types or values inside one another that are looked into."""
VALUES_MAX = 100_000
"""Values of one input that are looked at."""

_PLAIN = (NoneType, bool, int, float, str, bytes, list, dict)
_ITEMS: dict[Any, str] = {
    **dict.fromkeys((list, set, frozenset, tuple, Sequence, Iterable, deque), "[]"),
    **dict.fromkeys((dict, Mapping, MutableMapping, defaultdict, OrderedDict), "{}"),
}
"""Generic containers -> how paths write their items."""


def unstorable_types(
    annotation: Any, path: str, converted: Collection[type] = ()
) -> Iterator[TypeFact]:
    """Yield the types in an annotation whose values can't be stored, with their paths.

    A class that has subclasses which can be stored, an abstract class and a protocol are passed
    over: a key annotated with them may have values that can.

    Args:
        path: of the key: "state.client".
        converted: types that the codec has converters for.
    """
    yield from _types(annotation, path, converted, (), 0)


def _types(
    annotation: Any, path: str, converted: Collection[type], above: tuple[Any, ...], depth: int
) -> Iterator[TypeFact]:
    if depth > DEPTH_MAX or any(annotation is one for one in above):
        return
    above, depth = (*above, annotation), depth + 1
    members = members_of(annotation)
    if members != (annotation,):
        for member in members:
            yield from _types(member, path, converted, above, depth)
        return
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in _ITEMS:
        for part in parts:
            yield from _types(part, path + _ITEMS[origin], converted, above, depth)
    elif isinstance(kind := origin or annotation, type) and kind not in converted:
        if is_schema(kind):
            for name, inner in _fields(kind).items():
                yield from _types(inner, f"{path}.{name}", converted, above, depth)
        elif _refused(kind, converted):
            yield TypeFact(path, _name(kind))


def _fields(kind: type) -> Mapping[str, Any]:
    hints, known = class_annotations(kind), fields_in(kind)  # values have no class variables
    return hints if known is None else {name: hints.get(name, Any) for name in known.names}


def _refused(kind: type, converted: Collection[type]) -> bool:
    """Whether values of exactly this class, and of all its subclasses, can't be stored."""
    if kind is object or inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
        return False
    if kind.__module__ in ("typing", "collections.abc", "abc", "numbers"):
        return False
    return not any(each in converted or is_storable(each) for each in (kind, *_below(kind)))


def _below(kind: type, most: int = 100) -> list[type]:
    found: list[type] = []
    left: list[Any] = [kind]
    while left and len(found) < most:
        below = type.__subclasses__(left.pop())
        found += below
        left += below
    return found


def is_storable(kind: type) -> bool:
    """Whether a value of exactly this class can be stored without a converter.

    Its parts are values of their own.
    """
    if kind in _PLAIN or issubclass(kind, BaseException) or builtin_of(kind) is not None:
        return True
    if library_type(f"{kind.__module__}:{kind.__qualname__}") is not None:
        return True
    try:
        return extension_of(kind) is not None
    except Exception:  # noqa: BLE001 - a class may answer any question with an error
        return False


def unstorable_values(
    value: Any, path: str, converted: Collection[type] = ()
) -> Iterator[tuple[str, str]]:
    """Yield `(path, type)` of each value inside a value that can't be stored.

    Paths are as in Python, with attributes of objects: "state.items[3].client".

    Args:
        converted: types that the codec has converters for.
    """
    left, looked = [(value, path, 0)], 0
    while left and looked < VALUES_MAX:
        one, at, depth = left.pop()
        looked += 1
        kind = cast("type[Any]", type(one))
        if kind in converted:
            continue
        if not is_storable(kind):
            if plain_value(one) is one:  # else it is stored as the plain value that it is like
                yield at, _name(kind)
        elif depth < DEPTH_MAX:
            inside = [*_parts(one, kind)]
            left += [(part, at + step, depth + 1) for step, part in reversed(inside)]


def _parts(value: Any, kind: type[Any]) -> Iterator[tuple[str, Any]]:
    if issubclass(kind, dict):
        for key, part in cast("dict[Any, Any]", value).items():
            yield f"[{key!r}]", part
    elif issubclass(kind, list | tuple) and not hasattr(kind, "_fields"):
        yield from ((f"[{place}]", part) for place, part in enumerate(value))
    elif issubclass(kind, set | frozenset):
        yield from (("[...]", part) for part in value)
    elif not issubclass(kind, str | bytes | int | float):
        for name in _stored_fields(kind):
            if (part := getattr(value, name, None)) is not None:
                yield f".{name}", part


def _stored_fields(kind: type[Any]) -> tuple[str, ...]:
    known = fields_in(kind)
    return tuple(getattr(kind, "_fields", ())) if known is None else known.names


def _name(kind: type) -> str:
    name = f"{kind.__module__}.{kind.__qualname__}"
    return name.removeprefix("builtins.").removeprefix("__main__.")
