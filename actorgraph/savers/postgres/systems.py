"""Runs, events and leases of ActorSystems: writes inside the transaction of a batch, and reads.

Frequent requests (a run is put, begins, stores events, changes status, ends) are written for a
group of requests at once: see `OwnedRows`. Rare ones are carried out one by one: see
`apply_request`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, LiteralString

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int4, Int8

from actorgraph.errors import LeaseLostError, ThreadBusyError
from actorgraph.savers.integrity import check_event, event_sum, sound_runs, system_sum
from actorgraph.savers.judge import ThreadState, fence
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres.columns import Binaries, Texts, arrays
from actorgraph.savers.postgres.rows import BatchFacts, Statement
from actorgraph.savers.systems import (
    is_leased,
    read_attempts,
    refusal,
    refused_claim,
    refused_row,
    searched_part,
    status_after,
    stored_attempts,
)
from actorgraph.storage.store_clock import StoreClock, sent_now
from actorgraph.values.commits import (
    Commit,
    CommitOutcome,
    Committed,
    Query,
    Refused,
    Request,
)
from actorgraph.values.systems import (
    OPEN_STATUSES,
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
    TrimRuns,
    WaitingCount,
)

_UNCHANGED = -1
"""Represents attempts that stay; a stored number of attempts is never that."""
_NO_BOUND = 2**63 - 1
_Row = tuple[Any, ...]
Owners = dict[bytes, bytes | None]
"""Run -> its owner; of stored runs only."""

RunUpdate = PutRun | SetRun | AdoptRun | StoreEvents
"""Frequent requests about a run, written for a group at once."""

_UNLOCKED = (SealRun, AskCancel, RenewOwner, DropOwner, TrimRuns, ForgetRun)


def is_unlocked(request: Request) -> bool:
    """Whether a request needs no lock of its thread, as it does not depend on a run's owner.

    A `PutRun` with "reject" needs it: of two processes that start a run on a free thread, the lock
    decides which one is first.
    """
    if isinstance(request, PutRun):
        return request.if_busy != "reject"
    return isinstance(request, _UNLOCKED)


RareRequest = SealRun | AskCancel | RenewOwner | DropOwner | TrimRuns | ForgetRun


def run_lookups(group: Sequence[Request]) -> list[Statement]:
    """The statements that read the owners and the open runs that a group depends on."""
    claims = [r for r in group if isinstance(r, Commit) and r.owner is not None and r.claim]
    runs = {r.run for r in group if isinstance(r, SetRun | StoreEvents | AdoptRun)}
    runs.update(claim.run for claim in claims if claim.run)
    threads = {claim.thread_id for claim in claims}
    threads.update(r.thread_id for r in group if isinstance(r, PutRun) and r.if_busy == "reject")
    asked: list[Statement] = [(sql.SELECT_OWNERS, (Binaries(sorted(runs)),))] if runs else []
    return [*asked, (sql.SELECT_OPEN, (Texts(sorted(threads)),))] if threads else asked


class OwnedRows:
    """The rows of a group's requests about runs, collected by table.

    Args:
        facts: the owners and open runs as stored; updated as if the requests were stored.
        now: by the server's clock, in microseconds since 1970-01-01 UTC.
    Attributes:
        put: the new runs.
    """

    def __init__(self, facts: BatchFacts, now: int) -> None:
        self._now = now
        self._owners = facts.owners
        self._open = facts.open_runs
        self._inserted: list[_Row] = []
        self._begun: list[bytes | None] = []
        self._ended: dict[bytes | None, _Row] = {}
        self._leases: dict[int | None, _Row] = {}
        self._set: dict[bytes, _Row] = {}
        self._adopted: dict[bytes, _Row] = {}
        self.put: list[RunRow] = []
        self._events: list[_Row] = []
        self._replaced: list[_Row] = []
        self._kept: dict[bytes, _Row] = {}

    def update(self, request: RunUpdate, thread: ThreadState | None = None) -> CommitOutcome:
        """Add a request, or refuse it if another system owns the run.

        Args:
            thread: the request's thread, locked; None for requests that need no lock. Updated.
        """
        if isinstance(request, PutRun):
            return self._add_row(request)
        run = request.run
        refused = refusal(request, self._owners.get(run), known=run in self._owners)
        if refused is not None:
            return Refused(refused)
        if isinstance(request, AdoptRun):
            self._adopt(request, thread)
        elif isinstance(request, SetRun):
            attempts, deaths = request.attempts, request.deaths
            count = _UNCHANGED if attempts is None else stored_attempts(attempts, deaths)
            self._set[run] = (run, request.status, request.reason, count)
            self._note_status(request.thread_id, run, request.status)
        else:
            self._add_events(request)
        return Committed()

    def _add_events(self, request: StoreEvents) -> None:
        run = request.run
        if request.replaced is not None:
            first, last = request.replaced
            # Removed before any row of the group is inserted: so those that an earlier request
            # of the group has inserted are left out.
            self._events = [e for e in self._events if e[0] != run or not first <= e[1] <= last]
            self._replaced.append((run, first, last))
        self._events += [
            (run, e.place, e.created, e.payload, event_sum(run, e)) for e in request.rows
        ]
        self._kept[run] = (run, request.keep, request.older_than)

    def _adopt(self, request: AdoptRun, thread: ThreadState | None) -> None:
        run = request.run
        self._owners[run] = request.owner
        count = stored_attempts(request.attempts, request.deaths)
        self._adopted[run] = (run, request.owner, count)
        known = self._open.get(request.thread_id, {})
        if run in known:
            known[run] = msgspec.structs.replace(known[run], owner=request.owner, alive=True)
        if thread is not None and fence(thread, request):
            self._leases[thread.row] = (thread.owner, thread.epoch, thread.row)

    def _add_row(self, request: PutRun) -> CommitOutcome:
        row = request.row
        open_runs = self._open.setdefault(row.thread_id, {})
        refused = refused_row(request, open_runs.values(), self._now)
        if refused is not None:
            return Refused(refused)
        self._owners.setdefault(row.run, row.owner)
        # Alive without asking: requests of this batch come from systems of this process.
        alive = row.owner is not None
        known = OpenRun(row.run, row.owner, row.claimed, alive, row.due)
        open_runs.setdefault(row.run, known)
        self.put.append(row)
        self._inserted.append(_columns(row))
        return Committed()

    def _note_status(self, thread_id: str, run: bytes | None, status: str) -> None:
        if run is not None and status not in OPEN_STATUSES:
            self._open.get(thread_id, {}).pop(run, None)

    def is_leased(self, connection: Connection[Any], thread: ThreadState) -> bool:
        """Whether the thread's owner still leases it: alive, with an open run that has begun."""
        known = self._open.get(thread.thread_id)
        if known is not None:
            return is_leased(thread.owner, known.values())
        cursor = connection.cursor(row_factory=tuple_row, binary=True)
        where = (thread.thread_id, thread.owner)
        row = cursor.execute(sql.SELECT_LEASE, where, prepare=True).fetchone()
        return bool(row and row[0])

    def refused(self, commit: Commit) -> LeaseLostError | ThreadBusyError | None:
        """Refuse a claim; see `refused_claim`."""
        run = commit.run or b""
        others = self._open.get(commit.thread_id, {}).values()
        return refused_claim(
            commit, self._owners.get(run), known=run in self._owners, others=others
        )

    def add(self, thread: ThreadState, commit: Commit) -> None:
        """Add what an accepted commit of a system's run changes: its status and the lease."""
        if commit.claim is not None:
            self._begun.append(commit.run)
            known = self._open.get(commit.thread_id, {})
            if commit.run in known:
                known[commit.run] = msgspec.structs.replace(known[commit.run], claimed=True)
        if commit.ends is not None:
            status = status_after(commit.ends)
            self._ended[commit.run] = (status, commit.run)
            self._note_status(commit.thread_id, commit.run, status)
        if commit.claim is not None or commit.ends is not None:
            self._leases[thread.row] = (thread.owner, thread.epoch, thread.row)

    def statements(self) -> list[Statement]:
        """The statements that write all rows, in the order in which to execute them."""
        # A run may be put, begin and end in one batch: INSERT, then "running", then the last
        # status.
        statements: list[Statement] = []
        if self._inserted:
            statements.append((sql.INSERT_SYSTEM_RUNS, arrays(self._inserted)))
        if self._begun:
            statements.append((sql.BEGIN_SYSTEM_RUNS, (Binaries(self._begun),)))
        tables: tuple[tuple[LiteralString, Collection[_Row]], ...] = (
            (sql.END_SYSTEM_RUNS, self._ended.values()),
            (sql.LEASE_THREADS, self._leases.values()),
            (sql.SET, self._set.values()),
            (sql.ADOPT, self._adopted.values()),
            (sql.REPLACE_EVENTS, self._replaced),
            (sql.INSERT_EVENTS, self._events),
            (sql.DROP_EVENTS, self._kept.values()),
        )
        return statements + [(text, arrays(rows)) for text, rows in tables if rows]


