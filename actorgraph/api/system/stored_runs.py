"""Runs that are known from their rows: stored for any system, searched, looked at.

Rows without an owner are for workers, for a later time, or stored once for many callers. With a
dispatcher a worker claims them; without one this system takes them up itself when they are due,
and `recover()` of any system those that were left.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Unpack

import anyio
import msgspec

from actorgraph.api.system.lifecycle import LifecycleMethods
from actorgraph.api.system.run_arguments import (
    StartCall,
    StartOptions,
    check_routing,
    checked_call,
    payload_of,
    read_arguments,
)
from actorgraph.api.system.run_handle import Run, RunAccess, StoredRun
from actorgraph.api.system.run_search import (
    RunPage,
    SystemOwner,
    cursor_behind,
    fits,
    is_later,
    queries_of,
    run_query,
    system_owner,
)
from actorgraph.errors import CheckpointError, InvalidConfigError
from actorgraph.loops import in_turns
from actorgraph.rules.run_order import waits_for_time
from actorgraph.rules.system.scheduling import RefuseFull, is_replaced, replacement_reason
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.system.capacity import full, too_busy
from actorgraph.runtime.system.dispatch_actor import DispatchActor
from actorgraph.runtime.system.sampling import StatisticsSample
from actorgraph.runtime.system.stored_events import read_page
from actorgraph.runtime.system.stored_reader import POLL_S
from actorgraph.values.ids import as_text, run_id_at, run_id_of
from actorgraph.values.systems import (
    AskCancel,
    EventPage,
    IfBusy,
    ListOwners,
    ListRuns,
    OwnerRow,
    PutRun,
    RunEvent,
    RunRow,
    RunStatus,
    SearchRuns,
)


class StoredRunMethods(LifecycleMethods):
    """Stores runs without an owner; searches runs; reads figures and other systems."""

    async def start_once(
        self,
        graph: str,
        thread_id: str,
        input: Any,
        *,
        key: str,
        moment: datetime,
        if_busy: IfBusy = "enqueue",
        **options: Unpack[StartOptions],
    ) -> Run:
        """Start a run that is stored once, however many systems call this with the same key.

        The run's id is made of the key and the moment. While the run or its row exists, another
        call changes nothing. The row is removed with its thread, by `forget`, and by `trim` as
        that says.

        Args:
            graph: as for `start`.
            thread_id: as for `start`.
            input: as for `start`.
            key: names the run among all runs of that moment, such as "reports/daily".
            moment: when it begins, at the earliest; with a time zone. One in the past means now.
            if_busy: as for `start`.
            options: as for `start`; the moment is its delay.
        Returns: the run, from this call or an earlier one.
        Raises: as `start`; with "reject" also if the run itself is still open.
        """
        if moment.tzinfo is None:
            raise InvalidConfigError(
                f"moment must have a time zone, got {moment!r}", do="use datetime.now(UTC)"
            )
        self._graph(graph)
        self._check_delay()
        due = round(moment.timestamp() * 1e6)
        identity = run_id_of(due // 1000, key)
        delay_s = max(0.0, (due - self._host.clock.now()) / 1e6)
        given: StartOptions = {**options, "delay_s": delay_s}
        self._is_for_others(graph, given)
        await self._start_elsewhere(
            graph, thread_id, input, if_busy, given, new=False, identity=identity
        )
        return await self.run(as_text(identity))

    async def run(self, run_id: str) -> Run:
        """Return a run by its id; see `ActorSystem.run`."""
        raise NotImplementedError

    def _check_delay(self) -> None:
        if not (self._keeps and self._delays):
            raise InvalidConfigError(
                "a delayed run needs a saver that stores its time, which "
                f"{type(self.saver).__name__} doesn't",
                do="use SqliteSaver, PostgresSaver, JsonlSaver or InMemorySaver",
            )

    def _is_for_others(self, graph: str, options: StartOptions) -> bool:
        """Whether a run that is started now is stored for any worker."""
        delayed = False
        if "priority" in options or "delay_s" in options:
            check_routing(options)
            self._check_routing(priority=options.get("priority"))
            delayed = options.get("delay_s", 0) > 0
        if delayed:
            self._check_delay()
        if self._dispatch is None:
            return delayed
        if not self._policy.accepts:
            raise InvalidConfigError(
                'this system has role="work": it runs what others accept',
                do='start runs in a system with role="accept" or "both"',
            )
        actor = self._actor
        taken = len(actor.jobs) - len(actor.lent)
        full = taken >= actor.limits.max_runs - self._policy.reserve
        if graph in self._policy.max_runs_of:
            full = full or not self._graph_room()[graph]
        return self._policy.role == "accept" or full or delayed

    async def _start_elsewhere(
        self,
        graph: str,
        thread_id: str,
        given: Any,
        if_busy: IfBusy,
        options: StartOptions,
        *,
        new: bool,
        identity: bytes | None = None,
    ) -> Run:
        """Store a run that no system has; returns once it is durable.

        Args:
            new: whether the thread has just got its id, so that no other run can have it.
            identity: the run's id; None for a new one. One that is stored already stays as it is.
        """
        dispatch, actor = self._dispatch, self._actor
        await actor.turn("enqueue", thread_id)
        if dispatch is not None:
            thread, waits = "" if new else thread_id, not options.get("delay_s")
            await self._check_room_elsewhere(dispatch, thread, if_busy, waits=waits)
        call = checked_call(
            graph,
            thread_id,
            given,
            {"resumable": True, **options},
            keeps=self._keeps,
            if_busy=if_busy,
        )
        row, looked = self._free_row(call, options, identity), time.monotonic()
        if row.due and not new:
            await self._check_delayed(row)
        requests: list[PutRun | AskCancel] = [PutRun(row, thread_id, len(row.payload), if_busy)]
        replaces = if_busy in ("interrupt", "rollback") and not new
        # A delayed run replaces the open runs of now; others that wait for their times stay.
        before = min(row.run, IDS.run())
        if replaces:
            reason = replacement_reason(row.run)
            requests.append(AskCancel(before, thread_id, reason, earlier=True))
        # Handed over at once, so that they are one transaction.
        await self._host.writer.store(*requests)
        if replaces:
            await self._end_earlier(row, before)
        if self._dispatcher is not None and not self._dispatcher.in_commit:
            assert dispatch is not None
            dispatch.announce_soon([row])
        if dispatch is None:
            self._take_up_when_due(row)
        return self._stored(row, looked)

    async def _end_earlier(self, row: RunRow, before: bytes) -> None:
        """End the runs that a stored run replaces: wake their systems, or end them here.

        An error is only logged: the run is stored, and so is that these are to be cancelled.

        Args:
            before: the ids of these are lower.
        """
        try:
            rows: list[RunRow] = await self._host.reader.ask(ListRuns(open_of=(row.thread_id,)))
            for old in rows:
                if is_replaced(old, row.run, before):
                    await self._end_row(old, replacement_reason(row.run))
        except CheckpointError as error:
            log_event("warning", "dispatch.failed", where="end_earlier", error=repr(error))

    async def _check_room_elsewhere(
        self, dispatch: DispatchActor, thread_id: str, if_busy: IfBusy, *, waits: bool
    ) -> None:
        """Refuse a run if too many wait for workers, or for its thread.

        Args:
            thread_id: "" for a new thread.
            waits: whether the run will wait for a worker; one of a later time waits for that.
        """
        limits = self._actor.limits
        waiting = await dispatch.depth(limits.max_queued + 1)
        if waiting.runs > limits.max_queued:
            self._actor.refused += 1
            raise too_busy(f"{waiting.runs} runs wait for a worker", "raise max_queued", limits)
        dispatch.stored_since += waits
        if not thread_id or if_busy != "enqueue":
            return
        now = self._host.clock.now()
        rows: list[RunRow] = await self._host.reader.ask(ListRuns(open_of=(thread_id,)))
        before = [row for row in rows if not waits_for_time(row, now)]
        if len(before) > limits.max_waiting:
            self._actor.refused += 1
            raise full(thread_id, RefuseFull(len(before) - 1), limits)

    async def _check_delayed(self, row: RunRow) -> None:
        """Refuse a delayed run if too many of its thread wait for their times."""
        limits, now = self._actor.limits, self._host.clock.now()
        rows: list[RunRow] = await self._host.reader.ask(ListRuns(open_of=(row.thread_id,)))
        delayed = {other.run for other in rows if waits_for_time(other, now)}
        if row.run not in delayed and len(delayed) >= limits.max_waiting:
            self._actor.refused += 1
            raise full(row.thread_id, RefuseFull(len(delayed)), limits)

    def _free_row(
        self, call: StartCall, options: StartOptions, identity: bytes | None = None
    ) -> RunRow:
        """Make the row of a run that any worker may claim."""
        row = self._job(call).row
        delay_s = options.get("delay_s", 0.0)
        due = row.created + int(delay_s * 1e6) if delay_s else 0
        if identity is None and due:
            identity = run_id_at(row.run, due // 1000)
        if identity is not None:
            payload = payload_of(self._graph(call.name), call, identity)
            row = msgspec.structs.replace(row, run=identity, payload=payload)
        row = self._routed(row, options)
        return msgspec.structs.replace(row, owner=None, attempts=0, due=due)

    def _routed(self, row: RunRow, options: StartOptions) -> RunRow:
        """Return a row with the build and the priority of its run."""
        priority = options.get("priority", 0)
        return msgspec.structs.replace(row, build=self._policy.build, priority=priority)

    def statistics_history(self) -> list[StatisticsSample]:
        """Return samples of the last half hour, one every five seconds, oldest first.

        They are of this process, since the system was opened.
        """
        return list(self._sampler.samples)

    async def search_runs(
        self,
        statuses: Sequence[RunStatus] = (),
        *,
        graph: str | None = None,
        thread_prefix: str = "",
        since: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> RunPage:
        """Search the runs of all threads, newest first, a page at a time.

        Runs of later times come behind all others, that of the latest time first.

        Args:
            statuses: only runs with one of these; default all.
            graph: only runs of this graph.
            thread_prefix: only runs of threads whose id begins with this.
            since: only runs accepted then or later.
            limit: the most runs of the page, at most 1,000.
            cursor: `RunPage.cursor` of the page before.
        Raises:
            InvalidConfigError: an argument is invalid.
            StorageError: the saver can't be read.
        """
        query = run_query(
            statuses=statuses,
            graph=graph,
            thread_prefix=thread_prefix,
            since=since,
            limit=limit,
            cursor=cursor,
        )
        if self._keeps:
            rows = await self._found(query, later=is_later(cursor))
        else:
            jobs = (*self._actor.ended.values(), *self._actor.jobs.values())
            known = {job.id: msgspec.structs.replace(job.row, status=job.status) for job in jobs}
            fit = (row for _, row in sorted(known.items(), reverse=True) if fits(row, query))
            rows = list(islice(fit, limit))
        live = [self._live(row.run) for row in rows]  # before other tasks have turns

        def made(number: int) -> Run:
            return live[number] or self._stored(self._explained(rows[number]))

        runs = await in_turns(range(len(rows)), made)
        full_page = len(rows) == limit
        return RunPage(
            runs, cursor_behind(rows[-1].run, self._host.clock.now()) if full_page else None
        )

    async def _found(self, query: SearchRuns, *, later: bool) -> list[RunRow]:
        """Read a page of runs: those up to now, and, where these end, those of later times."""
        found: list[RunRow] = []
        for part in queries_of(query, self._host.clock.now(), later=later):
            if left := query.limit - len(found):
                found += await self._host.reader.ask(msgspec.structs.replace(part, limit=left))
        return found

    async def owners(self) -> list[SystemOwner]:
        """Return the systems over this saver that have a lease or an open run, by their ids.

        Raises:
            StorageError: the saver can't be read.
        """
        if not self._keeps:
            return []
        rows: list[OwnerRow] = await self._host.reader.ask(ListOwners())
        return [system_owner(row, self._actor.owner) for row in rows]

    def _pause_of(self, run: bytes, since: float) -> Callable[[], Awaitable[None]]:
        """Make a function that waits until a run of another process may have changed.

        Args:
            since: the time of the last look at it, in seconds of `time.monotonic()`.
        """
        dispatch = self._dispatch
        if dispatch is None:
            return partial(anyio.sleep, POLL_S)
        return dispatch.waits.pause_of(run, since)

    def _live(self, identity: bytes) -> Run | None:
        """Return a run that is in this process's memory and was not left to another system."""
        actor = self._actor
        job = actor.jobs.get(identity) or actor.ended.get(identity)
        if job is None or (job.elsewhere and actor.draining is None):
            return None
        return Run(job, actor.cancel)

    async def _reread(self, run: bytes) -> RunRow | None:
        """Read the row of a run that a caller waits for."""
        if self._dispatch is None:
            return await self._row(run)
        row = await self._dispatch.row(run)
        return None if row is None else self._explained(row)

    def _stored(self, row: RunRow, looked: float = 0.0) -> StoredRun:
        """Return a run that is known from its row alone.

        Args:
            looked: a time before which the row was stored or read, in seconds of
                `time.monotonic()`; 0 to read it again before its news are waited for.
        """
        graph = self.graphs.get(row.graph) or next(iter(self.graphs.values()))
        codec = graph.codec

        async def page(after: int) -> EventPage[RunEvent]:
            return await read_page(self._host, codec, row.run, row.thread_id, after)

        async def values() -> Any:
            return await self._values(row.graph, row.thread_id)

        access = RunAccess(
            reread=partial(self._reread, row.run),
            page=page,
            values=values,
            ask_cancel=self._end_row,
            taken_up=lambda: self._live(row.run),
            draining=lambda: self._actor.draining,
            make_pause=partial(self._pause_of, row.run),
            hears=self._dispatch is not None,
            decode=partial(read_arguments, graph),
            saver=self._actor.saver_number,
            now=self._host.clock.now,
        )
        return StoredRun(row, msgspec.json.decode(row.metadata), access, looked)
