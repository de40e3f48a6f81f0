"""Detect the running event loop, asyncio's or trio's, and shield work in it from cancellation."""

import asyncio
import sys
import time
from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import copy_context
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

S = TypeVar("S")
T = TypeVar("T")


def on_trio() -> bool:
    """Whether the running event loop is trio's."""
    # getattr: another thread may be importing trio, so that the module is incomplete.
    lowlevel = getattr(sys.modules.get("trio"), "lowlevel", None)
    return lowlevel is not None and lowlevel.in_trio_run()


def current_loop() -> object:
    """An object that identifies the running event loop; the caller runs inside it."""
    if on_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()


def is_over(loop: object) -> bool:
    """Whether a loop, as `current_loop` gave it, runs no more and never will."""
    if isinstance(loop, asyncio.AbstractEventLoop):
        return loop.is_closed()
    import trio

    token: Any = loop
    try:
        token.run_sync_soon(bool)  # trio has no other sign of it
    except trio.RunFinishedError:
        return True
    return False


def in_event_loop() -> bool:
    """Whether this code runs inside an event loop of this thread, asyncio's or trio's."""
    return _get_running_loop() is not None or ("trio" in sys.modules and on_trio())


_BESIDE: set["asyncio.Task[None]"] = set()
"""Tasks that were started. asyncio itself keeps only weak references to running tasks."""


def start_beside(
    work: Callable[[], Coroutine[Any, Any, None]], ended: Callable[[object], None]
) -> None:
    """Start a task that belongs to the event loop and not to the caller's task.

    Args:
        work: raises nothing but the cancellation of a loop that shuts down.
        ended: called at its end on asyncio, where such a loop may cancel it before its first step.
    """
    if on_trio():
        import trio

        # The caller has no nursery to start it in: it may be left without being closed.
        trio.lowlevel.spawn_system_task(work, context=copy_context())
        return
    task = asyncio.get_running_loop().create_task(work())
    _BESIDE.add(task)
    task.add_done_callback(_BESIDE.discard)
    task.add_done_callback(ended)


class Done:
    """An awaitable that is done: what a method returns whose work is over, awaited or not."""

    def __await__(self) -> Generator[Any, Any, None]:
        return iter(())  # pyright: ignore[reportReturnType]


class blocking_allowed:  # noqa: N801 - used like a function, as contextlib's
    """`with blocking_allowed():` hides the asyncio loop of this thread while it blocks on purpose.

    For waits that are part of the loop, or shorter than a turn of it: tools that refuse blocking
    calls in a running loop, such as blockbuster, are meant for the program's code.
    """

    __slots__ = ("_loop",)

    def __enter__(self) -> None:
        self._loop = _get_running_loop()
        _set_running_loop(None)

    def __exit__(self, *_: object) -> None:
        _set_running_loop(self._loop)


async def shielded(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await a function to its end even if the caller is cancelled, then raise the cancellation.

    Raises: the function's error, unless the caller was cancelled.
    """
    if on_trio():
        with anyio.CancelScope(shield=True):
            return await work()
    # A task of its own: asyncio.timeout() and task.cancel() pass through anyio's shield.
    task, cancelled = asyncio.get_running_loop().create_task(work()), None
    while not task.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would log it: the cancellation wins
        raise cancelled
    return task.result()


TURN_S = 0.005
"""Seconds of work after which `Turns` lets other tasks run."""


class Turns:
    """Lets other tasks of the event loop run between two pieces of work, when some time is over."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def give(self) -> None:
        """Let other tasks run if `TURN_S` are over; may be cancelled then."""
        if time.perf_counter() - self._began > TURN_S and in_event_loop():
            await anyio.lowlevel.checkpoint()
            self._began = time.perf_counter()


async def in_turns(items: Iterable[S], convert: Callable[[S], T]) -> list[T]:
    """Convert items one after the other, and let other tasks run between two of them."""
    turns = Turns()
    found: list[T] = []
    for item in items:
        found.append(convert(item))
        await turns.give()
    return found


async def in_thread(work: Callable[[], T]) -> T:
    """Call a function in a worker thread and wait for its end even if the caller is cancelled.

    A thread can't be stopped: an abandoned one would change things after its caller has reported
    that the operation did not happen.
    """

    async def hop() -> T:
        return await anyio.to_thread.run_sync(work)

    return await shielded(hop)


BESIDE_THREADS = 2
"""Worker threads of `beside`. Not those of nodes, which may all be taken for long."""

_BESIDE_THREADS = anyio.lowlevel.RunVar[anyio.CapacityLimiter]("actorgraph.beside")


async def beside(work: Callable[[], T]) -> T:
    """Call a pure function in a worker thread; when it is cancelled, its result is dropped."""
    limiter = _BESIDE_THREADS.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(BESIDE_THREADS)
        _BESIDE_THREADS.set(limiter)
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
