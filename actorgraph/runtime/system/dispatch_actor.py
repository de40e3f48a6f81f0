"""DispatchActor: the runs that a system gets from others, and gives to others.

Takes      hints of a `Dispatcher`, while the system has free slots; claims their runs, up to 512 in
           one transaction, and settles the hints
Next       when a run has ended here, claims the next run of its thread
New        announces the runs that wait for a worker; nothing waits for the engine meanwhile
Sweep      looks in the saver for runs that no living system has, and announces them again: a lost
           hint costs a sweep, never a run. Those that still wait at the next sweep, or whose engine
           is away, it claims itself: their hints are behind others, or nowhere
News       publishes, at most once per `NEWS_S`, of which runs events were stored; passes news of
           others to readers (`NewsWaits`) and to the watch of cancellations
Bounds     `reserve` slots are for runs that have lost their system
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import random

import anyio
import msgspec

from actorgraph.rules.system.dispatching import (
    BATCH_MAX,
    claimable,
    following,
    graph_room,
    queues_of,
    room,
    within_room,
    within_slots,
)
from actorgraph.rules.system.scheduling import Share
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate, Mailbox
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.system.actor import SystemActor
from actorgraph.runtime.system.engine_link import EngineLink
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.news_waits import NewsWaits, taken
from actorgraph.runtime.system.row_batches import RowBatches
from actorgraph.values.dispatch import Hint, News, Role, hint_of
from actorgraph.values.systems import CountWaiting, ListRuns, ListWaiting, RunRow, WaitingCount

TAKEN_MAX = 32
"""Hints that are taken at once: few, so that workers share a burst of runs."""
NEWS_S = 0.02
"""Shortest time between two publications; readers of other processes are behind by that."""
CLAIM_S = 0.01
"""Shortest time between two claims, of hinted runs and of next ones each: a transaction costs more
than a run, so under load they gather meanwhile. An idle system claims at once."""
SWEEP_S = 1.0
"""Longest time between two sweeps; a third of the lease if that is shorter."""
NEW_S = 5.0
"""Age at which a run that no system has had is announced again: its hint may be on its way.

The lease, if that is shorter."""
SWEPT_MAX = 128
"""Runs that a sweep claims at most: workers share those whose hints don't come."""
NEW_MAX = 10_000
"""Hints of new runs that wait to be announced; sweeps find the runs of others."""
FLUSH_S = 5.0
"""Seconds in which a system that closes announces what it has left to others."""
RETRY_S = 1.0
"""Pause after an error of the dispatcher or the saver."""
UNSENT_MAX = 10_000
"""News that are kept for the next publication when one has failed."""
DEPTH_S = 0.5
"""Seconds for which a count of the waiting runs is used to accept others."""
COUNT_S = 5.0
"""Seconds between two counts of the waiting runs for metrics."""

TakeUp = Callable[[Sequence[RunRow]], Awaitable[Sequence[Job]]]


class DispatchPolicy(msgspec.Struct, frozen=True):
    """The part of a system in the dispatch; see `ActorSystem`.

    Attributes:
        role: what the system does.
        build: of the program; "" for none.
        builds: whose runs it runs: its own and those of other builds that it is compatible with.
        reserve: slots kept free for runs that have lost their system.
        max_runs_of: graph -> the most runs of it that the system has.
    """

    role: Role = "both"
    build: str = ""
    builds: tuple[str, ...] = ()
    reserve: int = 0
    max_runs_of: Mapping[str, int] = {}

    @property
    def accepts(self) -> bool:
        """Whether the system accepts runs."""
        return self.role != "work"

    @property
    def works(self) -> bool:
        """Whether the system runs runs."""
        return self.role != "accept"


class DispatchStatistics(msgspec.Struct, frozen=True):
    """Figures of the dispatch.

    Attributes:
        waiting: runs that no system has accepted yet, at most `max_queued` + 1.
        oldest_s: seconds for which the oldest of them waits; 0 without any.
        claimed: runs that this system has claimed.
        announced_again: hints that this system has sent for runs without a living system.
        away_s: seconds for which the dispatcher's engine has not answered; 0 if it does.
        unreadable: messages of the engine that this system has dropped because they can't be read.
    """

    waiting: int
    oldest_s: float
    claimed: int
    announced_again: int
    away_s: float = 0.0
    unreadable: int = 0


