"""Which event loop runs here, asyncio's or trio's; and work in it that nobody breaks off."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


def on_trio() -> bool:
    """Whether the running event loop is trio's."""
    # Another thread may be importing trio at this moment.
    lowlevel = getattr(sys.modules.get("trio"), "lowlevel", None)
    return lowlevel is not None and lowlevel.in_trio_run()


def this_loop() -> object:
    """What tells the running event loop from others; the caller is inside of it."""
    if on_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()


def running_loop() -> bool:
    """Whether this code runs inside an event loop of this thread."""
    if on_trio():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


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


async def in_thread(work: Callable[[], T]) -> T:
    """Call a function in a worker thread, and wait for it however often the caller is cancelled.

    A thread that was left behind would go on with what its caller takes for undone.
    """

    async def hop() -> T:
        return await anyio.to_thread.run_sync(work)

    return await unbroken(hop)
