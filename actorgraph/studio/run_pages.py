"""The page of all runs, and cancelling and retrying several of them."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from actorgraph.errors import ActorGraphError
from actorgraph.studio.page_calls import Handler, StudioCall
from actorgraph.studio.shown import moment, part
from actorgraph.studio.thread_actions import free_stuck, start_run
from actorgraph.web.http.problems import HttpProblem

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
    more = urlencode({**filters, "after": found.next or ""})
    return call.page(
        "runs.html",
        title="Runs",
        filter=asked,
        statuses=STATUSES,
        graphs=sorted(call.source.graphs),
        rows=[_row(call, one) for one in found.rows],
        summary=_summary(call),
        previous=f"{call.root}/runs" if query.get("after") else None,
        next=f"?{more}" if found.next else None,
    )


def _summary(call: StudioCall) -> str:
    if call.source.system is None:
        return "Runs of systems that have used this database."
    now = call.source.system.statistics()
    return f"{now.active} active, {now.queued} queued, {now.held} held by other systems"


def _row(call: StudioCall, run: Any) -> dict[str, Any]:
    waited = (run.updated_at or datetime.now(UTC)) - run.created_at
    return {
        "id": run.id,
        "thread_id": run.thread_id,
        "address": f"{call.root}/threads/{part(run.thread_id)}",
        "graph": run.graph,
        "status": run.status,
        "attempt": run.attempt,
        "created": moment(run.created_at),
        "updated": moment(run.updated_at),
        "seconds": waited.total_seconds(),
        "reason": run.reason,
    }


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
)
