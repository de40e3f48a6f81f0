"""Serving without another program: hypercorn inside of the running event loop, asyncio or trio."""

import signal
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import anyio

from actorgraph.api.system import ActorSystem
from actorgraph.errors import MissingExtraError
from actorgraph.runtime.mailbox import on_trio
from actorgraph.web.app import served


async def serve(
    system: ActorSystem, *, bind: str | Sequence[str] = "127.0.0.1:8000", **options: Any
) -> None:
    """Serve a system's routes until SIGTERM or SIGINT, which drains it.

    Its streams end with a `drain` event, runs finish their superstep and are left to the next
    process's `recover()`, then the server shuts down.

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

    async def stopped() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                await system.drain()
                return

    await server.serve(served(system, **options), config, shutdown_trigger=stopped, mode="asgi")
