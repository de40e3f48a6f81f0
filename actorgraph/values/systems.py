"""The rows that an ActorSystem stores beside checkpoints: runs, their events, owners.

A run's row is written before the run begins, so that an accepted run outlives the process. Its
status changes in the transaction of the claim with which the run begins and of the save with
which it leaves, never on its own. An owner is one open system; its lease is one row, renewed in
one write however many runs it has.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import msgspec

RunStatus = Literal[
    "pending", "running", "success", "error", "interrupted", "cancelled", "timeout", "parked"
]
"""The status of a run.

pending: accepted; it waits for its thread, or for `recover()`. running: it has its thread.
interrupted: it waits for answers. cancelled: see its `reason`. timeout: its deadline was reached;
its finished work is stored. parked: given up because too many processes died while running it.
"""

OPEN_STATUSES = ("pending", "running")
COMMON_STATUSES = (*OPEN_STATUSES, "success")
"""Runs of other statuses are few, and have an index of their own."""

NO_OWNER = b""
"""The owner of a run that was given back: no system has this id, so its lease is never valid."""

IfBusy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""Handling of a new run on a thread that has another one: see `ActorSystem.start`."""


class RunRow(msgspec.Struct, frozen=True):
    """A run of an ActorSystem, stored.

    Attributes:
        graph: the name under which the system has the graph.
        status: a `RunStatus`.
        attempts: processes that have run it, the first included.
        claimed: whether its input is in the thread, so that it goes on and is not begun again.
        owner: the system that has it; None for none.
        created: microseconds since 1970-01-01 UTC.
        metadata: JSON object of the caller's metadata.
        payload: encoded: its input and settings.
        reason: why it was cancelled or parked, or the text of its error.
        alive: when read: whether its owner's lease is valid.
        cancel: the reason of a request to its owner to cancel it; None without a request.
        build: the build of the program that may run it; "" for every build.
        priority: runs with a higher one are offered to workers first.
        due: microseconds since 1970-01-01 UTC before which it doesn't begin; 0 for at once. The
            id has this time too, so that ids order the runs of a thread by when they may begin.
        deaths: processes that have died while they ran it, since it last progressed; see
            `rules/system/scheduling`.
    """

    run: bytes
    thread_id: str
    graph: str
    status: str
    attempts: int
    claimed: bool
    owner: bytes | None
    created: int
    metadata: str
    payload: bytes
    reason: str = ""
    alive: bool = False
    cancel: str | None = None
    build: str = ""
    priority: int = 0
    due: int = 0
    deaths: int = 0


class OpenRun(msgspec.Struct, frozen=True):
    """The fields of an open run by which a store decides which run has its thread.

    Attributes: as of `RunRow`.
    """

    run: bytes
    owner: bytes | None
    claimed: bool
    alive: bool
    due: int = 0


class PutRun(msgspec.Struct, frozen=True):
    """Store the row of a new run.

    Attributes:
        if_busy: with "reject" it is refused if another system has an open run of the thread, other
            than runs whose time has not come.
    """

    row: RunRow
    thread_id: str
    size: int = 0
    if_busy: IfBusy = "enqueue"


class SetRun(msgspec.Struct, frozen=True):
    """Change the status of a run that `owner` has; refused if another one has it.

    Attributes:
        attempts: to store, or None to leave it and `deaths`.
        deaths: to store with it.
    """

    run: bytes
    thread_id: str
    owner: bytes
    status: str
    reason: str = ""
    attempts: int | None = None
    size: int = 0
    deaths: int = 0


class AdoptRun(msgspec.Struct, frozen=True):
    """Take over an open run whose owner's lease has expired; refused if another system did.

    The thread's epoch rises: later commits of the former owner are fenced. A running run is pending
    until its new owner has begun it. With the same owner as before only the counts are changed.

    Attributes:
        was: its owner when it was read.
        attempts: to store.
        deaths: to store.
    """

    run: bytes
    thread_id: str
    owner: bytes
    was: bytes | None
    attempts: int
    size: int = 0
    deaths: int = 0


class AskCancel(msgspec.Struct, frozen=True):
    """Ask the owner of an open run to cancel it; a run that has ended stays as it is.

    Attributes:
        earlier: ask the owners of all open runs of the thread that are older than `run` instead.
    """

    run: bytes
    thread_id: str
    reason: str
    size: int = 0
    earlier: bool = False


