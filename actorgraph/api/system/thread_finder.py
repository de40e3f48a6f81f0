"""ThreadFinder: finds the threads of a system's saver by their status, metadata, values and times.

A saver with `indexes_threads` keeps a row per thread and marks the threads that change. Before a
search the marked ones are read again. Over other savers each search reads every thread.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypedDict, cast
from uuid import NAMESPACE_OID, UUID, uuid5

import anyio
import msgspec

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.savers.stored_states import read_stored
from actorgraph.codec.records import decode_record
from actorgraph.errors import FormatVersionError, InvalidConfigError, did_you_mean
from actorgraph.errors.excerpts import shown
from actorgraph.errors.storage import DAMAGED, UNREADABLE
from actorgraph.rules.run_order import newest_of
from actorgraph.runtime.clock import microseconds_now
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.thread_runs import (
    AT_ONCE,
    runs_of_threads,
    without_later,
    works_on,
)
from actorgraph.savers.thread_facts import facts_of, metadata_facts
from actorgraph.values.commits import (
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    StoredCheckpoint,
    StoredClaim,
)
from actorgraph.values.ids import made_at
from actorgraph.values.retention import ListThreads
from actorgraph.values.state_snapshot import StateSnapshot
from actorgraph.values.systems import OPEN_STATUSES, ListRuns, RunRow
from actorgraph.values.thread_phase import PHASES, PhaseFacts, ThreadPhase, phase_of, still_works
from actorgraph.values.thread_rows import (
    FindThreads,
    IndexedThread,
    IndexThreads,
    ListMarks,
    ThreadFact,
    ThreadMark,
    ThreadOrder,
    ThreadRow,
    ThreadStatus,
    TrackThreads,
)

GRAPH = "graph_id"
"""The key in a thread's metadata for its graph's name."""
ASSISTANT = "assistant_id"
ROUNDS = 3
"""Attempts of a search at threads that change while it reads them."""
STATUSES = ("idle", "busy", "interrupted", "error")
LEASED = ("running", "cut_off")
"""Phases of threads that a run has: which of both it is depends on a lease or a clock. Without an
open run the index has "cut_off", and `updated` is the claim's time or later.
"""
ORDERS = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")


class ThreadInfo(msgspec.Struct, frozen=True):
    """A thread of an ActorSystem's saver, as `ActorSystem.threads` finds it.

    Attributes:
        graph: the name of the graph that wrote its state; "" if it is none of the system's.
        status: "busy" with an open run whose time has come, "interrupted" with tasks left, "error"
            if one of them has failed, else "idle".
        phase: "running", "waiting" (for a person), "sleeping" (until its time), "cut_off" (its
            process has died), "parked", "failed", "unfinished" or "ended"; `values/thread_phase`
            has the rule.
        steps: the step of its newest checkpoint; -1 without one.
        created_at: when it was registered over HTTP, else when it was found first.
        updated_at: when its metadata or its state was changed.
        state_updated_at: when its newest checkpoint was made.
        metadata: as registered over HTTP, else the names of its graph.
    """

    thread_id: str
    graph: str
    status: ThreadStatus
    steps: int
    created_at: datetime
    updated_at: datetime
    state_updated_at: datetime
    metadata: dict[str, Any]
    phase: ThreadPhase = "ended"


class ThreadFilter(TypedDict, total=False):
    """Filter of the threads that `ActorSystem.threads` and `count_threads` find; all optional.

    Attributes:
        prefix: the id begins with it.
        status: "idle", "busy", "interrupted" or "error".
        phase: see `ThreadInfo`.
        older_than: since at least this time it has made no checkpoint: its question, say, is
            about as old.
        graph: the name of the graph that wrote the state.
        metadata: keys that the metadata has, with equal values.
        values: keys that the state has, with equal values, of JSON's types. Over a saver that
            encrypts, or that has a serializer of its own, they are not in the index: the state of
            each thread that the rest finds is read.
    """

    prefix: str
    status: ThreadStatus | None
    phase: ThreadPhase | None
    older_than: timedelta | None
    graph: str | None
    metadata: Mapping[str, Any] | None
    values: Mapping[str, Any] | None


class ThreadSearchOptions(ThreadFilter, total=False):
    """Filter, order and page of `ActorSystem.threads`.

    Attributes:
        sort_by: "thread_id", "status", "created_at", "updated_at" (default) or "state_updated_at".
        descending: from the newest or highest on; default True.
        limit: the most threads; default 100, None for all.
        offset: threads to leave out at the beginning; default 0.
    """

    sort_by: ThreadOrder
    descending: bool
    limit: int | None
    offset: int


def thread_info(row: ThreadRow) -> ThreadInfo:
    """Return a row of the index as programs get it."""
    return ThreadInfo(
        row.thread_id,
        row.graph,
        cast("ThreadStatus", row.status),
        row.steps,
        _moment(row.created),
        _moment(row.updated),
        _moment(row.state_updated),
        msgspec.json.decode(row.metadata),
        cast("ThreadPhase", row.phase or _PHASE_OF.get(row.status, "ended")),
    )


_PHASE_OF = {"busy": "running", "interrupted": "unfinished", "error": "failed"}
"""Status -> phase of a thread whose row an older program has written since."""


def thread_query(
    *,
    prefix: str = "",
    status: str | None = None,
    phase: str | None = None,
    older_than: timedelta | None = None,
    graph: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    sort_by: str = "updated_at",
    descending: bool = True,
    limit: int | None = 100,
    offset: int = 0,
) -> FindThreads:
    """Check the arguments of a search.

    Raises:
        InvalidConfigError: one is out of range, or is not of JSON's types.
    """
    for name, value, known in (
        ("status", status, STATUSES),
        ("phase", phase, PHASES),
        ("sort_by", sort_by, ORDERS),
    ):
        if value is not None and value not in known:
            raise InvalidConfigError(
                f"unknown {name}={value!r}; expected one of {', '.join(known)}",
                do=did_you_mean(value, known),
            )
    numbers = {"limit": 1 if limit is None else limit, "offset": offset + 1}
    for name, number in numbers.items():
        if type(number) is not int or number < 1:
            given = {"limit": limit, "offset": offset}[name]
            raise InvalidConfigError(f"{name} is out of range: {given!r}", do="use a count >= 1")
    wanted = wanted_facts("m", metadata or {}) + wanted_facts("v", values or {})
    return FindThreads(
        prefix=prefix,
        facts=wanted,
        status=status or "",
        phase=phase or "",
        before=moment_before(older_than),
        graph=graph or "",
        order=cast("ThreadOrder", sort_by),
        down=descending,
        limit=limit,
        offset=offset,
    )


def moment_before(older_than: timedelta | None) -> int:
    """Return the time before which a thread's newest checkpoint must be; 0 for any.

    Raises:
        InvalidConfigError: the age is negative, or longer than time has been counted.
    """
    if older_than is None:
        return 0
    now = microseconds_now()
    before = now - older_than // timedelta(microseconds=1)
    if not 0 < before <= now:
        raise InvalidConfigError(
            f"older_than is out of range: {older_than!r}",
            do="pass a timedelta >= 0, such as timedelta(hours=1)",
        )
    return before


def wanted_facts(kind: str, wanted: Mapping[str, Any]) -> tuple[ThreadFact, ...]:
    """Return the facts that threads must have to contain wanted metadata ("m") or values ("v").

    Raises:
        InvalidConfigError: a value is not of JSON's types.
    """
    facts = facts_of(kind, wanted)
    if len(facts) < len(wanted):
        raise InvalidConfigError(
            f"threads can't be found by {shown(dict(wanted))}, which is not of JSON's types, or is "
            "nested too deeply",
            do="search for texts, numbers, booleans, None, and lists and dicts of them",
        )
    return facts


class ThreadFinder:
    """The threads of one system; see the module's docstring.

    Args:
        graphs: name -> graph of the system.
        saver: the system's.
        host: returns the saver's host; called only while the system is open.
    """

    def __init__(
        self, graphs: Mapping[str, CompiledStateGraph], saver: Any, host: Callable[[], Host]
    ) -> None:
        self._graphs = graphs
        self._host = host
        self._turn = anyio.Lock(fast_acquire=True)
        self._keeps: bool = getattr(saver, "keeps_runs", False)
        self.is_kept: bool = getattr(saver, "indexes_threads", False)
        self._codec: Any = getattr(saver, "codec", None)
        # A codec of the program's own may encrypt: then no value is put into an index either.
        self._is_plain: bool = not getattr(self._codec, "encodes_all", False)

    async def find(self, query: FindThreads) -> list[ThreadRow]:
        """Return the threads that a query finds, as they are now.

        Raises:
            StorageError: the saver can't be read, or the index can't be stored.
        """
        if not self.is_kept or self._hidden(query):
            return _page(await self._compared(query), query)
        await self.refresh()
        if query.phase in LEASED:
            return _page(await self._leased(query), query)
        return await self._with_leases(await self._host().reader.ask(query))

    async def _leased(self, query: FindThreads) -> list[ThreadRow]:
        """Return all threads of a phase that depends on a lease."""
        found: list[ThreadRow] = []
        for phase in LEASED:
            wider = msgspec.structs.replace(query, phase=phase, limit=None, offset=0)
            found += await self._host().reader.ask(wider)
        return [row for row in await self._with_leases(found) if row.phase == query.phase]

    async def _with_leases(self, rows: list[ThreadRow]) -> list[ThreadRow]:
        """Return rows as leases and clocks are now: nothing is stored when their times are over."""
        leased = [row.thread_id for row in rows if row.phase in LEASED]
        if not leased:
            return rows
        runs = await self.runs(leased)
        return [
            await self._as_now(row, runs.get(row.thread_id, ())) if row.phase in LEASED else row
            for row in rows
        ]

    async def _as_now(self, row: ThreadRow, runs: Sequence[RunRow]) -> ThreadRow:
        due = without_later(runs, self._host().clock.now())
        if any(run.status in OPEN_STATUSES for run in due):
            phase = phase_of(PhaseFacts(), due)
        elif row.phase == "running":  # its run has left since
            return row
        else:
            facts = PhaseFacts(left=True, held=True, works=await self._works(row))
            phase = phase_of(facts, due)
        return row if phase == row.phase else msgspec.structs.replace(row, phase=phase)

    async def _works(self, row: ThreadRow) -> bool:
        """Whether the run that has claimed a thread, without a lease, still works."""
        host = self._host()
        recent = still_works(None, row.updated, microseconds_now())
        if not recent and not host.writer.works(row.thread_id):
            return False  # without a read: threads that were cut off long ago may be many
        claim = await self._claim(row.thread_id)
        return claim is not None and await works_on(
            host, row.thread_id, claim.run, row.state_updated
        )

    async def count(self, query: FindThreads) -> int:
        """Return the number of threads that a query finds; raises as `find`."""
        if not self.is_kept or self._hidden(query):
            return len(await self._compared(query))
        await self.refresh()
        if query.phase in LEASED:
            return len(await self._leased(query))
        (found,) = await self._host().reader.ask(msgspec.structs.replace(query, counts=True))
        return found

    def _hidden(self, query: FindThreads) -> bool:
        """Whether a query compares values that may not be put into the index."""
        return not self._is_plain and any(fact.name.startswith("v.") for fact in query.facts)

    async def refresh(self, *, limit: int | None = None, idle: bool = False) -> int:
        """Read the threads that were changed since they were read last, and store their rows.

        Args:
            limit: the most threads.
            idle: only threads without an open run.
        Returns: how many were read.
        """
        async with self._turn:
            marks = await self._marks(limit, idle=idle)
            asked = {mark.thread_id for mark in marks}
            for _ in range(ROUNDS):
                for start in range(0, len(marks), AT_ONCE):
                    await self._read_again(marks[start : start + AT_ONCE])
                if not marks:
                    break
                # A thread that was changed while it was read is still marked.
                again = await self._marks(limit, idle=idle)
                marks = [mark for mark in again if mark.thread_id in asked]
            return len(asked)

    async def _marks(self, limit: int | None, *, idle: bool) -> list[ThreadMark]:
        host, query = self._host(), ListMarks(limit, idle)
        marks: list[ThreadMark] | None = await host.reader.ask(query)
        if marks is None:
            await host.writer.store(TrackThreads())
            marks = await host.reader.ask(query)
        return marks or []

    async def _read_again(self, marks: Sequence[ThreadMark]) -> None:
        found = await self._read([mark.thread_id for mark in marks])
        read = [(mark, *found[mark.thread_id]) for mark in marks]
        threads = tuple(
            [IndexedThread(mark, row, facts if self._is_plain else ()) for mark, row, facts in read]
        )
        await self._host().writer.store(IndexThreads(threads))

    async def _compared(self, query: FindThreads) -> list[ThreadRow]:
        """Return the threads that a query finds, in any order, by reading their states."""
        stored: dict[str, ThreadRow] = {}
        if self.is_kept:
            known = tuple(fact for fact in query.facts if not fact.name.startswith("v."))
            wider = msgspec.structs.replace(query, facts=known, limit=None, offset=0)
            rows = await self.find(wider)
            stored = {row.thread_id: row for row in rows}
        named = sorted(stored) if self.is_kept else await self._named(query)
        found: list[ThreadRow] = []
        for start in range(0, len(named), AT_ONCE):
            read = await self._read(named[start : start + AT_ONCE])
            for thread_id, (now, facts) in read.items():
                row = stored.get(thread_id, now)
                if row is not None and _fits(row, facts, query):
                    found.append(row)
        return found

    async def _named(self, query: FindThreads) -> list[str]:
        """Return the ids of threads with checkpoints or open runs."""
        reader = self._host().reader
        ids: set[str] = set(await reader.ask(ListThreads()))
        if self._keeps:
            runs: list[RunRow] = await reader.ask(ListRuns(statuses=OPEN_STATUSES))
            ids.update(run.thread_id for run in runs)
        return sorted(one for one in ids if one.startswith(query.prefix))

    async def _read(
        self, thread_ids: Sequence[str]
    ) -> dict[str, tuple[ThreadRow | None, tuple[ThreadFact, ...]]]:
        of_thread = await self.runs(thread_ids)
        found: dict[str, tuple[ThreadRow | None, tuple[ThreadFact, ...]]] = {}
        errors: list[Exception] = []

        async def read(thread_id: str) -> None:
            try:
                found[thread_id] = await self._read_one(thread_id, of_thread.get(thread_id, ()))
            except Exception as error:  # noqa: BLE001 - raised below, alone
                errors.append(error)

        async with anyio.create_task_group() as group:  # together they are few transactions
            for thread_id in thread_ids:
                group.start_soon(read, thread_id)
        if errors:
            raise errors[0]
        return found

    async def runs(self, thread_ids: Sequence[str]) -> dict[str, list[RunRow]]:
        """Read the stored runs of threads that are open or parked: id -> its runs."""
        return await runs_of_threads(self._host(), thread_ids) if self._keeps else {}

    async def _read_one(
        self, thread_id: str, runs: Sequence[RunRow]
    ) -> tuple[ThreadRow | None, tuple[ThreadFact, ...]]:
        opened = [run for run in runs if run.status in OPEN_STATUSES]
        run = newest_of(opened, self._host().clock.now())
        newest, broken, claimed = None, False, 0
        try:
            query = ListCheckpoints(thread_id=thread_id, namespace="", limit=1, bare=True)
            (newest,) = await self._host().reader.ask(query) or (None,)
            claim = None if runs or newest else await self._claim(thread_id)
            claimed = 0 if claim is None or claim.input is None else made_at(claim.run)
        except (*UNREADABLE, *DAMAGED):
            broken = True
        if newest is None and not runs and not broken and not claimed:
            return None, ()
        name = writer_of(self._graphs, newest) or (run.graph if run else "")
        graph = self._graphs.get(name)
        if graph is None and len(self._graphs) == 1:
            graph = next(iter(self._graphs.values()))
        snapshot, at = None, {"configurable": {"thread_id": thread_id}}
        try:
            if newest is not None and graph is None:
                snapshot = await read_stored(self._host(), self._codec, thread_id)
            elif graph is not None and (newest is not None or claimed):
                snapshot = await graph.aget_state(at)
        except (*UNREADABLE, *DAMAGED):
            broken = True
        due = without_later(runs, self._host().clock.now())
        busy = any(one.status in OPEN_STATUSES for one in due)
        status = "error" if broken else _status(snapshot, busy=busy)
        facts = PhaseFacts(failed=broken) if snapshot is None else snapshot.phase_facts()
        made = newest.row.created if newest else min((run.created for run in runs), default=claimed)
        known = thread_metadata_of(name) if name in self._graphs else {}
        changed = made
        if self.is_kept and facts.held and facts.left and not busy:
            # When the run works no more is known by the clock, at each search: see `_as_now`.
            facts = msgspec.structs.replace(facts, works=False)
            claim = await self._claim(thread_id)
            changed = made if claim is None else max(made, made_at(claim.run))
        row = ThreadRow(
            *(thread_id, name, status, made, changed, made, newest.row.step if newest else -1),
            msgspec.json.encode(known).decode(),
            phase=phase_of(facts, due),
        )
        values = {} if snapshot is None or graph is None else snapshot.values
        return row, facts_of("v", values)

    async def _claim(self, thread_id: str) -> StoredClaim | None:
        """Read the claim of the run that has a thread."""
        loaded: Loaded = await self._host().reader.ask(LoadCheckpoint(thread_id))
        return loaded.open_run


def thread_status(snapshot: StateSnapshot, *, busy: bool) -> ThreadStatus:
    """Return a thread's status: with tasks left it is interrupted, or its last run has failed."""
    if busy:
        return "busy"
    if any(task.error is not None for task in snapshot.tasks):
        return "error"
    return "interrupted" if snapshot.next else "idle"


