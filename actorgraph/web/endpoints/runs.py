"""Routes for runs: start, wait, stream, join, list and cancel."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import Response

from actorgraph.errors import RunNotFoundError
from actorgraph.internals import (
    DAMAGED,
    OPEN_STATUSES,
    UNREADABLE,
    StoredRun,
    Turns,
    beside,
    shielded,
)
from actorgraph.internals import log_event as event
from actorgraph.systems import ActorSystem, Run
from actorgraph.web.endpoints.authority import reauthorization
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.endpoints.run_kwargs import assistant_of_run, kwargs_of, spans_of
from actorgraph.web.endpoints.run_start import KEPT, check_run, modes_in, modes_of, start_run
from actorgraph.web.endpoints.thread_state import check_thread_id, config_of
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.event_responses import EventStream, ResultResponse
from actorgraph.web.http.event_translator import graph_modes
from actorgraph.web.http.large_values import LARGE_BYTES, encoded
from actorgraph.web.http.problems import NotFound, Unprocessable, public_reason

T = TypeVar("T")

LOOKS_BACK = 100
"""Newest checkpoints of a thread that are searched for the last one of a run."""

PAGE = 1_000
"""Parked runs that are read at once."""

# LangGraph's clients don't know these statuses.
_STATUS = {"cancelled": "interrupted", "parked": "error"}


class ListQuery(Struct):
    """Filter and page of a thread's runs."""

    limit: bodies.Page = 10
    offset: bodies.Offset = 0
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"] | None = (
        None
    )


class CancelQuery(Struct):
    """Whether to wait for the run's end, and whether to remove its checkpoints ("rollback")."""

    wait: bool = False
    action: Literal["interrupt", "rollback"] = "interrupt"


class CancelManyQuery(Struct):
    """Whether to remove the checkpoints of the cancelled runs ("rollback")."""

    action: Literal["interrupt", "rollback"] = "interrupt"


class WaitQuery(Struct):
    """Whether to cancel the run when the client disconnects."""

    cancel_on_disconnect: bool = False


class JoinQuery(Struct):
    """Stream modes to read, with commas or as a JSON list; default: all that the run streams.

    `last_event_id` is for clients that can't set the header, such as a new `EventSource` of a page.
    """

    stream_mode: str | None = None
    cancel_on_disconnect: bool = False
    last_event_id: str | None = None


async def create(call: ApiCall) -> Response:
    """Start a run in the background."""
    run = await start_run(call)
    return located(run, Response(await encoded(shown(call, run)), media_type="application/json"))


async def wait(call: ApiCall) -> Response:
    """Start a run, and respond with its output when it has ended."""
    body: bodies.RunBody = call.body
    run = await start_run(call)
    on_sent = call.server.temporary.reading(run)
    made = ResultResponse(
        run,
        on_disconnect=body.on_disconnect,
        on_sent=on_sent,
        **reauthorization(call, run),
    )
    return located(run, made)


async def stream(call: ApiCall) -> Response:
    """Start a run, and stream it."""
    body: bodies.RunBody = call.body
    limits, made = call.server.limits, list[EventStream]()

    def read(run: Run) -> None:
        # As soon as there is a run: it may not go on without its reader until the answer is sent.
        made.append(
            EventStream(
                run,
                call.request,
                on_disconnect=body.on_disconnect,
                stream_mode=modes_of(body.stream_mode),
                subgraphs=body.stream_subgraphs,
                buffer=limits.buffer,
                buffer_bytes=limits.buffer_bytes,
                when_full=limits.when_full,
                lasts_s=limits.stream_s,
                spans=spans_of(call, run),
                messages="pieces",
                **reauthorization(call, run),
            )
        )

    try:
        run = await start_run(call, read)
    except BaseException:
        for response in made:
            response.close()
        raise
    return located(run, made[0])


