"""Dispatched runs in large numbers: more workers, more threads, more open runs."""

import time
from functools import partial
from typing import Any

import anyio
import msgspec
import pytest
from psycopg.sql import SQL

from actorgraph import PostgresSaver
from actorgraph.rules.system.dispatching import BATCH_MAX
from actorgraph.values.commits import Committed
from actorgraph.values.shards import bucket_of, with_bucket
from actorgraph.values.systems import (
    AdoptRun,
    CountWaiting,
    ListRuns,
    ListWaiting,
    PutRun,
    RenewOwner,
    RunRow,
)
from tests.faults.crashes import report
from tests.faults.dispatching import Fleet, Place, accept_all, accepting, ended, in_thread
from tests.support import cpu_times
from tests.support.dispatch_worker import WorkerOptions

pytestmark = pytest.mark.alone

TABLE = "dispatch in large numbers"
OPEN_RUNS = 100_000
WORKERS = 10
CLAIMS = 2 * BATCH_MAX


@pytest.fixture
def place(postgres, schema, tmp_path, anyio_backend):
    """
    An empty schema, and a log that is not there yet.
    """
    return Place(postgres, schema, tmp_path / "log", anyio_backend)


@pytest.fixture(scope="module", params=["asyncio"])
def anyio_backend(request):
    """
    The figures are the server's, and those of waiting.
    """
    return request.param


async def seconds_of(place: Place, workers: int, runs: int, options: WorkerOptions) -> float:
    """Accept runs, then start workers; seconds from the first node's start to the last end."""
    name = f"w{workers}-"
    async with accepting(place, lease_s=options.lease_s) as webs, Fleet(place, options) as fleet:
        names = [f"{name}{number}" for number in range(runs)]
        started = await accept_all(webs, names, 5)
        await fleet.start(workers)
        assert set(await ended(started.values())) == {"success"}
        times = [call.at for call in fleet.calls() if call.name.startswith(name)]
    assert len(times) == 5 * runs
    return max(times) + options.pause_s - min(times)


async def test_more_workers_do_more_of_nodes_that_wait(place, request):
    """
    Two workers need at most 1/1.9 of the time of one for runs whose nodes sleep, four 1/3.5.
    """
    options = WorkerOptions(pause_s=2.0, max_runs=50, lease_s=15.0)
    one, two, four = [await seconds_of(place, count, 200, options) for count in (1, 2, 4)]

    report(
        request.config,
        TABLE,
        f"nodes that wait: 2 workers {one / two:.2f}x, 4 workers {one / four:.2f}x of 1",
    )
    assert one / two >= 1.9
    assert one / four >= 3.5


async def server_us(place: Place, threads: int, rounds: int) -> float:
    """CPU microseconds of the server for a step of runs of 10 steps, so many accepted at once."""
    options = WorkerOptions(max_runs=10_000, lease_s=60.0)
    before = await in_thread(cpu_times.of_server, place.server)
    async with accepting(place, lease_s=60.0, max_queued=20_000) as webs:
        for lap in range(rounds):
            names = [f"{threads}-{lap}-{number}" for number in range(threads)]
            started = await accept_all(webs, names, 10)
            async with Fleet(place, options) as fleet:
                await fleet.start(2)
                assert set(await ended(started.values())) == {"success"}
    after = await in_thread(cpu_times.of_server, place.server)
    return (after - before) / (threads * rounds * 10) * 1e6


async def test_the_server_does_as_much_for_a_step_of_many_threads(place, request):
    """
    Its CPU time for a step of 10,000 threads is at most 1.5 times that for one of 100.
    """
    few, many = await server_us(place, 100, 5), await server_us(place, 10_000, 1)

    report(
        request.config,
        TABLE,
        f"server CPU a step: {few:.0f} us at 100 threads, {many:.0f} us at 10,000",
    )
    assert many <= 1.5 * few


def open_run(number: int) -> RunRow:
    """An accepted run of a thread of its own."""
    thread = f"t{number}"
    return RunRow(
        run=with_bucket((number << 16).to_bytes(16, "big"), bucket_of(thread)),
        thread_id=thread,
        graph="g",
        status="pending",
        attempts=0,
        claimed=False,
        owner=None,
        created=1 + number,
        metadata="{}",
        payload=b"x" * 200,
    )


