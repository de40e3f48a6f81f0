"""ThreadStream: all runs of a thread as one stream of server-sent events.

It ends with the client's disconnect, the server's drain, or with a run that leaves this process, as
one does whose lease was lost. Event ids are `<run>.<offset>`: a client that reconnects gets the
rest of that run and the runs started since, then new ones.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actorgraph.errors import RunNotFoundError
from actorgraph.internals import EVENTS_WAITING_MAX as WAITING_MAX
from actorgraph.internals import OPEN_STATUSES, belongs_later
from actorgraph.systems import Run
from actorgraph.web.endpoints.authority import ask_again, reauthorization
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint, with_graph
from actorgraph.web.endpoints.run_kwargs import spans_of
from actorgraph.web.endpoints.run_start import KEPT, modes_in
from actorgraph.web.endpoints.state_updates import Part, pour, poured
from actorgraph.web.endpoints.thread_state import config_of
from actorgraph.web.http.event_responses import (
    HEADERS,
    PING,
    PING_S,
    frame,
    frames,
    offset_of,
    send_parts,
)
from actorgraph.web.http.event_signals import SignalTranslator
from actorgraph.web.http.event_translator import EventTranslator
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.problems import NotFound, Unprocessable
from actorgraph.web.registries.thread_registry import StoredThread

MODES = ("run_modes", "signals", "lifecycle", "state_update")


class StreamQuery(Struct):
    """Stream modes, with commas or as a JSON list; run_modes is the default.

    run_modes: all that the runs stream; signals: the same without values, of the main graph: `{}`,
    or a task's id, name and state, and messages in their compact form; lifecycle: the begin and end
    of runs only; state_update: states that clients update.

    `last_event_id` is for clients that can't set the header, such as a new `EventSource` of a page.
    """

    stream_mode: str | None = None
    last_event_id: str | None = None


class ShownRuns:
    """The runs of a thread that a stream has shown; the newest `WAITING_MAX`.

    An id doesn't say that: a run whose time has come may be taken up after a later one has run.
    """

    def __init__(self) -> None:
        self._ids: dict[bytes, None] = {}

    def is_new(self, run: Run) -> bool:
        """Note a run; return whether it was not noted before."""
        identity = run.row.run
        if identity in self._ids:
            return False
        self._ids[identity] = None
        if len(self._ids) > WAITING_MAX:
            del self._ids[next(iter(self._ids))]
        return True


def in_turn(runs: Sequence[Run], begin: int) -> list[Run]:
    """Return the runs that a stream shows, in the order in which they have their thread.

    Open runs below were taken up late: they come behind those that have begun.

    Args:
        runs: of the thread, by their ids.
        begin: the index of the first that is shown.
    """
    late = [run for run in runs[:begin] if run.status in OPEN_STATUSES]
    shown = list(runs[begin:])
    waiting = (place for place, run in enumerate(shown) if run.status == "pending")
    place = next(waiting, len(shown))
    return [*shown[:place], *late, *shown[place:]]


async def thread_stream(call: ApiCall) -> Response:
    """Stream the events of all runs of a thread, as they come."""
    asked = call.request.query_params.getlist("stream_mode")
    modes = modes_in(asked) or [MODES[0]]
    for mode in modes:
        if mode not in MODES:
            served = ", ".join(MODES)
            raise Unprocessable(f"stream_mode must be one of {served}, got {mode!r}")
    assert call.thread is not None
    return ThreadStream(call, call.thread, modes)


class ThreadStream(Response):
    """The events of all runs of a thread, as `text/event-stream`.

    Args:
        modes: "run_modes" for all that the runs stream, "signals" for the same without values,
            "lifecycle" for the begin and end of runs only; "state_update" for states that clients
            update through this server.
    """

    media_type = "text/event-stream"

    def __init__(self, call: ApiCall, thread: StoredThread, modes: Sequence[str]) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._call = call
        self._server = call.server
        self._thread = thread
        self._chunks = "run_modes" in modes
        self._signals = "signals" in modes and not self._chunks
        self._runs = self._chunks or self._signals or "lifecycle" in modes
        self._updates = "state_update" in modes
        self._has_left = False
        self._seen = call.request.headers.get("last-event-id", call.query.last_event_id or "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client disconnects or the system drains."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        headers_only = scope["method"] == "HEAD"
        parts = self._frames(headers_only=headers_only)
        send_them = partial(
            send_parts,
            ping=PING,
            ping_s=PING_S,
            lasts_s=self._server.limits.stream_s,
            **reauthorization(self._call),
        )
        if headers_only or not self._updates:
            await send_them(parts, start, receive, send)
            return
        sender, receiver = anyio.create_memory_object_stream[Part](0)
        with self._server.state_updates.follow(self._thread.thread_id) as states, sender, receiver:
            async with anyio.create_task_group() as group:
                group.start_soon(partial(pour, parts, sender, ends=True))
                group.start_soon(partial(pour, self._state_frames(states), sender, ends=True))
                await send_them(poured(receiver), start, receive, send)
                group.cancel_scope.cancel()

    async def _state_frames(self, states: AsyncIterator[Any]) -> AsyncGenerator[bytes]:
        async for state in states:
            if not await may_go_on(self._call, self._thread):
                return
            yield frame("state_update", {"thread_id": self._thread.thread_id, "state": state})

    async def _frames(self, *, headers_only: bool) -> AsyncGenerator[bytes]:
        if headers_only:
            return
        system = self._server.system
        coming = system.follow(self._thread.thread_id)
        try:
            missed, shown = await self._missed(), ShownRuns()
            if self._seen and not missed:
                yield frame("gap", {"from": None, "to": None})
                yield frame("values", {} if self._signals else to_plain(await self._values()))
            for run, after in missed if self._runs else ():
                shown.is_new(run)
                await ask_again(self._call, run)
                async with aclosing(self._of(run, after)) as parts:
                    async for part in parts:
                        yield part
                if self._has_left:
                    return
            async for run in coming:
                if not shown.is_new(run) or self._call.hides(run.graph):
                    continue
                if not await may_go_on(self._call, self._thread, run):
                    return
                if not self._runs:
                    continue
                async with aclosing(self._of(run, 0)) as parts:
                    async for part in parts:
                        yield part
                if self._has_left or system.statistics().draining is not None:
                    return
            yield frame("drain", to_plain({"reason": system.statistics().draining}))
        finally:
            coming.close()

    async def _missed(self) -> list[tuple[Run, int]]:
        """Return the run of the client's last event, if known, and the runs started since."""
        identifier, _, offset = self._seen.rpartition(".")
        system, thread_id = self._server.system, self._thread.thread_id
        try:
            run = await system.run(identifier)
        except RunNotFoundError:
            return []
        hides = self._call.hides
        if run.thread_id != thread_id or belongs_later(run) or hides(run.graph):
            return []
        # Those of later times come when this system takes them up.
        runs = [one for one in await system.runs(thread_id=thread_id) if not belongs_later(one)]
        begin = sum(one.id < run.id for one in runs)
        after = {run.id: offset_of(offset)}
        turns = in_turn(runs, begin)
        return [(one, after.get(one.id, 0)) for one in turns if not hides(one.graph)]

    async def _of(self, run: Run, after: int) -> AsyncGenerator[bytes]:
        limits, translator = self._server.limits, self._translator(run)
        parts = frames(
            run,
            run.events(
                after,
                buffer=limits.buffer,
                buffer_bytes=limits.buffer_bytes,
                when_full=limits.when_full,
            ),
            translator,
            after,
            prefix=f"{run.id}.",
            reauthorize=partial(ask_again, self._call, run),
        )
        async with aclosing(parts):
            async for part in parts:
                yield part
        self._has_left = translator.has_left  # its rest comes to those who connect again

    def _translator(self, run: Run) -> EventTranslator:
        if self._signals:
            return SignalTranslator()
        said = run.metadata.get(KEPT, {})
        return EventTranslator(
            said.get("stream_mode") if self._chunks else (),
            subgraphs=bool(said.get("subgraphs")),
            spans=spans_of(self._call, run),
        )

    async def _values(self) -> object:
        try:
            config = config_of(self._thread.thread_id, {})
            found = await with_graph(self._call, self._thread, lambda g: g.aget_state(config))
        except NotFound:
            return {}
        return found.values


async def may_go_on(call: ApiCall, thread: StoredThread, run: Run | None = None) -> bool:
    """Whether a stream's thread still exists.

    Args:
        run: the one that is to be sent, if it is one.
    Raises:
        AccessRevoked: the principal may not read the thread, or see the run's graph, any more.
    """
    if not await call.server.threads.is_still(thread):
        return False
    await ask_again(call, run)
    return True


ENDPOINTS = (
    Endpoint(
        "GET",
        "/threads/{thread_id}/stream",
        "threads.read",
        thread_stream,
        query=StreamQuery,
        summary="Stream all runs of a thread",
        streams=True,
    ),
)
