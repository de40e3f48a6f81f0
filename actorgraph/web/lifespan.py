"""A system's lifespan inside a server: opened at startup, drained at SIGTERM, closed at shutdown.

Servers wait for open responses before they run an application's shutdown, so a stream that ended
only at shutdown would block the server. Here the signal itself starts the drain, which ends the
streams, and then calls the server's own handler.
"""

import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio

from actorgraph.api.system.system import ActorSystem
from actorgraph.errors import CheckpointError, SystemClosedError
from actorgraph.loops import on_trio
from actorgraph.runtime.log import event
from actorgraph.web.jobs.background import look_forever
from actorgraph.web.requests.thread_registry import sweep_forever

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@asynccontextmanager
async def running(system: ActorSystem, *, recovers: bool = True) -> AsyncGenerator[None]:
    """Open a system for the lifespan of an application.

    Args:
        recovers: whether to recover the runs that a dead or drained process has left, and to
            remove the temporary threads that it has left. At once, and then every third of
            `lease_s`, because the runs of a dead process can be taken over only when its lease
            has expired.
    Raises: what opening the saver raises.
    """
    async with system:
        if recovers:
            await system.recover()
        told = anyio.Event()
        async with anyio.create_task_group() as group:
            if recovers:
                group.start_soon(_recover, system)
                group.start_soon(sweep_forever, system)
                group.start_soon(look_forever, system)
            group.start_soon(_drain, system, told)
            with _heard(_from_outside(told.set)):
                yield  # without a value: frameworks take a lifespan's value for their state
            group.cancel_scope.cancel()


async def _recover(system: ActorSystem) -> None:
    while True:
        await anyio.sleep(system.lease_s / 3)
        try:
            await system.recover()
        except CheckpointError as error:  # the storage may be available the next time
            event("warning", "web.not_recovered", error=str(error))
        except SystemClosedError:
            return


async def _drain(system: ActorSystem, told: anyio.Event) -> None:
    await told.wait()
    with anyio.CancelScope(shield=True):
        await system.drain()


@contextmanager
def _heard(act: Callable[[], None]) -> Generator[None]:
    """Call a function at SIGTERM or SIGINT, before the handler that was installed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can install handlers: its server drains by shutting down
        return
    before: dict[signal.Signals, Any] = {}

    def heard(number: int, frame: Any) -> None:
        act()
        before[signal.Signals(number)](number, frame)

    for one in SIGNALS:
        if callable(former := signal.getsignal(one)):  # without a handler the process just ends
            before[one] = former
            signal.signal(one, heard)
    try:
        yield
    finally:
        for one, former in before.items():
            signal.signal(one, former)


def _from_outside(act: Callable[[], None]) -> Callable[[], None]:
    """Make a function, safe in a signal handler, that calls `act` in the running event loop."""
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
