"""Many runs over many worker processes: the long form of tests/dispatch/test_processes.py."""

from tests.faults.crashes import report
from tests.faults.dispatching import Place, churn


async def test_two_thousand_runs_over_four_workers(
    postgres, schema, tmp_path, anyio_backend, request
):
    """
    One of four workers is killed, one stopped for 2.5 leases, one drained and replaced: nothing is
    lost, and no step begins after its worker has lost the lease.
    """
    place = Place(postgres.url, schema, tmp_path / "log", anyio_backend, 4.0, 0.5, 600)
    found = await churn(place, runs=2000, count=10, workers=4)

    report(
        request.config,
        "runs dispatched to four workers",
        f"{anyio_backend}: {found.runs} runs x 10 steps in {found.wall_s:.1f} s; lost "
        f"{found.lost}, repeated steps {found.repeated}, stale starts {found.stale}; of "
        f"{found.killed} runs of the killed worker the first went on after {found.first_s:.1f} s, "
        f"the last after {found.last_s:.1f} s; drained in {found.drained_s:.1f} s; shares "
        f"{found.shares}",
    )
    assert (found.lost, found.stale) == (0, 0), found
    assert found.drained_s < 5
