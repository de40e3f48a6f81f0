"""Workers in processes of their own: the shortest form of tests/faults/test_dispatch_quick.py."""

import pytest

from tests.faults import dispatch_scenarios as scenarios
from tests.faults.dispatching import Place
from tests.support.dispatch_worker import WorkerOptions


@pytest.fixture(scope="module", params=["asyncio"])
def anyio_backend(request):
    """
    Each process costs a second of CPU at its start; both loops run in `make faults`.
    """
    return request.param


@pytest.fixture
def place(postgres, schema, tmp_path, anyio_backend):
    """
    An empty schema, and a log that is not there yet.
    """
    return Place(postgres, schema, tmp_path / "log", anyio_backend)


async def test_runs_survive_their_workers(place):
    """
    While one of three workers is killed, one stopped past its lease and one drained, every run
    ends with each of its steps once, and no worker begins a step after it has lost its lease.
    """
    options = WorkerOptions(pause_s=0.1, lease_s=1.0, max_runs=40, reserve=8)
    found = await scenarios.churn(place, options, runs=20, count=8, workers=3)

    assert (found.lost, found.stale, found.late, found.again) == (0, 0, 0, 0), found
    assert found.drained_s < 60  # 5 on a quiet machine: tests/faults/test_dispatch_quick.py


async def test_a_rolling_deploy_parks_no_run(place):
    """
    Workers of a new build that may run the old one's runs end those too.
    """
    options = WorkerOptions(pause_s=0.1, lease_s=1.0)
    statuses = await scenarios.roll(place, options, runs=5, count=5)

    assert statuses == ["success"] * 25
