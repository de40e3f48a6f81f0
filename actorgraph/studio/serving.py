"""Serve the studio with hypercorn, and print its address with the token."""

import signal
import sys
from importlib import import_module
from typing import Any
from urllib.parse import urlencode

import anyio
from starlette.types import ASGIApp

from actorgraph.errors import MissingExtraError
from actorgraph.internals import on_trio
from actorgraph.studio.request_guard import TOKEN


def host_shown(host: str) -> str:
    """Return an address to bind to as it is in URLs and Host headers."""
    return f"[{host}]" if ":" in host else host


async def serve_pages(app: ASGIApp, host: str, port: int, token: str) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        port: 0 takes a free one.
    Raises:
        MissingExtraError: hypercorn isn't installed.
    """
    try:
        config: Any = import_module("hypercorn.config").Config()
        server = import_module("hypercorn.trio" if on_trio() else "hypercorn.asyncio")
    except ImportError as error:
        raise MissingExtraError(
            "the studio's server needs the package hypercorn",
            do="pip install 'actorgraph[studio]'",
        ) from error
    config.bind, config.loglevel = [f"{host}:{port}"], "WARNING"
    sockets = config.create_sockets()
    bound = sockets.insecure_sockets[0].getsockname()[1]
    query = urlencode({TOKEN: token})
    sys.stdout.write(f"actorgraph studio: http://{host_shown(host)}:{bound}/?{query}\n")
    sys.stdout.flush()
    config.create_sockets = lambda: sockets

    async def stopped() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                return

    await server.serve(app, config, shutdown_trigger=stopped, mode="asgi")
