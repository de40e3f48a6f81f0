"""What ormsgpack would store as something else without asking: types, and buffers in values."""

from collections.abc import Collection
from typing import Any, cast

import ormsgpack

OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
)
"""With these it asks `default` about all types but plain data."""
BIN8, BIN16, BIN32 = b"\xc4", b"\xc5", b"\xc6"
"""The bytes that begin binary data in msgpack; text and numbers may contain them by chance."""

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
