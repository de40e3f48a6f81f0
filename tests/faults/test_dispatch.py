"""Many runs over many worker processes: the long form of tests/dispatch/test_processes.py."""

import time

import anyio

from actorgraph import ActorSystem, PostgresSaver
from tests.faults.crashes import report
from tests.faults.dispatch_scenarios import churn
from tests.faults.dispatching import Place
from tests.support.dispatch_worker import GRAPH, WorkerOptions, steps, system_of


async def test_two_thousand_runs_over_four_workers(
    postgres, schema, tmp_path, anyio_backend, request
):
    """
    One of four workers is killed, one stopped for 2.5 leases, one drained and replaced, PostgreSQL
    restarted: nothing is lost, and no step begins after its worker has lost the lease.
    """
    place = Place(postgres, schema, tmp_path / "log", anyio_backend)
    options = WorkerOptions(pause_s=0.5, lease_s=4.0, max_runs=700, reserve=200)
    found = await churn(
        place, options, runs=2000, count=10, workers=4, webs=2, with_restart=True, limit_s=300.0
    )

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
