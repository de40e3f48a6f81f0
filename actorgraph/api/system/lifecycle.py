"""The lifecycle of an ActorSystem: construction, opening, closing, recovery of orphaned runs.

Opening takes a lease and starts the actors that renew it and watch for cancellations and turns.
Closing drains, then gives the lease back, so that another system can take over the remaining runs.
"""

import gc
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, cast

import anyio
import msgspec
from anyio.abc import TaskGroup

from actorgraph.api.graph.setup import CompiledBase
from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.api.savers.hosted import InMemorySaver
from actorgraph.api.system.runs import Run
from actorgraph.api.system.start import StartCall, codec_of, job_of, stored_call
from actorgraph.errors import (
    CheckpointError,
    InvalidConfigError,
    LeaseLostError,
    StorageBusyError,
    did_you_mean,
)
from actorgraph.errors.texts import storable
from actorgraph.plan.schema import check_graph_name
from actorgraph.ports import Saver
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import wait_shielded
from actorgraph.runtime.saver.hosting import Host, host_of, living_host
from actorgraph.runtime.system.actor import SystemActor
from actorgraph.runtime.system.job import Job, give_back_request
from actorgraph.runtime.system.journal import Journal
from actorgraph.runtime.system.leases import LeaseActor
from actorgraph.runtime.system.limits import SystemLimits
from actorgraph.runtime.system.peers import CancelWatch, TurnWatch, delete_replaced_runs
from actorgraph.runtime.system.stored_events import EventRetention, Keeper, decode_event
from actorgraph.runtime.system.watchdog import LoopWatchdog
from actorgraph.superstep.scheduling import (
    LeaveRun,
    MisfitRun,
    ParkRun,
    decide_takeover,
    misfit_reason,
    next_misfit,
)
from actorgraph.values.ids import as_text
from actorgraph.values.systems import (
    OPEN_STATUSES,
    AdoptRun,
    AskCancel,
    DropOwner,
    EventRow,
    ListRuns,
    ReadEvents,
    RunRow,
    SetRun,
)

CLOSING = "shutdown"
"""The reason of runs that a closing system leaves for `recover()`."""


