"""Runs, events and owners of ActorSystems, inside the transaction of a batch, and their reads.

What runs say about themselves (they come, begin, tell, leave) is written for a whole batch at once,
in the order in which it happens to each of them: see `OwnedRows`. The rest is rare, and carried
out request by request: see `apply`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8

from actorgraph.errors import LeaseLostError
from actorgraph.savers.judge import ThreadState, fence
from actorgraph.savers.postgres import system_statements as sql
from actorgraph.savers.postgres.columns import Binaries, Texts, arrays
from actorgraph.savers.postgres.rows import Statement
from actorgraph.savers.systems import refusal, refused_claim, status_after
from actorgraph.values.commits import Commit, Outcome, Refused, Request, Stored
from actorgraph.values.systems import (
    AdoptRun,
    AskCancel,
    DropOwner,
    EventRow,
    ForgetRun,
    ListRuns,
    PutRun,
    ReadEvents,
    RenewOwner,
    RunRow,
    SealRun,
    SetRun,
    StoreEvents,
    SystemQuery,
    TrimRuns,
)

_Row = tuple[Any, ...]
Owners = dict[bytes, bytes | None]
"""Run -> who has it; only of runs that the database has."""

Said = PutRun | SetRun | StoreEvents
"""What runs say about themselves."""

UNLOCKED = (PutRun, SealRun, AskCancel, RenewOwner, DropOwner, TrimRuns, ForgetRun)
"""What needs no lock of a thread: all that depends on who owns a run has one."""

Rare = SealRun | AdoptRun | AskCancel | RenewOwner | DropOwner | TrimRuns | ForgetRun


def owners_asked(group: Sequence[Request]) -> list[Statement]:
    """The question whose runs they are that a group is about, if it matters."""
    runs = {
        request.run
        for request in group
        if isinstance(request, SetRun | StoreEvents | AdoptRun)
        or (isinstance(request, Commit) and request.owner is not None and request.claim is not None)
    }
    return [(sql.SELECT_OWNERS, (Binaries(sorted(run for run in runs if run)),))] if runs else []


class OwnedRows:
    """What the runs of a batch say about themselves, as rows per table.

    Args:
        owners: of the runs that the batch is about.
    """

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._put: list[_Row] = []
        self._begun: list[bytes | None] = []
        self._left: dict[bytes | None, _Row] = {}
        self._leases: dict[int | None, _Row] = {}
        self._set: dict[bytes, _Row] = {}
        self._events: list[_Row] = []
        self._kept: dict[bytes, _Row] = {}

    def say(self, request: Said) -> Outcome:
        """Take in a request, unless another system has its run."""
        if isinstance(request, PutRun):
            self._owners.setdefault(request.row.run, request.row.owner)
            self._put.append(_columns(request.row))
            return Stored()
        run = request.run
        refused = refusal(request, self._owners.get(run), known=run in self._owners)
        if refused is not None:
            return Refused(refused)
        if isinstance(request, SetRun):
            attempts = -1 if request.attempts is None else request.attempts
            self._set[run] = (run, request.status, request.reason, attempts)
        else:
            self._events += [(run, row.place, row.created, row.payload) for row in request.rows]
            self._kept[run] = (run, request.keep, request.older_than)
        return Stored()

    def refused(self, commit: Commit) -> LeaseLostError | None:
        """Why a run may not begin."""
        run = commit.run or b""
        return refused_claim(commit, self._owners.get(run), known=run in self._owners)

    def add(self, thread: ThreadState, commit: Commit) -> None:
        """What an accepted commit of a system's run says."""
        if commit.claim is not None:
            self._begun.append(commit.run)
        if commit.ends is not None:
            self._left[commit.run] = (status_after(commit.ends), commit.run)
        if commit.claim is not None or commit.ends is not None:
            self._leases[thread.row] = (thread.owner, thread.epoch, thread.row)

    def statements(self) -> list[Statement]:
        """What to execute, in order."""
        found: list[Statement] = []
        if self._put:
            found.append((sql.INSERT_SYSTEM_RUNS, arrays(self._put)))
        if self._begun:
            found.append((sql.BEGIN_SYSTEM_RUNS, (Binaries(self._begun),)))
        tables: tuple[tuple[LiteralString, Collection[_Row]], ...] = (
            (sql.END_SYSTEM_RUNS, self._left.values()),
            (sql.LEASE_THREADS, self._leases.values()),
            (sql.SET, self._set.values()),
            (sql.INSERT_EVENTS, self._events),
            (sql.DROP_EVENTS, self._kept.values()),
        )
        return found + [(text, arrays(rows)) for text, rows in tables if rows]


