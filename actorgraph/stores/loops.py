"""Which event loop runs here, if any: stores work in all of them, and belong to none."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import anyio.lowlevel


def loop_runs() -> bool:
    """Whether this is code of a running event loop."""
    try:
        anyio.lowlevel.current_token()
    except RuntimeError:
        return False
    return True


def on_trio() -> bool:
    """Whether that loop is trio's."""
    if "trio" not in sys.modules:
        return False
    import trio

    return trio.lowlevel.in_trio_run()


async def unbroken(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Await a function to its end, however often the caller is cancelled; then be cancelled.

    On asyncio in a task of its own: `asyncio.timeout()` and `task.cancel()` go through a shield.
    """
    if on_trio():
        with anyio.CancelScope(shield=True):
            await work()
        return
    task, cancelled = asyncio.create_task(work()), None
    while not task.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
