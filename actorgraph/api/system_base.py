"""The lifecycle of an ActorSystem: construction, opening, closing, recovery of orphaned runs.

Opening takes a lease and starts the actors that renew it and watch for cancellations and turns.
Closing drains, then gives the lease back, so that another system can take over what is left.
"""

import gc
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, cast

import anyio
import msgspec
from anyio.abc import TaskGroup

from actorgraph.api.adopting import adapt_checkpointer
from actorgraph.api.compiled import CompiledBase
from actorgraph.api.savers import InMemorySaver
from actorgraph.api.system_calls import StartCall
from actorgraph.api.system_runs import codec_of, job_of
from actorgraph.errors import CheckpointError, InvalidConfigError, did_you_mean
from actorgraph.plan.stored_names import check_graph_name
from actorgraph.ports import Saver
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.hosting import Host, host_of, living_host
from actorgraph.runtime.mailbox import wait_shielded
from actorgraph.runtime.system.actor import SystemActor
from actorgraph.runtime.system.cancels import CancelWatch
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.journal import Journal
from actorgraph.runtime.system.keeper import EventRetention, Keeper
from actorgraph.runtime.system.leases import LeaseActor
from actorgraph.runtime.system.limits import SystemLimits
from actorgraph.runtime.system.turn_watch import TurnWatch
from actorgraph.runtime.system.watchdog import LoopWatchdog
from actorgraph.superstep.takeover import LeaveRun, MisfitRun, decide_takeover
from actorgraph.values.systems import OPEN_STATUSES, DropOwner, ListRuns, RunRow

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
        except BaseException as error:  # also a cancellation: close what was opened so far
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
