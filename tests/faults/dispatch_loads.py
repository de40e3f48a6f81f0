"""Loads on dispatched runs: more than workers can run, workers stopped with hints, many readers.

Each returns figures, as in tests/faults/dispatch_scenarios.py.
"""

import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from subprocess import Popen
from typing import Any

import anyio
import httpx
import msgspec

from actorgraph import ActorSystem, SystemBusyError
from actorgraph.web import GraphRoutes
from tests.faults.bare_work import bare_work
from tests.faults.dispatching import (
    Call,
    Fleet,
    LeaseBook,
    Place,
    accept_all,
    accepting,
    ended,
    in_thread,
    stale,
    transactions,
)
from tests.support.dispatch_worker import GRAPH, WorkerOptions

TICK_S = 0.05
UNANSWERED_MAX = 2_000
"""Starts that wait for their answer at once."""


class Overloaded(msgspec.Struct):
    """The result of `overload`.

    Attributes:
        capacity: runs per second that the workers run.
        offered: runs per second that were offered.
        accepted: runs that were accepted.
        refused: starts that raised `SystemBusyError`.
        answers: of a server, asked meanwhile: status -> times.
        waiting: the most runs that were counted as waiting.
        statuses: of the accepted runs.
        leases_lost: by systems that accept or work.
        recovered_s: seconds from the last offer until no run waited.
    """

    capacity: float
    offered: float
    accepted: int
    refused: int
    answers: dict[int, int]
    waiting: int
    statuses: dict[str, int]
    leases_lost: int
    recovered_s: float


async def overload(
    place: Place, options: WorkerOptions, *, queued: int, seconds: float, times: int = 5
) -> Overloaded:
    """Offer two workers several times the runs that they can run, by two accepting systems.

    Args:
        queued: `max_queued` of the accepting systems.
        times: as many runs as the workers have been measured to run.
    """
    web_options = {"lease_s": options.lease_s, "max_queued": queued}
    async with accepting(place, 2, **web_options) as webs, Fleet(place, options) as fleet:
        await fleet.start(2)
        capacity = await _capacity(webs, queued)
        offer = _Offer(webs)
        async with _asked(webs[0], offer):
            begun = time.monotonic()
            await offer.make(capacity * times, seconds)
            offered = offer.made / (time.monotonic() - begun)
        over = time.monotonic()
        with anyio.fail_after(60):
            while (await webs[0].dispatch_statistics()).waiting:  # noqa: ASYNC110 - in the store
                await anyio.sleep(TICK_S)
        recovered_s = time.monotonic() - over
        statuses = Counter(await ended(offer.accepted))
        again = await accept_all(webs, ["after"])
        assert await ended(again.values()) == ["success"]
        owners = await in_thread(LeaseBook(place).owners)
    return Overloaded(
        capacity=capacity,
        offered=offered,
        accepted=len(offer.accepted),
        refused=offer.refused,
        answers=dict(offer.answers),
        waiting=offer.waiting,
        statuses=dict(statuses),
        leases_lost=len(owners) - 4,
        recovered_s=recovered_s,
    )


async def _capacity(webs: list[ActorSystem], runs: int) -> float:
    """Runs per second that the workers run."""
    begun = time.monotonic()
    await ended((await accept_all(webs, [f"first{number}" for number in range(runs)])).values())
    return runs / (time.monotonic() - begun)


class _Offer:
    """Starts that don't wait for each other."""

    def __init__(self, webs: list[ActorSystem]) -> None:
        self._webs = webs
        self._unanswered = 0
        self.made = self.refused = self.waiting = 0
        self.accepted: list[Any] = []
        self.answers: Counter[int] = Counter()

    async def make(self, rate: float, seconds: float) -> None:
        """Offer so many runs per second, for a while."""
        begun = time.monotonic()
        async with anyio.create_task_group() as group:
            while (passed := time.monotonic() - begun) < seconds:
                due = int(passed * rate) - self.made
                for _ in range(min(due, UNANSWERED_MAX - self._unanswered)):
                    self._unanswered += 1
                    group.start_soon(self._start, self.made)
                    self.made += 1
                await anyio.sleep(TICK_S)

    async def _start(self, number: int) -> None:
        given = {"name": f"o{number}", "count": 1, "done": []}
        try:
            web = self._webs[number % len(self._webs)]
            self.accepted.append(await web.start(GRAPH, None, given, stream_mode=()))
        except SystemBusyError:
            self.refused += 1
        finally:
            self._unanswered -= 1

    async def ask(self, web: ActorSystem, client: httpx.AsyncClient) -> None:
        """Start a run by a request each second; note the depth of the queue."""
        body = {"assistant_id": GRAPH, "input": {"name": "asked", "count": 1, "done": []}}
        while True:
            answer = await client.post("/runs", json=body)
            assert answer.status_code != 429 or int(answer.headers["retry-after"]) > 0
            self.answers[answer.status_code] += 1
            self.waiting = max(self.waiting, (await web.dispatch_statistics()).waiting)
            await anyio.sleep(1)


