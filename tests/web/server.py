"""A real server in a thread: uvicorn on a port of its own, over a file."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn


@contextmanager
def running(app: Any, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve an application; yields its address, and stops it afterwards."""
    config = uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=5)
    config.load()
    config.ssl = tls
    server = uvicorn.Server(config)
    started = threading.Event()
    begin = server.startup

    async def startup(*args: Any, **kwargs: Any) -> None:
        await begin(*args, **kwargs)
        started.set()

    server.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(20), "the server did not start"
    assert server.started, "the application's lifespan failed"
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
