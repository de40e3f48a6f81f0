"""Runs, events and leases of ActorSystems, over one connection, inside a batch's transaction.

Leases expire by SQLite's clock, in seconds since 1970: processes that share the file compare one
clock, not their own.
"""

import sqlite3
import time
from contextlib import closing
from typing import Any

import msgspec

from actorgraph.errors import LeaseLostError, ThreadBusyError
from actorgraph.savers.integrity import check_event, event_sum, sound_runs, system_sum
from actorgraph.savers.judge import ThreadState
from actorgraph.savers.sqlite import system_schema as sql
from actorgraph.savers.systems import (
    is_leased,
    read_attempts,
    refusal,
    refused_claim,
    refused_row,
    row_of,
    searched_part,
    stored_attempts,
)
from actorgraph.values.commits import Commit, CommitOutcome, Committed, Refused
from actorgraph.values.systems import (
    AdoptRun,
    AskCancel,
    CountWaiting,
    DropOwner,
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


class BatchSystemRuns(msgspec.Struct):
    """Runs of ActorSystems as a batch changes them, before its rows are written.

    Attributes:
        rows: rows of new runs.
        begun: runs whose own saves have claimed their threads.
        finished: runs whose own saves have ended them.
        new: thread -> its new runs, by id.
    """

    rows: list[tuple[object, ...]] = []
    begun: set[bytes | None] = set()
    finished: set[bytes | None] = set()
    new: dict[str, dict[bytes, RunRow]] = {}

    def put(self, connection: sqlite3.Connection, request: PutRun) -> CommitOutcome:
        """Accept a new run, or refuse it with `if_busy="reject"` where its thread is busy."""
        if request.if_busy == "reject":
            others = self._open_runs(connection, request.thread_id)
            refused = refused_row(request, others, time.time_ns() // 1000)
            if refused is not None:
                return Refused(refused)
        row = request.row
        stored = with_due_stored(row)
        self.rows.append((*row_of(stored), system_sum(stored)))
        self.new.setdefault(row.thread_id, {})[row.run] = row
        return Committed()

    def before_claim(
        self, connection: sqlite3.Connection, thread: ThreadState, commit: Commit
    ) -> LeaseLostError | ThreadBusyError | None:
        """Set the thread's owner and lease for `judge`; return why a run may not begin."""
        row = connection.execute(sql.SELECT_THREAD_OWNER, (thread.row,)).fetchone()
        thread.owner = row[0] if row else None
        if commit.owner is None and thread.owner is None:
            # Graphs that run without an ActorSystem pay for no further query.
            thread.leased = False
            return None
        others = self._open_runs(connection, thread.thread_id)
        thread.leased = thread.owner is not None and is_leased(thread.owner, others)
        if commit.owner is None:
            return None
        known, owner = self._owner_of(connection, thread.thread_id, commit.run or b"")
        return refused_claim(commit, owner, known=known, others=others)

    def _owner_of(
        self, connection: sqlite3.Connection, thread_id: str, run: bytes
    ) -> tuple[bool, bytes | None]:
        row = self.new.get(thread_id, {}).get(run)
        if row is not None:
            return True, row.owner
        owner_row = connection.execute(sql.SELECT_OWNER, (run,)).fetchone()
        return (False, None) if owner_row is None else (True, owner_row[0])

    def _open_runs(self, connection: sqlite3.Connection, thread_id: str) -> list[OpenRun]:
        stored_rows = connection.execute(sql.SELECT_OPEN, (thread_id,)).fetchall()
        rows = [tuple(row) for row in stored_rows]
        for row in self.new.get(thread_id, {}).values():
            alive = connection.execute(sql.SELECT_LEASE, (row.owner,)).fetchone()
            rows.append((row.run, row.owner, row.claimed, alive is not None, row.due))
        return [
            OpenRun(run, owner, bool(claimed) or run in self.begun, bool(alive), due)
            for run, owner, claimed, alive, due in rows
            if run not in self.finished
        ]


def reload_epoch(connection: sqlite3.Connection, thread: ThreadState | None) -> None:
    """Read a thread's epoch again, after a request that may have raised it."""
    if thread is not None:
        (thread.epoch,) = connection.execute(sql.SELECT_EPOCH, (thread.row,)).fetchone()


def apply(connection: sqlite3.Connection, request: SystemRequest) -> CommitOutcome:
    """Carry out a request; `PutRun` goes to `BatchSystemRuns.put`."""
    match request:
        case RenewOwner(owner, lease_s):
            connection.execute(sql.RENEW, (owner, lease_s))
        case DropOwner(owner):
            connection.execute(sql.DROP, (owner,))
        case AskCancel(run, thread_id, reason, _, True):
            connection.execute(sql.ASK_CANCEL_EARLIER, (reason, thread_id, run))
        case AskCancel(run, _, reason):
            connection.execute(sql.ASK_CANCEL, (reason, run))
        case TrimRuns(older_than):
            for statement in sql.TRIM:
                connection.execute(statement, (older_than,))
        case SealRun(run, _, payload, events):
            if payload is not None:
                _seal(connection, request, payload)
            sealed = [(e.payload, event_sum(run, e), run, e.place) for e in events]
            connection.executemany(sql.SEAL_EVENT, sealed)
        case ForgetRun(run):
            for statement in sql.FORGET:
                connection.execute(statement, (run,))
        case PutRun():
            raise AssertionError("rows of new runs are written with their batch")
        case _:
            return _change(connection, request)
    return Committed()


def _seal(connection: sqlite3.Connection, request: SealRun, payload: bytes) -> None:
    row = connection.execute(sql.SELECT_SEALED, (request.run,)).fetchone()
    if row is not None:
        graph, created, metadata = row
        # The checksum covers only columns that never change, so the others may be anything here.
        where = (request.run, request.thread_id, graph, "", 0, False, None)
        crc = system_sum(RunRow(*where, created, metadata, payload))
        connection.execute(sql.SEAL_RUN, (payload, crc, request.run))


def _change(
    connection: sqlite3.Connection, request: SetRun | AdoptRun | StoreEvents
) -> CommitOutcome:
    row = connection.execute(sql.SELECT_OWNER, (request.run,)).fetchone()
    refused = refusal(request, row[0] if row else None, known=row is not None)
    if refused is not None:
        return Refused(refused)
    match request:
        case StoreEvents(run, _, _, rows, keep, older_than):
            if request.replaced is not None:
                connection.execute(sql.REPLACE_EVENTS, (run, *request.replaced))
            added = [(run, e.place, e.created, e.payload, event_sum(run, e)) for e in rows]
            connection.executemany(sql.INSERT_EVENT, added)
            bounds = {"run": run, "older": older_than, "keep": keep}
            connection.execute(sql.DROP_EVENTS, bounds)
        case AdoptRun(run, thread_id, owner, was, attempts):
            count = stored_attempts(attempts, request.deaths)
            connection.execute(sql.ADOPT, {"owner": owner, "attempts": count, "run": run})
            connection.execute(sql.FENCE, {"thread": thread_id, "was": was, "owner": owner})
        case SetRun(run, _, _, status, reason, attempts):
            count = None if attempts is None else stored_attempts(attempts, request.deaths)
            connection.execute(sql.SET, (status, reason, count, run))
    return Committed()


def answer(connection: sqlite3.Connection, query: SystemQuery) -> list[Any]:
    """Answer a query for runs or events."""
    if isinstance(query, ReadEvents):
        text = sql.SELECT_NEWEST_EVENT if query.newest else sql.SELECT_EVENTS
        # Rows that the page has no room for are not read. An open cursor would hold the
        # transaction, also behind a damaged row.
        with closing(connection.execute(text, (query.run, query.after, query.limit))) as rows:
            return query.cut(check_event(query, row[:-1], row[-1]) for row in rows)
    if isinstance(query, CountWaiting):
        where = (query.now, query.limit)
        return [WaitingCount(*connection.execute(sql.COUNT_WAITING, where).fetchone())]
    if isinstance(query, ListOwners):
        return [OwnerRow(*row) for row in connection.execute(sql.SELECT_OWNERS).fetchall()]
    rows = connection.execute(*_selected(query)).fetchall()
    runs = sound_runs(map(_run_of, rows), one=isinstance(query, ListRuns) and bool(query.run))
    for place, row in enumerate(runs):  # in place: the list may carry errors
        if not row.metadata.startswith("{"):
            runs[place] = with_due_read(row)
    return runs


def with_due_stored(row: RunRow) -> RunRow:
    """Put the time of a delayed run before its metadata, on a line of its own.

    The table has no column for it, and a new one would lock out older versions of this library.
    They begin such a run at once, when they recover it.
    """
    return msgspec.structs.replace(row, metadata=f"{row.due}\n{row.metadata}") if row.due else row


def with_due_read(row: RunRow) -> RunRow:
    """Undo `with_due_stored`."""
    due, cut, metadata = row.metadata.partition("\n")
    if not cut or not due.isdecimal():
        return row
    return msgspec.structs.replace(row, metadata=metadata, due=int(due))


def _selected(query: ListRuns | SearchRuns | ListWaiting) -> tuple[str, Any]:
    if isinstance(query, ListWaiting):  # its tables have no builds
        graphs = msgspec.json.encode(query.graphs).decode()
        where = {"graphs": graphs, "owned": query.owned, "limit": query.limit, "now": query.now}
        return sql.SELECT_WAITING, where
    statuses = f",{','.join(query.statuses)}," if query.statuses else ""
    if isinstance(query, SearchRuns):
        return sql.SEARCH_RUNS[searched_part(query)], {
            **msgspec.structs.asdict(query),
            "statuses": statuses,
        }
    if query.among:
        return sql.SELECT_AMONG % ", ".join("?" * len(query.among)), query.among
    if query.orphaned:
        return sql.SELECT_ORPHANS, {}
    if query.asked_of is not None:
        return sql.SELECT_ASKED, {"owner": query.asked_of}
    if query.open_of:
        return sql.SELECT_OPEN_OF, {"threads": msgspec.json.encode(query.open_of).decode()}
    return sql.SELECT_RUNS, {"run": query.run, "thread_id": query.thread_id, "statuses": statuses}


def _run_of(row: tuple[Any, ...]) -> tuple[RunRow, int | None]:
    run, thread_id, graph, status, stored, claimed, *rest, crc, alive, cancel = row
    owner, created, metadata, payload, reason = rest
    attempts, deaths = read_attempts(stored) if type(stored) is int else (stored, 0)
    run_row = RunRow(
        *(run, thread_id, graph, status, attempts, bool(claimed), owner, created),
        *(metadata, payload, reason, bool(alive), cancel),
        deaths=deaths,
    )
    return run_row, crc
