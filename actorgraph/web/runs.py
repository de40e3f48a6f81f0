"""Routes about runs: start one, wait for it, stream it, join it, cancel it."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import Response

from actorgraph.api.runs import Run, StoredRun
from actorgraph.errors import RunNotFoundError
from actorgraph.errors.storage import DAMAGED, UNREADABLE
from actorgraph.loops import shielded
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web import answers, bodies
from actorgraph.web.endpoint import Call, Endpoint
from actorgraph.web.finding import assistant_id
from actorgraph.web.jsonable import dumps
from actorgraph.web.outcomes import Outcome
from actorgraph.web.problems import NotFound, Unprocessable
from actorgraph.web.standing import check, config_of
from actorgraph.web.starting import KEPT, begin, checked, modes_of
from actorgraph.web.streams import EventStream
from actorgraph.web.wire import graph_modes

LOOKS_BACK = 100
"""Checkpoints of a thread in which to look for what a run did last."""

# Statuses that LangGraph's clients don't know.
_STATUS = {"cancelled": "interrupted", "parked": "error"}


class ListQuery(Struct):
    """Which runs of a thread to list."""

    limit: bodies.Page = 10
    offset: bodies.Offset = 0
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"] | None = (
        None
    )


class CancelQuery(Struct):
    """How to cancel: whether to wait for its end, and whether to take its checkpoints back."""

    wait: bool = False
    action: Literal["interrupt", "rollback"] = "interrupt"


class CancelManyQuery(Struct):
    """Whether to take checkpoints of cancelled runs back."""

    action: Literal["interrupt", "rollback"] = "interrupt"


class WaitQuery(Struct):
    """Whether to stop the run when the client goes away."""

    cancel_on_disconnect: bool = False


class JoinQuery(Struct):
    """Which modes of a run to read, separated by commas; default all that it streams.

    `last_event_id` is for those who can't set the header, as a page's first `EventSource`.
    """

    stream_mode: str | None = None
    cancel_on_disconnect: bool = False
    last_event_id: str | None = None


async def create(call: Call) -> Response:
    """Start a run in the background."""
    run = await begin(call)
    return _located(run, Response(dumps(_shown(run)), media_type="application/json"))


async def wait(call: Call) -> Response:
    """Start a run, and answer with its output when it has ended."""
    body: bodies.RunBody = call.body
    run = await begin(call)
    return _located(run, Outcome(run, on_disconnect=body.on_disconnect))


async def stream(call: Call) -> Response:
    """Start a run, and stream it."""
    body: bodies.RunBody = call.body
    limits, run = call.serving.limits, await begin(call)
    made = EventStream(
        run,
        call.request,
        on_disconnect=body.on_disconnect,
        stream_mode=modes_of(body.stream_mode),
        subgraphs=body.stream_subgraphs,
        buffer=limits.buffer,
        when_full=limits.when_full,
        lasts_s=limits.stream_s,
    )
    return _located(run, made)


async def batch(call: Call) -> list[answers.Run]:
    """Start several runs without threads of their own in the background: all, or none."""
    for body in call.body:
        checked(call, body)
    started: list[Run] = []
    try:
        for body in call.body:
            one = replace(call, path={}, body=body)
            started.append(await begin(one))
    except BaseException:
        await shielded(lambda: _without_the_rest(started))
        raise
    return [_shown(run) for run in started]


async def _without_the_rest(started: Sequence[Run]) -> None:
    for run in started:
        await run.cancel("the rest of its batch could not be started", wait=False)


async def listed(call: Call) -> list[answers.Run]:
    """The runs of a thread that the system knows, newest first."""
    query: ListQuery = call.query
    runs = await call.serving.system.runs(thread_id=call.thread_id)
    found = [run for run in runs if query.status in (None, _status(run))]
    found.sort(key=lambda run: run.created_at, reverse=True)
    page = found[query.offset : query.offset + query.limit]
    changed = await _changes(call, page)
    return [_shown(run, changed.get(run.id, "")) for run in page]


async def read(call: Call) -> answers.Run:
    """One run."""
    run = await _run(call)
    return _shown(run, (await _changes(call, [run])).get(run.id, ""))


async def join(call: Call) -> Response:
    """The output of a run, when it has ended."""
    query: WaitQuery = call.query
    run = await _run(call)
    leaves = "cancel" if query.cancel_on_disconnect else "continue"
    return _located(run, Outcome(run, on_disconnect=leaves))


async def join_stream(call: Call) -> Response:
    """The events of a run, from `Last-Event-ID` on."""
    query: JoinQuery = call.query
    run = await _run(call)
    limits = call.serving.limits
    asked = call.request.query_params.getlist("stream_mode")
    wanted = [mode for text in asked for mode in text.split(",") if mode]
    graph_modes(wanted)
    said = run.metadata.get(KEPT, {})
    made = EventStream(
        run,
        call.request,
        on_disconnect="cancel" if query.cancel_on_disconnect else "continue",
        stream_mode=wanted or said.get("stream_mode"),
        subgraphs=bool(said.get("subgraphs")),
        buffer=limits.buffer,
        when_full=limits.when_full,
        lasts_s=limits.stream_s,
        last_event_id=query.last_event_id,
    )
    return _located(run, made)


async def cancel(call: Call) -> Response:
    """Stop a run; what it did is kept, or with `action=rollback` taken back."""
    query: CancelQuery = call.query
    run = await _run(call)
    await _stop(call, run, query.action, wait=query.wait)
    return _located(run, Response(b"null", media_type="application/json"))


async def cancel_many(call: Call) -> None:
    """Stop several runs: of one thread by their ids, or all that wait or go on."""
    body: bodies.RunsCancel = call.body
    if body.status is None and (body.thread_id is None or body.run_ids is None):
        raise Unprocessable("say which runs: a status, or a thread_id with run_ids")
    if body.thread_id is not None:
        check(body.thread_id)
    for run in await call.serving.system.runs(thread_id=body.thread_id, statuses=OPEN_STATUSES):
        if body.run_ids is not None and run.id not in body.run_ids:
            continue
        if body.status not in (None, "all") and run.status != body.status:
            continue
        thread = await call.serving.threads.get(run.thread_id)
        if thread is not None and await call.serving.access.allows(
            call.principal, "runs.cancel", thread
        ):
            await _stop(call, run, call.query.action, wait=False)


async def delete(call: Call) -> None:
    """Stop a run and remove its checkpoints."""
    run = await _run(call)
    await _stop(call, run, "rollback", wait=True)
    await call.serving.system.forget(run.id)


async def _stop(call: Call, run: Run, action: str, *, wait: bool) -> None:
    """Stop a run, wherever it goes on."""
    back = action == "rollback"
    await run.cancel(wait=wait or back)
    if back:
        await call.serving.saver.adelete_for_runs([run.id])


async def _run(call: Call) -> Run:
    """The run of the path.

    Raises:
        NotFound: the system doesn't know it, or it is another thread's.
    """
    unknown = NotFound(f"run {call.path['run_id']!r} not found")
    try:
        run = await call.serving.system.run(call.path["run_id"])
    except RunNotFoundError:
        raise unknown from None
    if run.thread_id != call.thread_id:
        raise unknown
    return run


def _located(run: Run, response: Response) -> Response:
    """Say where the run is, seen from where these routes are mounted, as clients expect."""
    path = f"/threads/{quote(run.thread_id, safe='')}/runs/{run.id}"
    response.headers["Content-Location"] = path
    kind = "stream" if isinstance(response, EventStream) else "join"
    response.headers["Location"] = f"{path}/{kind}"
    return response


def _shown(run: Run, changed: str = "") -> answers.Run:
    return answers.Run(
        run_id=run.id,
        thread_id=run.thread_id,
        assistant_id=assistant_id(run.graph),
        created_at=run.created_at.isoformat(),
        updated_at=max(run.updated_at.isoformat(), changed),
        status=_status(run),
        metadata={k: v for k, v in run.metadata.items() if k != KEPT},
        kwargs={},
        multitask_strategy=run.metadata.get(KEPT, {}).get("if_busy", "reject"),
    )


def _status(run: Run) -> Any:
    return _STATUS.get(run.status, run.status)


async def _changes(call: Call, runs: Sequence[Run]) -> dict[str, str]:
    """When runs that another process has had did something last, as far as their thread tells."""
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
        "POST", _T, "runs.create", create, answers.Run, _RUN, summary="Start a run", makes=True
    ),
    Endpoint(
        "GET", _T, "runs.read", listed, list[answers.Run], query=ListQuery, summary="List runs"
    ),
    Endpoint(
        "POST",
        _T + "/wait",
        "runs.create",
        wait,
        Any,
        _RUN,
        summary="Start a run and wait for it",
        makes=True,
        waits=True,
    ),
    Endpoint(
        "POST",
        _T + "/stream",
        "runs.create",
        stream,
        body=_RUN,
        summary="Start a run and stream it",
        makes=True,
        streams=True,
    ),
    Endpoint("GET", _R, "runs.read", read, answers.Run, summary="Get a run"),
    Endpoint("DELETE", _R, "runs.delete", delete, summary="Delete a run"),
    Endpoint(
        "GET",
        _R + "/join",
        "runs.read",
        join,
        Any,
        query=WaitQuery,
        summary="Wait for a run",
        waits=True,
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
        "/runs",
        "runs.create",
        create,
        answers.Run,
        _RUN,
        summary="Start a run without a thread",
    ),
    Endpoint(
        "POST",
        "/runs/wait",
        "runs.create",
        wait,
        Any,
        _RUN,
        summary="Start a run without a thread and wait for it",
        waits=True,
    ),
    Endpoint(
        "POST",
        "/runs/stream",
        "runs.create",
        stream,
        body=_RUN,
        summary="Start a run without a thread and stream it",
        streams=True,
    ),
    Endpoint(
        "POST",
        "/runs/batch",
        "runs.create",
        batch,
        list[answers.Run],
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
)
