"""WebSockets of the streaming protocol: commands in, their answers and subscribed events out.

One socket belongs to one thread and has any number of subscriptions. Each command is admitted like
a request to the endpoint of its kind, authentication included, so a socket allows nothing that HTTP
doesn't. A socket that is refused is accepted and closed with 4000 plus the HTTP status: pages can't
read the status of an upgrade. It is closed in the same way when its token is refused later, or a
thread that it subscribes to may not be read any more: at a command, when a run begins, or at the
interval at which that is asked again. Ends with the client's disconnect, the server's drain, or
after `Limits.stream_s`.
"""

import math
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from actorgraph.errors import SlowReaderError
from actorgraph.internals import log_event as event
from actorgraph.web.endpoints.authority import ask_again, authenticate_again
from actorgraph.web.endpoints.endpoint import (
    ApiCall,
    Server,
    convert_to,
    parameters_of,
)
from actorgraph.web.http.jsonable import encode_plain
from actorgraph.web.http.problems import (
    AccessRevoked,
    Forbidden,
    HttpProblem,
    TooLarge,
    TooMany,
)
from actorgraph.web.http.request_limits import check_values
from actorgraph.web.http.watches import AccessWatch
from actorgraph.web.stream_protocol.protocol_commands import (
    COMMANDS,
    Code,
    WireCommand,
    WireError,
    WireResult,
    encode_answer,
    execute,
    invalid,
)
from actorgraph.web.stream_protocol.protocol_streams import (
    ENDPOINTS,
    SUBSCRIPTION,
    subscribed_events,
)
from actorgraph.web.stream_protocol.subscriptions import EventStreamRequest

SUBSCRIPTIONS_MAX = 64
"""Subscriptions of one socket."""

GOING_AWAY = 1001
"""Close code of a server that drains, and of a socket whose time is over: connect again."""

_ENDS = (WebSocketDisconnect, RuntimeError)
"""Raised when the client has gone; the second when it left while we sent."""
_CLOSED = "subscription.unsubscribe"


class UnsubscribeParams(Struct):
    """The subscription to end."""

    subscription_id: str


class WireSocket:
    """The sockets of all threads, as an ASGI application."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket."""
        socket, places = WebSocket(scope, receive, send), self._server.streams
        # The rules of authentication read headers: they get the upgrade as the GET that it is.
        request = Request({**scope, "type": "http", "method": "GET"})
        has_place = places.try_acquire()
        try:
            await socket.accept()
            if not has_place:
                raise TooMany("Too many open streams", limit="streams")
            check_origin(request)
            principal = await SUBSCRIPTION.principal(self._server, request)
            lasts_s = self._server.limits.stream_s
            with anyio.move_on_after(lasts_s):
                await _Session(self._server, socket, request, principal).run()
            await socket.close(GOING_AWAY)
        except _ENDS:
            pass
        except Exception as error:  # noqa: BLE001 - a server goes on
            await _close(socket, self._server, error)
        finally:
            self._server.clients.leave_place(request.scope)
            if has_place:
                places.release()


async def _close(socket: WebSocket, server: Server, error: Exception) -> None:
    revoked = isinstance(error, AccessRevoked)
    status = error.status if revoked else server.refusals.response_to(error).status_code
    if status >= 500:
        event("error", "web.failed", path=socket.url.path, error=repr(error))
    with suppress(WebSocketDisconnect, RuntimeError):
        await socket.close(4000 + status)


def check_origin(request: Request) -> None:
    """Refuse sockets of pages of other origins: browsers send cookies with them, unasked.

    Raises:
        Forbidden: the page's host is not the one that it connects to.
    """
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise Forbidden("a WebSocket of a page of another origin")