async def batch(call: ApiCall) -> list[response_types.Run]:
    """Start several runs without given threads in the background: all of them, or none."""
    hooks = sum(body.webhook is not None for body in call.body)
    turns = Turns()
    for body in call.body:
        await check_run(call, body, hooks)
        await turns.give()
    started: list[Run] = []
    try:
        for body in call.body:
            one = replace(call, path={}, body=body)
            started.append(await start_run(one))
            await turns.give()
    except BaseException:
        await shielded(lambda: _cancel_all(started))
        raise
    return await _shown_all(call, started)


async def _shown_all(
    call: ApiCall, runs: Sequence[Run], changed: Mapping[str, str] | None = None
) -> list[response_types.Run]:
    """Return runs for clients; other requests are answered meanwhile.

    Args:
        changed: run id -> time of its newest checkpoint.
    """
    times = changed or {}
    return await shown_each(runs, lambda run: shown(call, run, times.get(run.id, "")))


async def _cancel_all(started: Sequence[Run]) -> None:
    for run in started:
        await run.cancel("the rest of its batch could not be started", wait=False)


async def listed(call: ApiCall) -> list[response_types.Run]:
    """List the runs of a thread that the system knows, newest first."""
    query: ListQuery = call.query
    runs = await call.server.system.runs(thread_id=call.thread_id)
    found = [
        run for run in runs if query.status in (None, status_of(run)) and not call.hides(run.graph)
    ]
    found.sort(key=lambda run: run.created_at, reverse=True)
    page = found[query.offset : query.offset + query.limit]
    changed = await _changes(call, page)
    return await _shown_all(call, page, changed)


async def read(call: ApiCall) -> response_types.Run:
    """Return one run."""
    run = await run_of(call)
    return shown(call, run, (await _changes(call, [run])).get(run.id, ""))


async def join(call: ApiCall) -> Response:
    """Respond with the output of a run when it has ended."""
    query: WaitQuery = call.query
    run = await run_of(call)
    leaves = "cancel" if query.cancel_on_disconnect else "continue"
    on_sent = call.server.temporary.reading(run)
    more = reauthorization(call, run)
    return located(run, ResultResponse(run, on_disconnect=leaves, on_sent=on_sent, **more))


async def join_stream(call: ApiCall) -> Response:
    """The events of a run, from `Last-Event-ID` on."""
    query: JoinQuery = call.query
    run = await run_of(call)
    limits = call.server.limits
    asked = call.request.query_params.getlist("stream_mode")
    wanted = modes_in(asked)
    graph_modes(wanted)
    said = run.metadata.get(KEPT, {})
    made = EventStream(
        run,
        call.request,
        on_disconnect="cancel" if query.cancel_on_disconnect else "continue",
        stream_mode=wanted or said.get("stream_mode"),
        subgraphs=bool(said.get("subgraphs")),
        buffer=limits.buffer,
        buffer_bytes=limits.buffer_bytes,
        when_full=limits.when_full,
        lasts_s=limits.stream_s,
        last_event_id=query.last_event_id,
        spans=spans_of(call, run),
        messages="pieces",
        **reauthorization(call, run),
    )
    return located(run, made)


async def cancel(call: ApiCall) -> Response:
    """Cancel a run; its checkpoints are kept, or with `action=rollback` removed."""
    query: CancelQuery = call.query
    run = await run_of(call)
    await _stop(call, run, query.action, wait=query.wait)
    return located(run, Response(b"null", media_type="application/json"))


async def cancel_many(call: ApiCall) -> None:
    """Cancel several runs: those of one thread with these ids, or all with a status.

    Runs of threads that the principal may not cancel, or of hidden graphs, are skipped.
    """
    body: bodies.RunsCancel = call.body
    if body.status is None and (body.thread_id is None or body.run_ids is None):
        raise Unprocessable("either status, or thread_id and run_ids, is required")
    if body.thread_id is not None:
        check_thread_id(body.thread_id)
    for run in await call.server.system.runs(thread_id=body.thread_id, statuses=OPEN_STATUSES):
        if body.run_ids is not None and run.id not in body.run_ids:
            continue
        if body.status not in (None, "all") and run.status != body.status:
            continue
        if call.hides(run.graph):
            continue
        try:
            thread = await call.server.threads.get(run.thread_id)
            if thread is not None and await call.server.access.allows(
                call.principal, "runs.cancel", thread
            ):
                await _stop(call, run, call.query.action, wait=False)
        except DAMAGED as error:  # one damaged thread must not keep the other runs going
            event("warning", "row.damaged", run_id=run.id, error=str(error))


