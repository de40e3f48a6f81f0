"""One route: what it takes, asks leave for and answers; and how a request goes through.

A request passes, in this order: principal, rate, body (size, JSON, shape, depth), the thread that
its path names, leave, the route's own function. A route can't be declared without its action, so
none can forget to ask.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import anyio
import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actorgraph.errors import SystemClosedError
from actorgraph.runtime.log import event
from actorgraph.web.jsonable import dumps
from actorgraph.web.limits import exceeds, retry_after
from actorgraph.web.problems import (
    Forbidden,
    NotFound,
    TooLarge,
    TooMany,
    Unprocessable,
    Unsupported,
    response_to,
)
from actorgraph.web.registry import Stored
from actorgraph.web.serving import Serving


class Call(Struct):
    """A request on its way through a route.

    Attributes:
        body, query: decoded into the endpoint's types; None where it has none.
        thread: what is known of the thread that the path names; None where it names none.
        wanted: what the metadata of every thread that it touches must hold.
    """

    serving: Serving
    request: Request
    path: dict[str, str]
    principal: Any
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
        makes: whether the thread of the path need not exist yet.
        streams: whether it answers with server-sent events. media: what it answers with otherwise.
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
    about: Callable[[Call], dict[str, Any]] = _metadata_of

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
            return response

    async def _answer(self, serving: Serving, request: Request) -> Response:
        principal = None if self.action is None else await serving.access.principal(request)
        self._check_rate(serving, request, principal)
        path = {name: str(value) for name, value in request.path_params.items()}
        call = Call(serving, request, path, principal)
        if self.query is not None:
            call.query = converted(dict(request.query_params), self.query, "the query")
        if self.body is not None:
            call.body = await self._body(serving, request)
        await self._admit(call)
        made = await self.handle(call)
        if isinstance(made, Response):
            return made
        if made is None:
            return Response(status_code=204)
        return Response(dumps(made), media_type="application/json")

    def _check_rate(self, serving: Serving, request: Request, principal: Any) -> None:
        client = request.client.host if request.client else ""
        who = client if principal is None else str(getattr(principal, "identity", principal))
        wait_s = serving.rates.wait_s(who, anyio.current_time())
        if wait_s:
            raise TooMany("too many requests", headers={"Retry-After": retry_after(wait_s)})

    async def _body(self, serving: Serving, request: Request) -> Any:
        limits = serving.limits
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Unsupported("compressed bodies are not taken; send it as it is")
        said = request.headers.get("content-length", "0")
        too_large = f"the body has more than {limits.body_bytes} bytes"
        if said.isdigit() and int(said) > limits.body_bytes:
            raise TooLarge(too_large)
        raw = bytearray()
        async with aclosing(request.stream()) as parts:
            async for part in parts:
                raw += part
                if len(raw) > limits.body_bytes:
                    raise TooLarge(too_large)
        try:
            data = msgspec.json.decode(bytes(raw) or b"{}")
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise Unprocessable(f"the body is no JSON: {error}") from error
        if (what := exceeds(data, limits)) is not None:
            raise Unprocessable(what)
        return converted(data, self.body, "the body", strict=True)

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
        if call.thread is None and not self.makes:
            raise NotFound.thread(call.thread_id)
        metadata = call.thread.metadata if call.thread else {}
        call.wanted = dict(
            await call.serving.access.ask(call.principal, self.action, call.thread_id, metadata)
        )
        if call.thread is not None:
            call.thread.must_hold(call.wanted)


class Served:
    """An endpoint as an ASGI application."""

    def __init__(self, endpoint: Endpoint, serving: Serving) -> None:
        self._endpoint = endpoint
        self._serving = serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await self._endpoint(self._serving, Request(scope, receive, send))
        await response(scope, receive, send)


def converted(data: Any, kind: Any, what: str, *, strict: bool = False) -> Any:
    """Data as a type.

    Raises:
        Unprocessable: it doesn't fit; the text names the place.
    """
    try:
        return msgspec.convert(data, kind, strict=strict)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise Unprocessable(f"{what} can't be taken: {error}") from error
