"""Routes for runs without a thread in the path: LangGraph's, and those of the Agent Protocol.

Both have `POST /runs`, `/runs/wait` and `/runs/stream`. A body with `assistant_id` is LangGraph's
and is answered as by its server; any other one is the Agent Protocol's.
"""

from functools import partial
from typing import Any, cast

from msgspec.structs import asdict, fields, replace
from starlette.responses import Response

from actorgraph.errors import RunNotFoundError
from actorgraph.internals import DAMAGED, OPEN_STATUSES, RunStatus, Turns, belongs_later
from actorgraph.internals import log_event as event
from actorgraph.systems import Run, RunPage
from actorgraph.web.agent_protocol.agent_routes import MESSAGES, takes_messages
from actorgraph.web.endpoints import runs
from actorgraph.web.endpoints.assistant_lookup import assistant_of
from actorgraph.web.endpoints.authority import reauthorization
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.endpoints.run_kwargs import assistant_of_run
from actorgraph.web.endpoints.run_start import start_run
from actorgraph.web.endpoints.system_figures import ReadableRuns
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.event_responses import ResultResponse
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.large_values import encoded
from actorgraph.web.http.problems import Conflict, NotFound, Unprocessable
from actorgraph.web.registries.assistant_registry import StoredAssistant

_ROLES = {"human": "user", "ai": "assistant"}
"""Type of a message -> its role in the Agent Protocol; other types are roles too."""
_STATUSES: dict[str, tuple[RunStatus, ...]] = {
    "pending": ("pending", "running"),
    "error": ("error", "parked"),
    "interrupted": ("interrupted", "cancelled"),
}
"""Status of the Agent Protocol -> those that it covers; others have the same name."""
_PAGE_MIN, _PAGE_MAX = 100, 1000
"""Runs that are read at once where those of all threads are searched."""


async def create(call: ApiCall) -> Response:
    """Start a run in the background."""
    if _is_langgraph(call):
        return await runs.create(_for_langgraph(call))
    inner = await _for_agent(call)
    run = await start_run(inner)
    content = await encoded(agent_run(inner, run))
    return runs.located(run, Response(content, media_type="application/json"))


async def wait(call: ApiCall) -> Response:
    """Start a run, and respond with its output when it has ended."""
    if _is_langgraph(call):
        return await runs.wait(_for_langgraph(call))
    inner = await _for_agent(call)
    run = await start_run(inner)
    return _output(inner, run, inner.body.on_disconnect)


async def stream(call: ApiCall) -> Response:
    """Start a run, and stream it."""
    inner = _for_langgraph(call) if _is_langgraph(call) else await _for_agent(call)
    return await runs.stream(inner)


async def search(call: ApiCall) -> list[response_types.AgentRun]:
    """List runs of all threads that the principal may read, newest first, later times last."""
    body: bodies.RunSearch = call.body
    agent = None if body.agent_id is None else await assistant_of(call, body.agent_id)
    shown = ReadableRuns(call)
    found: list[Run] = []
    most = body.offset + body.limit
    cursor: str | None = None
    turns = Turns()
    while len(found) < most:
        page = await _page(call, agent, cursor)
        for run in page.runs:
            await turns.give()
            if len(found) < most and _fits(body, agent, run) and await shown.may_read(run):
                found.append(run)
        cursor = page.cursor
        if cursor is None:
            break
    whole = await _whole(call, found[body.offset :])
    return await runs.shown_each(whole, lambda run: agent_run(call, run))


async def _page(call: ApiCall, agent: StoredAssistant | None, cursor: str | None) -> RunPage:
    """Return a page of the runs that a search may find, newest first, later times last."""
    body: bodies.RunSearch = call.body
    system = call.server.system
    if body.thread_id is not None:
        newest_first = (await system.runs(thread_id=body.thread_id))[::-1]
        return RunPage(sorted(newest_first, key=belongs_later))  # those of later times come last
    statuses = () if body.status is None else _STATUSES.get(body.status, (body.status,))
    graph = None if agent is None else _graph_of(agent)
    most = min(max(body.offset + body.limit, _PAGE_MIN), _PAGE_MAX)
    return await system.search_runs(statuses, graph=graph, limit=most, cursor=cursor)


