"""Buffers in values: what msgpack would store as bytes without asking."""

from collections.abc import Collection
from typing import Any, cast

_BUFFERS = frozenset({bytearray, memoryview})

_SUSPECTS = _BUFFERS | {list, dict}


def _suspects(items: Collection[Any]) -> Collection[Any]:
    """The items, if any is a buffer or may hold one: a list of numbers costs no step for each."""
    return () if _SUSPECTS.isdisjoint(map(type, items)) else items


def refuse_buffers(value: Any) -> None:
    """Refuse a bytearray or a memoryview in nested lists and dicts.

    ormsgpack packs both as bytes without calling `default`, so they have to be found before.

    Other containers aren't entered: their content is packed separately, and checked then.

    Raises: TypeError.
    """
    left: list[Any] = [value]
    while left:
        one = left.pop()
        kind = type(one)
        if kind in _BUFFERS:
            msg = "a bytearray or memoryview would come back as bytes"
            raise TypeError(msg)
        if kind is list:
            left.extend(_suspects(cast("list[Any]", one)))
        elif kind is dict:
            left.extend(_suspects(cast("dict[Any, Any]", one).values()))
