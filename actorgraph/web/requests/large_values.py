"""Work on large values of clients beside the event loop, so that no request holds it.

A body or an answer may have as many values as `Limits.values`: to check or convert them all in one
go would let every other request wait. Small ones, which are nearly all, stay on the loop: a worker
thread costs more than they do.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
from msgspec import Struct

from actorgraph.messages import BaseMessage
from actorgraph.web.requests.jsonable import dumps

T = TypeVar("T")

LARGE = 1_000
"""Values above which work is done in a worker thread: about two milliseconds of it."""
TEXT = 1_000
"""Characters of a text that take as long as a value, or less."""
LARGE_BYTES = 32 * 1024
"""Bytes of a body above which it is."""
THREADS = 2
"""Worker threads of this work. Not those of nodes, which may all be taken for long."""

_THREADS = anyio.lowlevel.RunVar[anyio.CapacityLimiter]("actorgraph.large_values")


async def beside(work: Callable[[], T]) -> T:
    """Call a pure function in a worker thread; when it is cancelled, its result is dropped."""
    limiter = _THREADS.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(THREADS)
        _THREADS.set(limiter)
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)


async def encoded(value: Any) -> bytes:
    """Encode any value as JSON, as `dumps` does."""
    return await beside(lambda: dumps(value)) if is_large(value) else dumps(value)


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
    if isinstance(one, BaseMessage):
        return [one.content]
    if is_dataclass(one) and not isinstance(one, type):
        return [getattr(one, field.name, None) for field in fields(one)]
    return []
