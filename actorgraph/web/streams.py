"""EventStream: a run as server-sent events, for any ASGI application.

A stream only reads: the run lives in the system. A client that goes away ends the stream, and with
`on_disconnect="cancel"` the run too. Source of the format: WHATWG HTML, "Server-sent events".
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actorgraph.api.runs import Run
from actorgraph.web.jsonable import dumps
from actorgraph.web.problems import TooMany, response_to
from actorgraph.web.slots import Slots
from actorgraph.web.wire import Wire

PING_S = 10.0
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


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
        slots: how many streams may be open; default any number.
        ping_s: seconds after which a silent stream sends a comment, so that proxies keep it open.
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
        ping_s: float = PING_S,
        slots: Slots | None = None,
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._run = run
        self._cancels = on_disconnect == "cancel"
        self._wire = Wire(stream_mode, subgraphs=subgraphs)
        self._ping_s = ping_s
        self._slots = slots or Slots()
        self._after = _offset(request.headers.get("last-event-id"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the run has ended, or the client has gone."""
        if not self._slots.take():
            full = TooMany("too many open streams", headers={"Retry-After": "5"})
            await response_to(full)(scope, receive, send)
            return
        try:
            await self._stream(receive, send)
        finally:
            self._slots.give()

    async def _stream(self, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        lock = anyio.Lock()
        gone = False
        async with anyio.create_task_group() as group:

            async def say(frame: bytes) -> None:
                async with lock:
                    await send({"type": "http.response.body", "body": frame, "more_body": True})

            async def listen() -> None:
                nonlocal gone
                while (await receive())["type"] != "http.disconnect":
                    pass
                gone = True
                group.cancel_scope.cancel()

            async def ping() -> None:
                while True:
                    await anyio.sleep(self._ping_s)
                    await say(b": ping\n\n")

            group.start_soon(listen)
            group.start_soon(ping)
            try:
                async for frame in self._frames():
                    await say(frame)
            except OSError:  # the client has gone while it was written to
                gone = True
            group.cancel_scope.cancel()
        if gone and self._cancels:
            with anyio.CancelScope(shield=True):
                await self._run.cancel()
        if not gone:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _frames(self) -> AsyncIterator[bytes]:
        # Who comes back in the middle of a message is told all of it that there is so far.
        seen = self._after
        start = 0 if self._wire.remembers else seen
        async for event in self._run.events(after=start):
            told = list(self._wire.events(event.namespace, event.kind, event.data))
            if event.offset <= seen and event.kind != "gap":
                continue
            for name, data in told[:-1]:
                yield frame(name, data)
            for name, data in told[-1:]:  # the id says that all of it has arrived
                yield frame(name, data, event.offset)


def frame(name: str, data: Any, identifier: int | None = None) -> bytes:
    """One event: its name, its JSON on one line, and its id."""
    said = f"id: {identifier}\n".encode() if identifier is not None else b""
    again = b"retry: 1000\n" if name == "drain" else b""
    return said + again + b"event: " + name.encode() + b"\ndata: " + dumps(data) + b"\n\n"


def _offset(text: str | None) -> int:
    """The offset that a client has read up to; 0 for a new reader."""
    return int(text) if text is not None and text.isdigit() and len(text) < 16 else 0
