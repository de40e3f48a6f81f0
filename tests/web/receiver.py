"""A receiver of webhooks: a real server that keeps requests, and answers with given statuses."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actorgraph.web import WebhookPolicy
from tests.web.server import running

SECRET = b"s" * 32
PATIENCE_S = 30


class Receiver:
    """The requests that came, in order.

    Attributes:
        statuses: of the next answers; then 200.
        got: header and body of each request.
    """

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.got: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.raw: list[bytes] = []
        self.url = ""
        self._came = threading.Condition()

    async def receive(self, request: Request) -> Response:
        """Keep a request, and answer it."""
        body = await request.body()
        with self._came:
            self.raw.append(body)
            self.got.append((dict(request.headers), json.loads(body)))
            status = self.statuses.pop(0) if self.statuses else 200
            self._came.notify_all()
        return Response(status_code=status, headers={"location": "/elsewhere"})

    def wait(self, count: int) -> None:
        """Block until so many requests have come."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.got) >= count, PATIENCE_S)

    def policy(self, **options: Any) -> WebhookPolicy:
        """A policy that allows this receiver, and tries again at once."""
        given = {
            "hosts": ["127.0.0.1", "localhost"],
            "secret": SECRET,
            "schemes": ("http",),
            "ports": (int(self.url.rpartition(":")[2]),),
            "private": True,
            "pause_s": 0.001,
            "timeout_s": 5.0,
        }
        return WebhookPolicy(**{**given, **options})


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Serve a receiver."""
    made = Receiver()
    routes = [Route("/{path:path}", made.receive, methods=["POST", "GET"])]
    with running(Starlette(routes=routes), tls) as url:
        made.url = url
        yield made