class SystemBase:
    """Construction, opening and closing. Base of `ActorSystem`."""

    graphs: dict[str, CompiledBase]
    saver: Saver
    _loop_limit_s: float | None = None

    def _set_up(
        self,
        graphs: Mapping[str, Any],
        saver: Any,
        store: Any,
        limits: SystemLimits,
        *,
        max_threads: int | None,
        kept: EventRetention,
        ring: int,
        gc_threshold: int | None,
    ) -> None:
        _check(limits, max_threads, ring, gc_threshold)
        if not graphs:
            raise InvalidConfigError(
                "graphs must not be empty", do='use ActorSystem({"name": graph}, ...)'
            )
        for name in graphs:
            check_graph_name(name)
        given = saver if saver is not None else _common_saver(graphs)
        self.saver = cast("Saver", adapt_checkpointer(given))
        if getattr(self.saver, "guards", False):
            raise InvalidConfigError(
                "an ActorSystem can't use a GuardedSaver: it renews leases, recovers and lists "
                "runs for no principal",
                do="pass the wrapped saver, and check requests in "
                "GraphRoutes(system, authorize=...), or before start(), run() and cancel()",
            )
        self.graphs = {name: self._hosted(graph, store) for name, graph in graphs.items()}
        self.store: Any = store
        self._limits = limits
        self._max_threads = max_threads
        self._kept = kept
        self._ring = ring
        self._gc_threshold = gc_threshold
        self._keeps: bool = getattr(self.saver, "keeps_runs", False)
        self._actor = SystemActor(None, limits, keeps=self._keeps, owner=b"")
        self._stack: AsyncExitStack | None = None
        self._lease: LeaseActor | None = None
        self._misfits: dict[bytes, MisfitRun] = {}

    def _hosted(self, graph: Any, store: Any) -> CompiledBase:
        """Return the graph with the system's saver and store; without persistence it stays so."""
        changes: dict[str, Any] = {} if store is None else {"store": store}
        if graph.checkpointer is not False:
            codec = graph._codec_for(self.saver)  # noqa: SLF001 - a peer
            changes |= {"checkpointer": self.saver, "_codec": codec}
        return graph._changed(**changes)  # noqa: SLF001 - a peer

    @property
    def lease_s(self) -> float:
        """Seconds after which another system may take over a dead process's runs."""
        return self._limits.lease_s

    @property
    def _host(self) -> Host:
        assert self._actor.host is not None
        return self._actor.host

    async def _take_up(self, row: RunRow) -> Job | None:
        raise NotImplementedError

    async def _end_row(self, row: RunRow, reason: str) -> None:
        raise NotImplementedError

    async def _row(self, identity: bytes) -> RunRow | None:
        rows: list[RunRow] = await self._host.reader.ask(ListRuns(run=identity))
        return self._explained(rows[0]) if rows else None

    def _explained(self, row: RunRow) -> RunRow:
        """Return a row with the reason why its run can't be run here, if there is one."""
        if row.alive or row.status not in OPEN_STATUSES:
            return row
        known = self._misfits.get(row.run)
        if known is not None:
            return msgspec.structs.replace(row, reason=known.reason)
        verdict = decide_takeover(row, self.graphs, self._limits.attempts_max)
        reason = verdict.reason if isinstance(verdict, LeaveRun) else row.reason
        return msgspec.structs.replace(row, reason=reason)

    def _graph(self, name: str) -> CompiledBase:
        graph = self.graphs.get(name)
        if graph is None:
            raise InvalidConfigError(
                f"the system has no graph {name!r}", do=did_you_mean(name, list(self.graphs))
            )
        return graph

    def _job(self, call: StartCall, row: RunRow | None = None, *, first: int = 1) -> Job:
        """Make a run of this system and its journal; it is not started.

        Args:
            call: the arguments of `start`.
            row: of a run that was taken over.
            first: the offset of its first event.
        """
        graph = self._graph(call.name)
        journal = Journal(
            frozenset(call.modes), subgraphs=call.subgraphs, ring=self._ring, first=first
        )
        owner = self._actor.owner if self._keeps else None
        job = job_of(graph, call, journal, owner=owner, row=row)
        if call.resumable:
            journal.keeper = Keeper(
                self._host,
                codec_of(graph),
                job.id,
                job.thread_id,
                self._actor.owner,
                kept=self._kept,
                stored=first - 1,
                changed=journal.events_stored,
            )
        return job

    # --- opening and closing ---

    async def _open(self) -> None:
        if self._actor.group is not None or self._actor.draining is not None:
            raise InvalidConfigError(
                "this system has been entered before", do="make a new ActorSystem"
            )
        stack = AsyncExitStack()
        try:
            if living_host(self.saver) is None:
                await stack.enter_async_context(cast("Any", self.saver))
            actor = self._actor
            host, owner = host_of(self.saver), IDS.run()
            if self._max_threads is not None:
                actor.limiter = anyio.CapacityLimiter(self._max_threads)
            if self._keeps:
                # Before any run is accepted: rows of runs refer to their owner's lease.
                self._lease = LeaseActor(host, owner, self._limits.lease_s, self._lost_lease)
                await self._lease.take()
            # Pushed before the task group, so run after it: the lease is dropped when no task of
            # this system can write any more.
            stack.push_async_callback(self._drop_lease, host)
            group = await stack.enter_async_context(anyio.create_task_group())
            actor.open(host, owner, group)
            if self._lease is not None:
                group.start_soon(self._lease.serve)
                watch = CancelWatch(
                    host,
                    self._limits.lease_s,
                    owner=lambda: actor.owner,
                    cancel=actor.cancel_by_id,
                )
                group.start_soon(watch.serve)
                turns = TurnWatch(host, actor, take_up=self._take_up, end=self._end_row)
                group.start_soon(turns.serve)
            self._observe(group)
        except BaseException as error:  # also a cancellation: close all that is open so far
            await stack.__aexit__(type(error), error, error.__traceback__)
            raise
        if self._gc_threshold is not None:
            stack.callback(gc.set_threshold, *gc.get_threshold())
            gc.set_threshold(self._gc_threshold, *gc.get_threshold()[1:])
        self._stack = stack

    def _observe(self, group: TaskGroup) -> None:
        """Start the watchdog of the event loop, if there is a limit."""
        if self._loop_limit_s is not None:
            self._actor.watchdog = LoopWatchdog(self._loop_limit_s)
            group.start_soon(self._actor.watchdog.serve)

    async def _close(self) -> None:
        """Drain, stop, give the lease back, close the saver; not interrupted by cancellation."""
        stack, self._stack = self._stack, None
        if stack is None:
            return
        actor = self._actor
        assert actor.group is not None
        try:
            await wait_shielded(lambda: actor.drain(CLOSING, self._limits.drain_timeout_s))
        finally:
            actor.group.cancel_scope.cancel()
            await stack.aclose()

    async def _drop_lease(self, host: Host) -> None:
        """Give the lease back, so that another system can take over the remaining runs at once."""
        if self._keeps:
            with suppress(CheckpointError):  # then they can be taken over when it expires
                await host.writer.store(DropOwner(self._actor.owner))

    def _lost_lease(self) -> bytes:
        """Handle an expired lease: cancel its runs and continue with a new owner id.

        Another system may have taken the runs over, so this one must not write for them.

        Returns: the new owner id.
        """
        actor = self._actor
        for job in list(actor.jobs.values()):
            job.left_to_others = True
            actor.cancel(job, "the system's lease was lost")
        actor.owner = IDS.run()
        return actor.owner


