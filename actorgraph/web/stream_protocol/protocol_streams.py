"""The event streams of the streaming protocol: one thread's runs, filtered, numbered, resumable.

Each connection is one subscription (`EventStreamRequest`); it stays open over any number of runs
and ends with the client's disconnect, the server's drain, or a run that leaves this process, as one
does whose lease was lost. Events have an id and a number (`seq`); a client that reconnects sends
the newest number that it has as `since`, and events that come again have the same ids.
"""

import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from typing import Any

import anyio.lowlevel
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actorgraph.internals import OPEN_STATUSES, belongs_later
from actorgraph.systems import Run
from actorgraph.web.endpoints.authority import ask_again, reauthorization
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.endpoints.thread_streams import ShownRuns, in_turn, may_go_on
from actorgraph.web.http.event_responses import (
    HEADERS,
    PING,
    PING_S,
    TURN_EVENTS,
    frame,
    send_parts,
)
from actorgraph.web.http.problems import AccessRevoked
from actorgraph.web.stream_protocol.event_numbers import first_numbers, number_of
from actorgraph.web.stream_protocol.protocol_events import WireEvent, WireTranslator
from actorgraph.web.stream_protocol.subscriptions import EventStreamRequest, Filter


class RunInThread(Struct, frozen=True):
    """A run and its place among the runs of its thread.

    Attributes:
        first: the number below that of its first event.
        after: the number of the last event that the client has.
    """

    run: Run
    first: int
    after: int


async def events_stream(call: ApiCall) -> Response:
    """Stream the events of a thread's runs that the request's body asks for."""
    return WireStream(call, call.body)


class WireStream(Response):
    """A subscription, as `text/event-stream`."""

    media_type = "text/event-stream"

    def __init__(self, call: ApiCall, wanted: EventStreamRequest) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._call = call
        self._wanted = wanted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client disconnects or the system drains."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        lasts_s = self._call.server.limits.stream_s
        await send_parts(
            self._frames(),
            start,
            receive,
            send,
            ping=PING,
            ping_s=PING_S,
            lasts_s=lasts_s,
            **reauthorization(self._call),
            farewell=_farewell,
        )

    async def _frames(self) -> AsyncGenerator[bytes]:
        async with aclosing(subscribed_events(self._call, self._wanted)) as events:
            async for event in events:
                yield frame(event["method"], event, event.get("event_id"))


def _farewell(revoked: AccessRevoked) -> bytes:
    """Return the protocol's error for a subscription whose access was taken away."""
    said = {"type": "error", "id": None, "error": "permission_denied", "message": revoked.detail}
    return frame("error", said)


async def subscribed_events(
    call: ApiCall, wanted: EventStreamRequest
) -> AsyncGenerator[dict[str, Any]]:
    """Yield the events of a subscription as the protocol's JSON, and wait for more.

    Ends when the system drains, or a run leaves it without an end.

    Raises:
        SlowReaderError: the reader is too far behind, and `Limits.when_full` is "close".
        AccessRevoked: the principal may not read the thread any more.
    """
    chosen = Filter(wanted)
    async with aclosing(_runs(call, wanted.since)) as runs:
        async for place in runs:
            translator = WireTranslator(place.run.graph)
            async with aclosing(_of_run(call, place, chosen, translator)) as events:
                async for event in events:
                    yield event
            if translator.has_left:  # its rest comes to those who connect again
                return


async def _runs(call: ApiCall, since: int | None) -> AsyncGenerator[RunInThread]:
    """Yield the thread's runs to begin with, then each that is started."""
    assert call.thread is not None
    system, thread, shown = call.server.system, call.thread, ShownRuns()
    coming = system.follow(thread.thread_id)  # at once, so that none is missed
    try:
        for place in await _known_runs(call, since, shown):
            await ask_again(call, place.run)
            yield place
        async for run in coming:
            if not shown.is_new(run) or call.hides(run.graph):
                continue
            if not await may_go_on(call, thread, run):
                return
            yield RunInThread(run, await first_number(call, run), -1)
            if system.statistics().draining is not None:
                return
    finally:
        coming.close()


