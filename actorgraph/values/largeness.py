"""Whether a value is so large that the event loop should not work through it in one go."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from msgspec import Struct

LARGE = 1_000
"""Values above which work is done in a worker thread: about two milliseconds of it."""
TEXT = 1_000
"""Characters of a text that take as long as a value, or less."""


def is_large(value: Any) -> bool:
    """Whether a value has more than `LARGE` values in it; looks at no more of them.

    Each `TEXT` characters of a text count as one.
    """
    left, level = LARGE, [value]
    while level:
        inner: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is str:
                left -= len(one) // TEXT
                if left < 0:
                    return True
                continue
            if one is None or kind is int:
                continue
            parts = _parts(one)
            left -= len(parts)
            if left < 0:
                return True
            inner.extend(parts)
        level = inner
    return False


def _parts(one: Any) -> list[Any]:
    if isinstance(one, Mapping):
        return list(cast("Mapping[Any, Any]", one).values())
    if isinstance(one, list | tuple | set | frozenset):
        return list(cast("list[Any]", one))
    if isinstance(one, Struct):
        return [getattr(one, name) for name in one.__struct_fields__]
    if is_dataclass(one) and not isinstance(one, type):
        return [getattr(one, field.name, None) for field in fields(one)]
    return []