def _common_saver(graphs: Mapping[str, Any]) -> Any:
    """Return the saver that the graphs were compiled with; one in memory if they have none.

    Raises:
        InvalidConfigError: they have different ones.
    """
    savers = {id(g.checkpointer): g.checkpointer for g in graphs.values()}
    own = [saver for saver in savers.values() if isinstance(saver, Saver)]
    if len(own) > 1:
        raise InvalidConfigError(
            f"the graphs were compiled with {len(own)} savers; a system has one",
            do="pass saver= to ActorSystem; all graphs run over it",
        )
    return own[0] if own else InMemorySaver()


def _check(
    limits: SystemLimits, max_threads: int | None, ring: int, gc_threshold: int | None
) -> None:
    numbers = {
        "max_runs": limits.max_runs,
        "max_threads": max_threads,
        "keep_events_in_memory": ring,
        "gc_threshold": gc_threshold,
        "attempts_max": limits.attempts_max,
        "lease_s": limits.lease_s,
        "max_unsaved_bytes": limits.max_unsaved_bytes,
    }
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise InvalidConfigError(f"{name} must be > 0, got {number!r}", do="use 1 or more")
    counts = {"max_queued": limits.max_queued, "max_waiting": limits.max_waiting}
    for name, number in {**counts, "drain_timeout_s": limits.drain_timeout_s}.items():
        if not number >= 0:
            raise InvalidConfigError(f"{name} must be >= 0, got {number!r}", do="use 0 or more")


