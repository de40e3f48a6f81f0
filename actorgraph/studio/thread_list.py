"""The page of all threads: filters, which stay in the address, and a preview of each."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from actorgraph.internals import PHASE_TEXT
from actorgraph.studio.page_calls import Handler, StudioCall
from actorgraph.studio.shown import age_of, ago
from actorgraph.studio.studio_reader import (
    NO_PREVIEW,
    THREADS_MAX,
    ListFilter,
    Preview,
    ThreadEntry,
    ThreadsPage,
    metadata_of,
)
from actorgraph.studio.thread_pages import address_of, title_of
from actorgraph.web.http.question_words import times_text

STATUSES = (("", "any"), *PHASE_TEXT.items())
"""Filters of the list, with their names; LangGraph's statuses are taken too."""
AGES = (("", "any"), ("3600", "an hour"), ("86400", "a day"), ("604800", "a week"))
"""Seconds without a change by which a list can be filtered."""
SETTLED = ("ended", "running")
"""Phases in which a thread waits for nothing."""
WAITING = ("waiting", "sleeping")
"""Phases in which a thread's open questions may do something by themselves."""


async def threads(call: StudioCall) -> Response:
    """List threads."""
    wanted = await call.may("studio.read")
    query = call.query
    given = {name: query.get(name, "") for name in ListFilter.__struct_fields__}
    asked, problem = ListFilter(**given), ""
    after = query.get("after", "")
    at = int(after) if after.isdecimal() and len(after) < 9 else 0
    try:
        metadata = metadata_of(asked.metadata)
    except ValueError as error:
        found, problem = ThreadsPage(()), str(error)
    else:
        allows = call.allows if call.access.authorize is not None else None
        found = await call.source.threads(asked, {**metadata, **wanted}, at, allows)
    previews = await call.source.previews(found.rows)
    now = datetime.now(UTC)
    given = {name: text for name, text in given.items() if text}
    rows = [_row(call, one, previews.get(one.thread_id, NO_PREVIEW), now) for one in found.rows]
    return call.page(
        "threads.html",
        title="Threads",
        filter=asked,
        is_filtered=bool(given),
        statuses=STATUSES,
        ages=AGES,
        graphs=sorted(call.source.graphs),
        rows=rows,
        range=range_text(at, len(rows), found.total, more=found.next is not None),
        looked_at=found.looked_at,
        previous=_page_at(given, max(0, at - THREADS_MAX)) if at else None,
        next=_page_at(given, at + THREADS_MAX) if found.next else None,
        problem=problem or call.problem,
    )


def range_text(at: int, count: int, total: int | None, *, more: bool) -> str:
    """Say which part of a list a page shows: "1-50 of 10,214", "51-100 of more"."""
    if not count:
        return "0 of 0" if not at else ""
    known = at + count if total is None and not more else total
    of = "more" if known is None else f"{known:,}"
    return f"{at + 1:,}-{at + count:,} of {of}"


def _page_at(given: dict[str, str], at: int) -> str:
    return f"?{urlencode({**given, **({'after': str(at)} if at else {})})}"


def _row(call: StudioCall, one: ThreadEntry, preview: Preview, now: datetime) -> dict[str, Any]:
    return {
        "thread_id": one.thread_id,
        "title": title_of(one),
        "address": address_of(call, one.thread_id),
        "graph": one.graph,
        "status": one.phase,
        "status_text": PHASE_TEXT[one.phase],
        "times": times_text(preview.times, now, age_of) if one.phase in WAITING else "",
        "steps": one.steps,
        "preview": preview.text,
        "waits": None if one.phase in SETTLED else ago(one.since or one.updated, now),
        "updated": ago(one.updated, now),
    }


PAGES: tuple[tuple[str, str, Handler], ...] = (("GET", "/threads", threads),)
