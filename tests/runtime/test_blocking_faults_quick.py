"""A part of the fault tests of blocking calls, small enough for every change.

`make faults` has all of it, and prints the figures.
"""

import signal

import pytest

from tests.faults.blocking_crashes import crash_everywhere
from tests.faults.blocking_crowds import CALLS, overload
from tests.faults.blocking_kills import kill_blocking
from tests.faults.crashes import check
from tests.faults.ctrl_c import JUDGED, interrupt_everywhere
from tests.faults.plain_scenarios import PLAIN
from tests.faults.scenarios import MODES

QUICK = tuple(name for name in JUDGED if name != "late")
"""Without the time: tests beside this one may have the processor for half a second."""
THREADS = 30

KILLED = [pytest.param(m, marks=[pytest.mark.long] * (m != "async")) for m in MODES]


class TestCrashPoints:
    @pytest.mark.promise("S072", "B1", "B2", "B3", "B5")
    @pytest.mark.parametrize("mode", MODES)
    def test_no_crash_point_loses_what_was_acknowledged(self, mode, tmp_path):
        """
        Calls of the saver's port fail one by one under a blocking call, and a resume ends right.
        """
        for name in ("chain", "fan-out", "interrupt", "handler"):
            path = tmp_path / "store.db"
            check(crash_everywhere(PLAIN[name], "memory", mode, path, (0, 3)))

    @pytest.mark.promise("S063", "S072", "B1", "B2", "B3", "B5")
    def test_in_sqlite_no_statement_loses_what_was_acknowledged(self, tmp_path):
        """
        SQL statements fail one by one under a blocking call, and a resume ends right.
        """
        path = tmp_path / "store.db"
        check(crash_everywhere(PLAIN["fan-out"], "sqlite", "sync", path, (0, 5)))

    def test_a_store_that_forgets_is_found_out(self, tmp_path, monkeypatch):
        """
        The judge can fail: with a store that drops the ledger, acknowledged tasks run again.
        """
        insert = "INSERT OR IGNORE INTO writes SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE 0"
        monkeypatch.setattr("actorgraph.savers.sqlite.schema.INSERT_WRITE", insert)

        path = tmp_path / "store.db"
        seen = crash_everywhere(PLAIN["fan-out"], "sqlite", "sync", path, (0, 4))

        assert seen["lost"] > 0
        assert seen["re-run"] > 0


class TestCtrlC:
    @pytest.mark.promise("B3", "B6")
    @pytest.mark.parametrize("name", ["fan-out", "interrupt", "calls"])
    @pytest.mark.parametrize("moments", ["steps", "functions", "storage"])
    def test_at_any_moment_it_ends_the_call_and_loses_nothing(self, moments, name, tmp_path):
        """
        The call raises KeyboardInterrupt, leaves nothing behind, and the thread goes on.
        """
        path, saver = tmp_path / "store.db", "memory, by actor"
        seen = interrupt_everywhere(
            PLAIN[name], saver, "sync", path, moments, signal.SIGINT, every=2
        )

        assert {name: seen[name] for name in QUICK if seen[name]} == {}
        assert seen["points"] > 0

    def test_a_handler_of_sigterm_that_exits_loses_nothing(self, tmp_path):
        """
        SystemExit of a signal's handler comes out of the call, and the thread goes on.
        """
        path = tmp_path / "store.db"
        seen = interrupt_everywhere(
            PLAIN["fan-out"], "memory", "async", path, "functions", signal.SIGTERM
        )

        assert {name: seen[name] for name in QUICK if seen[name]} == {}
        assert seen["points"] > 0


@pytest.mark.promise("S005", "S010", "B2", "B4")
def test_blocking_calls_of_many_threads_lose_nothing(tmp_path):
    """
    Of two calls on one thread at once one runs, and the other gets a ConflictError.
    """
    seen = overload("sync", tmp_path / "store.db", 8, THREADS)

    assert (seen["errors"], seen["node runs of refused"], seen["right"]) == (0, 0, THREADS)
    assert seen["won"] + seen["refused"] == CALLS * THREADS
    assert seen["node runs of winners"] == 5 * seen["won"]


@pytest.mark.promise("S063", "S072", "S202", "B1", "B2", "B3")
@pytest.mark.parametrize("mode", KILLED)
def test_a_killed_process_loses_nothing_it_had_acknowledged(mode, tmp_path):
    """
    After kill -9 during blocking calls each thread ends right, and no acknowledged task runs again.
    """
    seen = kill_blocking(tmp_path, mode, 1)

    assert (seen["lost"], seen["run again"], seen["wrong"]) == (0, 0, 0)
