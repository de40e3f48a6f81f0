"""A system's life inside of a server: opened at startup, drained at SIGTERM, closed at shutdown.

Servers wait for open streams before they let an application shut down, so that a stream which ends
only at shutdown would hold the server up. Here the signal itself begins the drain: it ends the
streams, then the server's own handler goes on as ever.
"""

import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio

from actorgraph.api.system import ActorSystem
from actorgraph.errors import CheckpointError, SystemClosedError
from actorgraph.loops import on_trio
from actorgraph.runtime.log import event
from actorgraph.web.temporary import sweeping

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@asynccontextmanager
async def running(system: ActorSystem, *, recovers: bool = True) -> AsyncGenerator[None]:
    """Open a system for as long as an application lives; for its lifespan.

    Args:
        recovers: whether to take up the runs that a dead or drained process has left: at once,
            and again and again, because those of a dead one are its own until its lease is over;
            and whether to remove threads that such a process had made for one run.
    Raises: what opening the saver raises.
    """
    async with system:
        if recovers:
            await system.recover()
        told = anyio.Event()
        async with anyio.create_task_group() as group:
            if recovers:
                group.start_soon(_recover, system)
                group.start_soon(sweeping, system)
            group.start_soon(_drain, system, told)
            with _heard(_from_outside(told.set)):
                yield  # nothing: frameworks take what a lifespan yields for their state
            group.cancel_scope.cancel()


async def _recover(system: ActorSystem) -> None:
    while True:
        await anyio.sleep(system.lease_s / 3)
        try:
            await system.recover()
        except CheckpointError as error:  # the storage may be back the next time
            event("warning", "web.not_recovered", error=str(error))
        except SystemClosedError:
            return


async def _drain(system: ActorSystem, told: anyio.Event) -> None:
    await told.wait()
    with anyio.CancelScope(shield=True):
        await system.drain()


@contextmanager
def _heard(act: Callable[[], None]) -> Generator[None]:
    """Act at a signal, and let the handler that was there act too."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread, and so does whoever handles them
        return
    before: dict[signal.Signals, Any] = {}

    def heard(number: int, frame: Any) -> None:
        act()
        before[signal.Signals(number)](number, frame)

    for one in SIGNALS:
        if callable(former := signal.getsignal(one)):  # else nobody handles it gently
            before[one] = former
            signal.signal(one, heard)
    try:
        yield
    finally:
        for one, former in before.items():
            signal.signal(one, former)


def _from_outside(act: Callable[[], None]) -> Callable[[], None]:
    """A function that makes the running event loop act, from a signal's handler."""
    if on_trio():
        import trio

        token = trio.lowlevel.current_trio_token()
        return lambda: token.run_sync_soon(act)
    import asyncio

    loop = asyncio.get_running_loop()
    return lambda: _quietly(loop, act)


def _quietly(loop: Any, act: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(act)
