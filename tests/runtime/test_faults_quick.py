"""A part of tests/faults, small enough for every change: crashes, cancellation, races, kills.

`make faults` has all of it, and prints the figures.
"""

import sqlite3
from itertools import product

import pytest

from actorgraph import InMemorySaver
from actorgraph.errors import CheckpointError, SaverBrokenError
from actorgraph.testing import FaultPlan, FaultySaver, failing_connection, sqlite_failure
from tests.faults.cancelled_readers import QUICK
from tests.faults.cancelled_stores import cancel_case
from tests.faults.cancels import JUDGED, cancel_everywhere
from tests.faults.crashes import check, crash_everywhere
from tests.faults.crowds import many_threads, one_thread, resumes
from tests.faults.kills import kill_often
from tests.faults.oracle import Oracle
from tests.faults.scenarios import CONFIG, INPUT, MODES, NAMED, chain, scenarios_of
from tests.faults.stores import STORES, Store
from tests.faults.test_cancelled_awaits import CALLS, HOW

CHAIN, FAN_OUT, QUESTION, LOOP = (NAMED[n] for n in ("chain", "fan-out", "interrupt", "loop"))
CHEAP = ("memory", "memory, by actor")
PARTS = {"asyncio": (0, 5), "trio": (1, 5)}
"""Which fifth of all points each event loop has here."""

KILLED = [pytest.param(m, marks=[pytest.mark.long] * (m != "async")) for m in MODES]


class TestDoubles:
    @pytest.mark.parametrize(("when", "stored"), [("before", False), ("after", True)])
    async def test_a_plan_fails_one_operation_before_or_after_its_effect(self, when, stored):
        """
        The second operation of a first run is its claim: the checkpoint is there or isn't.
        """
        inner, plan = InMemorySaver(), FaultPlan(2, when)
        graph = chain(Oracle()).compile(checkpointer=FaultySaver(inner, plan))

        with pytest.raises(SaverBrokenError):
            await graph.ainvoke(INPUT, CONFIG)

        assert plan.operations == ["query", "commit"]
        assert plan.fired
        assert (await inner.aget_tuple(CONFIG) is not None) == stored

    async def test_statements_of_sqlite_fail_with_its_own_errors(self, tmp_path):
        """
        A failing connection raises what SQLite would, and a fault may happen only once.
        """
        plan = FaultPlan(2, error=lambda: sqlite_failure(sqlite3.SQLITE_FULL), lasting=False)
        connection = sqlite3.connect(tmp_path / "x.db", factory=failing_connection(plan))
        connection.execute("CREATE TABLE t (a)")
        with pytest.raises(sqlite3.OperationalError) as error:
            connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("INSERT INTO t VALUES (2)")

        assert error.value.sqlite_errorcode == sqlite3.SQLITE_FULL
        assert connection.execute("SELECT a FROM t").fetchall() == [(2,)]
        assert plan.operations[:2] == ["CREATE TABLE t", "INSERT INTO t"]
        connection.close()

    @pytest.mark.parametrize("kind", STORES)
    async def test_each_store_of_the_fault_tests_can_fail(self, kind, tmp_path):
        """
        Each kind of store fails at its first operation, and its caller gets an error.
        """
        oracle, plan = Oracle(), FaultPlan(1)
        store = Store(kind, tmp_path / "store.db", oracle)

        with pytest.raises(CheckpointError):
            async with store.saver(plan) as saver:
                await chain(oracle).compile(checkpointer=saver).ainvoke(INPUT, CONFIG)

        assert plan.fired


