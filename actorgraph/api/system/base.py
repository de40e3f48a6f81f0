"""The base of an ActorSystem: its construction, the rows of its runs, the making of a run."""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, cast

import msgspec

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.api.savers.hosted import InMemorySaver
from actorgraph.api.system.run_arguments import StartCall, job_of
from actorgraph.api.system.thread_figures import ThreadCounter
from actorgraph.api.system.thread_finder import ThreadFinder
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.errors.excerpts import shown
from actorgraph.errors.texts import NAME_REFUSED, is_storable_name
from actorgraph.plan.schema import check_graph_name
from actorgraph.ports import Dispatcher, Saver
from actorgraph.rules.system.dispatching import graph_room
from actorgraph.rules.system.scheduling import MisfitRun, Share, misfit_of
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.system.actor import SystemActor
from actorgraph.runtime.system.capacity import SystemLimits, unopened_system
from actorgraph.runtime.system.dispatch_actor import DispatchActor, DispatchPolicy
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.journal import Journal
from actorgraph.runtime.system.leases import LeaseActor
from actorgraph.runtime.system.sampling import Sampler
from actorgraph.runtime.system.statistics import AlarmCounts, SystemStatistics, statistics_of
from actorgraph.runtime.system.stored_events import EventRetention, Keeper
from actorgraph.values.dispatch import Role
from actorgraph.values.durations import checked_seconds
from actorgraph.values.systems import OPEN_STATUSES, ListRuns, RunRow

_ROLES: tuple[Role, ...] = ("accept", "work", "both")