def _status(snapshot: StateSnapshot | None, *, busy: bool) -> ThreadStatus:
    if snapshot is None:
        return "busy" if busy else "idle"
    return thread_status(snapshot, busy=busy)


def writer_of(graphs: Mapping[str, Any], stored: StoredCheckpoint | None) -> str:
    """Return the name of the graph that wrote a checkpoint; "" if it is none of these."""
    if stored is None:
        return ""
    try:
        writer = decode_record(stored.row.record).graph
    except FormatVersionError:  # raised again where the state itself is read
        return ""
    names = [name for name, graph in graphs.items() if graph.graph_id == writer]
    return names[0] if len(names) == 1 else ""


def thread_metadata_of(graph: str) -> dict[str, Any]:
    """Return the metadata that names a thread's graph."""
    return {GRAPH: graph, ASSISTANT: assistant_id(graph)}


@lru_cache(maxsize=256)
def assistant_id(graph: str) -> str:
    """Return the id of a graph's assistant: a UUID derived from its name."""
    return str(uuid5(_OURS, graph))


_OURS: UUID = uuid5(NAMESPACE_OID, "actorgraph.assistants")


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def _fits(row: ThreadRow, values: Iterable[ThreadFact], query: FindThreads) -> bool:
    facts = {*metadata_facts(row.metadata), *values}
    return (
        (query.ids is None or row.thread_id in query.ids)
        and query.status in ("", row.status)
        and query.phase in ("", row.phase)
        and (not query.before or row.state_updated < query.before)
        and query.graph in ("", row.graph)
        and facts.issuperset(query.facts)
    )


_FIELDS = {
    "created_at": "created",
    "updated_at": "updated",
    "state_updated_at": "state_updated",
}


def _page(rows: list[ThreadRow], query: FindThreads) -> list[ThreadRow]:
    name = _FIELDS.get(query.order, query.order)
    rows.sort(key=lambda row: (getattr(row, name), row.thread_id), reverse=query.down)
    end = None if query.limit is None else query.offset + query.limit
    return rows[query.offset : end]
