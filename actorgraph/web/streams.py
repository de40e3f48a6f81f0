"""EventStream: a run as server-sent events, for any ASGI application.

A stream only reads: the run lives in the system. A client that goes away ends the stream, and with
`on_disconnect="cancel"` the run too. Source of the format: WHATWG HTML, "Server-sent events".
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actorgraph.api.runs import Run, check_reading
from actorgraph.values.streams import WhenFull
from actorgraph.values.systems import RunEvent
from actorgraph.web.jsonable import dumps
from actorgraph.web.telling import PING_S, give_up, told
from actorgraph.web.wire import Wire

PING = b": ping\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """The events of a run, as `text/event-stream`.

    Its first event is `metadata` with the run's id, its last `end`; between them one per chunk,
    named after its mode, with its offset as `id`, and `error` where the run fails. A reader that
    comes back with `Last-Event-ID` goes on behind it; what is gone by then is told as `gap`,
    followed by the whole `values`. `drain` says that the server stops: come back, the run goes on.

    Args:
        run: what `system.start()` has returned.
        request: the one that it answers: read for `Last-Event-ID` and for the client's leaving.
        on_disconnect: "continue", the default, leaves the run alone when the client goes away;
            "cancel" stops it, after storing what it did.
        stream_mode: modes to show; default all that the run streams.
        subgraphs: whether chunks of graphs inside are shown; their events are named `mode|ns`.
        buffer, when_full: what becomes of a reader that is so many events behind, as for
            `Run.events`: "drop_oldest" may tell it of a gap, "block" lets the run wait for it,
            "close" ends the stream, and the client comes back.
        ping_s: seconds after which a stream sends a comment, so that proxies keep it open.
        lasts_s: seconds after which the stream ends, and the client comes back; default never.
        last_event_id: what the client has read up to, if it says so elsewhere than in its header,
            which comes first.
    Raises:
        InvalidConfigError: `buffer` or `when_full` can't be.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        run: Run,
        request: Request,
        *,
        on_disconnect: Literal["continue", "cancel"] = "continue",
        stream_mode: Sequence[str] | None = None,
        subgraphs: bool = False,
        buffer: int = 256,
        when_full: WhenFull = "drop_oldest",
        ping_s: float = PING_S,
        lasts_s: float | None = None,
        last_event_id: str | None = None,
    ) -> None:
        check_reading(0, buffer, when_full)
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._run = run
        self._cancels = on_disconnect == "cancel"
        self._wire = Wire(stream_mode, subgraphs=subgraphs)
        self._buffer = buffer
        self._when_full: WhenFull = when_full
        self._ping_s = ping_s
        self._lasts_s = lasts_s
        self._after = offset_of(request.headers.get("last-event-id", last_event_id))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the run has ended, or the client has gone."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        parts = self._frames(headers_only=scope["method"] == "HEAD")
        ping_s, lasts_s = self._ping_s, self._lasts_s
        stayed = False
        try:
            stayed = await told(
                parts, start, receive, send, ping=PING, ping_s=ping_s, lasts_s=lasts_s
            )
        finally:  # servers and middleware may cancel a request whose client has gone
            if not stayed and self._cancels:
                await give_up(self._run)

    async def _frames(self, *, headers_only: bool) -> AsyncGenerator[bytes]:
        if headers_only:
            return
        async with aclosing(
            frames(
                self._run,
                self._wire,
                self._after,
                buffer=self._buffer,
                when_full=self._when_full,
            )
        ) as parts:
            async for part in parts:
                yield part


async def frames(
    run: Run, wire: Wire, after: int, *, buffer: int, when_full: WhenFull, prefix: str = ""
) -> AsyncGenerator[bytes]:
    """The events of a run behind an offset, as bytes.

    Args:
        prefix: of their ids.
    Raises:
        SlowReaderError: `when_full` is "close", and the reader was too slow.
    """
    events = run.events(after, buffer=buffer, when_full=when_full)
    seen = min(after, events.offset)  # less, where it is an offset of nobody's
    if again := wire.remembers and seen > 0:
        # Who comes back in the middle of a message is told all of it that there is so far.
        events.close()
        events = run.events(0, buffer=buffer, when_full=when_full)
    try:
        async for event in events:
            told = list(wire.events(event.namespace, event.kind, event.data))
            if again and _last(event) <= seen:
                wire.forgive()
                continue
            for name, data in told[:-1]:
                yield frame(name, data)
            for name, data in told[-1:]:  # the id says that all of it has arrived
                yield frame(name, data, f"{prefix}{max(event.offset, seen)}")
    finally:
        events.close()


def _last(event: RunEvent) -> int:
    """The newest offset of which an event tells."""
    missing = event.data["to"] if event.kind == "gap" else None
    return event.offset if missing is None else missing


def frame(name: str, data: Any, identifier: str | None = None) -> bytes:
    """One event: its name, its JSON on one line, and its id.

    A name has those of nodes in it, which may be anything: no line of it begins another event.
    """
    if not name.isprintable():
        name = "".join(part if part.isprintable() else " " for part in name)
    said = f"id: {identifier}\n".encode() if identifier is not None else b""
    again = b"retry: 1000\n" if name == "drain" else b""
    return said + again + b"event: " + name.encode() + b"\ndata: " + dumps(data) + b"\n\n"


def offset_of(text: str | None) -> int:
    """The offset that a client has read up to; 0 for a new reader."""
    known = text is not None and text.isascii() and text.isdecimal() and len(text) < 16
    return int(text) if known and text is not None else 0
