"""Routes for crons: runs at the times of a schedule."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from actorgraph.graph import CompiledStateGraph
from actorgraph.internals import Turns, beside, context_in, is_large
from actorgraph.web.endpoints.assistant_lookup import assistant_of
from actorgraph.web.endpoints.cron_runs import body_of_cron, next_run_date, run_of_tick
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.identity import name_of
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import Forbidden, NotFound, TooMany
from actorgraph.web.http.request_limits import check_merged
from actorgraph.web.jobs.background import bell_of
from actorgraph.web.jobs.cron_plan import check_timetable, time_of
from actorgraph.web.jobs.cron_registry import StoredCron
from actorgraph.web.registries.assistant_registry import StoredAssistant
from actorgraph.web.registries.stored_bodies import input_note, settings_note, shown_context
from actorgraph.web.registries.thread_registry import moment

_SETTINGS = (
    *("input", "command", "config", "context", "interrupt_before", "interrupt_after"),
    *("stream_mode", "stream_subgraphs", "stream_resumable", "multitask_strategy"),
    *("durability", "webhook"),
)
"""The fields of a cron's body that are fields of its runs' bodies."""


async def create(call: ApiCall) -> response_types.Cron:
    """Create a cron, of the path's thread or with a new thread for each run."""
    body: bodies.CronBody = call.body
    assistant = await assistant_of(call, body.assistant_id)
    check_timetable(body.schedule, body.timezone)
    time_of(body.end_time)
    now = moment()
    cron = StoredCron(
        cron_id=str(uuid4()),
        assistant_id=assistant.assistant_id,
        thread_id=None if call.thread is None else call.thread_id,
        schedule=body.schedule,
        timezone=body.timezone,
        end_time=body.end_time,
        enabled=body.enabled,
        metadata={**(body.metadata or {}), **call.wanted},
        wanted=call.wanted,
        payload=_payload(body),
        on_run_completed=body.on_run_completed,
        since=now,
        created_at=now,
        updated_at=now,
        user_id=name_of(call.principal),
    )
    cron.note = _note(_graph_of(call, assistant), cron.payload, body)
    await _check_runs(call, cron)
    async with call.server.crons.creating:
        await _check_number(call, cron.user_id)
        await call.server.crons.put(cron)
    bell_of(call.server.system).ring()
    return await _response(call, cron)


async def _check_number(call: ApiCall, user: str | None) -> None:
    """Refuse one cron too many.

    Raises:
        TooMany: the client has as many as it may have.
    """
    most = call.server.limits.crons_per_client
    if most is not None and await call.server.crons.count_of(user, most) >= most:
        text = f"Too many crons: a client may have {most}; delete one, or put several into one run"
        raise TooMany(text, limit="crons_per_client", headers={"Retry-After": "60"})


def _payload(body: bodies.CronBody | bodies.CronPatch) -> dict[str, Any]:
    given = {name: getattr(body, name, None) for name in _SETTINGS}
    said = {name: value for name, value in given.items() if value not in (None, UNSET)}
    return msgspec.to_builtins(said)


def _graph_of(call: ApiCall, assistant: StoredAssistant) -> CompiledStateGraph:
    return call.server.graphs[assistant.now.graph_id]


_NOTED = {
    "input": ("input", "command"),
    "context": ("context",),
    "configurable": ("config",),
}
"""Note -> the fields of a body that it is about."""


def _note(
    graph: CompiledStateGraph, payload: dict[str, Any], body: bodies.CronBody | bodies.CronPatch
) -> dict[str, Any]:
    """Make the notes of what a client has just written in a cron's payload."""
    notes = {**settings_note(graph, payload), "input": input_note(graph)}
    return {
        name: notes.get(name, {})
        for name, fields in _NOTED.items()
        if any(getattr(body, field, None) not in (None, UNSET) for field in fields)
    }


async def _check_runs(call: ApiCall, cron: StoredCron) -> None:
    """Refuse a cron whose runs would be refused.

    Raises:
        Unprocessable: its input or options are invalid, or its webhook isn't allowed.
    """
    assistant = await assistant_of(call, cron.assistant_id)
    graph = _graph_of(call, assistant)

    def checked() -> bodies.RunBody:
        _, options = run_of_tick(graph, assistant, cron)
        context_in(graph.plan, options.get("context"))
        return assistant.under(body_of_cron(cron))

    body = await beside(checked) if is_large(cron) else checked()
    if body.webhook is not None:
        call.server.webhooks.check(body.webhook, cron.user_id)


async def update(call: ApiCall) -> response_types.Cron:
    """Change a cron."""
    body: bodies.CronPatch = call.body
    known = await _cron(call, "crons.update")
    changes: dict[str, Any] = {
        name: value
        for name in ("schedule", "timezone", "on_run_completed", "enabled")
        if (value := getattr(body, name)) is not None
    }
    if body.end_time is not UNSET:
        changes["end_time"] = body.end_time
        time_of(body.end_time)
    given = _payload(body)
    payload = {**known.payload, **given}
    if body.input is not UNSET:
        payload["input"] = body.input
    said = {**known.metadata, **(body.metadata or {}), **call.wanted}
    wanted = await call.server.access.ask(call.principal, "crons.update", None, said)
    now = moment()
    made = replace(known, **changes, payload=payload, metadata={**said, **wanted}, updated_at=now)
    graph = _graph_of(call, await assistant_of(call, known.assistant_id))
    made.note = {**known.note, **_note(graph, payload, body)}
    check_merged(
        {"payload": made.payload, "metadata": made.metadata},
        {"payload": known.payload, "metadata": known.metadata},
        call.server.limits,
        f"cron {known.cron_id!r}",
    )
    check_timetable(made.schedule, made.timezone)
    if made.timetable != known.timetable:
        made.since = now
    if given or body.input is not UNSET:
        await _check_runs(call, made)
    await call.server.crons.put(made)
    bell_of(call.server.system).ring()
    return await _response(call, made)


