"""Responses that stay open: a run's events (`EventStream`) or its output (`ResultResponse`).

A response only reads: the run lives in the system. It ends with the run, with the client's
disconnect, or with the server. A disconnect raises no error, and with `on_disconnect="cancel"` it
cancels the run. Source of the format: WHATWG HTML, "Server-sent events".

Which events a client gets is pure: `EventTranslator`.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

import anyio
import anyio.lowlevel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from actorgraph.errors import ActorGraphError, SlowReaderError
from actorgraph.internals import (
    BUFFER_BYTES,
    OPEN_STATUSES,
    SpanEvents,
    WhenFull,
    beside,
    check_reading,
    checked_limit,
    checked_seconds,
    error_text,
    is_large,
    shielded,
)
from actorgraph.internals import log_event as event
from actorgraph.systems import Run, RunEvent, RunEvents
from actorgraph.web.http.access import REAUTHORIZE_S
from actorgraph.web.http.event_translator import SAME, EventTranslator
from actorgraph.web.http.jsonable import dumps, encode_plain
from actorgraph.web.http.large_values import encoded
from actorgraph.web.http.problems import (
    AccessRevoked,
    public_reason,
    public_text,
)
from actorgraph.web.http.watches import FAREWELL_S, AccessWatch, Reauthorize

PING_S = 10.0
CANCEL_S = 5.0
"""Seconds that a request waits for the end of a run that it cancels; the run ends anyway."""
TURN_EVENTS = 8
"""Events after which other tasks get a turn, even if the client takes them as fast as they come."""
PART_BYTES = 32_768
"""Bytes of events that are sent in one message; one event may be larger."""


def _farewell(revoked: AccessRevoked) -> bytes:
    return frame("error", revoked.shown)


async def send_parts(
    parts: AsyncGenerator[bytes],
    start: Message,
    receive: Receive,
    send: Send,
    *,
    ping: bytes,
    ping_s: float,
    lasts_s: float | None = None,
    reauthorize: Reauthorize | None = None,
    reauthorize_s: float = REAUTHORIZE_S,
    farewell: Callable[[AccessRevoked], bytes] = _farewell,
) -> bool:
    """Send parts of a body as they come; returns whether the client stayed connected to the end.

    An exception while parts are made ends the response early and is logged: its status is sent
    already, and the client of an event stream reconnects.

    Args:
        start: the ASGI message that starts the response.
        ping: a meaningless part, sent every `ping_s` seconds.
        lasts_s: seconds after which the response ends; None for no limit.
        reauthorize: raises `AccessRevoked`, as `parts` may, if the response may not go on.
        reauthorize_s: seconds after which it is called again.
        farewell: makes the last part of a response whose access was taken away.
    """
    stayed = False
    async with anyio.create_task_group() as group, aclosing(parts):

        def leave() -> None:
            # A server closes the connection in `send`, and may report that as a disconnect first:
            # hypercorn on trio, cancelled there, would leave the connection open.
            if not stayed:
                group.cancel_scope.cancel()

        body = _Body(send, leave)
        await body.say(start)
        group.start_soon(_listen, receive, leave)
        group.start_soon(body.ping, {**_PART, "body": ping}, ping_s)
        watch = AccessWatch(reauthorize, reauthorize_s)
        watch.begin(group)
        await _send_body(parts, body.say, watch, farewell, lasts_s)
        stayed = True  # servers report a disconnect when they have the last part
        await body.say({"type": "http.response.body", "body": b"", "more_body": False})
        group.cancel_scope.cancel()
    return stayed


class _Body:
    """Sends the messages of one response, one at a time.

    Args:
        send: the server's.
        leave: called when the client has disconnected.
    """

    def __init__(self, send: Send, leave: Callable[[], None]) -> None:
        self._send = send
        self._leave = leave
        self._is_sending = False
        self._pings = anyio.Lock()

    async def say(self, message: Message) -> None:
        """Send a message; called by one task."""
        # A lock that each token takes costs more than the looks at two flags: the only other
        # sender is `ping`, which leaves a body alone that is being sent.
        if self._pings.locked():
            async with self._pings:
                pass
        self._is_sending = True
        try:
            await self._send(message)
        except OSError:  # the client disconnected during the write
            self._leave()
        finally:
            self._is_sending = False

    async def ping(self, message: Message, seconds: float) -> None:
        """Send a message at an interval, for ever, unless another one is being sent."""
        while True:
            await anyio.sleep(seconds)
            if self._is_sending:
                continue
            async with self._pings:
                try:
                    await self._send(message)
                except OSError:
                    self._leave()


async def _send_body(
    parts: AsyncGenerator[bytes],
    say: Send,
    watch: AccessWatch,
    farewell: Callable[[AccessRevoked], bytes],
    lasts_s: float | None,
) -> None:
    """Send all parts but the end, as `send_parts` says."""
    if lasts_s is not None:
        watch.scope.deadline = anyio.current_time() + lasts_s
    try:
        with watch.scope:
            async for part in parts:
                if part:
                    await say({**_PART, "body": part})
        watch.check()
    except AccessRevoked as revoked:
        with anyio.move_on_after(FAREWELL_S):  # a client that doesn't read holds nothing open
            await say({**_PART, "body": farewell(revoked)})
    except SlowReaderError:
        pass  # as configured (`when_full`); it reconnects after the last event that it has
    except Exception as error:  # noqa: BLE001 - the status is sent: only the log is left
        event("error", "web.broken_off", error=repr(error))


async def cancel_abandoned(run: Run) -> None:
    """Cancel a run whose client has disconnected. A run of another process goes on there."""
    await shielded(lambda: _cancel_run(run))


async def _cancel_run(run: Run) -> None:
    with anyio.move_on_after(CANCEL_S):
        try:
            await run.cancel("the client has gone")
        except ActorGraphError as error:
            event("warning", "web.not_cancelled", run_id=run.id, error=str(error))


async def _listen(receive: Receive, leave: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()


_PART: Message = {"type": "http.response.body", "more_body": True}
PING = b": ping\n\n"
FORM = "X-Message-Events"
"""Header of a stream whose messages aren't in LangGraph's form."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """The events of a run, as `text/event-stream`.

    The first event is `metadata` with the run's id, the last `end`; between them one event per
    chunk, named after its stream mode, with its offset as `id`, and `error` if the run fails. A
    client that reconnects with `Last-Event-ID` continues after that event; if events are no longer
    available, it gets `gap` and then the whole `values`. `drain` means that the server shuts down:
    reconnect, the run goes on. A client that comes back after the end is answered with 204, without
    events.

    Args:
        run: as returned by `system.start()`.
        request: the one to respond to; its `Last-Event-ID` header is read.
        on_disconnect: "continue" (default) lets the run go on when the client disconnects;
            "cancel" cancels it, after storing its finished work.
        stream_mode: modes to send; default: all that the run streams.
        subgraphs: whether to send chunks of subgraphs; their events are named `mode|namespace`.
        buffer: events by which the client may be behind.
        buffer_bytes: approximate bytes by which it may; default 16 MB.
        when_full: what happens when it is further behind, as for `Run.events`: "drop_oldest" drops
            events and sends `gap`, "block" makes the run wait, "close" ends the stream, and the
            client reconnects.
        ping_s: seconds between comments, which keep proxies from closing the connection.
        lasts_s: seconds after which the stream ends, and the client reconnects; default: never.
        last_event_id: the last event that the client has, if it doesn't say so in the header,
            which takes precedence.
        spans: makes the events of mode "events", which has none without it.
        reauthorize: called every `reauthorize_s` seconds and when the run begins; it raises
            `AccessRevoked` if the client may not go on: the stream ends with the event `error`.
            Default: access isn't checked again.
        reauthorize_s: seconds between two calls; default 5.
        messages: the form of the events of messages. "compact" (default): the first piece of a
            message as `[message, metadata]`, and later ones that add text alone as
            `{"content": ...}`, with its `id` if the event before was of another message.
            "full": each piece as `[message, metadata]`. "pieces": likewise, for
            clients to which dropped messages are not told.
    Raises:
        InvalidConfigError: `buffer`, `buffer_bytes` or `when_full` is invalid.
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
        buffer_bytes: int = BUFFER_BYTES,
        when_full: WhenFull = "drop_oldest",
        ping_s: float = PING_S,
        lasts_s: float | None = None,
        last_event_id: str | None = None,
        spans: SpanEvents | None = None,
        reauthorize: Reauthorize | None = None,
        reauthorize_s: float = REAUTHORIZE_S,
        messages: Literal["compact", "full", "pieces"] = "compact",
    ) -> None:
        check_reading(0, buffer, when_full, buffer_bytes)
        super().__init__(headers={**HEADERS, FORM: "compact"} if messages == "compact" else HEADERS)
        del self.headers["content-length"]
        self._run = run
        self._cancels = on_disconnect == "cancel"
        self._translator = EventTranslator(
            stream_mode,
            subgraphs=subgraphs,
            spans=spans,
            compact=messages == "compact",
            tells_drops=messages != "pieces",
        )
        self._ping_s = checked_seconds("ping_s", ping_s)
        self._lasts_s = checked_limit("lasts_s", lasts_s)
        self._after = offset_of(request.headers.get("last-event-id", last_event_id))
        self._reauthorize = reauthorize
        self._reauthorize_s = checked_seconds("reauthorize_s", reauthorize_s)
        # Now, not when the server sends: a run that waits for its reader ("block") would go on
        # until then, and drop events that nobody has read.
        bounds = {"buffer": buffer, "buffer_bytes": buffer_bytes}
        self._events = run.events(self._after, **bounds, when_full=when_full)

    def close(self) -> None:
        """Let go of the run's events: of a response that is not going to be sent."""
        self._events.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the run ends or the client disconnects.

        A client that has the run's end already gets a 204: an `EventSource` comes back after each
        stream, and stops at that.
        """
        if await _is_over(self._run, self._after):
            self._events.close()
            await Response(status_code=204, headers=dict(self.headers))(scope, receive, send)
            return
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        parts = (
            _no_parts()
            if scope["method"] == "HEAD"
            else frames(
                self._run,
                self._events,
                self._translator,
                self._after,
                reauthorize=self._reauthorize,
            )
        )
        ping_s, lasts_s = self._ping_s, self._lasts_s
        stayed = False
        try:
            stayed = await send_parts(
                parts,
                start,
                receive,
                send,
                ping=PING,
                ping_s=ping_s,
                lasts_s=lasts_s,
                reauthorize=self._reauthorize,
                reauthorize_s=self._reauthorize_s,
            )
        finally:  # servers and middleware may cancel the request of a disconnected client
            self._events.close()
            if not stayed and self._cancels:
                await cancel_abandoned(self._run)


OVER_S = 5.0
"""Seconds to find out whether a client has the end of a run."""


async def _is_over(run: Run, after: int) -> bool:
    """Whether a run has ended, and a client that has its events up to an offset has them all."""
    if after == 0 or run.status in OPEN_STATUSES:
        return False
    events = run.events(after)
    try:
        with anyio.move_on_after(OVER_S):
            return await anext(events, None) is None
    except ActorGraphError as error:  # the stream finds the same
        event("warning", "web.end_not_found", run_id=run.id, error=str(error))
    finally:
        events.close()
    return False


async def _no_parts() -> AsyncGenerator[bytes]:
    """Make a body of no parts: the answer to a HEAD request."""
    return
    yield


async def frames(
    run: Run,
    events: RunEvents,
    translator: EventTranslator,
    after: int,
    *,
    prefix: str = "",
    reauthorize: Reauthorize | None = None,
) -> AsyncGenerator[bytes]:
    """Encode the events of a run after an offset as server-sent events.

    Args:
        events: those after the offset; closed at the end.
        prefix: of the events' ids.
        reauthorize: called when the run begins, which may be long after the request.
    Raises:
        AccessRevoked: `reauthorize` raised it.
        SlowReaderError: `when_full` of `events` is "close", and the client is too far behind.
    """
    seen = min(after, events.offset)  # a client may send an offset that the run hasn't reached
    part = _Part()
    try:
        if translator.is_stateful and seen > 0:
            await _replay(run, translator, seen)
        is_first = seen > 0
        while batch := await events.batch():
            if is_first:
                is_first = False
                if await _is_cut_gap(run, seen, batch[0]):
                    translator.owe_values()
            for event in batch:
                if event.kind == "metadata" and reauthorize is not None:
                    yield part.take()
                    await reauthorize()
                told = await told_of(translator, event)
                part.add(told, f"{prefix}{max(event.offset, seen)}")
                if part.size >= PART_BYTES:
                    yield part.take()
                    await anyio.lowlevel.checkpoint()
            if part.size:
                yield part.take()
            if len(batch) >= TURN_EVENTS:
                await anyio.lowlevel.checkpoint()
    finally:
        events.close()


async def _replay(run: Run, translator: EventTranslator, until: int) -> None:
    """Give a translator the events that its client has, for what follows depends on them.

    They are read by a reader of their own: the client isn't behind by them, so `when_full` doesn't
    apply, and a gap that it is still to get is left to its own reader.
    """
    events = run.events(0)
    try:
        last = 0
        while last < until and (batch := await events.batch()):
            for event in batch:
                if (last := _last(event)) > until:
                    break
                translator.replay(event.namespace, event.kind, event.data)
                if last == until:
                    break
            await anyio.lowlevel.checkpoint()
    finally:
        events.close()
    translator.acknowledge_gap()
    translator.reconnect()


async def _is_cut_gap(run: Run, seen: int, following: RunEvent) -> bool:
    """Whether the last event that a client has is a stored gap, without the state behind it."""
    if following.kind != "values" or following.namespace:
        return False
    events = run.events(seen - 1)
    try:
        before = await events.batch(1)
    finally:
        events.close()
    return bool(before) and before[0].kind == "gap" and before[0].offset == seen


class _Part:
    """Events that are sent in one message of the body.

    Attributes:
        size: their bytes.
    """

    def __init__(self) -> None:
        self._made: list[bytes] = []
        self.size = 0

    def add(self, told: list[tuple[str, Any]], identifier: str) -> None:
        """Add the events of one chunk.

        Only the last one has the chunk's id: a client that reconnects before it gets all of them
        again.
        """
        for number, (name, data) in enumerate(told, 1):
            made = frame(name, data, identifier if number == len(told) else None)
            self._made.append(made)
            self.size += len(made)

    def take(self) -> bytes:
        """Return the events, and begin anew."""
        part = b"".join(self._made)
        self._made, self.size = [], 0
        return part


async def told_of(translator: EventTranslator, event: RunEvent) -> list[tuple[str, Any]]:
    """Return a translator's events for an event of a run; of a large one beside the loop."""
    namespace, kind, data = event.namespace, event.kind, event.data
    if not translator.has_values or kind not in _WHOLE_STATES or not is_large(data):
        return translator.events(namespace, kind, data)
    return await beside(lambda: translator.events(namespace, kind, data))


