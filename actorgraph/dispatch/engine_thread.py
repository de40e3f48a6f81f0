"""EngineThread: an asyncio event loop in a thread of its own, for clients that need asyncio.

So the adapters run under trio too, and a busy event loop of the program doesn't delay the client's
heartbeats.
"""

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from actorgraph.runtime.mailbox import Mailbox

T = TypeVar("T")


class EngineThread:
    """Calls async functions in its thread, from another event loop, asyncio's or trio's."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._tasks: set[Future[Any]] = set()

    async def start(self) -> None:
        """Start the thread."""
        portal = start_blocking_portal("asyncio", name="actorgraph-dispatch")
        self._portal = await anyio.to_thread.run_sync(self._stack.enter_context, portal)

    async def stop(self, last: Callable[[], Awaitable[object]]) -> None:
        """Cancel what still runs in the thread, and end it.

        Args:
            last: called in the thread after that; not called if the thread never started.
        """
        portal, self._portal = self._portal, None
        if portal is None:
            return
        try:
            for task in tuple(self._tasks):
                task.cancel()
            await self._wait(portal.start_task_soon(last))
        finally:
            await self._wait(portal.start_task_soon(partial(portal.stop, cancel_remaining=True)))
            await anyio.to_thread.run_sync(self._stack.close)

    def spawn(self, function: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run an async function in the thread until it returns or the thread is stopped."""
        assert self._portal is not None
        task = self._portal.start_task_soon(function, *args)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def call(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """Call an async function in the thread; a cancellation of the caller cancels it there."""
        assert self._portal is not None
        return await self._wait(self._portal.start_task_soon(function, *args))

    async def _wait(self, future: "Future[T]") -> T:
        done: Mailbox[None] = Mailbox()
        future.add_done_callback(lambda _: done.put(None))
        try:
            await done.get()
        except BaseException:
            future.cancel()
            raise
        return future.result()
