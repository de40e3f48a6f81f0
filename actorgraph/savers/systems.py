"""Decide about the requests of ActorSystems, as functions over data: the same for every saver."""

from collections.abc import Iterable
from typing import Literal

from actorgraph.errors import LeaseLostError, ThreadBusyError
from actorgraph.rules.run_order import is_ahead, waits_for_time
from actorgraph.values.commits import Commit
from actorgraph.values.ids import as_text
from actorgraph.values.systems import (
    COMMON_STATUSES,
    OPEN_STATUSES,
    AdoptRun,
    CountWaiting,
    ListWaiting,
    OpenRun,
    PutRun,
    RunRow,
    SearchRuns,
    SetRun,
    StoreEvents,
)

_DEATH = 1 << 32
"""Each counted death takes this off a run's stored number of attempts."""
_STATUS = {"drained": "pending", "escaped": "error"}


def status_after(ends: str) -> str:
    """The status of a run after its last save; a drained run is pending again.

    Args:
        ends: the commit's `ends`.
    """
    return _STATUS.get(ends, ends)


def stored_attempts(attempts: int, deaths: int) -> int:
    """The number for the column `attempts` of a database: a run's attempts and counted deaths.

    A column of its own would lock out older versions of this library, whose rows have no deaths.
    They go on with such a run as with any other, and never park it.
    """
    return attempts - deaths * _DEATH


def read_attempts(stored: int) -> tuple[int, int]:
    """Undo `stored_attempts`: attempts and deaths."""
    return stored % _DEATH, -(stored // _DEATH)


def status_adopted(row: RunRow, request: AdoptRun) -> str:
    """The status of a run that another system has taken over: its own one has not begun it yet."""
    begun_there = row.status == "running" and row.owner != request.owner
    return "pending" if begun_there else row.status


def is_orphan(row: RunRow) -> bool:
    """Whether a run is open and no live system owns it."""
    return row.status in OPEN_STATUSES and not row.alive


def is_searched(row: RunRow, query: SearchRuns) -> bool:
    """Whether a run is among those that a search asks for; the limit is the caller's."""
    return (
        query.floor <= row.run < query.before
        and row.created >= query.since
        and (not query.statuses or row.status in query.statuses)
        and query.graph in (None, row.graph)
        and row.thread_id.startswith(query.prefix)
    )


def searched_part(query: SearchRuns) -> Literal["open", "rare", "all"]:
    """Choose the index for a search: that of open runs, of rare statuses, or of all runs."""
    if not query.statuses:
        return "all"
    if all(status in OPEN_STATUSES for status in query.statuses):
        return "open"
    return "all" if any(s in COMMON_STATUSES for s in query.statuses) else "rare"


def may_begin_at(row: RunRow) -> int:
    """When a run was accepted, or from when it may begin if that is later: its age counts from it.

    Returns: microseconds since 1970-01-01 UTC.
    """
    return max(row.created, row.due)


def is_offered(row: RunRow, query: ListWaiting) -> bool:
    """Whether an open run is due, and of the graphs and builds that a worker runs."""
    fits = row.graph in query.graphs and row.build in ("", *query.builds)
    return fits and row.due <= query.now and (row.owner is not None or not query.owned)


def is_counted(row: RunRow, query: CountWaiting) -> bool:
    """Whether an open run is due, of the counted builds, and no system has had it."""
    return row.owner is None and row.due <= query.now and row.build in ("", *query.builds)


def is_asked(row: RunRow, owner: bytes) -> bool:
    """Whether `owner` has been asked to cancel this open run of its own."""
    return row.owner == owner and row.cancel is not None and row.status in OPEN_STATUSES


def refusal(
    request: AdoptRun | SetRun | StoreEvents, owner: bytes | None, *, known: bool
) -> LeaseLostError | None:
    """Refuse a request about a run that is not the requester's any more.

    Args:
        owner: the run's owner now.
        known: whether the run is stored.
    Returns: the error; None if the request is accepted.
    """
    expected = request.was if isinstance(request, AdoptRun) else request.owner
    if known and owner == expected:
        return None
    cause = "has been taken over by another system" if known else "has been removed"
    return _lost(request.thread_id, cause)


def refused_claim(
    commit: Commit, owner: bytes | None, *, known: bool, others: Iterable[OpenRun]
) -> LeaseLostError | ThreadBusyError | None:
    """Refuse the claim of a system's run if the run was taken over, or if it is not its turn.

    Comparing heads is not enough: a system that reads the thread after another one has taken the
    run over and ended it has the current head.

    Args:
        owner, known: as for `refusal`.
        others: the open runs of the thread.
    Returns: the error; None if the claim is accepted.
    """
    if commit.claim is None or commit.owner is None or commit.run is None:
        return None
    if known and owner != commit.owner:
        return _lost(commit.thread_id, "has been taken over by another system")
    if not known:
        return _lost(commit.thread_id, "has been removed")
    others = tuple(others)
    begun = any(o.claimed for o in others if o.run == commit.run)
    ahead = next((o for o in others if is_ahead(commit.run, commit.owner, o, begun=begun)), None)
    return None if ahead is None else _busy(commit.thread_id, ahead)


def refused_row(put: PutRun, others: Iterable[OpenRun], now: int) -> ThreadBusyError | None:
    """Refuse a new run with `if_busy="reject"` if another system has an open run of the thread.

    A run that is put for any worker has no owner: each open run of the thread is another's. Runs
    whose time has not come don't hold their thread.

    Args:
        others: the open runs of the thread.
        now: microseconds since 1970-01-01 UTC.
    Returns: the error; None if the run is accepted.
    """
    if put.if_busy != "reject":
        return None
    own = put.row.owner
    starts = put.row.due <= now
    busy = next(
        (
            other
            for other in others
            if (own is None or other.owner != own)
            # Delayed runs that an earlier version stored have the ids of now: they are ahead.
            and (not waits_for_time(other, now) or (starts and other.run < put.row.run))
        ),
        None,
    )
    return None if busy is None else _busy(put.thread_id, busy)


def is_leased(owner: bytes | None, others: Iterable[OpenRun]) -> bool:
    """Whether `owner` is alive and has an open run that has claimed the thread.

    The open runs say so and not the thread's own row: a run that failed may not have been able to
    give the lease back with its last save.

    Args:
        others: the open runs of the thread.
    """
    return any(other.owner == owner and other.alive and other.claimed for other in others)


def _busy(thread_id: str, other: OpenRun) -> ThreadBusyError:
    run = as_text(other.run)
    state = "is going on in another process" if other.alive else "was left by a dead process"
    how = "wait for it" if other.alive else "call system.recover(), which takes it up"
    return ThreadBusyError(
        f"thread {thread_id!r} has run {run}, which {state}; nothing was stored",
        do=f'{how}, or start with if_busy="enqueue", "interrupt" or "rollback"',
        thread_id=thread_id,
        run_id=run,
    )


def _lost(thread_id: str, cause: str) -> LeaseLostError:
    return LeaseLostError(
        f"a run of thread {thread_id!r} {cause}; nothing was stored",
        do="read its state with system.run(run_id)",
    )


def row_of(row: RunRow) -> tuple[object, ...]:
    """The columns of a new run, in the order of SQLite's table `system_runs`."""
    return (
        *(row.run, row.thread_id, row.graph, row.status),
        *(stored_attempts(row.attempts, row.deaths), row.claimed, row.owner),
        *(row.created, row.metadata, row.payload, row.reason),
    )
