"""EventStream: a run as server-sent events, for any ASGI application."""

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
from actorgraph.web.telling import PING_S, cancel_abandoned, send_parts
from actorgraph.web.wire import EventTranslator

PING = b": ping\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """The events of a run, as `text/event-stream`.

    The first event is `metadata` with the run's id, the last `end`; between them one event per
    chunk, named after its stream mode, with its offset as `id`, and `error` if the run fails. A
    client that reconnects with `Last-Event-ID` continues after that event; if events are no longer
    available, it gets `gap` and then the whole `values`. `drain` means that the server shuts down:
    reconnect, the run goes on.

    Args:
        run: as returned by `system.start()`.
        request: the one to respond to; its `Last-Event-ID` header is read.
        on_disconnect: "continue" (default) lets the run go on when the client disconnects;
            "cancel" cancels it, after storing what it did.
        stream_mode: modes to send; default: all that the run streams.
        subgraphs: whether to send chunks of subgraphs; their events are named `mode|namespace`.
        buffer: events by which the client may be behind.
        when_full: what happens when it is further behind, as for `Run.events`: "drop_oldest" drops
            events and sends `gap`, "block" makes the run wait, "close" ends the stream, and the
            client reconnects.
        ping_s: seconds between comments, which keep proxies from closing the connection.
        lasts_s: seconds after which the stream ends, and the client reconnects; default: never.
        last_event_id: the last event that the client has, if it doesn't say so in the header,
            which takes precedence.
    Raises:
        InvalidConfigError: `buffer` or `when_full` is invalid.
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
        self._translator = EventTranslator(stream_mode, subgraphs=subgraphs)
        self._buffer = buffer
        self._when_full: WhenFull = when_full
        self._ping_s = ping_s
        self._lasts_s = lasts_s
        self._after = offset_of(request.headers.get("last-event-id", last_event_id))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the run ends or the client disconnects."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        parts = self._frames(headers_only=scope["method"] == "HEAD")
        ping_s, lasts_s = self._ping_s, self._lasts_s
        stayed = False
        try:
            stayed = await send_parts(
                parts, start, receive, send, ping=PING, ping_s=ping_s, lasts_s=lasts_s
            )
        finally:  # servers and middleware may cancel the request of a disconnected client
            if not stayed and self._cancels:
                await cancel_abandoned(self._run)

    async def _frames(self, *, headers_only: bool) -> AsyncGenerator[bytes]:
        if headers_only:
            return
        async with aclosing(
            frames(
                self._run,
                self._translator,
                self._after,
                buffer=self._buffer,
                when_full=self._when_full,
            )
        ) as parts:
            async for part in parts:
                yield part


async def frames(
    run: Run,
    translator: EventTranslator,
    after: int,
    *,
    buffer: int,
    when_full: WhenFull,
    prefix: str = "",
) -> AsyncGenerator[bytes]:
    """Encode the events of a run after an offset as server-sent events.

    Args:
        prefix: of the events' ids.
    Raises:
        SlowReaderError: `when_full` is "close", and the client is too far behind.
    """
    events = run.events(after, buffer=buffer, when_full=when_full)
    seen = min(after, events.offset)  # a client may send an offset that the run hasn't reached
    if again := translator.is_stateful and seen > 0:
        # `messages` sends each message as far as it has come. To continue in the middle of one,
        # the translator needs the chunks from the beginning; those already seen aren't sent.
        events.close()
        events = run.events(0, buffer=buffer, when_full=when_full)
    try:
        async for event in events:
            told = list(translator.events(event.namespace, event.kind, event.data))
            if again and _last(event) <= seen:
                translator.acknowledge_gap()
                continue
            for name, data in told[:-1]:
                yield frame(name, data)
            # Only the last event of a chunk has its id: a client that reconnects before it gets
            # all events of the chunk again.
            for name, data in told[-1:]:
                yield frame(name, data, f"{prefix}{max(event.offset, seen)}")
    finally:
        events.close()


def _last(event: RunEvent) -> int:
    """Return the newest offset that an event covers: that of a gap is its end."""
    missing = event.data["to"] if event.kind == "gap" else None
    return event.offset if missing is None else missing


def frame(name: str, data: Any, identifier: str | None = None) -> bytes:
    """Encode one event: its name, its JSON on one line, and its id.

    Names contain node names, which may have line breaks: they are replaced, so that no name can
    forge another event.
    """
    if not name.isprintable():
        name = "".join(part if part.isprintable() else " " for part in name)
    said = f"id: {identifier}\n".encode() if identifier is not None else b""
    again = b"retry: 1000\n" if name == "drain" else b""
    return said + again + b"event: " + name.encode() + b"\ndata: " + dumps(data) + b"\n\n"


def offset_of(text: str | None) -> int:
    """Parse the offset of a client's last event; 0 for a new client, or if it is no number."""
    known = text is not None and text.isascii() and text.isdecimal() and len(text) < 16
    return int(text) if known and text is not None else 0