async def retry_many(call: ApiCall) -> Response:
    """Run parked runs again, where they were: all, or those of a thread, or with these ids.

    Runs of threads on which the principal may start none, or of hidden graphs, are skipped.
    """
    body: bodies.RunsRetry = call.body
    if body.thread_id is not None:
        check_thread_id(body.thread_id)
    allowed: list[str] = []
    for run in await _parked(call.server.system, body.thread_id):
        if body.run_ids is not None and run.id not in body.run_ids:
            continue
        if call.hides(run.graph):
            continue
        try:
            thread = await call.server.threads.get(run.thread_id)
            if thread is not None and await call.server.access.allows(
                call.principal, "runs.create", thread
            ):
                allowed.append(run.id)
        except DAMAGED as error:
            event("warning", "row.damaged", run_id=run.id, error=str(error))
    found = await call.server.system.retry_parked(allowed)
    shown_as = response_types.RetriedRuns(list(found.retried), found.left)
    return Response(await encoded(shown_as), media_type="application/json")


async def _parked(system: ActorSystem, thread_id: str | None) -> list[Run]:
    """Read the parked runs of a thread, or of all threads, a page at a time."""
    found: list[Run] = []
    cursor: str | None = None
    while True:
        page = await system.search_runs(
            ("parked",), thread_prefix=thread_id or "", limit=PAGE, cursor=cursor
        )
        found += [run for run in page.runs if thread_id in (None, run.thread_id)]
        cursor = page.cursor
        if cursor is None:
            return found


async def delete(call: ApiCall) -> None:
    """Cancel a run and remove its checkpoints."""
    run = await run_of(call)
    await _stop(call, run, "rollback", wait=True)
    await call.server.system.forget(run.id)


async def _stop(call: ApiCall, run: Run, action: str, *, wait: bool) -> None:
    """Cancel a run, in this process or another one."""
    rolls_back = action == "rollback"
    await run.cancel(wait=wait or rolls_back)
    if rolls_back:
        await call.server.saver.adelete_for_runs([run.id])


async def run_of(call: ApiCall) -> Run:
    """Return the run that the path names.

    Raises:
        NotFound: the system doesn't know it, it belongs to another thread, or its graph is hidden.
    """
    unknown = NotFound.run(call.path["run_id"])
    try:
        run = await call.server.system.run(call.path["run_id"])
    except RunNotFoundError:
        raise unknown from None
    if run.thread_id != call.thread_id or call.hides(run.graph):
        raise unknown
    return run


def located(run: Run, response: Response) -> Response:
    """Set the run's location in the headers, relative to the mount point, as clients expect."""
    path = f"/threads/{quote(run.thread_id, safe='')}/runs/{run.id}"
    response.headers["Content-Location"] = path
    kind = "stream" if isinstance(response, EventStream) else "join"
    response.headers["Location"] = f"{path}/{kind}"
    return response


def shown(call: ApiCall, run: Run, changed: str = "") -> response_types.Run:
    """Return a run for clients.

    Args:
        changed: time of its newest checkpoint, ISO 8601 UTC; "" if it isn't known.
    """
    return response_types.Run(
        run_id=run.id,
        thread_id=run.thread_id,
        assistant_id=assistant_of_run(run),
        created_at=run.created_at.isoformat(),
        updated_at=max(run.updated_at.isoformat(), changed),
        status=status_of(run),
        metadata={k: v for k, v in run.metadata.items() if k != KEPT},
        kwargs=kwargs_of(call, run),
        multitask_strategy=run.metadata.get(KEPT, {}).get("if_busy", "reject"),
        cancel_reason=public_reason(run.reason) if run.status == "cancelled" else None,
    )


