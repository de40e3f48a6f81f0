"""Outcome: what a run has come to, told when it has left."""

from collections.abc import AsyncGenerator
from typing import Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actorgraph.api.runs import Run
from actorgraph.errors.telling import error_text
from actorgraph.web.jsonable import dumps
from actorgraph.web.problems import shown, shown_reason
from actorgraph.web.telling import PING_S, give_up, told


class Outcome(Response):
    """A run's output with its questions, or `{"__error__": ...}`; as JSON, when it has left.

    It begins at once, and is kept open by blanks, which JSON allows before a value: the client
    knows from the headers where the run is, and no proxy takes the silence for an end.

    Args:
        on_disconnect: "cancel" stops the run when the client goes away; "continue" doesn't.
        shows: whether to tell the output; else null.
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
        """Wait for the run as long as the client does."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        parts = self._parts(headers_only=scope["method"] == "HEAD")
        stayed = False
        try:
            stayed = await told(parts, start, receive, send, ping=b" ", ping_s=self._ping_s)
        finally:  # servers and middleware may cancel a request whose client has gone
            if not stayed and self._cancels:
                await give_up(self._run)

    async def _parts(self, *, headers_only: bool) -> AsyncGenerator[bytes]:
        if headers_only:
            return
        try:
            output = await self._run.result()
        except Exception as error:  # noqa: BLE001 - the client is told what the run raised
            name, text = type(error).__name__, error_text(error)
            text = text.replace(self._run.reason, shown_reason(self._run.reason))
            output = {"__error__": {"error": name, "message": shown(name, text)}}
        yield dumps(output if self._shows else None)