def _columns(row: RunRow) -> _Row:
    return (
        *(row.run, row.thread_id, row.graph, row.status),
        *(stored_attempts(row.attempts, row.deaths), int(row.claimed)),
        *(row.owner, row.created, row.metadata, row.payload, row.reason, system_sum(row)),
        *(row.build, row.priority, row.due),
    )


def _row_of(row: _Row) -> RunRow:
    """The run of a row that was read; it has the checksum as its twelfth value."""
    run_row = RunRow(*row[:11], *row[12:])
    attempts, deaths = read_attempts(run_row.attempts)
    return msgspec.structs.replace(run_row, attempts=attempts, deaths=deaths) if deaths else run_row


def apply_request(
    connection: Connection[Any], request: RareRequest, clock: StoreClock
) -> CommitOutcome:
    """Carry out a rare request; a renewed lease says what time the server has."""
    run = connection.cursor(row_factory=tuple_row, binary=True).execute
    match request:
        case RenewOwner(owner, lease_s):
            sent = sent_now()
            (answer,) = run(sql.RENEW, (owner, lease_s)).fetchone() or (None,)
            if answer is not None:
                clock.learn(answer, sent)
        case DropOwner(owner):
            run(sql.DROP, (owner,))
        case AskCancel(asked, thread_id, reason, _, True):
            run(sql.ASK_CANCEL_EARLIER, (reason, thread_id, asked))
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
    return Committed()


