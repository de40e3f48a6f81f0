"""The graphs of `apps.py` and two that wait: each `POST /open` lets one write on."""

from pathlib import Path
from typing import Any

import anyio
from starlette.responses import Response

from tests.clients.app import Words
from tests.web import apps
from tests.web.apps import Log, chain, first


def waiting_application(path: Path) -> Any:
    """The application, with `POST /open`, which lets one waiting node go on, now or later."""
    opened = anyio.Semaphore(0)

    async def wait(state: Log) -> dict[str, Any]:
        """Wait until it is let go on."""
        await opened.acquire()
        return {"log": ["waited"]}

    graphs = {**apps.GRAPHS, "wait": chain(first, wait), "words": Words(opened).graph}
    served = apps.application(path, graphs=graphs)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/open":
            opened.release()
            await Response(status_code=204)(scope, receive, send)
            return
        await served(scope, receive, send)

    return application
