"""Scenarios of runs that are dispatched to worker processes; large and small by their parameters.

Each returns figures. The large forms are tests/faults/test_dispatch.py, the small ones
tests/dispatch/test_processes.py.
"""

import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from subprocess import Popen
from typing import Any

import anyio
import msgspec

from actorgraph import ThreadBusyError
from tests.faults.dispatching import (
    PATIENCE_S,
    Call,
    Fleet,
    LeaseBook,
    Place,
    accept_all,
    accepting,
    ended,
    in_thread,
    patiently,
    restart,
    stale,
)
from tests.support.dispatch_worker import GRAPH, WorkerOptions


class Churned(msgspec.Struct):
    """The result of `churn`.

    Attributes:
        lost: runs that did not end with all of their steps, each once.
        repeated: calls of a step beyond its first.
        again: calls of a step by an owner that had called it, or a later one, before.
        stale: calls by an owner whose run another owner had taken over before.
        late: calls that were begun when their owner's lease was over.
        drained_s: seconds that the drained worker took to end.
        wall_s: seconds in all.
        shares: runs that each owner began.
    """

    lost: int
    repeated: int
    again: int
    stale: int
    late: int
    drained_s: float
    wall_s: float
    shares: list[int]


async def churn(
    place: Place,
    options: WorkerOptions,
    *,
    runs: int,
    count: int,
    workers: int,
    webs: int = 1,
    with_restart: bool = False,
    limit_s: float = PATIENCE_S,
) -> Churned:
    """Accept runs for workers; meanwhile kill one, stop one for 2.5 leases, drain one.

    Args:
        runs: threads, of one run each.
        count: steps of a run.
        workers: at least 3; the drained one is replaced.
        with_restart: of PostgreSQL, after the stopped worker has gone on.
        limit_s: seconds for half of the runs to begin, and for all of them to end.
    """
    begun = time.monotonic()
    names = [f"t{number}" for number in range(runs)]
    async with (
        accepting(place, webs, lease_s=options.lease_s) as accepts,
        Fleet(place, options) as fleet,
    ):
        made = await fleet.start(workers)
        started = await accept_all(accepts, names, count)
        await fleet.until(lambda: len(fleet.begun()) >= runs // 2, limit_s)
        made[0].kill()
        made[1].send_signal(signal.SIGSTOP)
        await anyio.sleep(options.lease_s * 2.5)
        made[1].send_signal(signal.SIGCONT)
        if with_restart:
            await in_thread(restart, place)
        drained_s = await _drained(made[2])
        await fleet.start()
        await ended(started.values(), limit_s)
        values = [await patiently(run.result) for run in started.values()]
        calls = fleet.calls()
        late = await in_thread(LeaseBook(place).late, calls)
    full = list(range(count))
    return _churned(calls, sum(v["done"] != full for v in values), len(late), drained_s, begun)


def _churned(calls: list[Call], lost: int, late: int, drained_s: float, begun: float) -> Churned:
    seen = Counter((call.name, call.step) for call in calls)
    firsts = {call.name: call.owner for call in reversed(calls)}
    return Churned(
        lost=lost,
        repeated=sum(number - 1 for number in seen.values()),
        again=_again(calls),
        stale=stale(calls),
        late=late,
        drained_s=drained_s,
        wall_s=time.monotonic() - begun,
        shares=sorted(Counter(firsts.values()).values()),
    )


def _again(calls: Iterable[Call]) -> int:
    """Count calls of a step by an owner that had called it, or a later one of its run, before."""
    highest: dict[tuple[str, str], int] = defaultdict(lambda: -1)
    count = 0
    for call in calls:
        key = (call.owner, call.name)
        count += call.step <= highest[key]
        highest[key] = max(highest[key], call.step)
    return count


async def _drained(process: Popen[str]) -> float:
    """Send SIGTERM; return the seconds until the process has ended."""
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    await in_thread(process.wait, 60)
    return time.monotonic() - begun


class TakenOver(msgspec.Struct):
    """The result of `fill_and_kill`.

    Attributes:
        runs: that the killed worker had.
        first_s: seconds from the kill until the first of them went on.
        last_s: until the last of them did.
    """

    runs: int
    first_s: float
    last_s: float


async def fill_and_kill(place: Place, options: WorkerOptions, runs: int) -> TakenOver:
    """Kill one of three workers while the two others are full, but for what they reserve.

    Args:
        options: `max_runs - reserve` is a third of the runs, and `pause_s` is longer than a test.
    """
    names = [f"t{number}" for number in range(runs)]
    async with accepting(place, lease_s=options.lease_s) as webs, Fleet(place, options) as fleet:
        made = await fleet.start(3)
        await accept_all(webs, names)
        await fleet.until(lambda: len(fleet.begun()) == runs)
        gone = _had_by(fleet, made[0])
        made[0].kill()
        killed_at = time.time()
        alive = {made[1].pid, made[2].pid}

        def moved() -> dict[str, float]:
            calls = [c for c in fleet.calls() if c.name in gone and c.pid in alive]
            return {c.name: c.at - killed_at for c in reversed(calls) if c.at > killed_at}

        assert gone
        await fleet.until(lambda: len(moved()) == len(gone))
        waits = moved().values()
        for process in made[1:]:
            process.kill()
    return TakenOver(len(gone), min(waits), max(waits))


def _had_by(fleet: Fleet, process: Popen[str]) -> set[str]:
    """The names of the runs whose newest call a worker has made."""
    # A machine under load may have made a worker lose its lease, and runs, before.
    newest = {call.name: call.pid for call in fleet.calls()}
    return {name for name, pid in newest.items() if pid == process.pid}


class Shared(msgspec.Struct):
    """The result of `shares_of`.

    Attributes:
        shares: runs that each of four workers began, sorted.
        joined_s: seconds until a fifth one worked.
        drained_s: seconds that one of them took to end after SIGTERM.
        handed_s: seconds after SIGTERM until all of its runs went on elsewhere.
    """

    shares: list[int]
    joined_s: float
    drained_s: float
    handed_s: float


async def shares_of(place: Place, options: WorkerOptions, runs: int, count: int = 20) -> Shared:
    """Accept runs of nodes that wait for four workers; then more, a fifth one joins, one leaves.

    Args:
        runs: of one step, and as many of `count` steps, and again of one step.
    """
    async with accepting(place, lease_s=options.lease_s) as webs, Fleet(place, options) as fleet:
        made = await fleet.start(4)
        await accept_all(webs, [f"a{number}" for number in range(runs)])
        await fleet.until(lambda: len(fleet.begun("a")) == runs)
        shares = Counter({c.name: c.pid for c in reversed(fleet.calls())}.values())
        long = await accept_all(webs, [f"b{number}" for number in range(runs)], count)
        (joiner,) = await fleet.start()
        ready = time.time()
        more = await accept_all(webs, [f"c{number}" for number in range(runs)])
        await fleet.until(lambda: any(call.pid == joiner.pid for call in fleet.calls()))
        joined_s = min(c.at for c in fleet.calls() if c.pid == joiner.pid) - ready
        left_at, drained_s = time.time(), await _drained(made[0])
        statuses = await ended([*long.values(), *more.values()])
        assert set(statuses) == {"success"}
        handed_s = _handed_s(fleet.calls(), made[0].pid, left_at)
    return Shared(sorted(shares.values()), joined_s, drained_s, handed_s)


def _handed_s(calls: Iterable[Call], pid: int, left_at: float) -> float:
    """Seconds until the last run of a worker that has left was begun by another one; 0 if none."""
    had: set[str] = set()
    last = left_at
    for call in calls:
        if call.pid == pid:
            had.add(call.name)
        elif call.name in had:
            had.discard(call.name)
            last = max(last, call.at)
    return last - left_at


async def roll(
    place: Place, options: WorkerOptions, runs: int, count: int, workers: int = 2
) -> list[str]:
    """Replace workers of one build by those of another while runs of both are accepted.

    Args:
        runs: that the old build accepts at first, and both builds after each replacement.
    Returns: the statuses of all runs.
    """
    async with (
        accepting(place, build="one", lease_s=options.lease_s) as old,
        accepting(place, build="two", lease_s=options.lease_s) as new,
        Fleet(place, options) as fleet,
    ):
        made = await fleet.start(workers, build="one")
        names = [f"old{number}" for number in range(runs)]
        started = [*(await accept_all(old, names, count)).values()]
        await fleet.until(lambda: len(fleet.begun("old")) == runs)
        for turn, process in enumerate(made):
            await fleet.start(build="two", builds=("one",))
            await _drained(process)
            for webs, kind in ((old, "old"), (new, "new")):
                names = [f"{kind}{turn}-{number}" for number in range(runs)]
                started += (await accept_all(webs, names, count)).values()
        return await ended(started)


async def in_order(place: Place, options: WorkerOptions, threads: int, runs: int) -> int:
    """Put runs into the queue of each thread; three workers run them.

    Returns: runs that began before an earlier one of their thread had ended.
    """
    async with accepting(place, lease_s=options.lease_s) as webs, Fleet(place, options) as fleet:
        await fleet.start(3)
        started: list[Any] = []

        async def fill(thread: str) -> None:
            for number in range(runs):
                given = {"name": f"{thread}-{number}", "count": 0, "done": []}
                options = {"if_busy": "enqueue", "stream_mode": ()}
                started.append(await webs[0].start(GRAPH, thread, given, **options))

        async with anyio.create_task_group() as group:
            for number in range(threads):
                group.start_soon(fill, f"t{number}")
        assert set(await ended(started)) == {"success"}
        begun: dict[str, list[int]] = defaultdict(list)
        for call in fleet.calls():
            thread, _, number = call.name.partition("-")
            begun[thread].append(int(number))
    assert len(begun) == threads
    return sum(numbers != list(range(runs)) for numbers in begun.values())


DOUBLED = """INSERT INTO pgqueuer
    (priority, created, updated, heartbeat, execute_after, status, entrypoint, payload)
    SELECT priority, created, updated, heartbeat, execute_after, status, entrypoint, payload
    FROM pgqueuer"""
"""Doubles each hint."""


async def lose_hints(place: Place, options: WorkerOptions, runs: int, statement: Any) -> float:
    """Accept runs, change the hints by a statement, then start two workers.

    Args:
        statement: on the table `pgqueuer` of the engine.
    Returns: seconds until the last run had ended, of workers that were ready.
    """
    async with accepting(place, lease_s=options.lease_s) as webs, Fleet(place, options) as fleet:
        started = await accept_all(webs, [f"t{number}" for number in range(runs)])
        with place.server.connect(place.schema) as db:
            assert db.execute("SELECT count(*) FROM pgqueuer").fetchone() == (runs,)
            db.execute(statement)
        await fleet.start(2)
        ready = time.monotonic()
        assert set(await ended(started.values())) == {"success"}
        wait_s = time.monotonic() - ready
        assert {call.step for call in fleet.calls()} == {0}
        assert len(fleet.calls()) == runs
    return wait_s


async def cancel_remotely(place: Place, options: WorkerOptions, runs: int) -> list[float]:
    """Cancel runs that workers have, from the process that accepted them; return seconds, sorted.

    Args:
        options: `pause_s` is longer than a test.
    """
    waits: list[float] = []
    async with accepting(place, lease_s=options.lease_s) as webs, Fleet(place, options) as fleet:
        made = await fleet.start(2)
        started = await accept_all(webs, [f"t{number}" for number in range(runs)])
        await fleet.until(lambda: len(fleet.begun()) == runs)
        for run in started.values():
            begun = time.monotonic()
            assert await run.cancel() == "cancelled"
            waits.append(time.monotonic() - begun)
        for process in made:
            process.kill()
    return sorted(waits)


async def crowd(place: Place, options: WorkerOptions, runs: int, threads: int) -> Counter[str]:
    """Start runs on few threads by two systems at once, with each of the ways of `if_busy`.

    Two workers run them.

    Returns: status -> accepted runs; "refused" for runs that were not accepted.
    """
    modes = ("enqueue", "reject", "interrupt", "rollback")
    found: Counter[str] = Counter()
    started: list[Any] = []
    async with accepting(place, 2, lease_s=options.lease_s) as webs, Fleet(place, options) as fleet:
        await fleet.start(2)

        async def one(number: int) -> None:
            thread = f"t{number % threads}"
            given = {"name": thread, "count": 0, "done": []}
            mode = modes[number // threads % 4]
            try:
                web = webs[number % 2]
                run = await web.start(GRAPH, thread, given, if_busy=mode, stream_mode=())
                started.append(run)
            except ThreadBusyError:
                found["refused"] += 1

        async with anyio.create_task_group() as group:
            for number in range(runs):
                group.start_soon(one, number)
        found.update(await ended(started))
    return found
