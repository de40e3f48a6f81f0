"""The page of all runs, with cancelling and retrying several of them; and the page of one."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from actorgraph.errors import ActorGraphError, RunNotFoundError
from actorgraph.internals import OPEN_STATUSES
from actorgraph.studio.page_calls import Handler, StudioCall
from actorgraph.studio.shown import Shown, age_of, ago, part, preview, shown, whole
from actorgraph.studio.studio_reader import ThreadEntry
from actorgraph.studio.thread_actions import free_stuck, start_run
from actorgraph.studio.thread_list import range_text
from actorgraph.web.http.problems import HttpProblem, NotFound

STATUSES = (
    "",
    "pending",
    "running",
    "success",
    "error",
    "interrupted",
    "cancelled",
    "timeout",
    "parked",
)
RUNS_MAX = 50
"""Runs of one page."""
SELECTED_MAX = 1_000
"""Runs that one request acts on."""


class RunFilter(msgspec.Struct, frozen=True):
    """The runs to list; empty fields match all."""

    status: str = ""
    graph: str = ""
    prefix: str = ""


async def runs(call: StudioCall) -> Response:
    """List runs of all threads, newest first; runs of later times come last."""
    wanted = await call.may("studio.read")
    query = call.query
    asked = RunFilter(**{name: query.get(name, "") for name in RunFilter.__struct_fields__})
    allows = call.allows if call.access.authorize is not None else None
    found = await call.source.runs(asked, wanted, query.get("after"), RUNS_MAX, allows)
    filters = {k: v for k, v in msgspec.structs.asdict(asked).items() if v}
    at = int(query.get("at", "")) if query.get("at", "").isdecimal() else 0
    at = at if query.get("after") else 0
    more = urlencode({**filters, "after": found.next or "", "at": at + len(found.rows)})
    now = datetime.now(UTC)
    return call.page(
        "runs.html",
        title="Runs",
        filter=asked,
        statuses=STATUSES,
        graphs=sorted(call.source.graphs),
        is_filtered=bool(filters),
        rows=[_row(call, one, now) | {"preview": await _preview(one)} for one in found.rows],
        range=range_text(at, len(found.rows), None, more=found.next is not None),
        summary=_summary(call),
        previous=f"?{urlencode(filters)}" if query.get("after") else None,
        next=f"?{more}" if found.next else None,
    )


def _summary(call: StudioCall) -> str:
    if call.source.system is None:
        return "Runs of systems that have used this database."
    now = call.source.system.statistics()
    return f"{now.active} active, {now.queued} queued, {now.held} held by other systems"


async def _preview(run: Any) -> str:
    """Return a run's input in one line; "" for one that has none, or that can't be read."""
    try:
        given = await run.input()
    except ActorGraphError:
        return ""
    messages = given.get("messages") if isinstance(given, dict) else None
    if isinstance(messages, list) and messages:  # the last one, of a pair its text
        last = messages[-1]
        given = last[-1] if isinstance(last, list | tuple) and last else last
    return preview(given) if given else ""


def _row(call: StudioCall, run: Any, now: datetime) -> dict[str, Any]:
    is_open = run.status in OPEN_STATUSES
    return {
        "id": run.id,
        "run_address": f"{call.root}/runs/{part(run.id)}",
        "thread_id": run.thread_id,
        "address": f"{call.root}/threads/{part(run.thread_id)}",
        "graph": run.graph,
        "status": run.status,
        "is_open": is_open,
        "attempt": run.attempt,
        "created": ago(run.created_at, now),
        "updated": ago(run.updated_at, now),
        "waits": ago(run.updated_at, now) if is_open or run.status == "parked" else None,
        "reason": run.reason,
    }


async def run_page(call: StudioCall) -> Response:
    """Show one run: its state, times, input, and the steps of its thread that it made."""
    run, entry = await admitted_run(call, call.path("run_id"))
    now = datetime.now(UTC)
    given: Shown | None = None
    problem = ""
    try:
        given = shown(await run.input())
    except ActorGraphError as error:
        problem = str(error)
    steps = await call.source.steps_of_run(entry, run.id)
    begun = run.started_at or run.created_at
    ended = None if run.status in OPEN_STATUSES else run.updated_at
    lasted = ((ended or now) - begun).total_seconds()
    return call.page(
        "run.html",
        title=f"Run {run.id}",
        run=_row(call, run, now),
        due=ago(run.due_at, now),
        started=ago(run.started_at, now),
        lasted=age_of(lasted) if lasted >= 1 else "less than a second",
        priority=run.priority,
        given=given,
        input_problem=problem,
        metadata=whole(run.metadata),
        steps=[
            {
                "step": one.step,
                "address": f"{call.root}/threads/{part(run.thread_id)}?step={one.checkpoint_id}",
                "text": ", ".join(one.next) or "the end",
                "created": ago(one.created and one.created.iso, now),
            }
            for one in steps
        ],
    )


async def admitted_run(call: StudioCall, run_id: str) -> tuple[Any, ThreadEntry]:
    """Return a run and its thread, if the principal may read it.

    Raises:
        HttpProblem: it doesn't exist, or the principal may not.
    """
    system = call.source.system
    if system is None:
        raise NotFound(f"run {run_id!r} can't be shown: a database alone has no system to ask")
    try:
        run = await system.run(run_id)
    except RunNotFoundError:
        raise NotFound(f"run {run_id!r} not found") from None
    entry = await call.source.thread(run.thread_id)
    await call.may("studio.read", run.thread_id, entry.metadata if entry else {})
    if entry is None:
        raise NotFound.thread(run.thread_id)
    return run, entry


async def act(call: StudioCall) -> Response:
    """Cancel, or retry, the selected runs; those that can't be are counted."""
    system = call.must_write()
    what, failed, selected = call.form.get("do"), 0, call.many.get("run", [])[:SELECTED_MAX]
    if what not in ("cancel", "retry"):
        raise HttpProblem("runs can be cancelled or retried: do=cancel or do=retry")
    if not selected:
        return await runs(call.refused("no run was selected", "/runs"))
    for run_id in selected:
        try:
            run = await system.run(run_id)
            entry = await call.source.thread(run.thread_id)
            await call.may("studio.act", run.thread_id, entry.metadata if entry else {})
            if what == "cancel":
                await run.cancel("cancelled in the studio", wait=False)
            elif run.status == "parked":
                failed += len((await system.retry_parked([run.id])).left)
            else:
                if entry is not None:
                    await free_stuck(call, entry)
                await start_run(call, run.graph, run.thread_id, None)
        except (ActorGraphError, HttpProblem):
            failed += 1
    if failed:
        return await runs(call.refused(f"{failed} runs could not be changed", "/runs", 409))
    return call.back("/runs")


PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/runs", runs),
    ("POST", "/runs", act),
    ("GET", "/runs/{run_id}", run_page),
)
