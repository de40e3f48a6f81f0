"""Runs of ActorSystems: their rows, events and leases.

A lease ends by the machine's clock, which all processes that may open the folder share.
"""

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from actorgraph.errors import ActorGraphError
from actorgraph.rules.run_order import place_in_thread
from actorgraph.savers.systems import (
    is_asked,
    is_counted,
    is_leased,
    is_offered,
    is_orphan,
    is_searched,
    may_begin_at,
    refusal,
    refused_claim,
    refused_row,
    status_adopted,
    status_after,
)
from actorgraph.values.commits import Commit, CommitOutcome, Committed, Refused
from actorgraph.values.systems import (
    OPEN_STATUSES,
    AdoptRun,
    AskCancel,
    CountWaiting,
    DropOwner,
    EventRow,
    ForgetRun,
    ListOwners,
    ListRuns,
    ListWaiting,
    OpenRun,
    OwnerRow,
    PutRun,
    ReadEvents,
    RenewOwner,
    RunRow,
    SealRun,
    SearchRuns,
    SetRun,
    StoreEvents,
    SystemQuery,
    SystemRequest,
    TrimRuns,
    WaitingCount,
)
from lmdb_saver.tables import Rows, key

replace = msgspec.structs.replace


def carry_out(rows: Rows, request: SystemRequest) -> CommitOutcome:
    """Carry out one request about runs or leases."""
    match request:
        case PutRun():
            return _put(rows, request)
        case SetRun() | AdoptRun() | StoreEvents():
            return _change(rows, request)
        case RenewOwner(owner, lease_s):
            rows.put("owners", time.time() + lease_s, owner)
        case DropOwner(owner):
            rows.delete("owners", owner)
        case AskCancel():
            _ask_cancel(rows, request)
        case SealRun():
            _seal(rows, request)
        case TrimRuns(older_than):
            old = [row for row in _all(rows) if may_begin_at(row) < older_than]
            for row in old:
                _forget(rows, row)
        case ForgetRun(run):
            if (known := _row(rows, run)) is not None:
                _forget(rows, known)
    return Committed()


def refused(rows: Rows, commit: Commit) -> ActorGraphError | None:
    """The error of a system's claim: its run was taken over, or isn't the next; None if it may."""
    if commit.owner is None or commit.claim is None or commit.run is None:
        return None
    row = _row(rows, commit.run)
    others = _open_runs(rows, commit.thread_id)
    owner = row.owner if row else None
    return refused_claim(commit, owner, known=row is not None, others=others)


def leases(rows: Rows, owner: bytes, thread_id: str) -> bool:
    """Whether a system has the lease of a thread: it is alive, and its run there has not ended."""
    return _is_alive(rows, owner) and is_leased(owner, _open_runs(rows, thread_id))


def committed(rows: Rows, commit: Commit) -> None:
    """A system's run is running from its claim on, and has ended with its last save."""
    row = _row(rows, commit.run) if commit.owner is not None and commit.run else None
    if row is None or (commit.claim is None and commit.ends is None):
        return
    if commit.claim is not None:
        row = replace(row, status="running", claimed=True)
    if commit.ends is not None:
        row = replace(row, status=status_after(commit.ends))
    _write(rows, row)


def forget_thread(rows: Rows, thread_id: str) -> None:
    """Remove the runs of a deleted thread, with their events."""
    for row in [row for row in _all(rows) if row.thread_id == thread_id]:
        _remove(rows, row)


def answer(rows: Rows, query: SystemQuery) -> list[Any]:
    """Answer a query for runs, events or owners."""
    match query:
        case ReadEvents(run, _, after, _, newest):
            if newest:
                last = rows.between("events", key(run, 2**62), run, back=True)
                return [event for _, event in islice(last, 1) if event.place > after]
            found = rows.between("events", key(run, after + 1), run)
            return query.cut(event for _, event in found)
        case SearchRuns(limit):
            below = rows.between("runs", query.before, back=True)
            fit = (row for _, row in below if is_searched(row, query))
            return [_shown(rows, row, payload=b"") for row in islice(fit, limit)]
        case ListOwners():
            return _owners(rows)
        case ListWaiting():
            return _waiting(rows, query)
        case CountWaiting():
            counted = (row for row in _open_rows(rows) if is_counted(row, query))
            times = [may_begin_at(row) for row in islice(counted, query.limit)]
            return [WaitingCount(len(times), min(times, default=0))]
        case ListRuns():
            shown = (_shown(rows, row) for row in _found(rows, query))
            return [row for row in shown if _matches(row, query)]


def _row(rows: Rows, run: bytes) -> RunRow | None:
    return rows.get("runs", run) if run else None


def _all(rows: Rows) -> Iterator[RunRow]:
    return (row for _, row in rows.under("runs"))


def _open_rows(rows: Rows, *thread_id: str) -> list[RunRow]:
    """The runs of a thread, or of all threads, that have not ended, oldest first."""
    runs = sorted(found[16:] for found, _ in rows.under("open", *thread_id))
    return [row for run in runs if (row := _row(rows, run)) is not None]


def _open_runs(rows: Rows, thread_id: str) -> list[OpenRun]:
    return [
        OpenRun(row.run, row.owner, row.claimed, _is_alive(rows, row.owner), row.due)
        for row in _open_rows(rows, thread_id)
    ]


