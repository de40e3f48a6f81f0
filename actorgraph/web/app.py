"""The ASGI application: LangGraph-shaped REST over an actor system.

Mount it (`app.mount("/graph", GraphRoutes(system))`) where the application's own lifespan opens the
system, or serve it alone (`served(system)`), where its lifespan does.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from actorgraph.api.system import ActorSystem
from actorgraph.web.access import Access, Assistants, Authenticate, Authorize
from actorgraph.web.endpoint import Endpoint, Served
from actorgraph.web.lifespans import running
from actorgraph.web.limits import Limits
from actorgraph.web.problems import problem
from actorgraph.web.serving import Serving
from actorgraph.web.slashes import with_slashes
from actorgraph.web.table import ENDPOINTS


class GraphRoutes:
    """LangGraph's routes over a system, as an ASGI application to mount.

    Args:
        system: opened by the application, in its lifespan.
        authorize: `(principal, action, thread_id, metadata)` -> True, False or what the thread's
            metadata must hold; may be async. Asked on every route but `/ok`, `/ready`, `/info` and
            `/openapi.json`. Anything but True or a mapping denies. Default: everything is allowed.
        authenticate: `request` -> the principal, or None for nobody (401); may be async. Default
            `request.user` where a middleware sets one.
        assistants: `(principal, graph)` -> whether the principal may know of a registered graph and
            run it; may be async. Another one is 404, as one that isn't there. Default: all graphs
            are everybody's.
        limits: bytes, depth, rate and streams of requests.
        store: where threads are registered; default the system's, or else one in memory.
    """

    def __init__(
        self,
        system: ActorSystem,
        *,
        authorize: Authorize | None = None,
        authenticate: Authenticate | None = None,
        assistants: Assistants | None = None,
        limits: Limits | None = None,
        store: Any = None,
    ) -> None:
        kept = store if store is not None else system.store
        if kept is None:
            from actorgraph.stores import InMemoryStore

            kept = InMemoryStore()
        access = Access(rules_of(system, authorize), authenticate, assistants)
        self._serving = Serving(system, access, limits or Limits(), kept)
        self._app = _application(_routes(self._serving))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            scope = with_slashes(scope)
        path: str = scope.get("path", "")
        if path.endswith("/") and path != "/":  # some frameworks mount with one, some without
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)


def rules_of(system: ActorSystem, authorize: Authorize | None) -> Authorize | None:
    """The rules that hold: those that are given, else those that the system has."""
    return authorize or getattr(system, "authorize", None)


def served(system: ActorSystem, **options: Any) -> ASGIApp:
    """An application of its own: its lifespan opens the system and drains it.

    Args:
        options: of `GraphRoutes`.
    """
    routes = GraphRoutes(system, **options)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        async with running(system):
            yield

    return _Alone(routes, lifespan)


class _Alone:
    """Routes with a lifespan."""

    def __init__(self, routes: GraphRoutes, lifespan: Lifespan[Any]) -> None:
        self._routes = routes
        self._life = Starlette(lifespan=lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or live."""
        app: ASGIApp = self._life if scope["type"] == "lifespan" else self._routes
        await app(scope, receive, send)


def _routes(serving: Serving) -> list[BaseRoute]:
    """One route per path, so that a wrong method is told all that there are."""
    paths: dict[str, list[Endpoint]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, []).append(endpoint)
    return [
        Route(path, Served(found, serving), methods=[one.method for one in found])
        for path, found in paths.items()
    ]


def _application(routes: list[BaseRoute]) -> ASGIApp:
    return Starlette(routes=routes, exception_handlers={HTTPException: _unrouted})


async def _unrouted(_: Request, error: Exception) -> Response:
    """What no route takes: 404 or 405, in our own form."""
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, error.headers or {})
