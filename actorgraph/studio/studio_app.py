"""Studio: pages that show threads, runs, graphs, the store and the system, and act on them.

Studio        to mount (`app.mount("/studio", Studio(system, authorize=...))`) or to serve alone
"""

from collections.abc import Iterable
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from actorgraph.errors import InvalidConfigError
from actorgraph.internals import read_bytes
from actorgraph.studio import (
    compare_pages,
    graph_pages,
    run_pages,
    start_pages,
    store_pages,
    system_pages,
    thread_actions,
    thread_list,
    thread_pages,
)
from actorgraph.studio.page_calls import Handler, StudioCall, answer
from actorgraph.studio.request_guard import LOOPBACK, StudioGuard
from actorgraph.studio.studio_reader import StudioReader
from actorgraph.systems import ActorSystem
from actorgraph.web.app import GraphRoutes, effective_authorize
from actorgraph.web.endpoints.endpoint import with_slashes
from actorgraph.web.http.access import Access, Authenticate, Authorize
from actorgraph.web.http.problems import NotFound

ACTIONS = (
    "studio.read",
    "studio.act",
    "studio.delete",
    "studio.store.read",
    "studio.store.write",
    "studio.system.read",
    "studio.system.drain",
)
"""The actions that `authorize` is called with, besides those of the REST routes."""

_TYPES = {"css": "text/css", "js": "text/javascript", "txt": "text/plain"}


class Studio:
    """The studio's pages as an ASGI application.

    Args:
        system: opened by the application; None for a studio that only reads `saver`.
        saver: read instead of the system's.
        authorize: `(principal, action, thread_id, metadata)` -> True, False or what the thread's
            metadata must contain; asked for each page and action (`ACTIONS`).
        authenticate: `request` -> the principal, or None (401).
        token: begins a session when the address has `?token=...`. One of `authorize` and `token`
            is required.
        hosts: names under which the studio may be called, without ports; default those of this
            machine alone.
        place: text at the top of each page, such as the database's name.
    Attributes:
        system: as given.
        hosts: as given.
    Raises:
        InvalidConfigError: neither `authorize` nor `token` protects the studio.
    """

    def __init__(
        self,
        system: ActorSystem | None = None,
        *,
        saver: Any = None,
        authorize: Authorize | None = None,
        authenticate: Authenticate | None = None,
        token: str | None = None,
        hosts: Iterable[str] = LOOPBACK,
        place: str = "",
    ) -> None:
        rules = authorize if system is None else effective_authorize(system, authorize)
        if rules is None and not token:
            raise InvalidConfigError(
                "Studio() would let every client read, change and remove every thread",
                do="pass authorize= and authenticate=, or token= for a session of your own",
            )
        self.system = system
        self.hosts = tuple(hosts)
        rest = None
        if system is not None:
            rest = GraphRoutes(system, authorize=rules, authenticate=authenticate)
        self._source = StudioReader(rest.server if rest else None, saver, place)
        self._access = Access(rules, authenticate)
        routes: list[BaseRoute] = [
            *self._routes(),
            Route("/static/{name:path}", _static),
        ]
        if rest is not None:
            routes.append(Mount("/api", rest))
        routes.append(Route("/{rest:path}", self._endpoint(_unknown)))
        self._app: ASGIApp = StudioGuard(Starlette(routes=routes), token=token, hosts=self.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            scope = with_slashes(scope)
        await self._app(scope, receive, send)

    def _routes(self) -> list[BaseRoute]:
        found: list[BaseRoute] = [Route("/", _home)]
        for module in (
            thread_list,
            thread_pages,
            thread_actions,
            run_pages,
            start_pages,
            compare_pages,
            graph_pages,
            store_pages,
            system_pages,
        ):
            found += [
                Route(path, self._endpoint(handler), methods=[method])
                for method, path, handler in module.PAGES
            ]
        return found

    def _endpoint(self, handler: Handler) -> Any:
        async def endpoint(request: Request) -> Response:
            return await answer(handler, StudioCall(request, self._source, self._access))

        return endpoint


async def _home(request: Request) -> Response:
    root = request.scope.get("root_path", "").rstrip("/")
    return RedirectResponse(f"{root}/threads", 303)


async def _unknown(call: StudioCall) -> Response:
    raise NotFound(f"the studio has no page {call.request.url.path}")


async def _static(request: Request) -> Response:
    """Serve a file of the package; only names that are in its folder."""
    name: str = request.path_params["name"]
    folder = resources.files("actorgraph.studio") / "static"
    names = {one.name for one in folder.iterdir() if one.is_file()}
    if name not in names:
        return Response("not found\n", 404)
    kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    headers = {"Cache-Control": "no-cache"}
    with resources.as_file(folder / name) as path:
        return Response(await read_bytes(path), media_type=kind, headers=headers)
