"""EngineThread: an asyncio event loop in a thread of its own, for clients that need asyncio.

So the adapters run under trio too, and a busy event loop of the program doesn't delay the client's
heartbeats.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Mailbox
from actorgraph.values.dispatch import Hint

T = TypeVar("T")
AGAIN_S = 1.0
"""Seconds after which a function that is to be kept running is called again."""


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

    def keep(self, function: Callable[[], Awaitable[object]]) -> None:
        """Run an async function in the thread until the thread is stopped.

        One that ends, by whatever error, is called again after `AGAIN_S`.
        """
        assert self._portal is not None
        task = self._portal.start_task_soon(_kept, function)
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


async def _kept(function: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await function()
        except Exception as error:  # noqa: BLE001 - nothing would call it again
            where = getattr(function, "__name__", "").removeprefix("_")
            log_event("warning", "dispatch.failed", where=where, error=repr(error))
        await anyio.sleep(AGAIN_S)


class Parcel:
    """The hints on their way from an engine to a call of `take` that may be cancelled.

    A call that is cancelled at the moment of its answer drops it: what it was handed stays here
    until the system's side has said that it has it.
    """

    def __init__(self) -> None:
        self._kept: list[Hint] = []
        self._handed: list[Hint] = []

    def put(self, hints: Iterable[Hint]) -> None:
        """Keep hints for the next call."""
        self._kept.extend(hints)

    def take_hints(self, queues: Sequence[str], limit: int) -> list[Hint]:
        """Return up to `limit` hints of these queues; those of a cancelled call come first."""
        every = [*self._handed, *self._kept]
        self._handed = [hint for hint in every if hint.queue in queues][:limit]
        gone = {id(hint) for hint in self._handed}
        self._kept = [hint for hint in every if id(hint) not in gone]
        return list(self._handed)

    def remove(self, is_gone: Callable[[Hint], bool]) -> list[Hint]:
        """Take out the kept hints for which a function says so."""
        gone = [hint for hint in self._kept if is_gone(hint)]
        self._kept = [hint for hint in self._kept if not is_gone(hint)]
        return gone

    def received(self) -> None:
        """Forget the hints that were handed over: the caller has it."""
        self._handed = []

    def all(self) -> list[Hint]:
        """Return the hints that no caller has got."""
        return [*self._handed, *self._kept]
