"""The output of a run as one response, sent when the run has ended."""

from collections.abc import AsyncGenerator
from typing import Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actorgraph.api.runs import Run
from actorgraph.errors.telling import error_text
from actorgraph.web.jsonable import dumps
from actorgraph.web.problems import public_reason, public_text
from actorgraph.web.telling import PING_S, cancel_abandoned, send_parts


class ResultResponse(Response):
    """A run's output with its interrupts, or `{"__error__": ...}`, as JSON when the run has ended.

    The headers are sent at once, with the run's location. Until the run ends, blanks (which JSON
    allows before a value) keep proxies from closing the connection.

    Args:
        on_disconnect: "cancel" stops the run when the client disconnects; "continue" doesn't.
        shows: whether to send the output; else null.
        ping_s: seconds between blanks.
    """

    media_type = "application/json"

    def __init__(
        self,
        run: Run,
        *,
        on_disconnect: Literal["continue", "cancel"] = "continue",
        shows: bool = True,
        ping_s: float = PING_S,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._run = run
        self._cancels = on_disconnect == "cancel"
        self._shows = shows
        self._ping_s = ping_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the run until it ends or the client disconnects."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        parts = self._parts(headers_only=scope["method"] == "HEAD")
        stayed = False
        try:
            stayed = await send_parts(parts, start, receive, send, ping=b" ", ping_s=self._ping_s)
        finally:  # servers and middleware may cancel the request of a disconnected client
            if not stayed and self._cancels:
                await cancel_abandoned(self._run)

    async def _parts(self, *, headers_only: bool) -> AsyncGenerator[bytes]:
        if headers_only:
            return
        try:
            output = await self._run.result()
        except Exception as error:  # noqa: BLE001 - the run's error is the response
            name, text = type(error).__name__, error_text(error)
            text = text.replace(self._run.reason, public_reason(self._run.reason))
            output = {"__error__": {"error": name, "message": public_text(name, text)}}
        yield dumps(output if self._shows else None)