class RenewOwner(msgspec.Struct, frozen=True):
    """Extend an owner's lease to `lease_s` seconds from now, by the store's clock."""

    owner: bytes
    lease_s: float
    thread_id: str = ""
    size: int = 0


class DropOwner(msgspec.Struct, frozen=True):
    """End an owner's lease now: other systems may take over its open runs."""

    owner: bytes
    thread_id: str = ""
    size: int = 0


class EventRow(msgspec.Struct, frozen=True, gc=False):
    """One event of a run, or several that follow one another.

    Attributes:
        place: the offset of its last event; counts from 1.
        created: microseconds since 1970-01-01 UTC.
        payload: encoded.
    """

    place: int
    created: int
    payload: bytes


class StoreEvents(msgspec.Struct, frozen=True):
    """Append events of a run that `owner` has; refused if another one has it.

    Attributes:
        keep: how many of the run's newest events to keep.
        older_than: drop events made before this, in microseconds since 1970.
        replaces: the rows of the run from this place on, and below that of the first new row, are
            removed in the same transaction: the new row has their events. 0: none. Readers skip
            what they have, so a row that stays does no harm.
    """

    run: bytes
    thread_id: str
    owner: bytes
    rows: tuple[EventRow, ...]
    keep: int
    older_than: int
    size: int = 0
    replaces: int = 0

    @property
    def replaced(self) -> tuple[int, int] | None:
        """The first and the last place of the rows that are removed; None if there are none."""
        if not self.replaces or not self.rows:
            return None
        return self.replaces, self.rows[0].place - 1


class TrimRuns(msgspec.Struct, frozen=True):
    """Remove runs that have ended and were made, and could begin, before this; with their events.

    Attributes:
        older_than: microseconds since 1970-01-01 UTC.
    """

    older_than: int
    thread_id: str = ""
    size: int = 0


class ForgetRun(msgspec.Struct, frozen=True):
    """Remove a run that has ended, with its events; one that is open stays."""

    run: bytes
    thread_id: str
    size: int = 0


class SealRun(msgspec.Struct, frozen=True):
    """Replace the payload of a run and of some of its events, encrypted with a new key.

    Rows that are gone by now stay gone. The run's owner may go on meanwhile: nothing else ever
    changes a stored payload.

    Attributes:
        payload: of the run; None leaves it.
    """

    run: bytes
    thread_id: str
    payload: bytes | None
    events: tuple[EventRow, ...]
    size: int = 0


SystemRequest = (
    SealRun
    | PutRun
    | SetRun
    | AdoptRun
    | AskCancel
    | RenewOwner
    | DropOwner
    | StoreEvents
    | TrimRuns
    | ForgetRun
)
SYSTEM_REQUESTS = (
    SealRun,
    PutRun,
    SetRun,
    AdoptRun,
    AskCancel,
    RenewOwner,
    DropOwner,
    StoreEvents,
    TrimRuns,
    ForgetRun,
)


class ListRuns(msgspec.Struct, frozen=True):
    """Read runs, oldest first: a list of `RunRow`.

    Attributes:
        run: only this run.
        thread_id: only those of the thread.
        statuses: only these; empty for all.
        orphaned: only open ones whose owner's lease is not valid.
        asked_of: only open ones of this owner with a request to cancel.
        open_of: only open ones of these threads, without their payloads.
        among: only these runs.
    """

    run: bytes | None = None
    thread_id: str | None = None
    statuses: tuple[str, ...] = ()
    orphaned: bool = False
    asked_of: bytes | None = None
    open_of: tuple[str, ...] = ()
    among: tuple[bytes, ...] = ()


class SearchRuns(msgspec.Struct, frozen=True):
    """Read a page of runs of all threads, newest first: a list of `RunRow` without payloads.

    Attributes:
        limit: the most rows.
        statuses: only these; empty for all.
        graph: only runs of this graph.
        prefix: only runs of threads whose id begins with this.
        since: only runs accepted at or after this, in microseconds since 1970-01-01 UTC.
        floor: only runs whose id is at least this; ids rise with time, so it bounds the search.
        before: only runs whose id is below this.
    """

    limit: int
    statuses: tuple[str, ...] = ()
    graph: str | None = None
    prefix: str = ""
    since: int = 0
    floor: bytes = b""
    before: bytes = b"\xff" * 17