def _is_alive(rows: Rows, owner: bytes | None) -> bool:
    ends = rows.get("owners", owner) if owner else None
    return ends is not None and ends > time.time()


def _shown(rows: Rows, row: RunRow, **changed: Any) -> RunRow:
    return replace(row, alive=_is_alive(rows, row.owner), **changed)


def _write(rows: Rows, row: RunRow) -> None:
    rows.put("runs", row, row.run)
    if row.status in OPEN_STATUSES:
        rows.put("open", None, row.thread_id, row.run)
    else:
        rows.delete("open", row.thread_id, row.run)


def _remove(rows: Rows, row: RunRow) -> None:
    rows.delete("runs", row.run)
    rows.delete("open", row.thread_id, row.run)
    rows.clear("events", row.run)


def _forget(rows: Rows, row: RunRow) -> None:
    if row.status not in OPEN_STATUSES:
        _remove(rows, row)


def _put(rows: Rows, request: PutRun) -> CommitOutcome:
    row = request.row
    busy = refused_row(request, _open_runs(rows, row.thread_id), time.time_ns() // 1000)
    if busy is not None:
        return Refused(busy)
    if _row(rows, row.run) is None:
        _write(rows, row)
    return Committed()


def _change(rows: Rows, request: SetRun | AdoptRun | StoreEvents) -> CommitOutcome:
    row = _row(rows, request.run)
    error = refusal(request, row.owner if row else None, known=row is not None)
    if error is not None or row is None:
        return Refused(error or AssertionError())
    if isinstance(request, StoreEvents):
        _replace_events(rows, request)
        for event in request.rows:
            rows.put("events", event, request.run, event.place, new=True)
        _drop_events(rows, request)
    elif isinstance(request, AdoptRun):
        counts = {"attempts": request.attempts, "deaths": request.deaths}
        status = status_adopted(row, request)
        _write(rows, replace(row, owner=request.owner, status=status, **counts))
    else:
        row = replace(row, status=request.status, reason=request.reason)
        if request.attempts is not None:
            row = replace(row, attempts=request.attempts, deaths=request.deaths)
        _write(rows, row)
    return Committed()


def _replace_events(rows: Rows, request: StoreEvents) -> None:
    """Remove the rows whose events the first new row has."""
    if request.replaced is not None:
        first, last = request.replaced
        from_first = rows.between("events", key(request.run, first), request.run)
        rows.drop("events", [where for where, event in from_first if event.place <= last])


def _drop_events(rows: Rows, request: StoreEvents) -> None:
    """Remove events that are over the limits, oldest first; the newest one always stays."""
    found: list[tuple[bytes, EventRow]] = [*rows.under("events", request.run)]
    for where, event in found[:-1]:
        if event.place > found[-1][1].place - request.keep and event.created >= request.older_than:
            return
        rows.drop("events", [where])


def _ask_cancel(rows: Rows, request: AskCancel) -> None:
    asked = _open_rows(rows, request.thread_id)
    for row in asked:
        wanted = row.run < request.run if request.earlier else row.run == request.run
        if wanted and row.cancel is None:  # the first reason stays
            _write(rows, replace(row, cancel=request.reason))


def _seal(rows: Rows, request: SealRun) -> None:
    row = _row(rows, request.run)
    if row is not None and request.payload is not None:
        _write(rows, replace(row, payload=request.payload))
    for event in request.events:
        if rows.has("events", request.run, event.place):
            rows.put("events", event, request.run, event.place)


def _owners(rows: Rows) -> list[OwnerRow]:
    leases = dict(rows.under("owners"))
    open_rows = _open_rows(rows)
    counts = Counter(row.owner for row in open_rows)
    adopted = Counter(row.owner for row in open_rows if row.attempts > 1)
    now, owners = time.time(), sorted({*leases, *(owner for owner in counts if owner)})
    return [
        OwnerRow(one, leases[one] - now if one in leases else None, counts[one], adopted[one])
        for one in owners
    ]


def _found(rows: Rows, query: ListRuns) -> list[RunRow]:
    if query.open_of:
        found = [row for thread in query.open_of for row in _open_rows(rows, thread)]
        return [replace(row, payload=b"") for row in sorted(found, key=_by_id)]
    if query.among or query.run is not None:
        runs = sorted(query.among) if query.among else [query.run or b""]
        return [row for run in runs if (row := _row(rows, run)) is not None]
    if query.orphaned or query.asked_of is not None:
        return _open_rows(rows)
    return [*_all(rows)]


def _waiting(rows: Rows, query: ListWaiting) -> list[RunRow]:
    """The first open run of each thread, if a worker may begin it."""
    by_thread: dict[str, list[RunRow]] = {}
    for row in _open_rows(rows):
        by_thread.setdefault(row.thread_id, []).append(row)
    firsts = (min(found, key=place_in_thread) for found in by_thread.values())
    fit = (
        row
        for row in sorted(firsts, key=_by_id)
        if is_offered(row, query) and not _is_alive(rows, row.owner)
    )
    return [replace(row, payload=b"") for row in islice(fit, query.limit)]


def _matches(row: RunRow, query: ListRuns) -> bool:
    return (
        query.run in (None, row.run)
        and query.thread_id in (None, row.thread_id)
        and (not query.statuses or row.status in query.statuses)
        and (not query.orphaned or is_orphan(row))
        and (query.asked_of is None or is_asked(row, query.asked_of))
    )


def _by_id(row: RunRow) -> bytes:
    return row.run
