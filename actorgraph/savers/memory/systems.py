"""Runs, events and leases of ActorSystems, in dicts."""

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

import msgspec

from actorgraph.rules.run_order import place_in_thread
from actorgraph.savers.integrity import event_sum, system_sum
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
    row_of,
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


class MemorySystems:
    """Runs, events and leases by their keys; guarded by the saver's lock.

    Leases end by `time.monotonic()`.
    """

    def __init__(self) -> None:
        self._runs: dict[bytes, RunRow] = {}
        self._of_thread: dict[str, set[bytes]] = {}
        # thread id -> its open runs: each claim asks for these, however many runs have ended.
        self._open: dict[str, set[bytes]] = {}
        self._events: dict[bytes, dict[int, EventRow]] = {}
        self._leases: dict[bytes, float] = {}

    def is_alive(self, owner: bytes | None) -> bool:
        """Whether an owner's lease is valid now."""
        return owner is not None and self._leases.get(owner, 0.0) > time.monotonic()

    def is_leased(self, thread_id: str, owner: bytes) -> bool:
        """Whether `owner` still leases a thread: its lease is valid and its run has not ended."""
        return self.is_alive(owner) and is_leased(owner, self.open_runs(thread_id))

    def open_runs(self, thread_id: str) -> list[OpenRun]:
        """The open runs of a thread, oldest first."""
        return [
            OpenRun(run, row.owner, row.claimed, self.is_alive(row.owner), row.due)
            for run in sorted(self._open.get(thread_id, ()))
            for row in (self._runs[run],)
        ]

    def refused(self, commit: Commit) -> Refused | None:
        """Refuse a claim if another system owns the run, or has a run whose turn comes first."""
        known, owner = self.owner_of(commit.run or b"")
        others = self.open_runs(commit.thread_id) if commit.claim is not None else ()
        error = refused_claim(commit, owner, known=known, others=others)
        return None if error is None else Refused(error)

    def committed(self, commit: Commit) -> None:
        """Update the status of an owned run whose commit was accepted."""
        self.noted(commit.run or b"", claimed=commit.claim is not None, ends=commit.ends)

    def noted(self, run: bytes, *, claimed: bool, ends: str | None) -> None:
        """Set a run's status to "running" at its claim, and to how it ended at its last save."""
        row = self._runs.get(run)
        if row is None:
            return
        if claimed:
            row = msgspec.structs.replace(row, status="running", claimed=True)
        if ends is not None:
            row = msgspec.structs.replace(row, status=status_after(ends))
        self._write(row)

    def owner_of(self, run: bytes) -> tuple[bool, bytes | None]:
        """Whether the run is stored, and its owner."""
        row = self._runs.get(run)
        return (False, None) if row is None else (True, row.owner)

    def in_order(self) -> list[RunRow]:
        """All runs, oldest first."""
        return [self._runs[run] for run in sorted(self._runs)]

    def events(self, run: bytes) -> tuple[EventRow, ...]:
        """All events of a run, in order."""
        events = self._events.get(run, {})
        return tuple(events[place] for place in sorted(events))

    @property
    def count(self) -> int:
        """Number of runs and events."""
        return len(self._runs) + sum(map(len, self._events.values()))

    def forget_thread(self, thread_id: str) -> None:
        """Remove the runs of a deleted thread, with their events."""
        for run in tuple(self._of_thread.get(thread_id, ())):
            self._remove(run)

    def apply(self, request: SystemRequest) -> CommitOutcome:
        """Carry out one request about runs or leases."""
        match request:
            case PutRun():
                return self._put(request)
            case RenewOwner(owner, lease_s):
                self._leases[owner] = time.monotonic() + lease_s
            case DropOwner(owner):
                self._leases.pop(owner, None)
            case AskCancel(run, thread_id, _, _, True):
                for other in sorted(self._open.get(thread_id, ())):
                    if other < run:
                        self._ask_cancel(other, request.reason)
            case AskCancel(run, _, reason):
                self._ask_cancel(run, reason)
            case SealRun():
                self._seal(request)
            case TrimRuns(older_than):  # like ForgetRun it leaves open runs
                for run in [*self._older(older_than)]:
                    self._forget(run)
            case ForgetRun(run):
                self._forget(run)
            case _:
                return self._change(request)
        return Committed()

    def _older(self, moment: int) -> Iterator[bytes]:
        return (row.run for row in self._runs.values() if may_begin_at(row) < moment)

    def _ask_cancel(self, run: bytes, reason: str) -> None:
        row = self._runs.get(run)
        if row is not None and row.status in OPEN_STATUSES and row.cancel is None:
            self._write(msgspec.structs.replace(row, cancel=reason))

    def _put(self, request: PutRun) -> CommitOutcome:
        row = request.row
        now = time.time_ns() // 1000
        refused = refused_row(request, self.open_runs(row.thread_id), now)
        if refused is not None:
            return Refused(refused)
        if row.run not in self._runs:
            self._write(row)
        return Committed()

    def _forget(self, run: bytes) -> None:
        if run in self._runs and self._runs[run].status not in OPEN_STATUSES:
            self._remove(run)

    def _seal(self, request: SealRun) -> None:
        row, events = self._runs.get(request.run), self._events.get(request.run, {})
        if row is not None and request.payload is not None:
            self._write(msgspec.structs.replace(row, payload=request.payload))
        for event in request.events:
            if event.place in events:
                events[event.place] = event

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Database rows by table, for a backup; leases are left out."""
        # A lease ends by this process's monotonic clock, which means nothing to a reader of the
        # file: there every run is an orphan, to be recovered.
        return {
            "system_runs": [(*row_of(row), system_sum(row)) for row in self._runs.values()],
            "events": [
                (run, event.place, event.created, event.payload, event_sum(run, event))
                for run, events in self._events.items()
                for event in events.values()
            ],
            "cancels": [(r.run, r.cancel) for r in self._runs.values() if r.cancel is not None],
        }

    def answer(self, query: SystemQuery) -> list[Any]:
        """Answer a query for runs or events."""
        if isinstance(query, ReadEvents):
            events = self._events.get(query.run, {})
            places = sorted(place for place in events if place > query.after)
            wanted = places[-1:] if query.newest else places[: query.limit]
            return query.cut(events[place] for place in wanted)
        if isinstance(query, CountWaiting):
            return [self._count_waiting(query)]
        if isinstance(query, ListWaiting):
            return self._waiting(query)
        if isinstance(query, ListOwners):
            return self._owners()
        if isinstance(query, SearchRuns):
            fit = (row for row in reversed(self.in_order()) if is_searched(row, query))
            return [
                msgspec.structs.replace(row, alive=self.is_alive(row.owner), payload=b"")
                for row in islice(fit, query.limit)
            ]
        rows = self._found(query)
        shown = (msgspec.structs.replace(row, alive=self.is_alive(row.owner)) for row in rows)
        return [row for row in shown if _matches(row, query)]

    def _owners(self) -> list[OwnerRow]:
        now = time.monotonic()
        rows = [self._runs[run] for runs in self._open.values() for run in runs]
        counts = Counter(row.owner for row in rows)
        adopted = Counter(row.owner for row in rows if row.attempts > 1)
        owners = sorted({*self._leases, *(o for o in counts if o)})
        ends = {owner: end - now for owner, end in self._leases.items()}
        return [OwnerRow(o, ends.get(o), counts[o], adopted[o]) for o in owners]

    def _found(self, query: ListRuns) -> list[RunRow]:
        if query.open_of:
            runs = (run for thread in query.open_of for run in self._open.get(thread, ()))
            return [msgspec.structs.replace(self._runs[r], payload=b"") for r in sorted(runs)]
        if query.among:
            return [self._runs[run] for run in sorted(query.among) if run in self._runs]
        if query.thread_id is not None:  # few, however many runs other threads have
            return [self._runs[run] for run in sorted(self._of_thread.get(query.thread_id, ()))]
        if query.run is not None:
            return [self._runs[query.run]] if query.run in self._runs else []
        return self.in_order()

    def _waiting(self, query: ListWaiting) -> list[RunRow]:
        open_rows = ([self._runs[run] for run in runs] for runs in self._open.values())
        firsts = sorted((min(rows, key=place_in_thread) for rows in open_rows), key=_by_id)
        rows = (row for row in firsts if self._is_waiting(row, query))
        return [msgspec.structs.replace(row, payload=b"") for row in islice(rows, query.limit)]

    def _is_waiting(self, row: RunRow, query: ListWaiting) -> bool:
        return is_offered(row, query) and not self.is_alive(row.owner)

    def _count_waiting(self, query: CountWaiting) -> WaitingCount:
        rows = (self._runs[run] for runs in self._open.values() for run in runs)
        counted = (row for row in rows if is_counted(row, query))
        times = [may_begin_at(row) for row in islice(counted, query.limit)]
        return WaitingCount(len(times), min(times, default=0))

    def _change(self, request: SetRun | AdoptRun | StoreEvents) -> CommitOutcome:
        row = self._runs.get(request.run)
        refused = refusal(request, row.owner if row else None, known=row is not None)
        if refused is not None or row is None:
            return Refused(refused or AssertionError())
        match request:
            case StoreEvents(run, _, _, rows, keep, older_than):
                events = self._events.setdefault(run, {})
                if request.replaced is not None:
                    _remove_between(events, *request.replaced)
                events.update({event.place: event for event in rows if event.place not in events})
                self._drop(events, keep, older_than)
            case AdoptRun(_, _, owner, _, attempts):
                counts = {"attempts": attempts, "deaths": request.deaths}
                status = status_adopted(row, request)
                self._write(msgspec.structs.replace(row, owner=owner, status=status, **counts))
            case SetRun(_, _, _, status, reason, None):
                self._write(msgspec.structs.replace(row, status=status, reason=reason))
            case SetRun(_, _, _, status, reason, attempts):
                counts = {"attempts": attempts, "deaths": request.deaths}
                self._write(msgspec.structs.replace(row, status=status, reason=reason, **counts))
        return Committed()

    @staticmethod
    def _drop(events: dict[int, EventRow], keep: int, older_than: int) -> None:
        """Remove events that are over the limits, oldest first; the newest one always stays."""
        # Events are stored in the order of their places, and dicts keep that order.
        last = next(reversed(events), 0)
        while (place := next(iter(events), last)) != last:
            if place > last - keep and events[place].created >= older_than:
                return
            del events[place]

    def _write(self, row: RunRow) -> None:
        self._runs[row.run] = row
        self._of_thread.setdefault(row.thread_id, set()).add(row.run)
        if row.status in OPEN_STATUSES:
            self._open.setdefault(row.thread_id, set()).add(row.run)
        else:
            self._close(row)

    def _close(self, row: RunRow) -> None:
        _take_out(self._open, row)

    def _remove(self, run: bytes) -> None:
        row = self._runs.pop(run, None)
        if row is not None:
            self._close(row)
            _take_out(self._of_thread, row)
        self._events.pop(run, None)


def _remove_between(events: dict[int, EventRow], first: int, last: int) -> None:
    """Remove rows that a new one replaces: they are among the newest."""
    newest = [*takewhile(lambda place: place >= first, reversed(events))]
    for place in newest:
        if place <= last:
            del events[place]


def _take_out(runs_of: dict[str, set[bytes]], row: RunRow) -> None:
    """Remove a run from those of its thread."""
    runs = runs_of.get(row.thread_id, set())
    runs.discard(row.run)
    if not runs:
        runs_of.pop(row.thread_id, None)


def _by_id(row: RunRow) -> bytes:
    return row.run


def _matches(row: RunRow, query: ListRuns) -> bool:
    return (
        query.run in (None, row.run)
        and query.thread_id in (None, row.thread_id)
        and (not query.statuses or row.status in query.statuses)
        and (not query.orphaned or is_orphan(row))
        and (query.asked_of is None or is_asked(row, query.asked_of))
    )