_WHOLE_STATES = frozenset(SAME)
"""Modes whose chunks may be as large as a state."""


def _last(event: RunEvent) -> int:
    """Return the newest offset that an event covers: that of a gap is its end."""
    missing = event.data["to"] if event.kind == "gap" else None
    return event.offset if missing is None else missing


def frame(name: str, data: Any, identifier: str | None = None) -> bytes:
    """Encode one event: its name, its JSON on one line, and its id.

    Names contain node names, which may have line breaks: they are replaced, so that no name can
    forge another event.

    Args:
        data: as `to_plain` returns it.
    """
    if not name.isprintable():
        name = "".join(part if part.isprintable() else " " for part in name)
    said = f"id: {identifier}\n".encode() if identifier is not None else b""
    again = b"retry: 1000\n" if name == "drain" else b""
    return said + again + b"event: " + name.encode() + b"\ndata: " + encode_plain(data) + b"\n\n"


def offset_of(text: str | None) -> int:
    """Parse the offset of a client's last event; 0 for a new client, or if it isn't a number."""
    known = text is not None and text.isascii() and text.isdecimal() and len(text) < 16
    return int(text) if known and text is not None else 0


class ResultResponse(Response):
    """A run's output with its interrupts, or `{"__error__": ...}`, as JSON when the run has ended.

    The headers are sent at once, with the run's location. Until the run ends, blanks (which JSON
    allows before a value) keep proxies from closing the connection.

    Args:
        on_disconnect: "cancel" stops the run when the client disconnects; "continue" doesn't.
        shows: whether to send the output; else null.
        shape: makes the response of the output; default: the output itself.
        ping_s: seconds between blanks.
        on_sent: called when the output has been sent, or the client has left.
        reauthorize: called every `reauthorize_s` seconds and before the output is sent; it raises
            `AccessRevoked` if the client may not go on, which is sent as `__error__`.
            Default: access isn't checked again.
        reauthorize_s: seconds between two calls; default 5.
    """

    media_type = "application/json"

    def __init__(
        self,
        run: Run,
        *,
        on_disconnect: Literal["continue", "cancel"] = "continue",
        shows: bool = True,
        shape: Callable[[Any], Any] = lambda output: output,
        ping_s: float = PING_S,
        on_sent: Callable[[], None] = lambda: None,
        reauthorize: Reauthorize | None = None,
        reauthorize_s: float = REAUTHORIZE_S,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._run = run
        self._cancels = on_disconnect == "cancel"
        self._on_sent = on_sent
        self._shows = shows
        self._shape = shape
        self._ping_s = checked_seconds("ping_s", ping_s)
        self._reauthorize = reauthorize
        self._reauthorize_s = checked_seconds("reauthorize_s", reauthorize_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the run until it ends or the client disconnects."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        parts = self._parts(headers_only=scope["method"] == "HEAD")
        stayed = False
        try:
            stayed = await send_parts(
                parts,
                start,
                receive,
                send,
                ping=b" ",
                ping_s=self._ping_s,
                reauthorize=self._reauthorize,
                reauthorize_s=self._reauthorize_s,
                farewell=lambda revoked: dumps({"__error__": revoked.shown}),
            )
        finally:  # servers and middleware may cancel the request of a disconnected client
            self._on_sent()
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
        if self._reauthorize is not None:
            await self._reauthorize()
        yield await encoded(self._shape(output) if self._shows else None)