def _seal(run: Callable[..., Any], request: SealRun) -> None:
    named = request.run
    row = run(sql.SELECT_SEALED, (named,)).fetchone()
    if row is not None and request.payload is not None:
        graph, created, metadata = row
        where = (named, request.thread_id, graph, "", 0, False, None)
        crc = Int4(system_sum(RunRow(*where, created, metadata, request.payload)))
        run(sql.SEAL_RUN, (request.payload, crc, named))
    if request.events:
        sealed = [(named, e.place, e.payload, event_sum(named, e)) for e in request.events]
        run(sql.SEAL_EVENTS, arrays(sealed))


def answer(ask: Callable[[Statement], list[_Row]], query: SystemQuery) -> list[Any]:
    """Answer a query for runs or events.

    Args:
        ask: executes a statement and returns its rows.
    """
    if isinstance(query, ReadEvents):
        text = sql.SELECT_NEWEST_EVENT if query.newest else sql.SELECT_EVENTS
        values = (query.run, Int8(query.after), Int8(query.limit))
        if not query.newest:
            values = (*values, Int8(_bytes_max(query)))
        return [check_event(query, row[:-1], row[-1]) for row in ask((text, values))]
    if isinstance(query, CountWaiting):
        values = (Int8(query.now), Texts(("", *query.builds)), Int8(query.limit))
        return [WaitingCount(*row) for row in ask((sql.COUNT_WAITING, values))]
    if isinstance(query, ListOwners):
        return [OwnerRow(*row) for row in ask((sql.SELECT_OWNERS_OF_RUNS, ()))]
    rows = ((_row_of(row), row[11]) for row in ask(_selected(query)))
    return sound_runs(rows, one=isinstance(query, ListRuns) and query.run is not None)


