"""Run async methods from sync code: the entry point of every method of the sync API.

A call that runs plain functions only is stepped in the calling thread, without an event loop
(`runtime.stepper`); any other one runs in the portal's loop, a background thread of the process,
which lasts: clients of async functions belong to it. Inside a plain node of an async run a call
runs as a child of the node's task, on the loop of its run, and the node's slot is given back while
it waits. Inside a running event loop a call is
refused, except in the cells of a notebook, whose loop has nothing else to do, and except reads of
savers in memory and in files, which take little time.
"""

import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeVar

import anyio.from_thread

from actorgraph.errors import RunningLoopError
from actorgraph.loops import in_event_loop
from actorgraph.runtime import portal, stepper
from actorgraph.runtime.saver.hosting import living_host
from actorgraph.runtime.stepper import HERE
from actorgraph.runtime.task.calling import thread_limiter
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.runtime.task.waiting_threads import lend, take_back

T = TypeVar("T")

READ_S: Final = 10.0
"""Seconds that a read may block an event loop: longer than a file is locked, in most cases."""


def may_block() -> bool:
    """Whether code may block here: no event loop runs, or only that of a notebook's cells.

    An async node may not, not even in a notebook: it would block the loop that its run needs.
    """
    if not in_event_loop():
        return True
    return "ipykernel" in sys.modules and CURRENT.get(None) is None and not portal.is_here()


def runs_here() -> bool:
    """Whether plain graphs run in this thread, by a stepper."""
    return not in_event_loop() and (HERE.stepper is not None or CURRENT.get(None) is None)


def way_to_block(
    name: str, function: Callable[[], Awaitable[T]], *, plain: bool = False
) -> Callable[[], T]:
    """Return a function that runs an async one for the blocking code that calls this.

    That code calls it at once: a frame less than if this did so.

    Args:
        name: the async method, for the error's advice, such as "graph.ainvoke".
        function: returns a coroutine.
        plain: whether it calls no async function of the program.
    Raises:
        RunningLoopError: the caller runs inside an event loop, which this would block.
    """
    if in_event_loop():
        if not may_block():
            method = name.rpartition(".")[2].removeprefix("a")
            raise _in_loop(f"{method}()", f"use the async version: `await {name}(...)`")
        return partial(portal.call, function)
    if sys.is_finalizing():
        portal.refuse_at_exit()
    if CURRENT.get(None) is None or HERE.stepper is not None:
        return stepper.begun(function) if plain else partial(_in_portal, function)
    return partial(_below_its_node, plain, function)


def block_on(name: str, function: Callable[[], Awaitable[T]], *, plain: bool = False) -> T:
    """Run an async function and return its result; the arguments are those of `way_to_block`."""
    return way_to_block(name, function, plain=plain)()


def _below_its_node(plain: bool, function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function in the event loop of the node that calls it in a worker thread."""
    try:
        ended = anyio.from_thread.run(_as_child, function)
    except anyio.NoEventLoopError:
        # A thread that the node started itself: no loop to return to. Errors of `function`
        # come back as data, so this can only be anyio's own.
        return stepper.begun(function)() if plain else _in_portal(function)
    return ended.value()


def _in_portal(function: Callable[[], Awaitable[T]]) -> T:
    context = copy_context()
    return stepper.in_portal(lambda: context.run(function))


def read_on(
    name: str, function: Callable[[], Awaitable[T]], saver: object, *, plain: bool = False
) -> T:
    """Run an async function that only reads from a saver, and return its result.

    In a running event loop too: it blocks that as long as a read of memory or of a file takes.
    It never waits for that loop, because the portal has the saver's actors and runs the function.

    Args:
        name: as in `block_on`.
        saver: None if the graph has none, which `function` reports.
        plain: as in `block_on`.
    Raises:
        RunningLoopError: inside an event loop: the saver is open in that loop, its reads go
            through a network or through code of the program (no `local_reads`), or the read took
            longer than `READ_S`.
    """
    if may_block() or portal.is_here() or not _is_read_quickly(saver):
        return block_on(name, function, plain=plain)
    return portal.read_within(READ_S, function)


def _is_read_quickly(saver: Any) -> bool:
    """Whether reads of a saver are local and don't need the running event loop."""
    if saver is None:
        return True
    if not getattr(saver, "local_reads", False):
        return False
    host = living_host(saver)
    return host is None or host.thread != threading.get_ident()


async def _as_child(function: Callable[[], Awaitable[T]]) -> portal.CallResult[T]:
    # The node's thread waits for this call, which may need a thread itself. Without another
    # token, nodes that wait could hold all of them and nothing would ever finish.
    limiter, task = thread_limiter(), (CURRENT.get(None),)
    lend(limiter, task)
    try:
        return await portal.call_result(function)
    finally:
        take_back(limiter, task)


def refuse_in_loop(call: str, instead: str) -> None:
    """Refuse an iterator that would block a running loop at the call, not at its first item.

    Args:
        call: the blocking call, such as "stream()".
        instead: code that does the same without blocking.
    Raises:
        RunningLoopError: code inside an event loop calls this.
    """
    if not may_block():
        raise _in_loop(call, f"use the async version: `{instead}`")


def _in_loop(call: str, do: str) -> RunningLoopError:
    return RunningLoopError(f"{call} would block the running event loop", do=do)