def _fresh_offset(row: RunRow) -> int:
    """Return an event offset above those of earlier attempts, whose events were not stored.

    The microseconds since the run was accepted: an attempt has fewer events than that.
    """
    return max(1, time.time_ns() // 1000 - row.created)


class RecoveryMethods(SystemBase):
    """`recover`, and taking single runs over. Mixed into `ActorSystem`."""

    async def recover(self) -> list[Run]:
        """Take over orphaned runs: their process died, or drained and left them.

        A run that had started continues from its newest checkpoint; finished tasks are not
        executed again. One that was queued starts. One during which `attempts_max` processes
        died is parked: it stays in `runs()` with the status "parked" and the reason. One whose
        cancellation was requested is cancelled. One that this system can't run is left for
        another system, e.g. another version of the program: `runs()` has the reason,
        `statistics().misfits` counts them.

        Other systems on the same saver may call this at the same time; each run goes to one of
        them. A dead process's runs are orphaned once its lease expires, `lease_s` after its last
        renewal.

        Returns: the runs that this system has taken over, oldest first.
        Raises:
            SystemClosedError: the system is not open.
            StorageError: the saver can't be read.
        """
        if not self._keeps:
            return []
        found: list[RunRow] = await self._host.reader.ask(ListRuns(orphaned=True))
        self._misfits = {r.run: self._misfits[r.run] for r in found if r.run in self._misfits}
        jobs = [await self._take_up(row) for row in found]
        return [Run(job, self._actor.cancel) for job in jobs if job is not None]

    async def _take_up(self, row: RunRow) -> Job | None:
        """Take over an orphaned run, or cancel it if requested; None if it isn't run here."""
        if row.cancel is not None:
            await self._end_orphan(row, row.cancel)
            return None
        actor, known = self._actor, self._misfits.get(row.run)
        if row.run in actor.jobs or actor.admission_error("enqueue", row.thread_id):
            return None
        verdict = decide_takeover(row, self.graphs, self._limits.attempts_max)
        if isinstance(verdict, LeaveRun):
            self._note_misfit(row, verdict.reason)
            return None
        if known is not None and known.until > time.monotonic():
            return None  # it failed to start here a moment ago; wait before the next attempt
        if not await self._adopt(row, row.attempts + 1):
            return None
        # From here on the row belongs to this system, which must run it, park it or give it back.
        row = await self._row(row.run) or row  # with its payload, as it is stored now
        if isinstance(verdict, ParkRun):
            await self._park(row, verdict.reason)
            return None
        return await self._restart(row, claimed=row.claimed)

    def _note_misfit(self, row: RunRow, reason: str) -> None:
        known, now = self._misfits.get(row.run), time.monotonic()
        if known is None:
            ids = {"run_id": as_text(row.run), "thread_id": row.thread_id}
            log_event("warning", "run.misfit", **ids, reason=reason)
        misfit = next_misfit(known, reason, now, self._limits.lease_s / 3)
        self._misfits[row.run] = misfit

    async def _adopt(self, row: RunRow, attempts: int) -> bool:
        """Make this system the owner of an orphaned run; return whether that succeeded."""
        owner = self._actor.owner
        request = AdoptRun(row.run, row.thread_id, owner, row.owner, attempts)
        try:
            await self._host.writer.store(request)
        except LeaseLostError:
            return False
        except StorageBusyError as error:  # the owner is blocked in the middle of a save
            log_event("warning", "run.not_taken", run_id=as_text(row.run), error=repr(error))
            return False
        return True

    async def _end_orphan(self, row: RunRow, reason: str) -> None:
        """Cancel an orphaned run, unless another system has taken it over."""
        if await self._adopt(row, row.attempts):
            owner = self._actor.owner
            request = SetRun(row.run, row.thread_id, owner, "cancelled", storable(reason))
            await self._host.writer.store(request)

    async def _end_row(self, row: RunRow, reason: str) -> None:
        """Request the cancellation of a run from its owner; cancel an orphaned one."""
        if row.alive:
            await self._host.writer.store(AskCancel(row.run, row.thread_id, storable(reason)))
        else:
            await self._end_orphan(row, reason)

    async def _park(self, row: RunRow, reason: str) -> None:
        log_event(
            "error",
            "run.parked",
            thread_id=row.thread_id,
            run_id=as_text(row.run),
            reason=reason,
        )
        # This attempt executes nothing, so it is not counted.
        request = SetRun(
            row.run, row.thread_id, self._actor.owner, "parked", storable(reason), row.attempts - 1
        )
        await self._host.writer.store(request)

    async def _restart(self, row: RunRow, *, claimed: bool) -> Job | None:
        """Submit a run that was taken over; None if it was parked, or given back.

        Args:
            claimed: whether the run had claimed its thread, so that its input is stored there.
        """
        try:
            call, lacks = stored_call(self._graph(row.graph), row, claimed=claimed)
            if lacks:
                await self._park(row, f"part of its start arguments could not be stored: {lacks}")
                return None
            job = await self._job_of_row(call, row)
            job.adopted = True
            if job.if_busy == "rollback" and not claimed:
                await delete_replaced_runs(self._host, job)
        except CheckpointError as error:
            self._note_misfit(row, misfit_reason(error))
            await self._host.writer.store(give_back_request(row))
            return None
        if not self._actor.take_up(job):
            await self._host.writer.store(give_back_request(row))
            return None
        return job

    async def _job_of_row(self, call: StartCall, row: RunRow) -> Job:
        """Make the run of a row; its events continue after the stored ones."""
        first, in_order = (
            await self._next_offset(row) if call.resumable else (_fresh_offset(row), True)
        )
        job = self._job(call, row, first=first)
        values = await self._values(call.name, call.thread_id)
        job.journal.values = values
        if call.resumable and call.modes and not in_order:
            # Events after the newest stored one were lost in the crash; their number is unknown.
            job.journal.add("gap", {"from": first, "to": None})
            job.journal.add("values", values)
        return job

    async def _next_offset(self, row: RunRow) -> tuple[int, bool]:
        """Return the offset after a run's stored events, and whether they are complete.

        They are complete if its last attempt was drained. The row and the newest event must both
        say so: an attempt that died before it stored an event leaves the "drain" event of the
        attempt before as the newest one.
        """
        newest: list[EventRow] = await self._host.reader.ask(
            ReadEvents(row.run, row.thread_id, 0, 1, newest=True)
        )
        if not newest:
            return 1, not row.claimed
        codec = codec_of(self._graph(row.graph))
        drained = decode_event(codec, row.run, newest[0]).kind == "drain"
        return newest[0].place + 1, drained and row.attempts == 1  # a drain counts from 0 again

    async def _values(self, graph: str, thread_id: str) -> Any:
        """Return the current state of a thread."""
        config = {"configurable": {"thread_id": thread_id}}
        snapshot = await cast("Any", self._graph(graph)).aget_state(config)
        return snapshot.values
