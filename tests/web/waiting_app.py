"""The graphs of `apps.py` and one that waits: its node ends with a `POST /open`."""

from pathlib import Path
from typing import Any

import anyio
from starlette.responses import Response

from tests.web import apps
from tests.web.apps import Log, chain, first


class Gates:
    """Lets waiting nodes go on, one for each time that it is opened."""

    def __init__(self) -> None:
        self._opened: Any = None
        self._open = anyio.create_memory_object_stream[None]

    async def wait(self) -> None:
        """Wait until it is opened once more."""
        _, receive = self._ends()
        await receive.receive()

    async def open(self) -> None:
        """Let one waiting node go on, now or when it comes."""
        send, _ = self._ends()
        await send.send(None)

    def _ends(self) -> Any:
        """Both ends, made in the server's event loop."""
        if self._opened is None:
            self._opened = self._open(100)
        return self._opened


def waiting_application(path: Path) -> Any:
    """The application, with `POST /open`."""
    gates = Gates()

    async def wait(state: Log) -> dict[str, Any]:
        """Wait for the gate."""
        await gates.wait()
        return {"log": ["waited"]}

    graphs = {**apps.GRAPHS, "wait": chain(first, wait)}
    served = apps.application(path, graphs=graphs)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/open":
            await gates.open()
            await Response(status_code=204)(scope, receive, send)
            return
        await served(scope, receive, send)

    return application