class ListOwners(msgspec.Struct, frozen=True):
    """Read the systems with a lease or an open run, by id: a list of `OwnerRow`."""


class OwnerRow(msgspec.Struct, frozen=True):
    """A system, as the store knows it.

    Attributes:
        owner: its id.
        lease_s: seconds until its lease ends; negative since it ended; None if it gave it up.
        runs: open runs that it has.
        adopted: those of them that another system had begun before.
    """

    owner: bytes
    lease_s: float | None
    runs: int
    adopted: int


class ListWaiting(msgspec.Struct, frozen=True):
    """Read open runs without a living owner that can begin now, oldest first: a list of `RunRow`.

    Left out are runs that are not due yet, and runs with another open run before them on their
    thread: one that has begun, or one with a lower id, which has the time from which a run may
    begin. The rows come without their payloads.

    Attributes:
        graphs: only runs of these graphs.
        builds: only runs of these builds; "" is every build's.
        now: microseconds since 1970-01-01 UTC.
        limit: the most rows.
        owned: only runs that have had an owner, which has died or left them.
    """

    graphs: tuple[str, ...]
    builds: tuple[str, ...]
    now: int
    limit: int
    owned: bool = False


class CountWaiting(msgspec.Struct, frozen=True):
    """Count the open runs that are due and that no system has had: a list with one `WaitingCount`.

    Attributes:
        limit: counting stops there.
        now: microseconds since 1970-01-01 UTC.
        builds: only runs of these builds; "" is every build's.
    """

    limit: int
    now: int
    builds: tuple[str, ...] = ()


class WaitingCount(msgspec.Struct, frozen=True):
    """The answer to `CountWaiting`.

    Attributes:
        runs: their number, at most the limit.
        oldest: when the oldest of them was made, or could begin, in microseconds since 1970-01-01
            UTC; 0 if no run waits.
    """

    runs: int
    oldest: int


EventT = TypeVar("EventT")


class EventPage(list[EventT]):
    """A page of events.

    Attributes:
        is_full: whether more events may follow it.
    """

    is_full = False


class ReadEvents(msgspec.Struct, frozen=True):
    """Read a page of a run's events after an offset: a list of `EventRow`, in order.

    Attributes:
        after: an offset; 0 for the first page.
        limit: events of the page.
        newest: read only the newest event.
        bytes_max: bytes of payloads with which the page ends: the event that reaches them is its
            last one. None for no bound.
    """

    run: bytes
    thread_id: str
    after: int
    limit: int
    newest: bool = False
    bytes_max: int | None = None

    def cut(self, rows: Iterable[EventRow]) -> "EventPage[EventRow]":
        """Take rows up to the bounds of the page, and no row more."""
        page, size = EventPage[EventRow](), 0
        for row in rows:
            page.append(row)
            size += len(row.payload)
            page.is_full = len(page) >= self.limit or (
                self.bytes_max is not None and size >= self.bytes_max
            )
            if page.is_full:
                break
        return page


SystemQuery = ListRuns | SearchRuns | ListOwners | ListWaiting | CountWaiting | ReadEvents
SYSTEM_QUERIES = (ListRuns, SearchRuns, ListOwners, ListWaiting, CountWaiting, ReadEvents)


class RunEvent(msgspec.Struct, frozen=True):
    """One event of a run, as its readers get it.

    Attributes:
        offset: counts from 1; pass it to `events(after=)` to continue behind it.
        kind: a stream mode ("values", "updates", "messages", "custom" ...), or one of
            "metadata" (an attempt begins: run_id, attempt), "retry" (a task begins anew, and its
            messages so far are dropped: task, node, attempt; only with mode "messages"), "gap"
            (events were missed: from, to, reason; a full "values" follows), "drain" (the system
            closes; the run goes on later),
            "error" (error, message), "end" (status, reason).
        data: the chunk of the mode, or a dict.
        namespace: of the subgraph that a chunk is from; () for the run itself.
        created: microseconds since 1970-01-01 UTC.
    """

    offset: int
    kind: str
    data: Any
    namespace: tuple[str, ...] = ()
    created: int = 0

    @property
    def ends(self) -> bool:
        """Whether it is the run's last event."""
        return self.kind == "end"