class TestCrashPoints:
    @pytest.mark.one_loop
    @pytest.mark.promise("S072", "B1", "B2", "B3", "B5")
    @pytest.mark.parametrize("mode", MODES)
    async def test_in_memory_no_crash_point_loses_what_was_acknowledged(
        self, mode, tmp_path, anyio_backend
    ):
        """
        Calls of the saver's port fail one by one, and a resume ends right.
        """
        for scenario, kind in product(scenarios_of(mode), CHEAP):
            path, part = tmp_path / "store.db", PARTS[anyio_backend]
            check(await crash_everywhere(scenario, kind, mode, path, part))

    @pytest.mark.one_loop
    @pytest.mark.promise("S063", "S072", "B1", "B2", "B3", "B5")
    @pytest.mark.parametrize(
        ("mode", "scenario"),
        [("sync", FAN_OUT), ("async", CHAIN), ("exit", LOOP)],
        ids=["sync", "async", "exit"],
    )
    async def test_in_sqlite_no_statement_loses_what_was_acknowledged(
        self, mode, scenario, tmp_path, anyio_backend
    ):
        """
        SQL statements fail one by one, COMMIT too, and a resume ends right.
        """
        path, part = tmp_path / "store.db", PARTS[anyio_backend]
        check(await crash_everywhere(scenario, "sqlite", mode, path, part))

    @pytest.mark.one_loop
    async def test_a_store_that_forgets_is_found_out(self, tmp_path, monkeypatch):
        """
        The judge can fail: with a store that drops the ledger, acknowledged tasks run again.
        """
        insert = "INSERT OR IGNORE INTO writes SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE 0"
        monkeypatch.setattr("actorgraph.savers.sqlite.schema.INSERT_WRITE", insert)

        seen = await crash_everywhere(FAN_OUT, "sqlite", "sync", tmp_path / "store.db", (0, 4))

        assert seen["lost"] > 0
        assert seen["re-run"] > 0


class TestCancelledAwaits:
    @pytest.mark.one_loop
    @pytest.mark.promise("B3", "B6")
    @pytest.mark.parametrize("kind", ["memory, by actor", "sqlite"])
    @pytest.mark.parametrize(("scenario", "call"), CALLS, ids=[c.name for _, c in CALLS])
    async def test_a_cancelled_call_leaves_nothing_behind(
        self, scenario, call, kind, tmp_path, anyio_backend
    ):
        """
        Cancelled at an await, a call leaves no transaction, no lock, no task and no later
        change, and the thread goes on.
        """
        how = HOW[anyio_backend][-1]
        path, part = tmp_path / "store.db", PARTS[anyio_backend]
        seen = await cancel_everywhere(call, scenario, kind, how, path, part)

        assert {name: seen[name] for name in JUDGED if seen[name]} == {}
        assert seen["awaits"] > 0

    @pytest.mark.one_loop
    @pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
    async def test_a_cancelled_call_does_not_block_the_next(self, case, tmp_path, anyio_backend):
        """
        Of a store, a cache, a session or a reader of events: cancelled at an await it ends, and
        the same object answers the next call.
        """
        how, part = HOW[anyio_backend][-1], PARTS[anyio_backend]
        await cancel_case(case, how, tmp_path, part)


class TestManyAtOnce:
    @pytest.mark.promise("S068", "B4")
    @pytest.mark.parametrize("mode", MODES)
    async def test_of_twenty_runs_on_one_thread_the_losers_run_nothing(self, mode, tmp_path):
        """
        Each winner's update is there once; each loser gets a ConflictError before its first
        node.
        """
        seen = await one_thread("sqlite", mode, tmp_path / "store.db", 20, 1)

        assert (seen["won"] + seen["lost"], seen["node runs of losers"]) == (20, 0)
        assert seen["node runs of winners"] == 3 * seen["won"]
        assert (seen["updates lost"], seen["steps lost"]) == (0, 0)

    @pytest.mark.one_loop
    @pytest.mark.promise("S005", "S010", "B2")
    async def test_two_hundred_threads_run_at_once_in_one_file(self, tmp_path):
        """
        Each thread is read back right, and none has an error.
        """
        seen = await many_threads("sync", tmp_path / "store.db", 200)

        assert (seen["errors"], seen["read back right"]) == (0, 200)

    @pytest.mark.promise("B4")
    async def test_of_fifty_answers_to_one_question_one_is_taken(self, tmp_path):
        """
        The node runs once more, and 49 calls get AlreadyResumed.
        """
        seen = await resumes("sqlite", "sync", tmp_path / "store.db", 50, 1)

        assert dict(seen) == {"taken": 1, "refused": 49, "node runs": 2, "answers in the state": 1}


@pytest.mark.one_loop
@pytest.mark.promise("S063", "S072", "S202", "B1", "B2", "B3")
@pytest.mark.parametrize("mode", KILLED)
async def test_a_killed_process_loses_nothing_it_had_acknowledged(mode, tmp_path, anyio_backend):
    """
    After kill -9 each thread ends with the state of an undisturbed run, and no acknowledged
    task runs again.
    """
    seen = await kill_often(tmp_path, anyio_backend, mode, 1)

    assert (seen["lost"], seen["run again"], seen["wrong"]) == (0, 0, 0)
