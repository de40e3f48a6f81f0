"""Workers in processes of their own, killed, stopped and drained: a small form of `make faults`."""

from tests.faults.dispatching import Place, churn


async def test_runs_survive_their_workers(postgres, schema, tmp_path, anyio_backend):
    """
    While one of three workers is killed, one stopped past its lease and one drained, every run
    ends with each of its steps once, and no worker begins a step after it has lost its lease.
    """
    place = Place(postgres.url, schema, tmp_path / "log", anyio_backend, 1.5, 0.2, 40)
    verdict = await churn(place, runs=40, count=8, workers=3)

    assert (verdict.lost, verdict.stale) == (0, 0), verdict
    assert verdict.drained_s < 5
