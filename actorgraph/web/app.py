"""The ASGI application: LangGraph's REST routes over an actor system, and how to serve it.

GraphRoutes   to mount (`app.mount("/graph", GraphRoutes(system))`) into an application whose
              lifespan opens the system
served        an application with a lifespan of its own
serve         serves it in the running event loop, with hypercorn
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
from actorgraph.web.endpoint import Endpoint, PathEndpoints
from actorgraph.web.lifespans import running
from actorgraph.web.limits import Limits
from actorgraph.web.problems import problem
from actorgraph.web.serving import Server
from actorgraph.web.slashes import with_slashes
from actorgraph.web.table import ENDPOINTS


class GraphRoutes:
    """LangGraph's routes over a system, as an ASGI application to mount.

    Args:
        system: opened by the application, in its lifespan.
        authorize: `(principal, action, thread_id, metadata)` -> True, False or what the thread's
            metadata must contain; may be async. Called for every route but `/ok`, `/ready`, `/info`
            and `/openapi.json`. Anything but True or a mapping denies. Default: all is allowed.
        authenticate: `request` -> the principal, or None for an unauthenticated request (401); may
            be async. Default: `request.user`, if a middleware sets one.
        assistants: `(principal, graph)` -> whether the principal may see and run a registered
            graph; may be async. Any other graph is answered with 404. Default: all graphs are
            visible to everybody.
        limits: bounds of request bodies, rates and open streams.
        store: where threads are registered; default: the system's store, else one in memory.
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
        access = Access(effective_authorize(system, authorize), authenticate, assistants)
        self._server = Server(system, access, limits or Limits(), kept)
        self._app = _application(_routes(self._server))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            scope = with_slashes(scope)
        path: str = scope.get("path", "")
        if path.endswith("/") and path != "/":  # some frameworks mount with a slash, some without
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)


def effective_authorize(system: ActorSystem, authorize: Authorize | None) -> Authorize | None:
    """Return the rules in effect: the given ones, else the system's."""
    return authorize or getattr(system, "authorize", None)


def served(system: ActorSystem, **options: Any) -> ASGIApp:
    """Make an application of its own, whose lifespan opens the system and drains it.

    Args:
        options: of `GraphRoutes`.
    """
    routes = GraphRoutes(system, **options)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        async with running(system):
            yield

    return _WithLifespan(routes, lifespan)


class _WithLifespan:
    """Routes together with a lifespan, which mounted routes don't have."""

    def __init__(self, routes: GraphRoutes, lifespan: Lifespan[Any]) -> None:
        self._routes = routes
        self._life = Starlette(lifespan=lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the lifespan."""
        app: ASGIApp = self._life if scope["type"] == "lifespan" else self._routes
        await app(scope, receive, send)


def _routes(server: Server) -> list[BaseRoute]:
    """Make one route per path, so that a 405 lists all methods of the path in `Allow`."""
    paths: dict[str, list[Endpoint]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, []).append(endpoint)
    return [
        Route(path, PathEndpoints(found, server), methods=[one.method for one in found])
        for path, found in paths.items()
    ]


def _application(routes: list[BaseRoute]) -> ASGIApp:
    return Starlette(routes=routes, exception_handlers={HTTPException: _unrouted})


async def _unrouted(_: Request, error: Exception) -> Response:
    """Answer a request that no route matches: 404 or 405, as a problem."""
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, error.headers or {})
