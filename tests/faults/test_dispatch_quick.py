"""Small numbers of dispatched runs over worker processes: each scenario, on both loops."""

import pytest

from actorgraph.values.systems import RunEvent
from tests.faults import dispatch_scenarios as scenarios
from tests.faults.dispatch_loads import is_wrong
from tests.faults.dispatching import Place
from tests.support.dispatch_worker import WorkerOptions


@pytest.fixture
def place(postgres, schema, tmp_path, anyio_backend):
    """
    An empty schema, and a log that is not there yet.
    """
    return Place(postgres, schema, tmp_path / "log", anyio_backend)


def event(kind: str, offset: int, *steps: int) -> RunEvent:
    """An event of a run whose steps add their numbers to a list."""
    done = {"done": list(steps)}
    return RunEvent(offset, kind, {"step": done} if kind == "updates" else done)


ALL = [event("updates", 1, 0), event("updates", 2, 1), event("updates", 3, 2)]
GAP, STATE = event("gap", 2), event("values", 8, 0, 1)


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        (ALL, False),
        (ALL[:2], True),
        ([ALL[0], ALL[2]], True),
        ([ALL[0], ALL[1], ALL[1], ALL[2]], True),
        ([ALL[1], ALL[0], ALL[2]], True),
        ([ALL[0], GAP, STATE, event("updates", 9, 2)], False),
        ([ALL[0], GAP, event("values", 8, 0), event("updates", 9, 2)], True),
        ([ALL[0], STATE, event("updates", 9, 2)], True),
        ([ALL[0], GAP, event("values", 8, 0, 1, 2)], False),
        ([*ALL[:2], event("updates", 1, 2)], True),
    ],
    ids=range(10),
)
def test_a_lost_update_counts_unless_a_gap_and_the_state_follow(events, wrong):
    """
    A reader's events are wrong if an update is missing without a gap, comes twice or too early.
    """
    assert is_wrong(events, 3) is wrong


async def test_runs_survive_their_workers(place):
    """
    While one of three workers is killed, one stopped past its lease and one drained, every run
    ends with each of its steps once, and no worker begins a step after it has lost its lease.
    """
    options = WorkerOptions(pause_s=0.1, lease_s=1.0, max_runs=40, reserve=8)
    found = await scenarios.churn(place, options, runs=40, count=8, workers=3, webs=2)

    assert (found.lost, found.stale, found.late, found.again) == (0, 0, 0, 0), found
    assert found.drained_s < 5


async def test_runs_of_a_killed_worker_go_on_in_full_ones(place):
    """
    Workers that are full take over what a killed one had, in the slots that they reserve.
    """
    options = WorkerOptions(pause_s=60.0, lease_s=1.0, max_runs=20, reserve=10)
    found = await scenarios.fill_and_kill(place, options, runs=30)

    assert found.first_s <= options.lease_s + 2
    assert found.last_s <= options.lease_s + 5


async def test_workers_share_runs_and_a_joiner_gets_some(place):
    """
    Runs of one accepting process spread over the workers, and over one that joins later; those
    of a worker that gets SIGTERM go on elsewhere.
    """
    options = WorkerOptions(pause_s=0.2, max_runs=20)
    found = await scenarios.shares_of(place, options, runs=80)

    assert len(found.shares) == 4
    assert max(found.joined_s, found.drained_s, found.handed_s) <= 5, found


async def test_a_rolling_deploy_parks_no_run(place):
    """
    Workers of a new build that may run the old one's runs end those too.
    """
    options = WorkerOptions(pause_s=0.1, lease_s=1.0)
    statuses = await scenarios.roll(place, options, runs=5, count=5)

    assert statuses == ["success"] * 25


async def test_the_runs_of_a_thread_keep_their_order_over_workers(place):
    """
    Three workers run each thread's runs in the order in which they were accepted.
    """
    assert await scenarios.in_order(place, WorkerOptions(), threads=10, runs=5) == 0


@pytest.mark.parametrize(
    "statement", ["DELETE FROM pgqueuer", scenarios.DOUBLED], ids=["deleted", "doubled"]
)
async def test_runs_end_once_without_their_hints_and_with_two(place, statement):
    """
    Runs whose hints were deleted or doubled end within a lease and a sweep, each step once.
    """
    options = WorkerOptions(lease_s=1.5)
    wait_s = await scenarios.lose_hints(place, options, 30, statement)

    assert wait_s <= options.lease_s * 4 / 3 + 1


async def test_a_run_of_another_process_is_cancelled_soon(place):
    """
    The cancellation of a worker's run is pushed to it: it doesn't wait for the next sweep.
    """
    waits = await scenarios.cancel_remotely(place, WorkerOptions(pause_s=60.0, lease_s=15.0), 20)

    assert waits[-1] <= 1, waits


async def test_no_accepted_run_ends_because_its_thread_was_busy(place):
    """
    Two processes start runs on the same threads in each way of `if_busy`: a run is refused when
    it is started, or it is run, or a later one replaces it.
    """
    found = await scenarios.crowd(place, WorkerOptions(), runs=80, threads=5)

    assert found.total() == 80
    assert set(found) <= {"success", "cancelled", "refused"}, found
    assert found["success"] >= 5
