"""The running event loop, asyncio's or trio's; and work in it that cancellation can't interrupt."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


def on_trio() -> bool:
    """Whether the running event loop is trio's."""
    # getattr: another thread may be importing trio, so that the module is incomplete.
    lowlevel = getattr(sys.modules.get("trio"), "lowlevel", None)
    return lowlevel is not None and lowlevel.in_trio_run()


def this_loop() -> object:
    """Return an object that identifies the running event loop; called inside it."""
    if on_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()


def running_loop() -> bool:
    """Whether an event loop runs in this thread."""
    if on_trio():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def unbroken(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await a function to its end, even if the caller is cancelled; then raise the cancellation.

    On asyncio the function gets a task of its own: anyio's shield doesn't stop
    `asyncio.timeout()` and `task.cancel()`.

    Raises: as the function, unless the caller was cancelled.
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
            task.exception()  # retrieved, or asyncio would log it; the cancellation is raised
        raise cancelled
    return task.result()


async def in_thread(work: Callable[[], T]) -> T:
    """Call a function in a worker thread, and wait for it even if the caller is cancelled.

    An abandoned thread would continue work that its caller believes was not done.
    """

    async def hop() -> T:
        return await anyio.to_thread.run_sync(work)

    return await unbroken(hop)
