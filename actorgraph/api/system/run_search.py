"""Searches for runs of all threads, a page at a time, and the systems that have them."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from actorgraph.api.system.run_handle import Run, StoredRun
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.rules.run_order import is_to_come
from actorgraph.values.ids import as_bytes, as_text
from actorgraph.values.systems import OwnerRow, RunRow, RunStatus, SearchRuns

STATUSES: tuple[RunStatus, ...] = (
    *("pending", "running", "success", "error", "interrupted", "cancelled", "timeout", "parked"),
)
LIMIT_MAX = 1000
_CLOCK_SLACK_US = 60_000_000
"""A run's id is made before its row, and maybe by another machine's clock."""
_LATER = "later-"
"""Begins the cursors of pages that have come to the runs of later times."""


class RunPage(msgspec.Struct, frozen=True):
    """A page of runs, newest first; runs of later times come last.

    Attributes:
        runs: the runs.
        cursor: pass it to the next search; None after the last page.
    """

    runs: list[Run]
    cursor: str | None = None


class SystemOwner(msgspec.Struct, frozen=True):
    """An ActorSystem over the same saver, of this process or another one.

    Attributes:
        id: of the system; another one each time that it is opened.
        is_this: whether it is the one that was asked.
        alive: whether its lease is valid.
        lease_s: seconds until its lease ends; negative since it ended; None if it gave it up.
        runs: open runs that it has.
        taken_over: those of them that another system had begun before.
    """

    id: str
    is_this: bool
    alive: bool
    lease_s: float | None
    runs: int
    taken_over: int


def belongs_later(run: Run) -> bool:
    """Whether a run's time is to come, and it waits for that or was ended before."""
    return isinstance(run, StoredRun) and is_to_come(run.row, run.access.now())


def cursor_behind(run: bytes, now: int) -> str:
    """Return the cursor of the page behind a run.

    Args:
        now: microseconds since 1970-01-01 UTC.
    """
    return f"{_LATER if run >= _boundary(now) else ''}{as_text(run)}"


def is_later(cursor: str | None) -> bool:
    """Whether the pages before a cursor have come to the runs of later times."""
    return cursor is not None and cursor.startswith(_LATER)


def queries_of(query: SearchRuns, now: int, *, later: bool) -> list[SearchRuns]:
    """Split a search: the runs up to now, then those of later times, which have ids to come.

    Else the first pages would have nothing but reminders.

    Args:
        now: microseconds since 1970-01-01 UTC.
        later: whether the pages before have come to the runs of later times.
    """
    boundary = _boundary(now)
    ahead = msgspec.structs.replace(query, floor=max(query.floor, boundary))
    if later:
        return [ahead]
    so_far = msgspec.structs.replace(query, before=min(query.before, boundary))
    return [so_far, msgspec.structs.replace(ahead, before=SearchRuns(1).before)]


def _boundary(now: int) -> bytes:
    """The lowest id of runs of later times; clocks may differ a little."""
    return ((now + _CLOCK_SLACK_US) // 1000).to_bytes(6)


def run_query(
    *,
    statuses: Sequence[RunStatus],
    graph: str | None,
    thread_prefix: str,
    since: datetime | None,
    limit: int,
    cursor: str | None,
) -> SearchRuns:
    """Check the arguments of a search, and make its query.

    Raises:
        InvalidConfigError: an argument is invalid.
    """
    for status in statuses:
        if status not in STATUSES:
            raise InvalidConfigError(
                f"unknown status {status!r}; expected some of {', '.join(STATUSES)}",
                do=did_you_mean(status, STATUSES),
            )
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidConfigError(
            f"limit must be between 1 and {LIMIT_MAX}, got {limit!r}",
            do="read further pages with cursor=page.cursor",
        )
    if since is not None and since.tzinfo is None:
        raise InvalidConfigError(
            f"since={since!r} has no time zone", do="pass e.g. datetime.now(UTC) - timedelta(1)"
        )
    microseconds = 0 if since is None else int(since.timestamp() * 1e6)
    query = SearchRuns(limit, tuple(statuses), graph, thread_prefix, microseconds)
    if since is not None:
        query = msgspec.structs.replace(query, floor=_floor(microseconds))
    if cursor is None:
        return query
    try:
        return msgspec.structs.replace(query, before=as_bytes(cursor.removeprefix(_LATER)))
    except ValueError:
        raise InvalidConfigError(
            f"{cursor!r} is not a cursor", do="pass the cursor of the page before, or none"
        ) from None


def _floor(microseconds: int) -> bytes:
    """The lowest id of runs that were accepted from then on: a UUIDv7 begins with its time."""
    milliseconds = max(0, (microseconds - _CLOCK_SLACK_US) // 1000)
    return milliseconds.to_bytes(6, "big")


def fits(row: RunRow, query: SearchRuns) -> bool:
    """Whether a run that is in memory alone is among those that a search asks for."""
    from actorgraph.savers.systems import is_searched

    return is_searched(row, query)


def system_owner(row: OwnerRow, this: bytes) -> SystemOwner:
    """Convert a stored row.

    Args:
        this: the id of the system that was asked.
    """
    return SystemOwner(
        id=as_text(row.owner),
        is_this=row.owner == this,
        alive=row.lease_s is not None and row.lease_s > 0,
        lease_s=row.lease_s,
        runs=row.runs,
        taken_over=row.adopted,
    )
