"""StudioGuard: the checks that each request of the studio passes before a page sees it.

Host          must be in an allow-list, so that a foreign name that resolves to this machine (DNS
              rebinding) reaches nothing
Session       a random token in the printed address is exchanged for a session cookie with another
              value; HttpOnly, SameSite=Strict. Without a token the application authenticates
WebSockets    pass the same checks, before they are accepted
Origin        unsafe methods need `Sec-Fetch-Site: same-origin` or a matching `Origin`
Answers       carry a strict Content-Security-Policy: no inline script, no other server, no frame

https://developer.mozilla.org/docs/Web/HTTP/Headers/Sec-Fetch-Site
"""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "actorgraph_studio"
"""The beginning of the name of the session's cookie; see `cookie_name`."""
TOKEN = "token"  # noqa: S105 - the name of a parameter
SESSION_S = 12 * 3600
"""Lifetime of a session, in seconds."""
SESSIONS_MAX = 100
"""Sessions at a time; the oldest ends when another one begins."""
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SAFE = ("GET", "HEAD")
POLICY_VIOLATION = 1008
"""Close code of a WebSocket that is refused; before it is accepted, servers answer 403."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # Not "no-referrer": browsers would send `Origin: null` with the studio's own forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
_ASK = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>actorgraph studio</title>"
    "<p>Open the address with the token that the studio has printed."
    ' If you have just done so, <a href="">go on</a>.'
)


class Sessions:
    """Sessions that were begun with the token; only digests of their ids are kept."""

    def __init__(self) -> None:
        self._ends: OrderedDict[bytes, float] = OrderedDict()

    def begin(self) -> str:
        """Begin a session; returns its id, for the cookie."""
        made = secrets.token_urlsafe(32)
        self._ends[_digest(made)] = time.monotonic() + SESSION_S
        while len(self._ends) > SESSIONS_MAX:
            self._ends.popitem(last=False)
        return made

    def __contains__(self, session: str) -> bool:
        end = self._ends.get(_digest(session))
        return end is not None and end > time.monotonic()


class StudioGuard:
    """Checks requests; see the module's docstring.

    Args:
        app: answers the requests that pass.
        token: text that begins a session; None if the application authenticates.
        hosts: names under which the studio may be called, without ports.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Iterable[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = frozenset(host.lower() for host in hosts)
        self._sessions = Sessions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = self._refusal(scope) or self._session(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        await (answer or self._app)(scope, receive, with_headers)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a WebSocket of an allowed host, a session and no foreign page."""
        asked = {**scope, "type": "http", "method": "GET", "query_string": b""}
        # Not as a POST: programs send neither `Origin` nor `Sec-Fetch-Site`; a page always does.
        origin = Headers(scope=scope).get("origin")
        foreign = origin is not None and not is_same_origin(Headers(scope=scope))
        if foreign or self._refusal(asked) or self._session(asked):
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host_name(host) not in self._hosts:
            return Response(f"Host {host!r} is not served; see hosts=\n", 403)
        if scope["method"] not in SAFE and not is_same_origin(headers):
            return Response("Requests of other sites are refused\n", 403)
        return None

    def _session(self, scope: Scope) -> Response | None:
        if self._token is None:
            return None
        request = Request(scope)
        given = request.query_params.get(TOKEN)
        if given is not None and scope["method"] in SAFE:
            if hmac.compare_digest(given.encode(), self._token.encode()):
                return self._begun(request)
            return Response(_ASK, 401, media_type="text/html")
        if request.cookies.get(cookie_name(request.headers), "") in self._sessions:
            return None
        return Response(_ASK, 401, media_type="text/html")

    def _begun(self, request: Request) -> Response:
        """Redirect to the same address without the token, with a cookie."""
        query = [(k, v) for k, v in parse_qsl(request.url.query) if k != TOKEN]
        raw: bytes = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
        path = "/" + raw.partition(b"?")[0].decode("latin-1").lstrip("/\\")  # "//x": another server
        target = f"{path}?{urlencode(query)}" if query else path
        answer = RedirectResponse(target, 303)
        answer.set_cookie(
            cookie_name(request.headers),
            self._sessions.begin(),
            max_age=SESSION_S,
            path=request.scope.get("root_path") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        answer.headers["Cache-Control"] = "no-store"
        return answer


def cookie_name(headers: Headers) -> str:
    """Return the name of the session's cookie; cookies don't know ports, so that it names one."""
    name, _, port = headers.get("host", "").rpartition(":")
    return f"{COOKIE}_{port}" if name and port.isdecimal() else COOKIE


def host_name(host: str) -> str:
    """Return a Host header without its port, in lower case."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()


def is_same_origin(headers: Headers) -> bool:
    """Whether a request comes from a page of the server that it is sent to.

    A browser sets both headers by itself; a page can't change them. A request without either is
    refused, because every current browser sends one with each unsafe method.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is not None:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    return site is not None


def _digest(session: str) -> bytes:
    return sha256(session.encode()).digest()