class _Session:
    """One open socket."""

    def __init__(self, server: Server, socket: WebSocket, request: Request, principal: Any) -> None:
        self._server = server
        self._socket = socket
        self._request = request
        self._principal = principal
        self._path = parameters_of(request)
        self._sending = anyio.Lock(fast_acquire=True)
        self._subscriptions: dict[str, anyio.CancelScope] = {}
        self._subscribed: dict[str, ApiCall] = {}
        self._watch = AccessWatch(None, math.inf)
        self._made = 0

    async def run(self) -> None:
        """Answer commands until the client disconnects or the server drains.

        Raises:
            WebSocketDisconnect: the client has disconnected.
        AccessRevoked: the client may not go on.
            HttpProblem: a message is too long, or there are too many of them.
        """
        failed: list[Exception] = []
        watch = AccessWatch(self._ask_again, self._server.access.reauthorize_s)
        async with anyio.create_task_group() as group:
            self._watch = watch
            watch.begin(group)
            try:
                with watch.scope:
                    while True:
                        text = await self._socket.receive_text()
                        await self._take(text, group)
                watch.check()
            except (*_ENDS, HttpProblem, AccessRevoked, KeyError) as error:
                failed.append(error)  # a group would wrap it
            group.cancel_scope.cancel()
        if failed and not isinstance(failed[0], KeyError):  # raised for a message of bytes
            raise failed[0]

    async def _ask_again(self) -> None:
        """Authenticate the client again, and authorize each subscription.

        Raises:
            AccessRevoked: one of them is denied.
        """
        asked = ApiCall(self._server, self._request, {}, self._principal)
        await authenticate_again(asked)
        self._principal = asked.principal
        for call in list(self._subscribed.values()):
            await ask_again(call)

    async def _take(self, text: str, group: Any) -> None:
        limits = self._server.limits
        if len(text) > limits.body_bytes:
            said_so = f"the message has more than {limits.body_bytes} bytes"
            raise TooLarge(said_so, limit="body_bytes")
        self._principal = await SUBSCRIPTION.principal(self._server, self._request)
        try:
            data = msgspec.json.decode(text)
            check_values(data, limits)
            said = convert_to(data, WireCommand, "the command", strict=True)
        except (HttpProblem, msgspec.MsgspecError, RecursionError, ValueError) as error:
            self._server.refusals.count(error)
            await self._say(encode_answer(WireError(None, "invalid_argument", str(error))))
            return
        try:
            answer = await self._answer(said, group)
        except Exception as error:  # noqa: BLE001 - the socket goes on
            answer = refusal(self._server, said.id, error)
        if answer is not None:
            await self._say(encode_answer(answer))

    async def _answer(self, said: WireCommand, group: Any) -> WireResult | WireError | None:
        """Execute a command; None if it was answered."""
        if said.method == "subscription.subscribe":
            await self._subscribe(said, group)
            return None
        if said.method == _CLOSED:
            wanted = convert_to(said.params, UnsubscribeParams, "params", strict=True)
            scope = self._subscriptions.pop(wanted.subscription_id, None)
            if scope is None:
                text = f"unknown subscription {wanted.subscription_id!r}"
                return WireError(said.id, "no_such_subscription", text)
            self._subscribed.pop(wanted.subscription_id, None)
            scope.cancel()
            return WireResult(said.id, {})
        if (error := invalid(said)) is not None:
            return error
        call = ApiCall(self._server, self._request, self._path, self._principal, body=said)
        await COMMANDS.admit(call)
        return await execute(call, said)

    async def _subscribe(self, said: WireCommand, group: Any) -> None:
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            text = f"a socket may have {SUBSCRIPTIONS_MAX} subscriptions"
            raise TooMany(text, limit="subscriptions")
        wanted = convert_to(said.params, EventStreamRequest, "params", strict=True)
        call = ApiCall(self._server, self._request, self._path, self._principal, body=wanted)
        await SUBSCRIPTION.admit(call)
        self._made += 1
        identifier = f"subscription-{self._made}"
        self._subscriptions[identifier] = anyio.CancelScope()
        self._subscribed[identifier] = call
        # Before its events, which name no subscription.
        await self._say(encode_answer(WireResult(said.id, {"subscription_id": identifier})))
        group.start_soon(self._pump, identifier, call, wanted)

    async def _pump(self, identifier: str, call: ApiCall, wanted: EventStreamRequest) -> None:
        """Send the events of a subscription; its end by itself is the server's drain."""
        scope = self._subscriptions.get(identifier)
        if scope is None:
            return  # it was ended before it began
        with scope:
            try:
                async for one in subscribed_events(call, wanted):
                    await self._say(encode_plain(one))
            except AccessRevoked as revoked:
                self._watch.end(revoked)
                return
            except (*_ENDS, SlowReaderError):
                pass
            except Exception as error:  # noqa: BLE001 - the client connects again
                event("error", "web.broken_off", error=repr(error))
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._socket.close(GOING_AWAY)

    async def _say(self, message: bytes) -> None:
        async with self._sending:
            await self._socket.send_text(message.decode())


def refusal(server: Server, identifier: int, error: Exception) -> WireError:
    """Return the answer to a command that was not admitted, with the text of its HTTP response."""
    response = server.refusals.response_to(error)
    status = response.status_code
    if status >= 500:
        event("error", "web.failed", path="websocket", error=repr(error))
    code: Code = "invalid_argument" if status < 500 else "unknown_error"
    if status in (401, 403, 404):
        code = "permission_denied"
    detail = msgspec.json.decode(response.body).get("detail", "")
    return WireError(identifier, code, detail)


def socket_routes(server: Server) -> list[BaseRoute]:
    """Return the routes of the sockets: upgrades at the paths of the event streams."""
    return [WebSocketRoute(endpoint.path, WireSocket(server)) for endpoint in ENDPOINTS]
