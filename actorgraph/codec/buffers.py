"""bytearray and memoryview: ormsgpack packs both as bytes and asks nobody, so they are looked for.

Only where the payload has a byte that begins packed binary data, 0xC4 to 0xC6; few have one, though
text may look like it.
"""

from typing import Any, cast

_BUFFERS = frozenset({bytearray, memoryview})


def holds_buffer(value: Any) -> bool:
    """Whether lists and dicts hold a bytearray or a memoryview.

    Other types are packed one by one, each with a look of its own.
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