def _graph_of(agent: StoredAssistant) -> str | None:
    """Return the graph of all of an agent's runs; None if its versions have several."""
    names = {one.graph_id for one in agent.versions}
    return names.pop() if len(names) == 1 else None


def _fits(body: bodies.RunSearch, agent: StoredAssistant | None, run: Run) -> bool:
    return (
        (agent is None or assistant_of_run(run) == agent.assistant_id)
        and body.status in (None, _status(run))
        and contains(run.metadata, body.metadata or {})
    )


async def _whole(call: ApiCall, found: list[Run]) -> list[Run]:
    """Return runs with what they were started with, which rows of `search_runs` don't have."""
    whole: list[Run] = []
    turns = Turns()
    for run in found:
        await turns.give()
        try:
            whole.append(run if run.row.payload else await call.server.system.run(run.id))
        except RunNotFoundError:  # it was removed meanwhile
            continue
        except DAMAGED as error:  # one damaged run must not fail a whole list
            event("error", "web.unreadable_run", run_id=run.id, error=str(error))
            whole.append(run)
    return whole


async def read(call: ApiCall) -> response_types.AgentRun:
    """Return one run."""
    return agent_run(call, await runs.run_of(call))


async def join(call: ApiCall) -> Response:
    """Respond with the output of a run when it has ended."""
    query: runs.WaitQuery = call.query
    run = await runs.run_of(call)
    return _output(call, run, "cancel" if query.cancel_on_disconnect else "continue")


async def cancel(call: ApiCall) -> None:
    """Cancel a run; its checkpoints are kept, or with `action=rollback` removed."""
    await runs.cancel(call)


async def delete(call: ApiCall) -> None:
    """Remove a run that has ended, with its checkpoints."""
    run = await runs.run_of(call)
    if run.status in OPEN_STATUSES:
        raise Conflict(f"run {run.id!r} has not ended: cancel it first")
    await runs.delete(call)


def agent_run(call: ApiCall, run: Run) -> response_types.AgentRun:
    """Return a run in the form of the Agent Protocol, which has no status "running"."""
    known = asdict(runs.shown(call, run))
    known["status"] = _status(run)
    return response_types.AgentRun(
        **known,
        agent_id=known["assistant_id"],
        input=known["kwargs"].get("input"),
        config=known["kwargs"].get("config") or {},
    )


def _status(run: Run) -> Any:
    status = runs.status_of(run)
    return "pending" if status == "running" else status


def _output(call: ApiCall, run: Run, on_disconnect: Any) -> Response:
    shape = partial(_ended, call, run)
    on_sent = call.server.temporary.reading(run)
    response = ResultResponse(
        run,
        on_disconnect=on_disconnect,
        shape=shape,
        on_sent=on_sent,
        **reauthorization(call, run),
    )
    return runs.located(run, response)


def _ended(call: ApiCall, run: Run, output: Any) -> response_types.RunOutput:
    """Return the output of a run that has ended in the form of the Agent Protocol."""
    plain = to_plain(output)
    values: dict[str, Any] = plain if isinstance(plain, dict) else {"output": plain}
    made = response_types.RunOutput(agent_run(call, run), values)
    if "__error__" in values:
        made.error, made.values = values["__error__"], {}
    said = values.get(MESSAGES)
    if isinstance(said, list):
        made.messages = [_message(one) for one in cast("list[Any]", said) if isinstance(one, dict)]
    return made


