"""Routes about runs: start one, wait for it, stream it, join it, cancel it."""

from collections.abc import Sequence
from typing import Any, Literal, cast
from uuid import uuid4

from msgspec import Struct
from starlette.responses import Response

from actorgraph.api.runs import Run
from actorgraph.errors import RunNotFoundError
from actorgraph.values.commands import Command, Send
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web import answers, bodies
from actorgraph.web.endpoint import Call, Endpoint
from actorgraph.web.jsonable import dumps
from actorgraph.web.problems import NotFound, Unprocessable
from actorgraph.web.registry import Stored
from actorgraph.web.serving import assistant_id
from actorgraph.web.streams import EventStream
from actorgraph.web.threads import check, placed
from actorgraph.web.wire import graph_modes

_KEPT = "actorgraph.web"  # of a run's metadata: how it was asked for
_RESERVED = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")


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


class JoinQuery(Struct):
    """Which modes of a run to read, separated by commas; default all that it streams."""

    stream_mode: str | None = None
    cancel_on_disconnect: bool = False
    last_event_id: str | None = None


async def create(call: Call) -> Response:
    """Start a run in the background."""
    run = await _start(call, await _thread(call))
    return _located(call, run, Response(dumps(_shown(run)), media_type="application/json"))


async def wait(call: Call) -> Response:
    """Start a run, and answer with its output when it has ended."""
    run = await _start(call, await _thread(call))
    return await _outcome(call, run)


async def stream(call: Call) -> Response:
    """Start a run, and stream it."""
    body: bodies.RunBody = call.body
    run = await _start(call, await _thread(call))
    made = EventStream(
        run,
        call.request,
        on_disconnect=body.on_disconnect,
        stream_mode=_modes(body.stream_mode),
        subgraphs=body.stream_subgraphs,
        slots=call.serving.streams,
    )
    return _located(call, run, made)


async def batch(call: Call) -> list[answers.Run]:
    """Start several runs without threads of their own in the background."""
    started: list[answers.Run] = []
    for body in call.body:
        one = Call(call.serving, call.request, {}, call.principal, body, wanted=call.wanted)
        started.append(_shown(await _start(one, await _thread(one))))
    return started


async def listed(call: Call) -> list[answers.Run]:
    """The runs of a thread that the system knows, newest first."""
    query: ListQuery = call.query
    runs = await call.serving.system.runs(thread_id=call.thread_id)
    found = [_shown(run) for run in runs]
    found = [run for run in found if query.status in (None, run.status)]
    found.sort(key=lambda run: run.created_at, reverse=True)
    return found[query.offset : query.offset + query.limit]


async def read(call: Call) -> answers.Run:
    """One run."""
    return _shown(await _run(call))


async def join(call: Call) -> Response:
    """The output of a run, when it has ended."""
    return await _outcome(call, await _run(call))


async def join_stream(call: Call) -> Response:
    """The events of a run, from `Last-Event-ID` on."""
    query: JoinQuery = call.query
    run = await _run(call)
    asked = call.request.query_params.getlist("stream_mode")
    wanted = [mode for text in asked for mode in text.split(",") if mode]
    graph_modes(wanted)
    said = run.metadata.get(_KEPT, {})
    return EventStream(
        run,
        call.request,
        on_disconnect="cancel" if query.cancel_on_disconnect else "continue",
        stream_mode=wanted or said.get("stream_mode"),
        subgraphs=bool(said.get("subgraphs")),
        slots=call.serving.streams,
    )


async def cancel(call: Call) -> Response:
    """Stop a run; what it did is kept, or with `action=rollback` taken back."""
    query: CancelQuery = call.query
    run = await _run(call)
    back = query.action == "rollback"
    await run.cancel(wait=query.wait or back)
    if back:
        await call.serving.saver.adelete_for_runs([run.id])
    if query.wait:
        return await _outcome(call, run)
    return Response(b"null", media_type="application/json")


async def cancel_many(call: Call) -> None:
    """Stop several runs: of one thread by their ids, or all that wait or go on."""
    body: bodies.RunsCancel = call.body
    for run in await call.serving.system.runs(thread_id=body.thread_id, statuses=OPEN_STATUSES):
        if body.run_ids is not None and run.id not in body.run_ids:
            continue
        if body.status not in (None, "all") and run.status != body.status:
            continue
        thread = await call.serving.threads.get(run.thread_id)
        if thread is not None and await call.serving.access.allows(
            call.principal, "runs.cancel", thread
        ):
            await run.cancel(wait=False)


async def delete(call: Call) -> None:
    """Stop a run and remove its checkpoints."""
    run = await _run(call)
    await run.cancel()
    await call.serving.saver.adelete_for_runs([run.id])
    await call.serving.system.forget(run.id)


