"""Hops: plain functions of nodes, called in worker threads of an asyncio or trio loop.

On asyncio the threads are ours: a hop costs a quarter less than through anyio's, and all that anyio
promises in a worker thread holds: `from_thread.run` and `check_cancelled` work, the limiter counts,
a cancelled hop is abandoned. That needs three names of anyio's that are not public; with an anyio
that lacks them, and on trio, the hop is anyio's.
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from actorgraph.loops import on_trio
from actorgraph.runtime import worker_threads

try:
    from anyio._core import _eventloop

    threadlocals: Any = _eventloop.threadlocals
    set_current_async_library: Any = _eventloop.set_current_async_library
except (ImportError, AttributeError):  # another version of anyio
    threadlocals = set_current_async_library = None

T = TypeVar("T")


async def hop(work: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
    """Call a function in a worker thread, in a copy of this context.

    A thread can't be stopped: a cancelled call is abandoned and its result dropped.

    Args:
        work: never raises StopIteration.
        limiter: counts the calls.
    """
    if threadlocals is None or on_trio():
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
    borrower = object()
    try:
        limiter.acquire_on_behalf_of_nowait(borrower)
    except anyio.WouldBlock:
        await limiter.acquire_on_behalf_of(borrower)
    try:
        return await _in_our_thread(work)
    finally:
        limiter.release_on_behalf_of(borrower)


async def _in_our_thread(work: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    token = anyio.lowlevel.current_token()
    ended: asyncio.Future[T] = loop.create_future()
    context = copy_context()
    with anyio.CancelScope() as scope:

        def serve() -> None:
            threadlocals.current_token, threadlocals.current_cancel_scope = token, scope
            value, error = None, None
            try:
                value = context.run(_detached, work)
            except BaseException as raised:  # noqa: BLE001 - raised in the loop
                error = raised
            finally:
                del threadlocals.current_token, threadlocals.current_cancel_scope
            try:
                loop.call_soon_threadsafe(_settle, ended, value, error)
            except RuntimeError:
                if not loop.is_closed():
                    raise

        worker_threads.start(serve)
        return await ended
    raise AssertionError  # the scope is never cancelled itself


def _detached(work: Callable[[], T]) -> T:
    set_current_async_library(None)  # the context is a copy of one in the loop
    return work()


def _settle(ended: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if ended.done():  # abandoned
        return
    if error is None:
        ended.set_result(value)
    else:
        ended.set_exception(error)
