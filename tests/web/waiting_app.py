"""The graphs of `apps.py` and one that waits: its node ends with a `POST /open`."""

from pathlib import Path
from typing import Any

import anyio
from starlette.responses import Response

from tests.web import apps
from tests.web.apps import Log, chain, first


def waiting_application(path: Path) -> Any:
    """The application, with `POST /open`, which lets one waiting node go on, now or later."""
    opened = anyio.Semaphore(0)

    async def wait(state: Log) -> dict[str, Any]:
        """Wait until it is let go on."""
        await opened.acquire()
        return {"log": ["waited"]}

    graphs = {**apps.GRAPHS, "wait": chain(first, wait)}
    served = apps.application(path, graphs=graphs)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/open":
            opened.release()
            await Response(status_code=204)(scope, receive, send)
            return
        await served(scope, receive, send)

    return application
