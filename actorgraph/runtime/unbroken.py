"""Work that is carried to its end, whoever cancels the one who waits for it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

from actorgraph.runtime.mailbox import on_trio

T = TypeVar("T")


async def unbroken(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await a function to its end, however often the caller is cancelled; then be cancelled.

    On asyncio in a task of its own: `asyncio.timeout()` and `task.cancel()` go through a shield.

    Raises: what the function raises, unless the caller was cancelled.
    """
    if on_trio():
        with anyio.CancelScope(shield=True):
            return await work()
    task, cancelled = asyncio.get_running_loop().create_task(work()), None
    while not task.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # looked at: whoever is cancelled is told of nothing else
        raise cancelled
    return task.result()