async def _known_runs(call: ApiCall, since: int | None, shown: ShownRuns) -> list[RunInThread]:
    """Return the runs that a subscription begins with: from `since` on, else the newest ones.

    Without those of later times: they come when this system takes them up.
    """
    runs = await call.server.system.runs(thread_id=call.thread_id)
    runs = [run for run in runs if not belongs_later(run)]
    firsts = first_numbers([run.row.run for run in runs])
    after = -1 if since is None else since
    hidden = {run.id for run in runs if call.hides(run.graph)}
    if since is None:
        begin = _oldest_wanted(runs, hidden)
    else:
        begin = max(0, bisect_right(firsts, since) - 1)
    for run in runs:
        shown.is_new(run)
    numbers = {run.id: first for run, first in zip(runs, firsts, strict=True)}
    known = {run.id for run in runs[begin:]}  # of one below, the client may have no event yet
    return [
        RunInThread(run, numbers[run.id], after if run.id in known else -1)
        for run in in_turn(runs, begin)
        if run.id not in hidden
    ]


def _oldest_wanted(runs: Sequence[Run], hidden: Collection[str]) -> int:
    """Return the index of the oldest open run; of the newest one if none is open.

    Args:
        hidden: the ids of runs that don't count.
    """
    shown = [index for index, run in enumerate(runs) if run.id not in hidden]
    still_open = (index for index in shown if runs[index].status in OPEN_STATUSES)
    return next(still_open, shown[-1] if shown else 0)


async def first_number(call: ApiCall, run: Run) -> int:
    """Return the number below that of a run's first event."""
    runs = await call.server.system.runs(thread_id=run.thread_id)
    earlier = [one for one in runs if one.id < run.id]
    return first_numbers([one.row.run for one in (*earlier, run)])[-1]


async def _of_run(
    call: ApiCall, place: RunInThread, chosen: Filter, translator: WireTranslator
) -> AsyncGenerator[dict[str, Any]]:
    """Yield a run's events that the subscription takes, and the client doesn't have."""
    limits, run = call.server.limits, place.run
    # From the beginning also for a client that has a part: the blocks of messages are made of all
    # the pieces, and an event has the same number each time only if the events before it were seen.
    events = run.events(
        0,
        buffer=limits.buffer,
        buffer_bytes=limits.buffer_bytes,
        when_full=limits.when_full,
    )
    newest, attempt, after = 0, 1, place.after
    try:
        async for event in events:
            if event.kind == "metadata":
                await ask_again(call, run)
                attempt = event.data.get("attempt", 1)
                if newest == 0 and attempt > 1:  # the events of the attempts before were not stored
                    after = -1
            # Events that could not be stored have the offset of the last one that was.
            is_numbered = event.offset > newest or event.kind == "gap"
            newest = max(newest, event.offset)
            about = f"{run.id}:{attempt}.{event.offset}"
            for part, made in enumerate(translator.events(event)):
                number = number_of(place.first, event.offset, part)
                if number <= after and is_numbered:
                    continue
                if chosen.takes(made.method, made.namespace, made.data):
                    known = (f"{about}.{part}", number) if is_numbered else None
                    yield wire_json(event.created, made, known)
            if event.offset % TURN_EVENTS == 0:
                await anyio.lowlevel.checkpoint()
    finally:
        events.close()


def wire_json(created: int, made: WireEvent, known: tuple[str, int] | None) -> dict[str, Any]:
    """Return an event as the protocol's JSON.

    Ids of events about the run itself begin with `synth:` and the run's id: the JavaScript SDK
    reads it there to distinguish the runs of a thread.

    Args:
        created: microseconds since 1970-01-01 UTC; 0 if it was made now.
        known: its id and number; None for an event that may not come again with the same ones.
    """
    params: dict[str, Any] = {
        "namespace": list(made.namespace),
        "timestamp": (created or time.time_ns() // 1000) // 1000,
        "data": made.data,
    }
    if made.node:
        params["node"] = made.node
    shown: dict[str, Any] = {"type": "event", "method": made.method, "params": params}
    if known is not None:
        identifier, number = known
        shown["event_id"] = f"synth:{identifier}" if made.is_root_life else identifier
        shown["seq"] = number
    return shown


def _subscription(path: str) -> Endpoint:
    return Endpoint(
        "POST",
        path,
        "threads.read",
        events_stream,
        body=EventStreamRequest,
        summary="Subscribe to events of a thread's runs",
        streams=True,
    )


SUBSCRIPTION = _subscription("/threads/{thread_id}/stream/events")
ENDPOINTS = (SUBSCRIPTION, _subscription("/threads/{thread_id}/stream"))
"""Two paths for one thing: the first is LangGraph's, the second the Agent Protocol's."""
