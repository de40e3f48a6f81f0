"""Many runs over many worker processes: the long form of tests/dispatch/test_processes.py."""

import time
from collections import Counter
from functools import partial
from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, PostgresSaver
from tests.faults import dispatch_loads as loads
from tests.faults import dispatch_scenarios as scenarios
from tests.faults.crashes import report, row
from tests.faults.dispatching import Place, in_own_loop
from tests.support.dispatch_worker import GRAPH, WorkerOptions, steps, system_of


@pytest.fixture
def place(postgres, schema, tmp_path, anyio_backend):
    """
    An empty schema, and a log that is not there yet.
    """
    return Place(postgres, schema, tmp_path / "log", anyio_backend)


def tell(request: Any, what: str, figures: Any) -> None:
    """Keep the figures of a test for the end."""
    loop = request.getfixturevalue("anyio_backend")
    report(request.config, "dispatched runs", row(what, loop, figures))


async def test_two_thousand_runs_over_four_workers(place, anyio_backend, request):
    """
    One of four workers is killed, one stopped for 2.5 leases, one drained and replaced, PostgreSQL
    restarted: nothing is lost, and no step begins after its worker has lost the lease.
    """
    options = WorkerOptions(pause_s=0.5, lease_s=4.0, max_runs=700, reserve=200)
    size = {"runs": 2000, "count": 10, "workers": 4, "webs": 2}
    found = await scenarios.churn(place, options, **size, with_restart=True, limit_s=300.0)

    report(request.config, "runs dispatched to four workers", f"{anyio_backend}: {found}")
    assert (found.lost, found.stale, found.late, found.again) == (0, 0, 0, 0), found


async def test_ten_thousand_orphans(postgres, schema, request, anyio_backend):
    """
    A system that comes alone finds 10,000 runs that no system has, and takes them all up.
    """
    count, graph = 10_000, steps(pause_s=1000.0)
    place = (postgres.url, schema)
    async with system_of(*place, "accept", graph, max_queued=count) as web:
        limiter = anyio.Semaphore(200)

        async def start(number: int) -> None:
            given = {"name": f"t{number}", "count": 1, "done": []}
            async with limiter:
                await web.start(GRAPH, f"t{number}", given, stream_mode=())

        cpu, begun = time.process_time(), time.perf_counter()
        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(start, number)
        accepted_s, accept_cpu = time.perf_counter() - begun, time.process_time() - cpu
        assert (await web.dispatch_statistics()).waiting == count
    options = {"max_runs": 2 * count, "drain_timeout_s": 1.0}
    saver = PostgresSaver(place[0], schema=schema)
    async with ActorSystem({GRAPH: graph}, saver=saver, **options) as system:
        cpu, begun = time.process_time(), time.perf_counter()
        taken = await system.recover()
        taken_s, taken_cpu = time.perf_counter() - begun, time.process_time() - cpu

    report(
        request.config,
        "ten thousand runs without a system",
        f"{anyio_backend}: accepted at {count / accepted_s:.0f} runs/s, "
        f"{accept_cpu / count * 1000:.2f} ms CPU a run; adopted in {taken_s:.1f} s, "
        f"{taken_cpu / count * 1000:.2f} ms CPU a run",
    )
    assert len(taken) == count


async def test_takeover_of_a_thousand_runs_by_full_workers(place, request):
    """
    Two workers that are full take over the thousand runs of a killed one.
    """
    options = WorkerOptions(pause_s=1000.0, lease_s=4.0, max_runs=2000, reserve=1000)
    found = await scenarios.fill_and_kill(place, options, runs=3000)

    tell(request, "takeover by full workers", found)
    assert found.first_s <= options.lease_s + 2
    assert found.last_s <= options.lease_s + 5


async def test_order_of_a_thousand_runs_of_threads(place, request):
    """
    Three workers run five runs of each of 200 threads, each thread's in their order.
    """
    wrong = await scenarios.in_order(place, WorkerOptions(), threads=200, runs=5)

    tell(request, "200 threads of 5 runs: out of order", wrong)
    assert wrong == 0


async def test_two_thousand_runs_on_busy_threads(place, request):
    """
    No run that was accepted ends because its thread was busy, in any way of `if_busy`.
    """
    found = await scenarios.crowd(place, WorkerOptions(), runs=2000, threads=100)

    tell(request, "2,000 runs on 100 threads, four ways of if_busy", dict(found))
    assert set(found) <= {"success", "cancelled", "refused"}, found
    assert found.total() == 2000