class DispatchActor:
    """Takes and gives runs; see the module's docstring.

    Args:
        link: to the other systems.
        heard: the news that `link` brings.
        share: the runs that the system runs.
        take_up: adopts runs, and submits those that were adopted.
        look_for_cancels: reads the requests to cancel runs of this system.

    Attributes:
        claimed: number of runs that it has claimed.
        swept: number of runs that it has announced again.
        stored_since: runs that this system has stored for workers since the last count.
        waits: of its readers for news.
    """

    def __init__(
        self,
        host: Host,
        actor: SystemActor,
        link: EngineLink,
        heard: Mailbox[News],
        policy: DispatchPolicy,
        *,
        share: Share,
        take_up: TakeUp,
        look_for_cancels: Callable[[], Awaitable[None]],
    ) -> None:
        self._host = host
        self._actor = actor
        self._link = link
        self._policy = policy
        self._share = share
        self._graphs = tuple(share.graphs)
        self._take_up = take_up
        self._look_for_cancels = look_for_cancels
        self._period_s = min(SWEEP_S, actor.limits.lease_s / 3)
        self._freed = Gate()
        self._ended: dict[str, None] = {}
        self._left: list[RunRow] = []
        self._some_ended = Gate()
        self._new: dict[bytes, Hint] = {}
        self._some_new = Gate()
        self._swept: frozenset[bytes] = frozenset()
        self._heard = heard
        self._cancelled: dict[bytes, None] = {}
        self._changed: dict[bytes, None] = {}
        self._some_changed = Gate()
        self.waits = NewsWaits(lambda: actor.draining is not None or not link.brings_news)
        self._counted_at = float("-inf")
        self._count = WaitingCount(0, 0)
        self.stored_since = 0
        self.claimed = 0
        self.swept = 0
        self._rows = RowBatches(host)
        actor.on_left.append(self._on_left)
        actor.trials.on_released.append(self.freed)
        actor.lent.on_lent.append(self.freed)

    async def serve(self) -> None:
        """Take part until cancelled. The dispatcher is open."""
        works = [
            *(self._announce_new, self._publish, self._listen, self._keep_counting),
            *(self.waits.wake_readers, self.waits.end_long_waits),
        ]
        if self._policy.works:
            works += [self._serve_hints, self._serve_threads, self._sweep]
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._link.serve)
                for work in works:
                    group.start_soon(self._repeat, work)
        finally:
            self.waits.end()

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        """Call a function that ends by an error alone, again after a pause."""
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - an adapter of others may raise anything
                self._log(work.__name__.removeprefix("_"), error)
                await anyio.sleep(RETRY_S)

    def _log(self, where: str, error: Exception) -> None:
        if not self._link.has_logged(error):
            log_event("warning", "dispatch.failed", where=where, error=repr(error))

    # --- runs that are offered ---

    async def _serve_hints(self) -> None:
        pace = _Pace(CLAIM_S)
        while self._actor.draining is None:
            await pace.wait()
            all_kinds, new = self._room()
            full = self._full_graphs()
            graphs = [graph for graph in self._graphs if graph not in full]
            if not all_kinds or not graphs:
                self._freed = Gate()
                await self._freed.wait()
                continue
            queues = queues_of(graphs, self._policy.builds, rescue_only=not new)
            limit = min(new or all_kinds, TAKEN_MAX)
            hints = await self._take(queues, limit, of_all=bool(new) and not full)
            if self._actor.draining is not None:
                await self._link.release(hints)
                break
            if not hints:
                continue
            over = await self._claim(tuple(dict.fromkeys(hint.run for hint in hints)))
            await self._link.settle([hint for hint in hints if hint.run not in over])
            if over:  # other systems may have room for them, and this one has later
                await self._link.release([hint for hint in hints if hint.run in over])
        await anyio.sleep_forever()

    async def _take(self, queues: Sequence[str], limit: int, *, of_all: bool) -> Sequence[Hint]:
        """Take hints; none if there is room for runs of more queues at last.

        Args:
            of_all: whether these are all queues of the system.
        """
        if of_all:
            return await self._link.take(queues, limit)
        hints: Sequence[Hint] = ()
        self._freed = freed = Gate()

        async def until_freed(scope: anyio.CancelScope) -> None:
            await freed.wait()
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(until_freed, group.cancel_scope)
            hints = await self._link.take(queues, limit)
            group.cancel_scope.cancel()
        return hints

    def _room(self) -> tuple[int, int]:
        jobs, reserve = self._actor.jobs, self._policy.reserve
        if self._actor.trials.holding:
            return 0, 0
        rescued = sum(job.rescued for job in jobs.values()) if reserve else 0
        taken = len(jobs) - len(self._actor.lent)
        return room(taken, rescued, self._actor.limits.max_runs, reserve)

    def _full_graphs(self) -> set[str]:
        """The graphs of which the system has as many runs as it may."""
        return {graph for graph, count in self._graph_room().items() if not count}

    def _graph_room(self) -> dict[str, int]:
        limits = self._policy.max_runs_of
        return graph_room(limits, self._actor.runs_by_graph()) if limits else {}

    async def _claim(self, runs: tuple[bytes, ...]) -> set[bytes]:
        """Claim hinted runs; return those that are left because of the limit of their graph."""
        rows: list[RunRow] = await self._host.reader.ask(ListRuns(among=runs))
        threads = tuple(dict.fromkeys(row.thread_id for row in rows))
        if not threads:
            return set()
        open_rows = await self._host.reader.ask(ListRuns(open_of=threads))
        return {row.run for row in await self._claim_of(rows, open_rows)}

    async def _claim_of(
        self, rows: Sequence[RunRow], open_rows: Sequence[RunRow]
    ) -> Sequence[RunRow]:
        """Claim those of the runs that may be claimed; return those above their graph's limit."""
        fits = claimable(rows, open_rows, self._share, self._host.clock.now())
        fits, above = within_room(fits, self._graph_room())
        if fits and self._actor.draining is None:
            self.claimed += len(await self._take_up(fits))
        return above

    def freed(self) -> None:
        """Look again whether there is room for runs."""
        self._freed.open()

    def _on_left(self, job: Job) -> None:
        self._freed.open()
        self._changed[job.id] = None
        self._some_changed.open()
        if job.requeued and not job.misfit:  # that one is given back later; sweeps find it
            self._leave(job.row)
        if not job.elsewhere:
            self._ended[job.thread_id] = None
            self._some_ended.open()

    def _leave(self, row: RunRow) -> None:
        """Announce a run that this system has given back; while it drains, all at its end."""
        row = msgspec.structs.replace(row, payload=b"", metadata="{}")  # hints don't need them
        if self._actor.draining is not None:
            self._left.append(row)
        elif self._actor.group is not None:
            self._actor.group.start_soon(self.hand_over, [row])

    async def _serve_threads(self) -> None:
        """Claim the next run of each thread that has become free here."""
        # Needed, because the hint of a run that had to wait for its thread is settled: the system
        # that ends the run before it is the first to know that its turn has come.
        pace = _Pace(CLAIM_S)
        while True:
            self._some_ended = gate = Gate()
            if not self._ended:
                await gate.wait()
            await pace.wait()
            threads = taken(self._ended)
            open_rows = await self._host.reader.ask(ListRuns(open_of=threads))
            due = following(open_rows, self._host.clock.now())
            await self._claim_of(within_slots(due, *self._room()), open_rows)
            left = {row.run for row in due} - self._actor.jobs.keys()
            self._announce_again([row for row in due if row.run in left])

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(self._period_s * (0.75 + 0.5 * random()))  # noqa: S311 - spread only
            now = self._host.clock.now()
            # Orphans first and on their own: behind more new runs than one query reads they would
            # not be seen.
            orphans = await self._waiting(now, owned=True)
            away = self._link.is_away
            lost = now if away else now - int(min(NEW_S, self._actor.limits.lease_s) * 1e6)
            new = [row for row in await self._waiting(now, owned=False) if not row.owner]
            new = [row for row in new if max(row.created, row.due) < lost]
            rows = [*orphans, *new]
            await self._claim_around([row for row in rows if away or row.run in self._swept])
            self._swept = frozenset(row.run for row in rows)
            self._announce_again(rows)

    async def _claim_around(self, rows: Sequence[RunRow]) -> None:
        """Claim runs without their hints, as far as there is room."""
        threads = tuple(dict.fromkeys(row.thread_id for row in rows))
        if not threads or not self._room()[0]:
            return
        open_rows: list[RunRow] = await self._host.reader.ask(ListRuns(open_of=threads))
        runs = {row.run for row in rows}
        runs -= self._actor.jobs.keys()  # left behind by a lost lease, and not ended yet
        due = [row for row in following(open_rows, self._host.clock.now()) if row.run in runs]
        await self._claim_of(within_slots(due, *self._room())[:SWEPT_MAX], open_rows)

    async def _waiting(self, now: int, *, owned: bool) -> list[RunRow]:
        # Without the graphs of which this system may have no more: more of their runs than one
        # query reads would hide those of other graphs. Systems with room for them find them.
        full = self._full_graphs()
        graphs = tuple(graph for graph in self._graphs if graph not in full)
        if not graphs:
            return []
        query = ListWaiting(graphs, self._policy.builds, now, BATCH_MAX, owned)
        return await self._host.reader.ask(query)

    def _announce_again(self, rows: Sequence[RunRow]) -> None:
        self.swept += len(rows)
        self.announce_soon(rows)

    async def hand_over(self, rows: Sequence[RunRow]) -> None:
        """Announce runs that this system leaves to others.

        An error is only logged: the rows are stored, and a sweep finds them.
        """
        await self._send([hint_of(row) for row in rows])

    async def _send(self, hints: Sequence[Hint]) -> None:
        try:
            await self._link.announce(hints)
        except Exception as error:  # noqa: BLE001 - the runs are stored
            self._log("announce", error)

    def announce_soon(self, rows: Sequence[RunRow]) -> None:
        """Announce runs that are stored, without waiting for the engine."""
        for row in rows[: max(0, NEW_MAX - len(self._new))]:
            self._new[row.run] = hint_of(row)
        self._some_new.open()

    async def _announce_new(self) -> None:
        while True:
            self._some_new = gate = Gate()
            if not self._new:
                await gate.wait()
            await self._send(self._taken_new())

    def _taken_new(self) -> list[Hint]:
        hints = [self._new.pop(run) for run in tuple(self._new)[:BATCH_MAX]]
        if self._new:
            self._some_new.open()
        return hints

    async def hand_over_left(self) -> None:
        """Announce the runs that this system has left to others; its lease is dropped."""
        left, self._left = self._left, []
        with anyio.move_on_after(FLUSH_S):
            while self._new:
                await self._send(self._taken_new())
            if left:
                await self.hand_over(left)

    async def ended_unrun(self, row: RunRow) -> None:
        """Wake the readers of a run that has ended without a worker; announce its thread's next.

        An error is only logged: readers look, and sweeps find the next run.
        """
        self.changed(row.run)
        try:
            open_rows = await self._host.reader.ask(ListRuns(open_of=(row.thread_id,)))
            self.announce_soon(following(open_rows, self._host.clock.now()))
        except Exception as error:  # noqa: BLE001 - the end is stored
            self._log("announce", error)

    async def depth(self, limit: int) -> WaitingCount:
        """Count the due runs of this system's builds that wait for a worker.

        They are read at most twice per second; between two reads those that this system has stored
        since the last one are added.

        Args:
            limit: counting stops there.
        """
        if time.monotonic() - self._counted_at > DEPTH_S:
            self._counted_at = time.monotonic()
            self.stored_since = 0
            query = CountWaiting(limit, self._host.clock.now(), self._policy.builds)
            (self._count,) = await self._host.reader.ask(query)
        return WaitingCount(self._count.runs + self.stored_since, self._count.oldest)

    async def statistics(self) -> DispatchStatistics:
        """Return the figures of the dispatch.

        Raises:
            StorageError: the saver can't be read.
        """
        self._counted_at = float("-inf")
        await self.depth(self._actor.limits.max_queued + 1)
        return self.known_statistics()

    def known_statistics(self) -> DispatchStatistics:
        """Return the figures of the dispatch, those of waiting runs at most `COUNT_S` old."""
        count = self._count
        oldest_s = max(0.0, (self._host.clock.now() - count.oldest) / 1e6) if count.oldest else 0.0
        link = self._link
        return DispatchStatistics(
            count.runs, oldest_s, self.claimed, self.swept, link.away_s, link.unreadable
        )

    async def _keep_counting(self) -> None:
        while True:
            await self.statistics()
            await anyio.sleep(COUNT_S)

    # --- news ---

    def changed(self, run: bytes) -> None:
        """Note that events of a run of this system are stored; from the system's thread."""
        self._changed[run] = None
        self._some_changed.open()

    def cancelled(self, run: bytes) -> None:
        """Publish soon that a run's cancellation is requested; its system looks for it anyway."""
        self._cancelled[run] = None
        self._some_changed.open()

    async def _publish(self) -> None:
        while True:
            # The gate is replaced before the look: a change from another thread in between opens
            # the new one.
            self._some_changed = gate = Gate()
            if not self._changed and not self._cancelled:
                await gate.wait()
            stored, cancelled = taken(self._changed), taken(self._cancelled)
            try:
                await self._link.publish(News(stored, cancelled))
            except Exception:
                # Those of later ones alone would leave readers elsewhere behind.
                room = max(0, UNSENT_MAX - len(self._changed))
                self._changed.update(dict.fromkeys(stored[:room]))
                raise
            await anyio.sleep(NEWS_S)

    async def _listen(self) -> None:
        while True:
            news = await self._heard.get()
            if news.stored:
                self.waits.note(news.stored)
            if any(run in self._actor.jobs for run in news.cancelled):
                await self._look_for_cancels()

    async def row(self, run: bytes) -> RunRow | None:
        """Read the row of a run, together with those that others wait for; None if unknown.

        Raises:
            StorageError: as `RowBatches.row`.
        """
        return await self._rows.row(run)


class _Pace:
    """Keeps a time between the turns of a loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    async def wait(self) -> None:
        """Wait until the time since the last turn is over; at once after a longer one."""
        if (left := self._next - time.monotonic()) > 0:
            await anyio.sleep(left)
        self._next = time.monotonic() + self._seconds
