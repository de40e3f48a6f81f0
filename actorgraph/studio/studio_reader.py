"""StudioReader: what the pages read, of a running system or of a saver alone."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import anyio
import msgspec

from actorgraph.errors import ActorGraphError
from actorgraph.graph import CompiledStateGraph
from actorgraph.internals import (
    DAMAGED,
    OPEN_STATUSES,
    PHASES,
    UNREADABLE,
    Host,
    ListCheckpoints,
    Listing,
    Pages,
    RunRow,
    StatisticsSample,
    StoredCheckpoint,
    address_of,
    cursor_behind,
    host_of,
    iso,
    list_stored,
    moment_before,
    phase_of,
    read_steps,
    read_stored,
    runs_of_threads,
    thread_status,
    without_later,
)
from actorgraph.studio.steps import (
    ListedStep,
    bars_of,
    checkpoint_of,
    listed,
    listed_row,
    preview_of,
    recorded_of,
    says_what_follows,
    timed_bars,
)
from actorgraph.studio.waterfall import TaskBar
from actorgraph.systems import ActorSystem, Run, SystemOwner, ThreadInfo
from actorgraph.types import StateSnapshot
from actorgraph.web.endpoints.endpoint import Server
from actorgraph.web.endpoints.thread_state import is_busy, phase_in, remove_thread
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import NotFound
from actorgraph.web.http.question_words import Times, times_of
from actorgraph.web.registries.thread_registry import GRAPH, thread_metadata_of

EMPTY = StateSnapshot({}, (), {}, None, None, None, (), ())

STEPS_MAX = 50
"""Steps of one page."""
RUN_STEPS_MAX = 500
"""Steps among which those of a run are looked for."""
LOOKED_AT_MAX = 20_000
"""Checkpoints that are read to list threads without an index."""
READ_MAX = 200
"""Threads that are read at once."""
THREADS_MAX = 50
"""Threads of one page."""


class ListFilter(msgspec.Struct, frozen=True):
    """The threads to list; empty fields match all.

    Attributes:
        status: a phase (`values/thread_phase`), or one of LangGraph's statuses.
        older_than: seconds for which the thread has made no checkpoint.
    """

    prefix: str = ""
    status: str = ""
    graph: str = ""
    metadata: str = ""
    older_than: str = ""

    @property
    def age(self) -> timedelta | None:
        """The least age; None for any."""
        text = self.older_than
        return timedelta(seconds=int(text)) if text.isdecimal() and len(text) < 9 else None


class ThreadEntry(msgspec.Struct, frozen=True):
    """A thread in a list.

    Attributes:
        graph: the name of its graph; "" if unknown.
        status: LangGraph's.
        phase: what it waits for.
        steps: of its newest checkpoint; None if unknown.
        updated: ISO 8601 UTC.
        head: its newest state, if it was read.
        since: the same: when its newest checkpoint was made; "" if unknown.
    """

    thread_id: str
    graph: str
    status: str
    steps: int | None
    updated: str
    metadata: dict[str, Any]
    open_runs: bool = False
    phase: str = "ended"
    head: StateSnapshot | None = None
    since: str = ""


class Preview(msgspec.Struct, frozen=True):
    """What a thread says.

    Attributes:
        text: one line.
        times: what its open questions do by themselves; None if they only wait.
    """

    text: str = ""
    times: Times | None = None


NO_PREVIEW = Preview()


class ThreadsPage(msgspec.Struct, frozen=True):
    """A page of threads.

    Attributes:
        next: the cursor of the next page; None at the end.
        looked_at: checkpoints that were read, if that is not all of them.
        total: threads that match; None if they were not all counted.
    """

    rows: tuple[ThreadEntry, ...]
    next: str | None = None
    looked_at: int | None = None
    total: int | None = None


class StepsPage(msgspec.Struct, frozen=True):
    """A page of a thread's steps, newest first.

    Attributes:
        before: the checkpoint to list older steps with; None at the end.
        bars: their tasks, oldest first.
        head: the state of the thread's newest step as it is now, if the page begins with it.
    """

    steps: tuple[ListedStep, ...]
    before: str | None
    bars: tuple[TaskBar, ...] = ()
    head: StateSnapshot | None = None


class StudioReader:
    """Reads threads, runs and stores; see the module's docstring.

    Attributes:
        server: of the REST routes over the system; None for a studio that only reads.
        saver: the system's, or the one that is read.
        place: text at the top of each page.
    """

    def __init__(self, server: Server | None, saver: Any, place: str) -> None:
        self.server = server
        self.saver = saver if server is None else server.saver
        self.place = place

    @property
    def system(self) -> ActorSystem | None:
        """The running system; None for a studio that only reads."""
        return None if self.server is None else self.server.system

    @property
    def graphs(self) -> Mapping[str, CompiledStateGraph]:
        """Name -> graph; empty without a system."""
        return {} if self.server is None else self.server.graphs

    @property
    def store(self) -> Any:
        """The system's store; None without one."""
        return None if self.system is None else self.system.store

    def graph_of(self, entry: ThreadEntry) -> CompiledStateGraph:
        """Return the graph of a thread.

        Raises:
            NotFound: it isn't known.
        """
        found = self.graphs.get(entry.graph)
        if found is None:
            raise NotFound(f"the graph of thread {entry.thread_id!r} is not one of this system")
        return found

    async def thread(self, thread_id: str) -> ThreadEntry | None:
        """Read one thread; None if it doesn't exist."""
        if self.server is None:
            return await self._stored_thread(thread_id)
        found = await self.server.threads.get(thread_id)
        if found is None:
            return None
        assert self.system is not None
        busy = await is_busy(self.system, thread_id)
        entry = ThreadEntry(
            thread_id,
            str(found.metadata.get(GRAPH) or ""),
            "busy" if busy else "idle",
            None,
            found.updated_at,
            dict(found.metadata),
            busy,
        )
        head = await self.head(entry)
        status = thread_status(head, busy=busy)
        phase = await phase_in(self.system, thread_id, head, busy=busy)
        return msgspec.structs.replace(
            entry, status=status, phase=phase, steps=_number(head), head=head
        )

    @property
    def _host(self) -> Host:
        return host_of(self.saver)

    async def _stored(self, thread_id: str, checkpoint: str = "") -> StateSnapshot | None:
        at = _named(thread_id, checkpoint)
        return await read_stored(self._host, self.saver.codec, thread_id, at)

    async def _stored_thread(self, thread_id: str) -> ThreadEntry | None:
        found = await self._stored(thread_id)
        if found is None:
            return None
        keeps = getattr(self.saver, "keeps_runs", False)
        runs = await runs_of_threads(self._host, [thread_id]) if keeps else {}
        return _entry(thread_id, found, runs.get(thread_id, ()), self._host.clock.now())

    async def _stored_threads(
        self,
        asked: ListFilter,
        at: int,
        needed: Mapping[str, Any],
        allows: Callable[[ThreadEntry], Awaitable[bool]] | None,
    ) -> ThreadsPage:
        """List threads by their checkpoints, which are sorted by time."""
        rows, known, looked_at = list[ThreadEntry](), set[str](), 0
        # Without values: one thread that can't be read is listed like the others.
        query = ListCheckpoints(None, "", limit=LOOKED_AT_MAX, bare=True)
        heads: Pages[StoredCheckpoint] = Pages(Listing(self._host.reader.ask, query).page)
        async for one in heads:
            looked_at += 1
            if one.thread_id in known:
                continue
            known.add(one.thread_id)
            try:
                entry = await self._stored_thread(one.thread_id)
            except (*UNREADABLE, *DAMAGED):
                made = iso(one.row.created)
                entry = ThreadEntry(one.thread_id, "", "error", None, made, {}, phase="failed")
            if entry is None:  # removed meanwhile
                continue
            fits = matches(entry, asked) and contains(entry.metadata, needed)
            if fits and (allows is None or await allows(entry)):
                rows.append(entry)
            if len(rows) > at + THREADS_MAX:
                break
        page = tuple(rows[at : at + THREADS_MAX])
        if len(rows) > at + THREADS_MAX:
            return ThreadsPage(page, str(at + THREADS_MAX))
        return ThreadsPage(page, None, looked_at if looked_at == LOOKED_AT_MAX else None)

    async def head(self, entry: ThreadEntry) -> StateSnapshot:
        """Read the newest state of a thread."""
        graph = self.graphs.get(entry.graph)
        if graph is None:
            return await self._stored(entry.thread_id) or EMPTY
        place = {"configurable": {"thread_id": entry.thread_id}}
        return await graph.aget_state(place)

    async def threads(
        self,
        asked: ListFilter,
        needed: Mapping[str, Any],
        at: int,
        allows: Callable[[ThreadEntry], Awaitable[bool]] | None,
    ) -> ThreadsPage:
        """Read a page of threads, the last updated first.

        Args:
            needed: what their metadata must contain, by the filter and by the rules of access.
            at: threads before the page.
            allows: whether one may be read; None asks no rules.
        """
        if self.server is None:
            return await self._stored_threads(asked, at, needed, allows)
        assert self.system is not None
        is_kept = self.system.thread_finder.is_kept
        wanted = _search_of(asked, needed if is_kept else {})
        if is_kept and allows is None:  # the index alone knows the page and its total
            found = await self.system.threads(**wanted, limit=THREADS_MAX, offset=at)
            total = await self.system.count_threads(**wanted)
            page = tuple([_listed(one) for one in found])
            more = str(at + THREADS_MAX) if total > at + len(page) else None
            return ThreadsPage(page, more, total=total)
        rows: list[ThreadEntry] = []
        offset, size = 0, READ_MAX if is_kept else None
        while len(rows) <= at + THREADS_MAX:
            found = await self.system.threads(**wanted, limit=size, offset=offset)
            for one in found:
                entry = await self._registered(one)
                fits = contains(entry.metadata, needed)
                if fits and (allows is None or await allows(entry)):
                    rows.append(entry)
            offset += len(found)
            if size is None or len(found) < size:  # all were read
                page = tuple(rows[at : at + THREADS_MAX])
                more = str(at + THREADS_MAX) if len(rows) > at + THREADS_MAX else None
                return ThreadsPage(page, more, total=len(rows))
        return ThreadsPage(tuple(rows[at : at + THREADS_MAX]), str(at + THREADS_MAX))

    async def previews(self, rows: Sequence[ThreadEntry]) -> dict[str, Preview]:
        """Read what each thread of a page says: its question, or its last message.

        Returns: by id; without those that can't be read.
        """
        found: dict[str, Preview] = {}

        async def read(entry: ThreadEntry) -> None:
            with suppress(*UNREADABLE, *DAMAGED, ActorGraphError, TypeError, ValueError):
                head = await self.head(entry)
                found[entry.thread_id] = Preview(preview_of(head), times_of(head.interrupts))

        async with anyio.create_task_group() as group:  # together they are few transactions
            for entry in rows:
                group.start_soon(read, entry)
        return found

    async def _registered(self, one: ThreadInfo) -> ThreadEntry:
        """Return a thread of the index; where the saver keeps none, with its registration."""
        entry = _listed(one)
        assert self.server is not None
        assert self.system is not None
        if self.system.thread_finder.is_kept:
            return entry
        known = await self.server.threads.get(one.thread_id)
        return entry if known is None else msgspec.structs.replace(entry, metadata=known.metadata)

    async def runs(
        self,
        asked: Any,
        wanted: Mapping[str, Any],
        after: str | None,
        limit: int,
        allows: Callable[[ThreadEntry], Awaitable[bool]] | None,
    ) -> "RunsPage":
        """Read a page of runs, newest first; runs of later times come last."""
        if self.system is None:
            return RunsPage(())
        rows: list[Run] = []
        while len(rows) < limit:
            found = await self.system.search_runs(
                [asked.status] if asked.status else (),
                graph=asked.graph or None,
                thread_prefix=asked.prefix,
                limit=limit,
                cursor=after or None,
            )
            rows += [run for run in found.runs if await self._is_visible(run, wanted, allows)]
            after = found.cursor
            if after is None:
                break
        if len(rows) > limit:  # the rest begins the next page
            return RunsPage(
                tuple(rows[:limit]), cursor_behind(rows[limit - 1].row.run, self._host.clock.now())
            )
        return RunsPage(tuple(rows), after)

    async def _is_visible(
        self,
        run: Run,
        wanted: Mapping[str, Any],
        allows: Callable[[ThreadEntry], Awaitable[bool]] | None,
    ) -> bool:
        """Whether the rules of access let a run's thread be read; None asks no rules."""
        if not wanted and allows is None:
            return True
        assert self.server is not None
        known = await self.server.threads.get(run.thread_id)
        if known is None:
            return False
        if not contains(known.metadata, wanted):
            return False
        entry = ThreadEntry(run.thread_id, run.graph, "", None, "", dict(known.metadata))
        return allows is None or await allows(entry)

    async def owners(self) -> list[SystemOwner]:
        """Return the systems over the same saver, with their leases."""
        return [] if self.system is None else await self.system.owners()

    def history(self) -> list[StatisticsSample]:
        """Return the system's recent figures, oldest first."""
        return [] if self.system is None else self.system.statistics_history()

    async def register(self, thread_id: str, graph: str, metadata: Mapping[str, Any]) -> None:
        """Register a thread, unless it is."""
        assert self.server is not None
        given = {**metadata, **thread_metadata_of(graph)} if graph else dict(metadata)
        _, known = await self.server.threads.make(thread_id, given, if_exists="do_nothing")
        known.must_hold(metadata)  # another principal may have made it meanwhile

    async def merge_metadata(self, entry: ThreadEntry, metadata: Mapping[str, Any]) -> None:
        """Merge metadata into a thread's."""
        assert self.server is not None
        found = await self.server.threads.get(entry.thread_id)
        if found is None:
            raise NotFound.thread(entry.thread_id)
        await self.server.threads.merge(found, metadata)

    async def delete(self, entry: ThreadEntry) -> None:
        """Cancel the thread's runs, and remove it."""
        assert self.server is not None
        await remove_thread(self.server, entry.thread_id)

    async def step(self, entry: ThreadEntry, checkpoint: str) -> StateSnapshot | None:
        """Read one step; None if it doesn't exist."""
        graph = self.graphs.get(entry.graph)
        if graph is None:
            return await self._stored(entry.thread_id, checkpoint)
        return await graph.aget_state(entry.thread_id, checkpoint)

    async def steps(self, entry: ThreadEntry, before: str | None) -> StepsPage:
        """Read a page of steps, newest first; the newest of all as it is now."""
        place = address_of({"configurable": {"thread_id": entry.thread_id}}, needs_thread=True)
        rows = await read_steps(
            self._host,
            self.saver.codec,
            place,
            before=_named(entry.thread_id, before or ""),
            limit=STEPS_MAX + 1,
        )
        found, shown = [listed_row(row) for row in rows], rows[:STEPS_MAX]
        bars = timed_bars([one for one in shown if one.tasks or one.next], busy=entry.open_runs)
        if not says_what_follows(found):
            states = await self._states(entry, before)
            found, bars = [listed(state) for state in states], bars or bars_of(states[:STEPS_MAX])
        head: StateSnapshot | None = None
        if found and before is None:
            head = entry.head
            if head is None or checkpoint_of(head) != found[0].checkpoint_id:
                head = await self.head(entry)
            found[0] = listed(head)
        older = found[STEPS_MAX - 1].checkpoint_id if len(found) > STEPS_MAX else None
        return StepsPage(tuple(found[:STEPS_MAX]), older, tuple(bars), head)

    async def _states(self, entry: ThreadEntry, before: str | None) -> list[StateSnapshot]:
        """Read the states of a page of steps, whose rows don't say what follows them."""
        graph, limit = self.graphs.get(entry.graph), STEPS_MAX + 1
        if graph is None:
            after = _named(entry.thread_id, before or "")
            host, codec = self._host, self.saver.codec
            rows = list_stored(host, codec, entry.thread_id, before=after, limit=limit)
            return [state async for state in rows]
        pages = graph.aget_state_history(thread_id=entry.thread_id, before=before, limit=limit)
        return [state async for state in pages]

    async def steps_of_run(self, entry: ThreadEntry, run_id: str) -> list[ListedStep]:
        """Read the steps that a run made, newest first, among the newest `RUN_STEPS_MAX`."""
        found: list[ListedStep] = []
        before: str | None = None
        for _ in range(RUN_STEPS_MAX // STEPS_MAX):
            page = await self.steps(entry, before)
            mine = [one for one in page.steps if one.run == run_id]
            found += mine
            before = page.before
            if before is None or (found and not mine):  # the steps of a run are together
                break
        return found


class RunsPage(msgspec.Struct, frozen=True):
    """A page of runs; `next` is the cursor of the next page."""

    rows: tuple[Any, ...]
    next: str | None = None


def metadata_of(text: str) -> dict[str, Any]:
    """Read the metadata that threads must have.

    Raises:
        ValueError: it is not a JSON object.
    """
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        text = 'the metadata must be a JSON object, such as {"user": "ada"}'
        raise ValueError(text)  # noqa: TRY004 - one error for all texts that don't fit
    return found


def matches(entry: ThreadEntry, asked: ListFilter) -> bool:
    """Whether a thread is one of those that are asked for."""
    return (
        entry.thread_id.startswith(asked.prefix)
        and asked.status in ("", entry.status, entry.phase)
        and asked.graph in ("", entry.graph)
        and (asked.age is None or entry.updated < iso(moment_before(asked.age)))
    )


def _search_of(asked: ListFilter, metadata: Mapping[str, Any]) -> Any:
    """Return the options of a search for threads."""
    return {
        "prefix": asked.prefix,
        "phase" if asked.status in PHASES else "status": asked.status or None,
        "older_than": asked.age,
        "graph": asked.graph or None,
        "metadata": dict(metadata),
    }


def _named(thread_id: str, checkpoint: str) -> bytes | None:
    """Return the checkpoint of an address; None for ""."""
    if not checkpoint:
        return None
    place = {"thread_id": thread_id, "checkpoint_id": checkpoint}
    return address_of({"configurable": place}, needs_thread=True).checkpoint


def _entry(thread_id: str, head: StateSnapshot, runs: Sequence[RunRow], now: int) -> ThreadEntry:
    due = without_later(runs, now)
    busy = any(row.status in OPEN_STATUSES for row in due)
    status, phase = thread_status(head, busy=busy), phase_of(head.phase_facts(), due)
    made = head.created_at or ""
    return ThreadEntry(thread_id, "", status, _number(head), made, {}, busy, phase, since=made)


def _listed(one: ThreadInfo) -> ThreadEntry:
    return ThreadEntry(
        one.thread_id,
        one.graph,
        one.status,
        one.steps if one.steps >= 0 else None,
        one.updated_at.isoformat(),
        one.metadata,
        one.status == "busy",
        one.phase,
        since=one.state_updated_at.isoformat(),
    )


def _number(step: StateSnapshot) -> int | None:
    number = recorded_of(step).get("step")
    return number if isinstance(number, int) else None