async def test_shares_of_a_thousand_runs(place, request):
    """
    Each of four workers gets its part of a thousand runs, a fifth one soon gets some, and those
    of one that leaves go on elsewhere.
    """
    options = WorkerOptions(pause_s=3.0, lease_s=10.0, max_runs=1000)
    found = await scenarios.shares_of(place, options, runs=1000, count=6)

    tell(request, "shares of 1,000 runs", found)
    mean = sum(found.shares) / 4
    assert len(found.shares) == 4
    assert all(abs(share - mean) <= mean / 4 for share in found.shares)
    assert found.joined_s <= 2
    assert max(found.drained_s, found.handed_s) <= 5


async def test_a_rolling_deploy_of_two_builds_under_load(place, request):
    """
    While four workers are replaced one by one, both builds' runs are accepted, and all end.
    """
    options = WorkerOptions(pause_s=0.3)
    statuses = await scenarios.roll(place, options, runs=200, count=10, workers=4)

    tell(request, "rolling deploy of four workers", dict(Counter(statuses)))
    assert Counter(statuses) == {"success": 200 * 9}


async def test_five_times_overload(place, request):
    """
    Under five times the runs that workers can run for a minute no lease is lost, starts are
    refused, and all that was accepted has ended soon afterwards.
    """
    options = WorkerOptions(pause_s=0.1, lease_s=4.0, max_runs=8)
    found = await loads.overload(place, options, queued=500, seconds=60)

    tell(request, "five times overload", found)
    assert found.leases_lost == 0
    assert found.statuses == {"success": found.accepted}
    assert found.refused > found.accepted
    assert found.answers[429] > 0


AS_THEY_ARE = "UPDATE pgqueuer SET priority = priority"
HINTS = {"as they are": AS_THEY_ARE, "truncated": "TRUNCATE pgqueuer", "doubled": scenarios.DOUBLED}


@pytest.mark.parametrize("what", HINTS)
async def test_a_thousand_lost_and_doubled_hints(place, what, request):
    """
    A thousand runs end once, within a lease, a sweep and the time that they take.
    """
    options = WorkerOptions(lease_s=4.0)
    wait_s = await scenarios.lose_hints(place, options, 1000, HINTS[what])

    tell(request, f"1,000 hints {what}: seconds", f"{wait_s:.1f}")
    assert wait_s <= options.lease_s * 4 / 3 + 3


async def test_workers_stopped_with_hints(place, request):
    """
    Runs whose hints a stopped worker has taken end elsewhere within a lease and a sweep, also if it
    was stopped in a transaction; when it goes on, it deletes hints that others have had, and no run
    is lost or begun late.
    """
    options = WorkerOptions(lease_s=4.0)
    found = await loads.stop_takers(place, options, runs=300, stops=9)

    tell(request, "workers stopped with hints", found)
    assert sum(found.held) > 0
    assert (found.lost, found.stale, found.late, found.hints_left) == (0, 0, 0, 0), found
    soon_s = options.lease_s * 4 / 3 + 2
    assert found.longest_s <= soon_s
    assert found.longest_locked_s <= soon_s


LONG_TURNS = 4


async def test_a_thousand_remote_readers(place, request, anyio_backend_name):
    """
    A thousand readers in an accepting process get each event of runs in three workers, soon and
    by few transactions, also when a worker is killed.
    """
    # Tasks and futures of asyncio are in C, those of trio in Python, and workers use the cores too.
    soon_ms = 100 if anyio_backend_name == "asyncio" else 250
    options = WorkerOptions(pause_s=5.0, lease_s=4.0, max_runs=1000)
    read = partial(loads.read_remotely, place, options, runs=1000, count=8)
    found = await in_own_loop(read, anyio_backend_name)

    tell(request, "1,000 remote readers", found)
    assert found.wrong == 0
    assert found.taken_over > 0
    # An event takes a dozen turns of threads. On cores that others use too, a few of them wait as
    # long as one of a hundred turns of a process that does nothing else.
    assert found.p99_ms <= soon_ms + LONG_TURNS * found.floor_p99_ms
    assert found.reads <= 50
    assert found.queries <= 2.25  # 1.7, more with each run that is slow or taken over


async def test_two_hundred_remote_cancels(place, request):
    """
    Runs of workers are cancelled soon by the process that accepted them.
    """
    options = WorkerOptions(pause_s=1000.0, lease_s=15.0)
    waits = await scenarios.cancel_remotely(place, options, 200)

    figures = f"p50 {waits[100] * 1000:.0f} ms, p99 {waits[197] * 1000:.0f} ms"
    tell(request, "200 remote cancels", figures)
    assert waits[197] <= 0.3
