"""Routes about the whole system: runs of all threads, figures with their history, other systems."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from actorgraph.errors import InvalidConfigError
from actorgraph.internals import only_of
from actorgraph.systems import Run
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.endpoints.run_start import KEPT
from actorgraph.web.http import response_types
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import Unprocessable

PAGES_MAX = 20
"""Pages that are read for one request while few of their runs may be shown."""


class RunsQuery(Struct):
    """Filter and page of a search for runs of all threads; statuses are separated by commas."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: str | None = None
    status: str = ""
    graph_id: str | None = None
    thread_prefix: str = ""
    since: datetime | None = None


async def runs(call: ApiCall) -> response_types.RunPage:
    """List the runs of all threads that the client may read, newest first, later times last."""
    query: RunsQuery = call.query
    shown = ReadableRuns(call)
    found: list[Run] = []
    cursor = query.cursor
    for _ in range(PAGES_MAX):
        page = await _page(call, cursor, query.limit - len(found))
        found += [run for run in page.runs if await shown.may_read(run)]
        cursor = page.cursor
        if cursor is None or len(found) >= query.limit:
            break
    return response_types.RunPage([_row(run) for run in found], cursor)


async def _page(call: ApiCall, cursor: str | None, limit: int) -> Any:
    query: RunsQuery = call.query
    statuses: Any = [name for name in query.status.split(",") if name]
    try:
        return await call.server.system.search_runs(
            statuses,
            graph=query.graph_id,
            thread_prefix=query.thread_prefix,
            since=query.since,
            limit=limit,
            cursor=cursor,
        )
    except InvalidConfigError as error:
        raise Unprocessable(str(error)) from None


@dataclass
class ReadableRuns:
    """Decides which runs a client may read: by their graph and their thread's metadata.

    Attributes:
        known: thread id -> whether its runs may be read.
    """

    call: ApiCall
    known: dict[str, bool] = field(default_factory=dict[str, bool])

    async def may_read(self, run: Run) -> bool:
        """Whether the client may read a run."""
        if run.graph not in self.call.graphs:
            return False
        if run.thread_id not in self.known:
            thread = await self.call.server.threads.get(run.thread_id)
            may = False
            if thread is not None and contains(thread.metadata, self.call.wanted):
                access, principal = self.call.server.access, self.call.principal
                may = await access.allows(principal, "runs.read", thread)
            self.known[run.thread_id] = may
        return self.known[run.thread_id]


def _row(run: Run) -> response_types.RunRow:
    return response_types.RunRow(
        run_id=run.id,
        thread_id=run.thread_id,
        graph_id=run.graph,
        status=run.status,
        reason=run.reason,
        attempt=run.attempt,
        priority=run.priority,
        created_at=run.created_at.isoformat(),
        due_at=_iso(run.due_at),
        started_at=_iso(run.started_at),
        updated_at=run.updated_at.isoformat(),
        metadata={k: v for k, v in run.metadata.items() if k != KEPT},
    )


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


async def statistics(call: ApiCall) -> response_types.Statistics:
    """Return the system's figures now, samples of the last half hour, and the systems beside it.

    Those by graph are of the graphs that the client may see.
    """
    system = call.server.system
    now = system.statistics()
    shown = msgspec.structs.replace(now, graphs=only_of(now.graphs, call.graphs))
    return response_types.Statistics(
        now=msgspec.to_builtins(shown),
        history=msgspec.to_builtins(system.statistics_history()),
        owners=msgspec.to_builtins(await system.owners()),
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/runs",
        "runs.read",
        runs,
        response_types.RunPage,
        query=RunsQuery,
        summary="List the runs of all threads",
    ),
    Endpoint(
        "GET",
        "/statistics",
        "metrics.read",
        statistics,
        response_types.Statistics,
        summary="Get the system's figures and their recent history",
    ),
)
