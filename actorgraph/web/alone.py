"""Serving without another program: hypercorn inside of the running event loop, asyncio or trio."""

import signal
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import anyio

from actorgraph.api.system import ActorSystem
from actorgraph.errors import MissingExtraError
from actorgraph.loops import on_trio
from actorgraph.runtime.calls import abandoned
from actorgraph.runtime.log import event
from actorgraph.web.app import served


async def serve(
    system: ActorSystem, *, bind: str | Sequence[str] = "127.0.0.1:8000", **options: Any
) -> None:
    """Serve a system's routes until SIGTERM or SIGINT, which drains it.

    Its streams end with a `drain` event, runs finish their superstep and are left to the next
    process's `recover()`, then the server shuts down. If a sync node of a cancelled run is still in
    its thread then, which on asyncio would hold up the interpreter's exit for as long as that
    takes, the process ends by the signal.

    Args:
        bind: "host:port", one or several; port 0 takes a free one.
        options: of `GraphRoutes`.
    Raises:
        MissingExtraError: hypercorn isn't installed.
    """
    try:
        config: Any = import_module("hypercorn.config").Config()
        server = import_module("hypercorn.trio" if on_trio() else "hypercorn.asyncio")
    except ImportError as error:
        raise MissingExtraError(
            "serve() needs the package hypercorn", do="pip install 'actorgraph[serve]'"
        ) from error
    config.bind = [bind] if isinstance(bind, str) else list(bind)

    heard: list[signal.Signals] = []

    async def stopped() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                heard.append(number)
                await system.drain()
                return

    await server.serve(served(system, **options), config, shutdown_trigger=stopped, mode="asgi")
    if heard and not on_trio() and (nodes := abandoned()):
        event("error", "server.threads_left", nodes=nodes)
        signal.signal(heard[0], signal.SIG_DFL)
        signal.raise_signal(heard[0])
