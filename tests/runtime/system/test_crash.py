"""Processes that die or are stopped in the middle of their runs, and the one that goes on.

One or two combinations of store and event loop for each; the long forms are in tests/faults.
"""

import signal
from functools import partial

import anyio
import anyio.to_thread
import pytest

from tests.support.every_saver import stored_in
from tests.support.system_processes import (
    ALL,
    acked,
    come_second,
    expire_leases,
    kill,
    left,
    lines_until,
    only_renamed,
    ran,
    stop,
    stored,
    take_over,
    worker,
)
from tests.support.system_worker import ATTEMPTS_MAX, NODES, RENAMED, system_over

RUNS = 10
LONG_S = 60.0
"""A lease that no slow computer loses."""
ON = [("asyncio", "sqlite"), ("trio", "postgres")]
CROSSED = [("trio", "sqlite"), ("asyncio", "postgres")]
threaded = anyio.to_thread.run_sync


@pytest.fixture
def database(request, tmp_path) -> str:
    """A database: see `system_over`."""
    with stored_in(request, request.param, tmp_path) as made:
        path = f"{made.path.parent}/threads/" if request.param == "jsonl" else str(made.path)
        yield f"{made.url}#{made.schema}" if made.schema else path


def on(pairs):
    """Run a test on pairs of an event loop and a store."""
    names = ("anyio_backend", "database")
    return pytest.mark.parametrize(names, pairs, indirect=["database"], scope="function")


class TestTwoProcesses:
    @pytest.mark.one_loop
    @pytest.mark.promise("E10")
    @on([*ON, ("asyncio", "jsonl")])
    async def test_runs_of_a_killed_process_are_ended_by_another(
        self, database, anyio_backend, capfd
    ):
        """
        Every run ends in the other process, and no acknowledged task runs again.
        """
        with worker(anyio_backend, "g", database, RUNS) as process:
            said = await threaded(partial(lines_until, process, RUNS, started=True))
            said += await threaded(kill, process)
        capfd.readouterr()
        values = await take_over(database, RUNS)
        again = [line.split() for line in capfd.readouterr().out.splitlines()]
        rows = await stored(database, RUNS)

        assert list(values.values()) == [ALL] * RUNS
        assert 0 < len(acked(said)) < RUNS * len(ALL)
        assert acked(said) & ran(again) == set()
        for attempt, status, _, _, told in rows:
            assert (attempt, status) == (2, "success")
            assert [offset for offset, _ in told] == list(range(1, len(told) + 1))
            assert told[-1][1] == "end"

    @on(ON[:1])
    async def test_runs_of_a_suspended_process_are_not_lost(self, database, anyio_backend, capfd):
        """
        A process whose lease is over ends its runs, and leaves them to the next owner.
        """
        with worker(anyio_backend, "g", database, 4, pause_s=0.2, lease_s=0.5) as process:
            await threaded(partial(lines_until, process, 4, started=True))
            await threaded(stop, process, database)
            await anyio.sleep(0.6)
            process.send_signal(signal.SIGCONT)
            rest = await threaded(lines_until, process, 1000)
            code = await threaded(process.wait)
        values = await take_over(database, 4)
        capfd.readouterr()

        assert (code, left(rest)) == (0, {"pending": 4})
        assert list(values.values()) == [ALL] * 4

    @pytest.mark.one_loop
    @on(CROSSED)
    async def test_writes_of_a_process_past_its_lease_are_refused(
        self, database, anyio_backend, capfd
    ):
        """
        A process that was stopped for longer than its lease changes nothing afterwards.
        """
        with worker(anyio_backend, "g", database, 4, pause_s=0.2) as process:
            await threaded(partial(lines_until, process, 4, started=True))
            await threaded(stop, process, database)
            values = await take_over(database, 4)
            before = await stored(database, 4)
            process.send_signal(signal.SIGCONT)
            rest = await threaded(lines_until, process, 1000)
            code = await threaded(process.wait)
        after = await stored(database, 4)
        capfd.readouterr()

        assert list(values.values()) == [ALL] * 4
        assert before == after
        assert (code, left(rest)["success"]) == (0, 0)


@on(ON[1:])
async def test_a_run_that_kills_its_processes_is_parked(database, anyio_backend, capfd):
    """
    After as many deaths as allowed a run is parked with the reason, as every process sees.
    """
    codes = []
    for number in range(ATTEMPTS_MAX):
        job = "recover-deadly" if number else "deadly"
        with worker(anyio_backend, job, database, 1, lease_s=LONG_S) as process:
            said = await threaded(lines_until, process, 1)
            codes.append(await threaded(process.wait))
        assert ["ran", "t0", "node"] in said
        await expire_leases(database)
    with worker(anyio_backend, "recover-deadly", database, 1, lease_s=LONG_S) as process:
        parked_by = (await threaded(lines_until, process, 1), await threaded(process.wait))
    async with system_over(database, 0.0, 15.0, ATTEMPTS_MAX) as system:
        (run,) = await system.runs()
        taken = await system.recover()

    assert (codes, parked_by, taken) == ([-9] * ATTEMPTS_MAX, ([], 0), [])
    assert (run.status, run.attempt) == ("parked", ATTEMPTS_MAX)
    assert str(ATTEMPTS_MAX) in run.reason


class TestSecondRuns:
    @pytest.mark.parametrize("fate", ["killed", "stopped"])
    @on(ON[:1])
    async def test_accepted_runs_are_run_even_if_the_first_process_dies(
        self, database, anyio_backend, fate, capfd
    ):
        """
        Runs that come to threads of a dead or stopped process end well, by each policy.
        """
        with worker(anyio_backend, "g", database, 8, pause_s=0.3, lease_s=0.5) as process:
            await threaded(partial(lines_until, process, 1, started=True))
            await threaded(kill, process) if fate == "killed" else stop(process, database)
            seen = await come_second(database, 8, lease_s=0.5)

        assert +seen == {"refused": 2, "success": 6}

    @on(CROSSED[1:])
    async def test_runs_of_an_old_version_wait_for_it(self, database, anyio_backend, capfd):
        """
        A version that can't go on with them parks and fails none; the old one ends them all.
        """
        with worker(anyio_backend, "g", database, 4, pause_s=0.3, lease_s=LONG_S) as process:
            await threaded(partial(lines_until, process, 8, started=True))
            await threaded(kill, process)
        await expire_leases(database)
        statuses, misfits = await only_renamed(database, lease_s=2.0)
        values = await take_over(database, 4)

        assert statuses["running"] + statuses["pending"] == misfits > 0
        assert statuses["parked"] == statuses["error"] == 0
        assert {"".join(bar) for bar in values.values()} <= {NODES, RENAMED}