@asynccontextmanager
async def _asked(web: ActorSystem, offer: _Offer) -> AsyncGenerator[None]:
    """Ask a server over a system once per second."""
    transport = httpx.ASGITransport(GraphRoutes(web))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://test", timeout=60) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(offer.ask, web, client)
        yield
        group.cancel_scope.cancel()


class Stopped(msgspec.Struct):
    """The result of `stop_takers`.

    Attributes:
        held: hints that the stopped workers had taken and not deleted, one entry per stop.
        longest_s: seconds from a stop, or the last acceptance after it, until all runs had ended.
        longest_locked_s: the same, of stops in the middle of a transaction; its rows stay locked.
        lost: runs that did not end successfully.
        stale: calls by an owner whose run another owner had taken over before.
        late: calls that were begun when their owner's lease was over.
        hints_left: hints that were left at the end.
    """

    held: list[int]
    longest_s: float
    longest_locked_s: float
    lost: int
    stale: int
    late: int
    hints_left: int


async def stop_takers(place: Place, options: WorkerOptions, runs: int, stops: int) -> Stopped:
    """Stop one of three workers while it has taken hints; the others run what it has kept.

    It goes on when all runs have ended: then it deletes hints that others have had.

    Args:
        runs: for each stop.
    """
    held: list[int] = []
    longest_s, statuses = {False: 0.0, True: 0.0}, Counter[str]()
    async with accepting(place, lease_s=options.lease_s) as webs, Fleet(place, options) as fleet:
        made = await fleet.start(3)
        for turn in range(stops):
            process = made[turn % 3]
            started: dict[str, Any] = {}

            async def fill(turn: int = turn, started: dict[str, Any] = started) -> None:
                names = [f"s{turn}-{number}" for number in range(runs)]
                started.update(await accept_all(webs, names))

            async with anyio.create_task_group() as group:
                group.start_soon(fill)
                held.append(await _stopped_with_hints(place, process))
            stopped, locks = time.monotonic(), await in_thread(_holds_locks, place)
            statuses.update(await ended(started.values()))
            longest_s[locks] = max(longest_s[locks], time.monotonic() - stopped)
            process.send_signal(signal.SIGCONT)
        last = await accept_all(webs, [f"last{number}" for number in range(runs)])
        statuses.update(await ended(last.values()))
        calls = list(fleet.calls())
        late = await in_thread(LeaseBook(place).late, calls)
        left = await _hints_left(place)
    lost = statuses.total() - statuses["success"]
    return Stopped(held, longest_s[False], longest_s[True], lost, stale(calls), len(late), left)


def _holds_locks(place: Place) -> bool:
    """Whether a session has let the server wait in a transaction, as no living worker does."""
    time.sleep(0.4)
    with place.server.connect(place.schema) as db:
        return bool(
            db.execute(
                "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Client'"
                " AND xact_start IS NOT NULL"
                " AND state_change < clock_timestamp() - interval '0.3 s'"
            ).fetchall()
        )


async def _stopped_with_hints(place: Place, process: Popen[str]) -> int:
    """Stop a worker when it has taken hints; return how many, 0 if it had none at each look."""
    with place.server.connect(place.schema) as db:
        for _ in range(100):
            process.send_signal(signal.SIGSTOP)
            if len(kept := await _kept(db)) > 0:
                return len(kept)
            process.send_signal(signal.SIGCONT)
            await anyio.sleep(0.01)
    process.send_signal(signal.SIGSTOP)
    return 0


async def _kept(db: Any) -> set[int]:
    """The ids of hints that stay taken for a while: living workers delete theirs at once."""
    query = "SELECT id FROM pgqueuer WHERE status = 'picked'"
    kept: set[int] = {number for (number,) in db.execute(query).fetchall()}
    for _ in range(25):
        if not kept:
            break
        await anyio.sleep(0.02)
        kept &= {number for (number,) in db.execute(query).fetchall()}
    return kept


async def _hints_left(place: Place) -> int:
    """Count the hints when they have become none, or after 30 s."""
    with place.server.connect(place.schema) as db:
        for _ in range(300):
            (count,) = db.execute("SELECT count(*) FROM pgqueuer").fetchone()
            if not count:
                break
            await anyio.sleep(0.1)
    return count


IN_FLIGHT_S = 1.0
"""Seconds before a kill in which events are made whose news die with the worker, so that their
readers look for them some seconds later; and whose readers share the cores with its replacement."""