class SystemBase:
    """Holds the graphs, the saver and the limits of an `ActorSystem`, and its actor."""

    graphs: dict[str, CompiledStateGraph]
    saver: Saver
    thread_finder: ThreadFinder
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
        dispatcher: Dispatcher | None,
        policy: DispatchPolicy,
    ) -> None:
        _check_graphs(graphs)
        _check(limits, max_threads, ring, gc_threshold)
        checked_seconds("keep_events_s", kept.seconds, zero=True, default="0 or more seconds")
        _check_dispatch(dispatcher, policy, limits)
        _check_graph_limits(dispatcher, policy.max_runs_of, graphs)
        given = saver if saver is not None else _common_saver(graphs)
        self.saver = cast("Saver", adapt_checkpointer(given))
        if getattr(self.saver, "guards", False):
            raise InvalidConfigError(
                "an ActorSystem can't use a GuardedSaver: it renews leases, recovers and lists "
                "runs for no principal",
                do="pass the wrapped saver, and check requests in "
                "GraphRoutes(system, authorize=...), or before start(), run() and cancel()",
            )
        self.graphs = {n: g.hosted_by(self.saver, store, n) for n, g in graphs.items()}
        self.store: Any = store
        self._limits = limits
        self._max_threads = max_threads
        self._kept = kept
        self._ring = ring
        self._gc_threshold = gc_threshold
        self._keeps: bool = getattr(self.saver, "keeps_runs", False)
        self._set_up_dispatch(dispatcher, policy)
        self._actor = SystemActor(None, limits, keeps=self._keeps, owner=b"")
        self._stack: AsyncExitStack | None = None
        self._lease: LeaseActor | None = None
        self._misfits: dict[bytes, MisfitRun] = {}
        self._alarm_counts = AlarmCounts()
        self._expected: set[bytes] = set()
        self._owners: set[bytes] = set()
        self._sampler = Sampler(self.statistics)
        self.thread_finder = ThreadFinder(self.graphs, self.saver, lambda: self._host)
        self.thread_counter = ThreadCounter(
            self.thread_finder, lambda: self._host, keeps=self._keeps
        )

    def statistics(self) -> SystemStatistics:
        """Return counts of runs, threads, queues and refusals."""
        dispatch = None if self._dispatch is None else self._dispatch.known_statistics()
        return statistics_of(
            self._actor,
            misfits=len(self._misfits),
            alarms=self._alarm_counts,
            dispatch=dispatch,
        )

    def _set_up_dispatch(self, dispatcher: Dispatcher | None, policy: DispatchPolicy) -> None:
        if dispatcher is not None and not self._keeps:
            raise InvalidConfigError(
                f"a dispatcher needs a saver that stores runs, which {type(self.saver).__name__} "
                "doesn't",
                do="use PostgresSaver for many machines, or SqliteSaver for one",
            )
        self._routes: bool = getattr(self.saver, "routes_runs", False)
        self._delays: bool = self._routes or getattr(self.saver, "delays_runs", False)
        self._dispatcher = dispatcher
        self._policy = policy
        self._share = Share(frozenset(self.graphs), policy.builds, policy.works)
        self._dispatch: DispatchActor | None = None
        self._check_routing(build=policy.build)

    def _check_routing(self, **given: object) -> None:
        """Refuse a build or a priority over a saver that would not store it."""
        named = [name for name, value in given.items() if value]
        if named and not (self._routes and self._dispatcher is not None):
            raise InvalidConfigError(
                f"{named[0]}= needs a dispatcher, and a saver that stores it",
                do="pass dispatcher= to ActorSystem, and use PostgresSaver, JsonlSaver or "
                "InMemorySaver",
            )

    def _graph_room(self) -> dict[str, int]:
        """Count the runs that this system may take, of each graph that has a limit."""
        limits = self._policy.max_runs_of
        return graph_room(limits, self._actor.runs_by_graph()) if limits else {}

    @contextmanager
    def _coming(self, graphs: Iterable[str], adopted: Collection[RunRow] = ()) -> Generator[None]:
        """Count runs as taken while they are made ready, so that no more than the limit begin.

        Args:
            graphs: of each of the runs.
            adopted: those that this system may own in the store before they are its runs.
        """
        count = Counter(graphs)
        self._actor.coming.update(count)
        if adopted:
            self._actor.adoptions.add(adopted)
        try:
            yield
        finally:
            self._actor.coming.subtract(count)
            if adopted:
                self._actor.adoptions.drop(adopted)
            if self._dispatch is not None:
                self._dispatch.freed()

    @property
    def lease_s(self) -> float:
        """Seconds after which another system may take over a dead process's runs."""
        return self._limits.lease_s

    @property
    def builds(self) -> tuple[str, ...]:
        """The builds whose runs this system runs, its own first; () for those without a build."""
        return tuple(self._policy.builds)

    @property
    def _host(self) -> Host:
        if self._actor.host is None:
            raise unopened_system()
        return self._actor.host

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
        reason = misfit_of(row, self._share) or row.reason
        return msgspec.structs.replace(row, reason=reason)

    def _graph(self, name: str) -> CompiledStateGraph:
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
        job = job_of(graph, call, journal, owner=owner, now=self._host.clock.now(), row=row)
        if call.resumable:
            journal.keeper = Keeper(
                self._host,
                graph.codec,
                job.id,
                job.thread_id,
                self._actor.owner,
                kept=self._kept,
                stored=first - 1,
                changed=self._on_stored(job.id, journal),
            )
        return job

    def _on_stored(self, run: bytes, journal: Journal) -> Callable[[], None]:
        """Make the function that is called when events of a run are stored."""
        dispatch = self._dispatch
        if dispatch is None:
            return journal.events_stored

        def stored() -> None:
            journal.events_stored()
            dispatch.changed(run)

        return stored

    async def _values(self, graph: str, thread_id: str) -> Any:
        """Return the current state of a thread."""
        config = {"configurable": {"thread_id": thread_id}}
        snapshot = await self._graph(graph).aget_state(config)
        return snapshot.values


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


def policy_of(
    role: Role,
    build: str,
    builds: Sequence[str],
    reserve: int,
    max_runs_of: Mapping[str, int] | None,
) -> DispatchPolicy:
    """Make the policy of a system: it runs the runs of its own build too."""
    own = (build,) if build else ()
    every = tuple(dict.fromkeys((*own, *builds)))
    return DispatchPolicy(role, build, every, reserve, dict(max_runs_of or {}))


