"""A system's lifespan inside a server: opened at startup, drained at SIGTERM, closed at shutdown.

Servers wait for open responses before they run an application's shutdown, so a stream that ended
only at shutdown would block the server. Here the signal itself starts the drain, which ends the
streams, and then calls the server's own handler. A worker process of hypercorn gets no signal: the
process that started it sets an event, which starts the drain too.
"""

import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing import current_process
from typing import Any

import anyio

from actorgraph.errors import CheckpointError, SystemClosedError
from actorgraph.internals import log_event as event
from actorgraph.internals import on_trio
from actorgraph.systems import ActorSystem
from actorgraph.web.jobs.background import look_forever
from actorgraph.web.registries.thread_registry import sweep_forever

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
            stops = _event_of_worker()
            group.start_soon(_drain, system, told, stops)
            if stops is not None:
                group.start_soon(_watch, stops, told)
            with _heard(_from_outside(told.set), always=stops is not None):
                yield  # without a value: frameworks take a lifespan's value for their state
            group.cancel_scope.cancel()


EVENT_S = 0.1
"""Seconds between two looks at the event of a worker process; hypercorn looks as often."""


def _event_of_worker() -> Callable[[], bool] | None:
    """Return the question whether the process that started this one ends it; None without such.

    The command `hypercorn` passes its event to the function that a worker process runs. No ASGI
    message says that a server is about to stop.
    """
    passed: Any = getattr(current_process(), "_kwargs", {})
    return getattr(passed.get("shutdown_event"), "is_set", None)


async def _watch(stops: Callable[[], bool], told: anyio.Event) -> None:
    while not stops() and not told.is_set():
        with anyio.move_on_after(EVENT_S):
            await told.wait()
    told.set()


async def _recover(system: ActorSystem) -> None:
    while True:
        await anyio.sleep(system.lease_s / 3)
        try:
            await system.recover()
        except CheckpointError as error:  # the storage may be available the next time
            event("warning", "web.not_recovered", error=str(error))
        except SystemClosedError:
            return


async def _drain(system: ActorSystem, told: anyio.Event, stops: Callable[[], bool] | None) -> None:
    await told.wait()
    with anyio.CancelScope(shield=True):
        await system.drain()
        if stops is not None and not stops():
            # The signal was for this worker alone, and its server has no handler that ends it.
            await anyio.sleep(EVENT_S)  # for the last words of its streams
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def _heard(act: Callable[[], None], *, always: bool) -> Generator[None]:
    """Call a function at SIGTERM or SIGINT, before the handler that was installed.

    Args:
        always: whether to do so where SIGTERM would just end the process. As soon as one worker of
            hypercorn has stopped, the others get SIGTERM, in the middle of their drain.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can install handlers: its server drains by shutting down
        return
    before: dict[signal.Signals, Any] = {}

    def heard(number: int, frame: Any) -> None:
        act()
        former = before[signal.Signals(number)]
        if callable(former):
            former(number, frame)

    for one in SIGNALS:
        former = signal.getsignal(one)
        if callable(former) or (always and former == signal.SIG_DFL):
            before[one] = former  # without a handler the process just ends
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
