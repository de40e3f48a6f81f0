"""One route: what it takes, asks leave for and answers; and how a request goes through.

A request passes, in this order: principal, rate, body (size, JSON, shape, depth), the thread that
its path names, leave, the route's own function. A route can't be declared without its action, so
none can forget to ask.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actorgraph.api.graph import CompiledStateGraph
from actorgraph.errors import SystemClosedError
from actorgraph.runtime.log import event
from actorgraph.web.jsonable import dumps
from actorgraph.web.limits import retry_after
from actorgraph.web.problems import Forbidden, NotFound, TooMany, response_to
from actorgraph.web.reading import body_of, converted
from actorgraph.web.registry import Stored
from actorgraph.web.serving import Serving
from actorgraph.web.slashes import SLASH, SLASHES


class Call(Struct):
    """A request on its way through a route.

    Attributes:
        body, query: decoded into the endpoint's types; None where it has none.
        graphs: those that the principal may see, by name.
        thread: what is known of the thread that the path names; None where it names none.
        wanted: what the metadata of every thread that it touches must hold.
    """

    serving: Serving
    request: Request
    path: dict[str, str]
    principal: Any
    graphs: Mapping[str, CompiledStateGraph] = {}
    body: Any = None
    query: Any = None
    thread: Stored | None = None
    wanted: dict[str, Any] = {}

    @property
    def thread_id(self) -> str:
        """The thread that the path names."""
        return self.path["thread_id"]


_ABOUT_THREADS = ("threads.", "runs.")


def _metadata_of(call: Call) -> dict[str, Any]:
    return getattr(call.body, "metadata", None) or {}


class Endpoint(Struct, frozen=True):
    """A route.

    Attributes:
        action: what the application is asked leave for; None for what everybody may read.
        handle: makes the answer: a `Response`, None (204), or what becomes JSON.
        body, query: types that the request is decoded into.
        answer: the type of what it answers, for the OpenAPI.
        makes: whether the thread of the path need not exist yet, if the body says so.
        streams: whether it answers with server-sent events. media: what it answers with otherwise.
        waits: whether it answers with what a run will have come to.
        rated: whether it counts for the client's rate.
        about: what the application is told of a request that is about no thread.
    """

    method: str
    path: str
    action: str | None
    handle: Callable[[Call], Awaitable[Any]]
    answer: Any = None
    body: Any = None
    query: Any = None
    summary: str = ""
    makes: bool = False
    streams: bool = False
    media: str = "application/json"
    waits: bool = False
    rated: bool = True
    about: Callable[[Call], dict[str, Any]] = _metadata_of

    @property
    def stays(self) -> bool:
        """Whether a request stays open for as long as a run may take."""
        return self.streams or self.waits

    async def __call__(self, serving: Serving, request: Request) -> Response:
        """Answer a request; every error is an answer too."""
        try:
            return await self._answer(serving, request)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:  # noqa: BLE001 - a server goes on
            response = response_to(error)
            if response.status_code >= 500 and not isinstance(error, SystemClosedError):
                event("error", "web.failed", path=self.path, error=repr(error))
            older = request.scope.get("http_version", "1.1").startswith("1")
            if getattr(error, "closes", False) and older:  # HTTP/2 has no such header
                response.headers["Connection"] = "close"
            return response

    async def _answer(self, serving: Serving, request: Request) -> Response:
        principal = await self._principal(serving, request)
        path = {name: _unescaped(request, text) for name, text in request.path_params.items()}
        call = Call(serving, request, path, principal)
        if self.query is not None:
            call.query = converted(dict(request.query_params), self.query, "the query")
        if self.body is not None:
            call.body = await body_of(request, self.body, serving.limits)
        await self._admit(call)
        if self.action is not None:
            call.graphs = await serving.access.visible(principal, serving.graphs)
        made = await self.handle(call)
        if isinstance(made, Response):
            return made
        if made is None:
            return Response(status_code=204)
        return Response(dumps(made), media_type="application/json")

    async def _principal(self, serving: Serving, request: Request) -> Any:
        """Who asks, if that one may ask so often."""
        address = ("address", request.client.host if request.client else "")
        if self.action is None:
            if self.rated:
                _check_rate(serving, address)
            return None
        try:
            principal = await serving.access.principal(request)
        except Exception:
            _check_rate(serving, address)  # who guesses is held up too
            raise
        _check_rate(serving, _client_of(principal) or address)
        return principal

    async def _admit(self, call: Call) -> None:
        """Find the thread of the path, and ask leave."""
        if self.action is None:
            return
        if "thread_id" not in call.path:
            about = self.about(call)
            wanted = await call.serving.access.ask(call.principal, self.action, None, about)
            call.wanted = dict(wanted)
            if wanted and not self.action.startswith(_ABOUT_THREADS):
                raise Forbidden(self.action)  # there is no thread that could hold it
            return
        call.thread = await call.serving.threads.get(call.thread_id)
        makes = self.makes and call.body.if_not_exists == "create"
        if call.thread is None and not makes:
            raise NotFound.thread(call.thread_id)
        metadata = call.thread.metadata if call.thread else {}
        call.wanted = dict(
            await call.serving.access.ask(call.principal, self.action, call.thread_id, metadata)
        )
        if call.thread is not None:
            call.thread.must_hold(call.wanted)


class Served:
    """The endpoints of one path as an ASGI application.

    Args:
        endpoints: one per method.
    """

    def __init__(self, endpoints: Sequence[Endpoint], serving: Serving) -> None:
        self._endpoints = {endpoint.method: endpoint for endpoint in endpoints}
        self._serving = serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; one that stays open takes a place before it does anything."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint, places = self._endpoints[method], self._serving.streams
        if endpoint.stays and not places.take():
            full = TooMany("too many open streams", headers={"Retry-After": "5"})
            await response_to(full)(scope, receive, send)
            return
        try:
            response = await endpoint(self._serving, Request(scope, receive, send))
            await response(scope, receive, send)
        finally:
            if endpoint.stays:
                places.give()


def _client_of(principal: Any) -> tuple[str, str] | None:
    """Whose rate counts; None for one that says nothing that is the same at each request."""
    known = getattr(principal, "identity", principal)
    if known is None:
        return None
    if type(known).__str__ is object.__str__ and type(known).__repr__ is object.__repr__:
        return None
    return ("principal", str(known))


def _check_rate(serving: Serving, client: tuple[str, str]) -> None:
    wait_s = serving.rates.wait_s(client, anyio.current_time())
    if wait_s:
        raise TooMany("too many requests", headers={"Retry-After": retry_after(wait_s)})


def _unescaped(request: Request, text: Any) -> str:
    """A part of the path, with the slashes that belong to it."""
    return str(text).replace(SLASH, "/") if SLASHES in request.scope else str(text)