async def delete(call: ApiCall) -> None:
    """Delete a cron; runs that it has started go on.

    One that can't be read has no metadata: a client that may delete crons of all metadata may
    remove it.
    """
    cron_id = call.path["cron_id"]
    if call.wanted or not await call.server.crons.is_unreadable(cron_id):
        await _cron(call, "crons.delete")
    await call.server.crons.remove(cron_id)


async def search(call: ApiCall) -> list[response_types.Cron]:
    """Find crons."""
    body: bodies.CronSearch = call.body
    found = await _found(call, body)
    down, end = body.sort_order == "desc", body.offset + body.limit
    if body.sort_by != "next_run_date":
        found.sort(key=lambda one: str(getattr(one, body.sort_by)), reverse=down)
        return await _responses(call, found[body.offset : end])
    shown = await _responses(call, found)
    shown.sort(key=lambda one: str(one.next_run_date), reverse=down)
    return shown[body.offset : end]


async def count(call: ApiCall) -> int:
    """Count the crons that a search would find."""
    return len(await _found(call, call.body))


async def _found(call: ApiCall, body: bodies.CronCount) -> list[StoredCron]:
    given = {"thread_id": body.thread_id, "enabled": body.enabled}
    wanted: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if body.assistant_id is not None:
        try:
            found = await assistant_of(call, body.assistant_id)
        except NotFound:
            return []
        wanted["assistant_id"] = found.assistant_id
    metadata = {**(body.metadata or {}), **call.wanted}
    return [
        cron
        for cron in await call.server.crons.all(**wanted)
        if contains(cron.metadata, metadata) and await _is_allowed(call, cron, "crons.read")
    ]


async def _is_allowed(call: ApiCall, cron: StoredCron, action: str) -> bool:
    try:
        wanted = await call.server.access.ask(call.principal, action, None, cron.metadata)
        await assistant_of(call, cron.assistant_id)
    except (Forbidden, NotFound):
        return False
    return contains(cron.metadata, wanted)


async def _cron(call: ApiCall, action: str) -> StoredCron:
    """Return the cron that the path names, for an action on it.

    Raises:
        NotFound: it doesn't exist, or the principal may not do this with it.
    """
    cron_id = call.path["cron_id"]
    known = await call.server.crons.get(cron_id)
    if known is None or not await _is_allowed(call, known, action):
        raise NotFound(f"cron {cron_id!r} not found")
    return known


async def _payload_shown(call: ApiCall, cron: StoredCron) -> dict[str, Any]:
    """Return a cron's payload, its context up to date."""
    if not cron.payload.get("context"):
        return cron.payload
    assistant = await assistant_of(call, cron.assistant_id)
    context = shown_context(_graph_of(call, assistant), cron.payload, cron.note)
    return {**cron.payload, "context": context}


async def _responses(call: ApiCall, crons: Sequence[StoredCron]) -> list[response_types.Cron]:
    """Return crons for clients; other requests are answered meanwhile."""
    shown: list[response_types.Cron] = []
    turns = Turns()
    for cron in crons:
        shown.append(await _response(call, cron))
        await turns.give()
    return shown


async def _response(call: ApiCall, cron: StoredCron) -> response_types.Cron:
    decision = await call.server.crons.decide(cron, datetime.now(UTC))
    return response_types.Cron(
        cron_id=cron.cron_id,
        assistant_id=cron.assistant_id,
        thread_id=cron.thread_id,
        on_run_completed=None if cron.thread_id else ("keep" if cron.keeps_threads else "delete"),
        end_time=cron.end_time,
        schedule=cron.schedule,
        timezone=cron.timezone,
        created_at=cron.created_at,
        updated_at=cron.updated_at,
        payload=await _payload_shown(call, cron),
        user_id=cron.user_id,
        next_run_date=next_run_date(decision),
        metadata=cron.metadata,
        enabled=cron.enabled,
    )


ENDPOINTS = (
    Endpoint(
        "POST",
        "/threads/{thread_id}/runs/crons",
        "crons.create",
        create,
        response_types.Cron,
        bodies.CronBody,
        summary="Create a cron of a thread",
    ),
    Endpoint(
        "POST",
        "/runs/crons",
        "crons.create",
        create,
        response_types.Cron,
        bodies.CronBody,
        summary="Create a cron whose runs get threads of their own",
    ),
    Endpoint(
        "POST",
        "/runs/crons/search",
        "crons.read",
        search,
        list[response_types.Cron],
        bodies.CronSearch,
        summary="Find crons",
    ),
    Endpoint(
        "POST",
        "/runs/crons/count",
        "crons.read",
        count,
        int,
        bodies.CronCount,
        summary="Count crons",
    ),
    Endpoint(
        "PATCH",
        "/runs/crons/{cron_id}",
        "crons.update",
        update,
        response_types.Cron,
        bodies.CronPatch,
        summary="Change a cron",
    ),
    Endpoint("DELETE", "/runs/crons/{cron_id}", "crons.delete", delete, summary="Delete a cron"),
)