async def _thread(call: Call) -> Stored:
    """The thread that a run is for: that of the path, or one of its own."""
    body: bodies.RunBody = call.body
    name, _ = call.serving.graph_of(body.assistant_id)
    threads = call.serving.threads
    known = {"graph_id": name, "assistant_id": assistant_id(name)}
    if "thread_id" not in call.path:
        return await threads.make(str(uuid4()), {**known, **call.wanted})
    if call.thread is None:
        if body.if_not_exists == "reject":
            raise NotFound.thread(call.thread_id)
        check(call.thread_id)
        return await threads.make(call.thread_id, {**known, **call.wanted})
    if "graph_id" not in call.thread.metadata:
        return await threads.merge(call.thread, known)
    return call.thread


async def _start(call: Call, thread: Stored) -> Run:
    body: bodies.RunBody = call.body
    name, _ = call.serving.graph_of(body.assistant_id)
    alone = "thread_id" not in call.path
    modes = _modes(body.stream_mode)
    kept: dict[str, Any] = {"if_busy": body.multitask_strategy, "stream_mode": modes}
    kept["subgraphs"] = body.stream_subgraphs
    options: dict[str, Any] = {
        "if_busy": body.multitask_strategy,
        "durability": body.durability,
        "config": _config(body),
        "context": body.context,
        "metadata": {**(body.metadata or {}), _KEPT: kept},
        "stream_mode": graph_modes(modes),
        "subgraphs": body.stream_subgraphs,
        "resumable": body.stream_resumable,
        "interrupt_before": body.interrupt_before,
        "interrupt_after": body.interrupt_after,
        "strict_resume": body.strict_resume,
    }
    given = {key: value for key, value in options.items() if value is not None}
    run = await call.serving.system.start(name, thread.thread_id, _input(body), **given)
    if alone and body.on_completion == "delete":
        call.serving.removes(run, thread.thread_id)
    return run


def _input(body: bodies.RunBody) -> Any:
    command = body.command
    if command is None:
        return body.input
    if body.input is not None:
        raise Unprocessable("a run has an input or a command, not both")
    said: dict[str, Any] = {}
    if command.answers:
        said["resume"] = command.resume
    if command.update is not None:
        said["update"] = command.update
    if command.goto is not None:
        goto = command.goto if isinstance(command.goto, list) else [command.goto]
        said["goto"] = [g if isinstance(g, str) else Send(g.node, g.input) for g in goto]
    return Command(**said)


def _config(body: bodies.RunBody) -> dict[str, Any]:
    """The client's part of the config; where the run goes is the path's affair."""
    said = body.config or bodies.ConfigBody()
    place = {k: v for k, v in (said.configurable or {}).items() if k not in _RESERVED}
    place |= placed(body.checkpoint)
    if body.checkpoint_id is not None:
        place["checkpoint_id"] = body.checkpoint_id
    config: dict[str, Any] = {"configurable": place, "metadata": said.metadata, "tags": said.tags}
    if said.recursion_limit is not None:
        config["recursion_limit"] = said.recursion_limit
    return {key: value for key, value in config.items() if value}


def _modes(modes: str | Sequence[str]) -> list[str]:
    return [modes] if isinstance(modes, str) else list(modes)


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


async def _outcome(call: Call, run: Run) -> Response:
    """What a run has come to: its output, with its questions, or its error."""
    try:
        output = await run.result()
    except Exception as error:  # noqa: BLE001 - the client is told what the run raised
        failed = {"error": type(error).__name__, "message": str(error)}
        made = Response(dumps({"__error__": failed}), media_type="application/json")
    else:
        made = Response(dumps(output), media_type="application/json")
    return _located(call, run, made)


def _located(call: Call, run: Run, response: Response) -> Response:
    path = f"/threads/{run.thread_id}/runs/{run.id}"
    response.headers["Content-Location"] = path
    root = call.request.scope.get("root_path", "")
    kind = "stream" if isinstance(response, EventStream) else "join"
    response.headers["Location"] = f"{root}{path}/{kind}"
    return response


def _shown(run: Run) -> answers.Run:
    return answers.Run(
        run_id=run.id,
        thread_id=run.thread_id,
        assistant_id=assistant_id(run.graph),
        created_at=run.created_at.isoformat(),
        updated_at=run.created_at.isoformat(),
        status=cast("Any", _STATUS.get(run.status, run.status)),
        metadata={k: v for k, v in run.metadata.items() if k != _KEPT},
        kwargs={},
        multitask_strategy=run.metadata.get(_KEPT, {}).get("if_busy", "reject"),
    )


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
    Endpoint("GET", _R + "/join", "runs.read", join, Any, summary="Wait for a run"),
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
        summary="Cancel several runs",
    ),
)