async def put(saver: Any, numbers: range, **changes: Any) -> None:
    """Store runs in batches."""
    for start in range(numbers.start, numbers.stop, BATCH_MAX):
        some = numbers[start - numbers.start : start - numbers.start + BATCH_MAX]
        rows = [msgspec.structs.replace(open_run(number), **changes) for number in some]
        outcomes = await saver.commit([PutRun(one, one.thread_id) for one in rows])
        assert all(isinstance(outcome, Committed) for outcome in outcomes)


async def asked(saver: Any, query: Any) -> tuple[float, list[Any]]:
    """Seconds of a query, and its answer."""
    begun = time.monotonic()
    (answer,) = await saver.query([query])
    return time.monotonic() - begun, answer


async def claim(url: str, schema: str, worker: int) -> float:
    """Claim runs of this worker's share, as a worker does; return the seconds."""
    owner = bytes([worker + 1]) * 16
    async with PostgresSaver(url, schema=schema, migrate=False) as saver:
        await saver.commit([RenewOwner(owner, 600.0)])
        begun = time.monotonic()
        for start in range(0, CLAIMS, BATCH_MAX):
            runs = [open_run(worker * CLAIMS + start + number) for number in range(BATCH_MAX)]
            ids, threads = [
                tuple(getattr(one, key) for one in runs) for key in ("run", "thread_id")
            ]
            (rows,) = await saver.query([ListRuns(among=ids)])
            (open_rows,) = await saver.query([ListRuns(open_of=threads)])
            assert len(rows) == len(open_rows) == BATCH_MAX
            adopt = [AdoptRun(one.run, one.thread_id, owner, None, 1) for one in rows]
            assert all(isinstance(each, Committed) for each in await saver.commit(adopt))
        return time.monotonic() - begun


def plans(place: Place) -> list[str]:
    """The lines of the sweep's plans that scan the table of runs."""
    from actorgraph.savers.postgres import statements as sql

    values = {"graphs": ["g"], "builds": [""], "now": 10**18, "limit": BATCH_MAX}
    sweep = SQL("EXPLAIN ") + SQL(sql.SELECT_WAITING)
    found: list[tuple[str]] = []
    with place.server.connect(place.schema) as db:
        for owned in (False, True):
            found += db.execute(sweep, {**values, "owned": owned}).fetchall()
        count = SQL("EXPLAIN ") + SQL(sql.COUNT_WAITING)
        found += db.execute(count, (10**18, [""], 10_001)).fetchall()
    return [line for (line,) in found if "Seq Scan on system_runs" in line]


async def test_a_hundred_thousand_open_runs(place, request):
    """
    Ten workers claim of 100,000 open runs; a sweep takes at most a second, also with as many
    ended runs and dead workers, and no plan scans the table.
    """
    url, schema = place.server.url, place.schema
    async with PostgresSaver(url, schema=schema) as saver:
        begun = time.monotonic()
        await put(saver, range(OPEN_RUNS))
        stored_s = time.monotonic() - begun
        claims: list[float] = []

        async def one(worker: int) -> None:
            claims.append(await claim(url, schema, worker))

        async with anyio.create_task_group() as group:
            for worker in range(WORKERS):
                group.start_soon(partial(one, worker))
        sweep = partial(ListWaiting, ("g",), (), 10**15, BATCH_MAX)
        before = [await asked(saver, sweep(owned=owned)) for owned in (False, True)]
        assert [len(rows) for _, rows in before] == [BATCH_MAX, 0]

        await put(saver, range(OPEN_RUNS, 2 * OPEN_RUNS), status="success")
        await saver.commit([RenewOwner(bytes([worker + 1]) * 16, 0.0) for worker in range(5)])
        swept = [await asked(saver, sweep(owned=owned)) for owned in (False, True)]
        counted = await asked(saver, CountWaiting(10_001, 10**15))
        assert [len(rows) for _, rows in swept] == [BATCH_MAX, BATCH_MAX]
        assert counted[1][0].runs == 10_001
    scans = await in_thread(plans, place)

    report(
        request.config,
        TABLE,
        f"{OPEN_RUNS:,} open runs: stored in {stored_s:.1f} s, {WORKERS * CLAIMS:,} claimed by "
        f"{WORKERS} in {max(claims):.1f} s; sweeps {[f'{s * 1000:.0f}' for s, _ in swept]} ms, "
        f"count {counted[0] * 1000:.0f} ms",
    )
    assert max(seconds for seconds, _ in (*before, *swept, counted)) <= 1
    assert scans == []