def _message(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a message with the role that the Agent Protocol requires."""
    kind = str(plain.get("type", "user")).removesuffix("MessageChunk").lower()
    content: Any = plain.get("content")
    whole = content if isinstance(content, str | list) else str(content)
    known = {key: value for key, value in plain.items() if value is not None}
    return {"role": _ROLES.get(kind, kind), **known, "content": whole}


def _is_langgraph(call: ApiCall) -> bool:
    return call.body.assistant_id is not None


def _for_langgraph(call: ApiCall) -> ApiCall:
    return replace(call, body=_run_body(call.body, call.body.assistant_id, "continue"))


async def _for_agent(call: ApiCall) -> ApiCall:
    """Return the call with its body as a request of LangGraph's.

    Raises:
        NotFound: the agent is unknown.
        Unprocessable: the agent is not named and there are several, or it takes no messages.
    """
    body: bodies.FlatRunBody = call.body
    if body.agent_id is None and len(call.graphs) != 1:
        raise Unprocessable(f"agent_id is required: there are {len(call.graphs)} agents")
    agent = body.agent_id or next(iter(call.graphs))
    assistant = await assistant_of(call, agent)
    made = _run_body(body, agent, "cancel")
    if body.messages is not None:
        if not takes_messages(call.graphs[assistant.now.graph_id]):
            raise Unprocessable(f"agent {agent!r} takes no messages; send input instead")
        if not isinstance(body.input, dict | None):
            raise Unprocessable("messages need an input that is an object, or none")
        made.input = {**(body.input or {}), MESSAGES: body.messages}
    return replace(call, body=made)


def _run_body(body: bodies.FlatRunBody, assistant: Any, leaves: Any) -> bodies.RunBody:
    common = {one.name: getattr(body, one.name) for one in fields(bodies.RunFields)}
    on_disconnect = body.on_disconnect or leaves
    return bodies.RunBody(assistant_id=assistant, on_disconnect=on_disconnect, **common)


async def _thread_of_body(call: ApiCall) -> str | None:
    """Return the thread of the Agent Protocol's body; LangGraph's names none."""
    body: bodies.FlatRunBody = call.body
    return body.thread_id if body.assistant_id is None else None


async def _thread_of_run(call: ApiCall) -> str:
    """Return the thread of the run that the path names.

    Raises:
        NotFound: the run is unknown.
    """
    try:
        return (await call.server.system.run(call.path["run_id"])).thread_id
    except RunNotFoundError:
        raise NotFound.run(call.path["run_id"]) from None


_R = "/runs/{run_id}"
_BODY = bodies.FlatRunBody
ENDPOINTS = (
    Endpoint(
        "POST",
        "/runs",
        "runs.create",
        create,
        response_types.AgentRun,
        _BODY,
        summary="Start a run without a thread",
        may_create=True,
        starts_run=True,
        thread_of=_thread_of_body,
    ),
    Endpoint(
        "POST",
        "/runs/wait",
        "runs.create",
        wait,
        Any,
        _BODY,
        summary="Start a run without a thread and wait for it",
        may_create=True,
        starts_run=True,
        waits_for_run=True,
        thread_of=_thread_of_body,
    ),
    Endpoint(
        "POST",
        "/runs/stream",
        "runs.create",
        stream,
        body=_BODY,
        summary="Start a run without a thread and stream it",
        may_create=True,
        starts_run=True,
        streams=True,
        thread_of=_thread_of_body,
    ),
    Endpoint(
        "POST",
        "/runs/search",
        "runs.read",
        search,
        list[response_types.AgentRun],
        bodies.RunSearch,
        summary="Find runs of all threads",
    ),
    Endpoint(
        "GET",
        _R,
        "runs.read",
        read,
        response_types.AgentRun,
        summary="Get a run by its id alone",
        thread_of=_thread_of_run,
    ),
    Endpoint(
        "DELETE",
        _R,
        "runs.delete",
        delete,
        summary="Delete a run that has ended",
        thread_of=_thread_of_run,
    ),
    Endpoint(
        "GET",
        _R + "/wait",
        "runs.read",
        join,
        response_types.RunOutput,
        query=runs.WaitQuery,
        summary="Wait for a run by its id alone",
        waits_for_run=True,
        thread_of=_thread_of_run,
    ),
    Endpoint(
        "GET",
        _R + "/stream",
        "runs.read",
        runs.join_stream,
        query=runs.JoinQuery,
        summary="Stream a run by its id alone",
        streams=True,
        thread_of=_thread_of_run,
    ),
    Endpoint(
        "POST",
        _R + "/cancel",
        "runs.cancel",
        cancel,
        query=runs.CancelQuery,
        summary="Cancel a run by its id alone",
        thread_of=_thread_of_run,
    ),
)
