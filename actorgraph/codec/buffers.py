"""Find bytearrays and memoryviews, which ormsgpack packs as bytes without calling `default`."""

from typing import Any, cast

_BUFFERS = frozenset({bytearray, memoryview})


def holds_buffer(value: Any) -> bool:
    """Whether nested lists and dicts hold a bytearray or a memoryview.

    Other containers aren't entered: their content is packed separately, and checked then.
    """
    left: list[Any] = [value]
    while left:
        one = left.pop()
        kind = type(one)
        if kind in _BUFFERS:
            return True
        if kind is list:
            left.extend(cast("list[Any]", one))
        elif kind is dict:
            left.extend(cast("dict[Any, Any]", one).values())
    return False