def checked_loop_limit(loop_limit_s: float | None) -> float | None:
    """Return the limit for blocked event loops.

    Raises:
        InvalidConfigError: it is not positive.
    """
    if loop_limit_s is not None:
        checked_seconds("loop_limit_s", loop_limit_s, default="seconds, such as 0.1, or None")
    return loop_limit_s


def _check_dispatch(
    dispatcher: Dispatcher | None, policy: DispatchPolicy, limits: SystemLimits
) -> None:
    if policy.role not in _ROLES:
        raise InvalidConfigError(
            f"unknown role={policy.role!r}; expected one of {', '.join(_ROLES)}",
            do=did_you_mean(policy.role, _ROLES),
        )
    for build in (policy.build, *policy.builds):
        if not isinstance(build, str) or not is_storable_name(build or "-"):
            raise InvalidConfigError(
                f"{build!r} can't be the name of a build: {NAME_REFUSED}",
                do="use e.g. a version or the start of a digest",
            )
    if dispatcher is None and (policy.role != "both" or policy.reserve):
        raise InvalidConfigError(
            "role= and reserve= need a dispatcher",
            do="pass dispatcher=, such as actorgraph.dispatch.PGQueuerDispatcher()",
        )
    if not 0 <= policy.reserve < limits.max_runs:
        raise InvalidConfigError(
            f"reserve must be >= 0 and less than max_runs={limits.max_runs}, "
            f"got {policy.reserve!r}",
            do="keep a tenth of max_runs free, or so",
        )


def _check_graphs(graphs: Mapping[str, Any]) -> None:
    given: Any = graphs  # programs are often not type-checked
    if not isinstance(given, Mapping):
        raise InvalidConfigError(
            f"graphs must be a dict of names and compiled graphs, got {shown(given)}",
            do='use ActorSystem({"name": graph}, ...)',
        )
    if not graphs:
        raise InvalidConfigError(
            "graphs must not be empty", do='use ActorSystem({"name": graph}, ...)'
        )
    for name, graph in graphs.items():
        check_graph_name(name)
        if not hasattr(graph, "hosted_by"):
            raise InvalidConfigError(
                f"graph {name!r} must be a compiled graph, got {shown(graph)}",
                do="pass the result of compile()",
            )


def _check_graph_limits(
    dispatcher: Dispatcher | None, max_runs_of: Mapping[str, int], graphs: Mapping[str, Any]
) -> None:
    if max_runs_of and dispatcher is None:
        raise InvalidConfigError(
            "max_runs_of= needs a dispatcher, with which runs above the limit wait",
            do="pass dispatcher=, such as actorgraph.dispatch.PGQueuerDispatcher()",
        )
    for graph, most in max_runs_of.items():
        if graph not in graphs:
            raise InvalidConfigError(
                f"max_runs_of has {graph!r}, which is not a graph of the system",
                do=did_you_mean(graph, list(graphs)),
            )
        if type(most) is not int or most < 1:
            raise InvalidConfigError(
                f"max_runs_of[{graph!r}] must be an integer >= 1, got {most!r}",
                do="leave a graph that this system must not run out of graphs",
            )


def _check(
    limits: SystemLimits, max_threads: int | None, ring: int, gc_threshold: int | None
) -> None:
    numbers = {
        "max_runs": limits.max_runs,
        "max_threads": max_threads,
        "keep_events_in_memory": ring,
        "gc_threshold": gc_threshold,
        "attempts_max": limits.attempts_max,
        "max_unsaved_bytes": limits.max_unsaved_bytes,
    }
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise InvalidConfigError(f"{name} must be > 0, got {number!r}", do="use 1 or more")
    counts = {"max_queued": limits.max_queued, "max_waiting": limits.max_waiting}
    for name, number in counts.items():
        if not number >= 0:
            raise InvalidConfigError(f"{name} must be >= 0, got {number!r}", do="use 0 or more")
    checked_seconds("lease_s", limits.lease_s, default="the default, 15")
    for name in ("drain_timeout_s", "retry_after_s"):
        checked_seconds(name, getattr(limits, name), zero=True, default="0 or more seconds")