class Read(msgspec.Struct):
    """The result of `read_remotely`.

    Attributes:
        events: that all readers got.
        p50_ms: from the moment when an event was made until its reader had it: of those that were
            made when all readers had come, and `IN_FLIGHT_S` before a kill.
        p99_ms: as `p50_ms`.
        floor_p99_ms: for which a bare piece of work waited meanwhile for a core; see `bare_work`.
        p99_after_ms: the same of later ones, while runs are taken over and a worker starts.
        queries: to the store, for each event.
        wrong: readers that missed an update without a gap, or got one twice; see `is_wrong`.
        kinds: of events -> how many.
        reads: transactions per second of the process that reads.
        all: transactions per second of all processes, those that save the runs too.
        taken_over: runs that went on in another worker.
    """

    events: int
    p50_ms: float
    p99_ms: float
    floor_p99_ms: float
    p99_after_ms: float
    queries: float
    wrong: int
    kinds: dict[str, int]
    reads: float
    all: float
    taken_over: int


async def read_remotely(place: Place, options: WorkerOptions, *, runs: int, count: int) -> Read:
    """Read the events of each run in the process that accepted it, while three workers run them.

    One of them is killed and replaced when half of the steps are done.

    Args:
        runs: with one reader each.
        count: steps of a run.
    """
    seen: dict[str, list[tuple[Any, float]]] = {}
    async with AsyncExitStack() as stack:
        webs = await stack.enter_async_context(accepting(place, lease_s=options.lease_s))
        fleet = await stack.enter_async_context(Fleet(place, options))
        made = await fleet.start(3)
        waits = stack.enter_context(bare_work(place.log.with_suffix(".floor")))
        names = [f"t{number}" for number in range(runs)]
        started = await accept_all(webs, names, count, stream_mode="updates")
        stored, reader = await in_thread(transactions, place), webs[0]._host.reader  # noqa: SLF001
        before, begun = reader.statistics(), time.time()
        with anyio.fail_after(240):
            async with anyio.create_task_group() as group:
                for name in names:
                    group.start_soon(_read, started[name], seen.setdefault(name, []))
                await fleet.until(lambda: all(seen.values()))
                come = time.time()
                await fleet.until(lambda: len(fleet.calls()) >= runs * count // 2)
                moment = time.time() - IN_FLIGHT_S
                made[0].kill()
                await fleet.start()
        seconds = time.time() - begun
        after = reader.statistics()
        stored = await in_thread(transactions, place) - stored
        moved, floor = _moved(fleet.calls()), waits(come, moment)
    got = [pair for events in seen.values() for pair in events]
    lags, later = _lags(got, come, moment), _lags(got, moment, time.time())
    return Read(
        events=len(got),
        p50_ms=lags[len(lags) // 2],
        p99_ms=_p99(lags),
        floor_p99_ms=_p99(floor),
        p99_after_ms=_p99(later),
        queries=(after.queries - before.queries) / len(got),
        wrong=sum(is_wrong([event for event, _ in got], count) for got in seen.values()),
        kinds=dict(Counter(event.kind for event, _ in got)),
        reads=(after.batches - before.batches) / seconds,
        all=stored / seconds,
        taken_over=moved,
    )


async def _read(run: Any, seen: list[tuple[Any, float]]) -> None:
    """Note each event of a run, and when it came."""
    async for event in run.events():
        seen.append((event, time.time()))  # noqa: PERF401 - at once, for those who look meanwhile


def _lags(got: list[tuple[Any, float]], begin: float, end: float) -> list[float]:
    """Milliseconds by which updates came after they were made, of those made in between; sorted."""
    updates = [(e.created / 1e6, at) for e, at in got if e.kind == "updates"]
    return sorted((at - made) * 1000 for made, at in updates if begin <= made < end)


def _p99(sorted_figures: list[float]) -> float:
    return sorted_figures[len(sorted_figures) * 99 // 100]


def is_wrong(events: Sequence[Any], count: int) -> bool:
    """Whether a reader missed an update without a gap, got one twice, or offsets out of order.

    The events between a worker's last stored one and its kill are lost. Then a gap is reported,
    and the state that follows has their steps.
    """
    following = known = 0
    offsets = [event.offset for event in events]
    for before, event in pairwise((None, *events)):
        if event.kind == "updates":
            (step,) = event.data["step"]["done"]
            if step < following or step > max(following, known):
                return True
            following = step + 1
        elif event.kind == "values" and before is not None and before.kind == "gap":
            known = len(event.data.get("done", ()))  # none before its first step is stored
    return max(following, known) != count or offsets != sorted(offsets)


def _moved(calls: list[Call]) -> int:
    owners: dict[str, set[str]] = {}
    for call in calls:
        owners.setdefault(call.name, set()).add(call.owner)
    return sum(len(found) > 1 for found in owners.values())
