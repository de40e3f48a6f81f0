"""The ASGI application: LangGraph's REST routes over an actor system, and how to serve it.

GraphRoutes   to mount (`app.mount("/graph", GraphRoutes(system))`) into an application whose
              lifespan opens the system
served        an application with a lifespan of its own
serve         serves it in the running event loop, with hypercorn
"""

import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from ipaddress import ip_address
from typing import Any, TypedDict, Unpack

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from actorgraph.errors import InvalidConfigError, MissingExtraError, UnsafeSettingWarning
from actorgraph.internals import abandoned, on_trio, seconds_of
from actorgraph.internals import log_event as event
from actorgraph.internals import warn_at_caller as warn
from actorgraph.systems import ActorSystem
from actorgraph.web.cron_actor import CronActor
from actorgraph.web.endpoints.endpoint import Endpoint, PathEndpoints, Server, with_slashes
from actorgraph.web.http.access import (
    REAUTHORIZE_S,
    Access,
    Assistants,
    Authenticate,
    Authorize,
)
from actorgraph.web.http.problems import problem
from actorgraph.web.http.request_limits import Limits
from actorgraph.web.jobs.background import BackgroundJob, add_job
from actorgraph.web.jobs.webhook_policy import WebhookPolicy
from actorgraph.web.lifespan import running
from actorgraph.web.routes import ENDPOINTS
from actorgraph.web.stream_protocol.protocol_sockets import socket_routes
from actorgraph.web.ttl_sweeper import TtlSweeper


class RouteOptions(TypedDict, total=False):
    """Options of `GraphRoutes`, which explains them."""

    authorize: Authorize | None
    authenticate: Authenticate | None
    assistants: Assistants | None
    limits: Limits | None
    store: Any
    webhooks: WebhookPolicy | None
    reauthorize_s: float


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
            graph; may be async. Any other graph is answered with 404. Default: every
            graph is visible to every client.
        limits: bounds of request bodies, rates and open streams.
        store: where threads are registered, and assistants, crons and webhooks stored; default:
            the system's store, else one in memory.
        webhooks: where webhooks of runs may be sent, and how. Default: they are refused.
        reauthorize_s: seconds after which `authenticate` and `authorize` are asked again for each
            stream, wait and socket that is open, as for each run that begins in it; default 5.
    Raises:
        InvalidConfigError: `reauthorize_s` is not above 0.
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
        webhooks: WebhookPolicy | None = None,
        reauthorize_s: float = REAUTHORIZE_S,
    ) -> None:
        if seconds_of(reauthorize_s) is None:
            raise InvalidConfigError(
                f"GraphRoutes: reauthorize_s must be > 0 and finite, got {reauthorize_s!r}",
                do="pass the seconds for which access that was taken away may last",
            )
        kept = store if store is not None else system.store
        if kept is None:
            from actorgraph.stores import InMemoryStore

            kept = InMemoryStore()
        rules = effective_authorize(system, authorize)
        access = Access(rules, authenticate, assistants, reauthorize_s)
        self._server = Server(system, access, limits or Limits(), kept, webhooks)
        self._jobs = _background_jobs(self._server)
        self._app = _application([*_routes(self._server), *socket_routes(self._server)])

    @property
    def server(self) -> Server:
        """The state that its endpoints share, for pages over the same system."""
        return self._server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] in ("http", "websocket"):
            scope = with_slashes(scope)
        path: str = scope.get("path", "")
        if path.endswith("/") and path != "/":  # some frameworks mount with a slash, some without
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)


def _background_jobs(server: Server) -> list[BackgroundJob]:
    """Let a server's jobs look while its system's lifespan runs, and while the result is kept."""
    jobs: list[BackgroundJob] = [CronActor(server), server.webhooks, TtlSweeper(server)]
    for job in jobs:
        add_job(server.system, job)
    return jobs


def effective_authorize(system: ActorSystem, authorize: Authorize | None) -> Authorize | None:
    """Return the rules in effect: the given ones, else the system's."""
    return authorize or getattr(system, "authorize", None)


def served(system: ActorSystem, **options: Unpack[RouteOptions]) -> ASGIApp:
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
        self.app = routes
        self._life = Starlette(lifespan=lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the lifespan."""
        app: ASGIApp = self._life if scope["type"] == "lifespan" else self.app
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


async def serve(
    system: ActorSystem,
    *,
    bind: str | Sequence[str] = "127.0.0.1:8000",
    allow_anyone: bool = False,
    **options: Unpack[RouteOptions],
) -> None:
    """Serve a system's routes until SIGTERM or SIGINT, which drains it.

    Streams end with a `drain` event, runs finish their superstep and are left to the next
    process's `recover()`, then the server shuts down. If a sync node of a cancelled run still
    occupies its thread then, the process ends by the signal: on asyncio the interpreter would
    otherwise wait for the thread before it exits.

    Args:
        bind: "host:port", one or several; port 0 takes a free one.
        allow_anyone: whether to serve other machines without `authorize`. Default: without
            `authorize` only local addresses are served, with an `UnsafeSettingWarning`.
        options: of `GraphRoutes`.
    Raises:
        InvalidConfigError: without `authorize`, an address is reachable from other machines.
        MissingExtraError: hypercorn isn't installed.
    """
    places = [bind] if isinstance(bind, str) else list(bind)
    if not allow_anyone and effective_authorize(system, options.get("authorize")) is None:
        _refuse_or_warn(places)
    try:
        config: Any = import_module("hypercorn.config").Config()
        server = import_module("hypercorn.trio" if on_trio() else "hypercorn.asyncio")
    except ImportError as error:
        raise MissingExtraError(
            "serve() needs the package hypercorn", do="pip install 'actorgraph[serve]'"
        ) from error
    config.bind = places

    heard: list[signal.Signals] = []

    async def stopped() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                heard.append(number)
                await system.drain()
                return

    await server.serve(served(system, **options), config, shutdown_trigger=stopped, mode="asgi")
    if heard and not on_trio() and (nodes := abandoned()):
        event("error", "server.threads_left", nodes=nodes)
        signal.signal(heard[0], signal.SIG_DFL)
        signal.raise_signal(heard[0])


def _refuse_or_warn(places: Sequence[str]) -> None:
    """Refuse to serve other machines without authorization; warn for local addresses.

    Raises:
        InvalidConfigError: an address is reachable from other machines.
    """
    risk = "without authorize every client may read, change and remove every thread"
    do = "pass authorize= and authenticate=, or allow_anyone=True behind a gateway that does it"
    if public := [place for place in places if not is_local(place)]:
        raise InvalidConfigError(f"serve() on {public[0]!r}: {risk}", do=do)
    warn(f"serve() on {places[0]!r}: {risk}; {do}", UnsafeSettingWarning)


def is_local(place: str) -> bool:
    """Whether an address to bind to is reachable from this machine only.

    Args:
        place: "host:port", "[IPv6]:port", "host" or "unix:path". A name other than "localhost" may
            resolve to any address, and so may an inherited socket: False.
    """
    if place.startswith("unix:"):
        return True
    host = place.removeprefix("[").partition("]")[0] if place.startswith("[") else place
    if not place.startswith("["):
        host = place.rpartition(":")[0] if ":" in place else place
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