def _columns(row: RunRow) -> _Row:
    return (
        *(row.run, row.thread_id, row.graph, row.status, row.attempts, int(row.claimed)),
        *(row.owner, row.created, row.metadata, row.payload, row.reason),
    )


def is_leased(connection: Connection[Any], owner: bytes) -> bool:
    """Whether an owner's lease holds."""
    cursor = connection.cursor(row_factory=tuple_row, binary=True)
    found = cursor.execute(sql.SELECT_LEASE, (owner,), prepare=True).fetchone()
    return bool(found and found[0])


def apply(
    connection: Connection[Any], request: Rare, owners: Owners, thread: ThreadState | None
) -> Outcome:
    """Carry out a rare request.

    Args:
        owners: as for `OwnedRows`. thread: the request's, locked; changed to what is stored then.
    """
    run = connection.cursor(row_factory=tuple_row, binary=True).execute
    match request:
        case RenewOwner(owner, lease_s):
            run(sql.RENEW, (owner, lease_s))
        case DropOwner(owner):
            run(sql.DROP, (owner,))
        case AskCancel(asked, _, reason):
            run(sql.ASK_CANCEL, (reason, asked))
        case SealRun():
            _seal(run, request)
        case TrimRuns(older_than):
            for statement in sql.TRIM:
                run(statement, (Int8(older_than),))
        case ForgetRun(forgotten):
            for statement in sql.FORGET:
                run(statement, (forgotten,))
        case AdoptRun(adopted, _, owner, _, attempts):
            known = adopted in owners
            refused = refusal(request, owners.get(adopted), known=known)
            if refused is not None:
                return Refused(refused)
            run(sql.ADOPT, (owner, Int8(attempts), adopted))
            if thread is not None and fence(thread, request):
                run(sql.FENCE, (thread.row,))
    return Stored()


def _seal(run: Callable[..., Any], request: SealRun) -> None:
    run(sql.SEAL_RUN, (request.payload, request.run))
    if request.events:
        run(sql.SEAL_EVENTS, arrays([(request.run, e.place, e.payload) for e in request.events]))


def answer(ask: Callable[[Statement], list[_Row]], query: SystemQuery) -> list[Any]:
    """Answer a read.

    Args:
        ask: executes a statement; its rows.
    """
    if isinstance(query, ReadEvents):
        text = sql.SELECT_NEWEST_EVENT if query.newest else sql.SELECT_EVENTS
        values = (query.run, Int8(query.after), Int8(query.limit))
        return [EventRow(*row) for row in ask((text, values))]
    return [RunRow(*row) for row in ask(_selected(query))]


def _selected(query: ListRuns) -> Statement:
    if query.orphaned:
        return sql.SELECT_ORPHANS, ()
    if query.asked_of is not None:
        return sql.SELECT_ASKED, {"owner": query.asked_of}
    statuses = Texts(query.statuses)
    where = {"run": query.run, "thread_id": query.thread_id, "statuses": statuses}
    text = sql.SELECT_RUNS
    if query.run is not None:
        text = sql.SELECT_RUN
    elif query.thread_id is not None:
        text = sql.SELECT_RUNS_OF_THREAD
    return text, {**where, "all": not statuses}
