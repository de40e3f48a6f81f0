"""Run async methods from sync code: the entry point of every method of the sync API.

A call runs in the portal's loop, a background thread of the process. Inside a sync node it runs
as a child task on the loop of the node's run, and the node's thread slot is given back while it
waits. Inside a running event loop it is refused, except in the cells of a notebook: their loop
has nothing else to do.
"""

import sys
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TypeVar

import anyio.from_thread

from actorgraph.errors import RunningLoopError
from actorgraph.loops import in_event_loop
from actorgraph.runtime import portal
from actorgraph.runtime.task.calling import thread_limiter
from actorgraph.runtime.task.scope import CURRENT

T = TypeVar("T")


def may_block() -> bool:
    """Whether code may block here: no event loop runs, or only that of a notebook's cells.

    An async node may not, not even in a notebook: it would block the loop that its run needs.
    """
    if not in_event_loop():
        return True
    return "ipykernel" in sys.modules and CURRENT.get(None) is None and not portal.is_here()


def block_on(name: str, function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function and return its result.

    Args:
        name: the async method, for the error's advice.
    Raises:
        RunningLoopError: the caller runs inside an event loop, which this would block.
    """
    if not may_block():
        raise RunningLoopError(
            "a blocking method was called inside a running event loop",
            do=f"use `await graph.{name}(...)`" if name[0] == "a" else f"use {name}",
        )
    if in_event_loop():
        return portal.call(function)
    if CURRENT.get(None) is not None:
        try:
            ended = anyio.from_thread.run(_as_child, function)
        except anyio.NoEventLoopError:
            # A thread that the node started itself: no loop to return to. Errors of `function`
            # come back as data, so this can only be anyio's own.
            pass
        else:
            return ended.value()
    context = copy_context()
    return portal.call(lambda: context.run(function))


async def _as_child(function: Callable[[], Awaitable[T]]) -> portal.CallResult[T]:
    # The node's thread waits for this call, which may need a thread itself. Without another
    # token, nodes that wait could hold all of them and nothing would ever finish.
    limiter = thread_limiter()
    limiter.total_tokens += 1
    try:
        return await portal.call_result(function)
    finally:
        limiter.total_tokens -= 1


def refuse_in_loop(name: str) -> None:
    """Refuse an iterator that would block a running loop at the call, not at its first item.

    Args:
        name: the async method to use instead.
    Raises:
        RunningLoopError: code inside an event loop calls this.
    """
    if not may_block():
        raise RunningLoopError(
            "a blocking method was called inside a running event loop",
            do=f"use `graph.{name}(...)`",
        )