def answer_together(
    ask: Callable[[Statement], list[_Row]], queries: Sequence[Query]
) -> dict[int, list[Any]]:
    """Answer the queries for events, and those for single runs, by one statement each.

    A thousand readers of runs ask at the same moment.

    Args:
        ask: executes a statement and returns its rows.
    Returns: place in `queries` -> answer; the other queries are not in it.
    """
    events = {p: q for p, q in enumerate(queries) if isinstance(q, ReadEvents) and not q.newest}
    runs = {p: q.run for p, q in enumerate(queries) if isinstance(q, ListRuns) and _names_run(q)}
    answers: dict[int, list[Any]] = {}
    if len(events) > 1:
        answers |= _answer_events(ask, events)
    if len(runs) > 1:
        answers |= _answer_runs(ask, runs)
    return answers


def _names_run(query: ListRuns) -> bool:
    return bool(query.run) and query.thread_id is None and not query.statuses


def _answer_events(
    ask: Callable[[Statement], list[_Row]], queries: dict[int, ReadEvents]
) -> dict[int, list[Any]]:
    answers: dict[int, list[Any]] = {place: [] for place in queries}
    places = list(queries)
    asked = arrays(
        (query.run, query.after, query.limit, _bytes_max(query)) for query in queries.values()
    )
    for number, *columns, crc in ask((sql.SELECT_EVENTS_OF_RUNS, asked)):
        place = places[number - 1]
        answers[place].append(check_event(queries[place], tuple(columns), crc))
    return answers


def _bytes_max(query: ReadEvents) -> int:
    return _NO_BOUND if query.bytes_max is None else max(1, query.bytes_max)


def _answer_runs(
    ask: Callable[[Statement], list[_Row]], runs: dict[int, bytes | None]
) -> dict[int, list[Any]]:
    rows = ask((sql.SELECT_AMONG, (Binaries(set(runs.values())),)))
    stored = {row[0]: (_row_of(row), row[11]) for row in rows}
    return {
        place: sound_runs([stored[run]] if run in stored else [], one=True)
        for place, run in runs.items()
    }


def _selected(query: ListRuns | SearchRuns | ListWaiting) -> Statement:
    if isinstance(query, ListWaiting):
        graphs, builds = Texts(query.graphs), Texts(("", *query.builds))
        numbers = {"now": Int8(query.now), "limit": Int8(query.limit), "owned": query.owned}
        return sql.SELECT_WAITING, {"graphs": graphs, "builds": builds, **numbers}
    if isinstance(query, SearchRuns):
        names, numbers = Texts(query.statuses), {"since": Int8(query.since)}
        numbers |= {"limit": Int8(query.limit)}
        where = {"graph": query.graph, "prefix": query.prefix, "all": not query.statuses}
        where |= {"floor": query.floor, "before": query.before, "statuses": names}
        return sql.SEARCH_RUNS[searched_part(query)], {**where, **numbers}
    if query.among:
        return sql.SELECT_AMONG, (Binaries(query.among),)
    if query.orphaned:
        return sql.SELECT_ORPHANS, ()
    if query.asked_of is not None:
        return sql.SELECT_ASKED, {"owner": query.asked_of}
    if query.open_of:
        return sql.SELECT_OPEN_OF, (Texts(query.open_of),)
    statuses = Texts(query.statuses)
    where = {"run": query.run, "thread_id": query.thread_id, "statuses": statuses}
    text = sql.SELECT_RUNS
    if query.run is not None:
        text = sql.SELECT_RUN
    elif query.thread_id is not None:
        text = sql.SELECT_RUNS_OF_THREAD
    return text, {**where, "all": not statuses}
