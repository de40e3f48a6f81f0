"""Work on large values of clients beside the event loop, so that no request holds it.

A body or an answer may have as many values as `Limits.values`: to check or convert them all in one
go would let every other request wait. Small ones, which are nearly all, stay on the loop: a worker
thread costs more than they do.
"""

from typing import Any

from actorgraph.internals import beside, is_large
from actorgraph.web.http.jsonable import dumps

LARGE_BYTES = 32 * 1024
"""Bytes of a body above which work is done in a worker thread."""


async def encoded(value: Any) -> bytes:
    """Encode any value as JSON, as `dumps` does."""
    return await beside(lambda: dumps(value)) if is_large(value) else dumps(value)
