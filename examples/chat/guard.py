"""What every answer says to the browser, and which requests of other sites are refused."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """An ASGI middleware: adds `HEADERS`, and refuses what a page of another site asks for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def say(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers_sent = MutableHeaders(scope=message)
                headers_sent.update(HEADERS)
                headers_sent.setdefault("Cache-Control", "no-cache")
            await send(message)

        headers = Headers(scope=scope)
        origin = headers.get("origin")
        is_foreign = origin is not None and origin.partition("://")[2] != headers.get("host")
        refusal = PlainTextResponse("this page belongs to another site", 403)
        await (refusal if is_foreign else self._app)(scope, receive, say)
