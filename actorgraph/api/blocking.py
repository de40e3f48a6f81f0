"""The blocking facade's one door: run an async method from code without an event loop.

The call runs in the portal's loop. Inside a sync node it runs as a child on the loop of the
run that the node belongs to, and the node's thread slot is given back while it waits. Inside a
running event loop it is refused, but in the cells of a notebook, whose loop has nothing else to do.
"""

import sys
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TypeVar

import anyio.from_thread

from actorgraph.errors import RunningLoopError
from actorgraph.loops import in_event_loop
from actorgraph.runtime import portal
from actorgraph.runtime.calls import thread_limiter
from actorgraph.runtime.context import CURRENT

T = TypeVar("T")


def may_block() -> bool:
    """Whether code may wait here: no event loop runs, or it is that of a notebook's cells.

    A node that runs in a loop may not, in a notebook neither: its run would stand still.
    """
    if not in_event_loop():
        return True
    return "ipykernel" in sys.modules and CURRENT.get(None) is None and not portal.is_here()


def block_on(name: str, function: Callable[[], Awaitable[T]]) -> T:
    """The result of an async function, waited for.

    Args:
        name: the async method to name where blocking is refused.
    Raises:
        RunningLoopError: the caller runs inside an event loop, which this would stop.
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
            pass  # in a thread of the node's own; what the function raises comes as data
        else:
            return ended.value()
    context = copy_context()
    return portal.call(lambda: context.run(function))


async def _as_child(function: Callable[[], Awaitable[T]]) -> portal.CallResult[T]:
    limiter = thread_limiter()
    limiter.total_tokens += 1
    try:
        return await portal.call_result(function)
    finally:
        limiter.total_tokens -= 1


def refuse_in_loop(name: str) -> None:
    """Refuse at the call, not at the first item, what would block a running loop."""
    if not may_block():
        raise RunningLoopError(
            "a blocking method was called inside a running event loop",
            do=f"use `graph.{name}(...)`",
        )