def status_of(run: Run) -> Any:
    """Return a run's status as LangGraph's clients know it."""
    return _STATUS.get(run.status, run.status)


async def shown_each(runs: Sequence[Run], convert: Callable[[Run], T]) -> list[T]:
    """Convert runs for clients in turns with other requests.

    Those with large arguments are decoded in a worker thread.
    """
    found: list[T] = []
    turns = Turns()
    for run in runs:
        if len(run.row.payload) > LARGE_BYTES:
            found.append(await beside(partial(convert, run)))
        else:
            found.append(convert(run))
            await turns.give()
    return found


async def _changes(call: ApiCall, runs: Sequence[Run]) -> dict[str, str]:
    """Return run id -> time of its newest checkpoint, for runs of other processes.

    Their records don't change while they run, but their threads' checkpoints show the progress.
    """
    found: dict[str, str] = {}
    for run in (one for one in runs if isinstance(one, StoredRun) and one.status != "pending"):
        graph = call.graphs.get(run.graph)
        if graph is None or run.id in found:
            continue
        with suppress(*UNREADABLE, *DAMAGED):
            config = config_of(run.thread_id, {})
            async for one in graph.aget_state_history(config, limit=LOOKS_BACK):
                by = (one.metadata or {}).get("run_id", "")
                found.setdefault(by, one.created_at or "")
        found.setdefault(run.id, "")
    return found


_T = "/threads/{thread_id}/runs"
_R = _T + "/{run_id}"
_RUN = bodies.RunBody
ENDPOINTS = (
    Endpoint(
        "POST",
        _T,
        "runs.create",
        create,
        response_types.Run,
        _RUN,
        summary="Start a run",
        may_create=True,
        starts_run=True,
    ),
    Endpoint(
        "GET",
        _T,
        "runs.read",
        listed,
        list[response_types.Run],
        query=ListQuery,
        summary="List runs",
    ),
    Endpoint(
        "POST",
        _T + "/wait",
        "runs.create",
        wait,
        Any,
        _RUN,
        summary="Start a run and wait for it",
        may_create=True,
        starts_run=True,
        waits_for_run=True,
    ),
    Endpoint(
        "POST",
        _T + "/stream",
        "runs.create",
        stream,
        body=_RUN,
        summary="Start a run and stream it",
        may_create=True,
        starts_run=True,
        streams=True,
    ),
    Endpoint("GET", _R, "runs.read", read, response_types.Run, summary="Get a run"),
    Endpoint("DELETE", _R, "runs.delete", delete, summary="Delete a run"),
    Endpoint(
        "GET",
        _R + "/join",
        "runs.read",
        join,
        Any,
        query=WaitQuery,
        summary="Wait for a run",
        waits_for_run=True,
    ),
    Endpoint(
        "GET",
        _R + "/stream",
        "runs.read",
        join_stream,
        query=JoinQuery,
        summary="Stream a run",
        streams=True,
    ),
    Endpoint(
        "POST",
        _R + "/cancel",
        "runs.cancel",
        cancel,
        Any,
        query=CancelQuery,
        summary="Cancel a run",
    ),
    Endpoint(
        "POST",
        "/runs/batch",
        "runs.create",
        batch,
        list[response_types.Run],
        list[_RUN],
        summary="Start several runs",
    ),
    Endpoint(
        "POST",
        "/runs/cancel",
        "runs.cancel",
        cancel_many,
        body=bodies.RunsCancel,
        query=CancelManyQuery,
        summary="Cancel several runs",
    ),
    Endpoint(
        "POST",
        "/runs/retry",
        "runs.create",
        retry_many,
        response_types.RetriedRuns,
        bodies.RunsRetry,
        summary="Run parked runs again",
    ),
)
