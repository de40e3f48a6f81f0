"""Which deaths count against a run, and when it is tried alone, parked, or left."""

import pytest

from actorgraph.rules.system.scheduling import (
    SILENT_LEASES,
    deaths_after,
    has_progressed,
    is_on_trial,
    is_silent,
    is_suspect,
)
from actorgraph.values.systems import NO_OWNER, RunRow

OWNER = b"o" * 16


def row(status="running", deaths=0, owner=OWNER, *, claimed=True) -> RunRow:
    given = {"claimed": claimed, "owner": owner, "created": 0, "metadata": "{}", "payload": b""}
    return RunRow(b"r" * 16, "t", "g", status=status, attempts=30, deaths=deaths, **given)


class TestDeaths:
    @pytest.mark.promise("E10")
    @pytest.mark.parametrize("fate", ["alive", "gone", "unknown"])
    @pytest.mark.parametrize(
        ("left", "counted"),
        [
            # What its system left: what is counted if that is alive, gone, unknown; 3 are parked.
            (row(), (0, 1, 1)),
            (row(deaths=1), (1, 2, 2)),
            (row(deaths=2), (2, 2, 2)),
            (row(deaths=3), (2, 3, 3)),
            (row("pending"), (0, 0, 0)),
            (row("pending", deaths=2), (2, 2, 2)),
            (row("pending", deaths=3), (2, 3, 3)),
            (row("pending", claimed=False), (0, 0, 0)),
            (row(owner=NO_OWNER, deaths=1), (1, 1, 1)),
            (row(owner=None), (0, 0, 0)),
        ],
    )
    def test_that_are_counted(self, left, counted, fate):
        """
        Only a process that isn't known to live counts, and only if it had begun the run; counted
        deaths make a suspect, and no more, of a run that was not tried alone.
        """
        expected = dict(zip(("alive", "gone", "unknown"), counted, strict=True))
        assert deaths_after(left, fate, 3) == expected[fate]

    @pytest.mark.parametrize(("fate", "counted"), [("alive", 0), ("gone", 1)])
    def test_of_a_run_that_is_tried_once_only(self, fate, counted):
        """
        With one attempt the first death parks a run, and a pause doesn't.
        """
        assert deaths_after(row(), fate, 1) == counted
        assert not is_suspect(0, 1)

    def test_of_a_suspect_that_was_not_tried_alone(self):
        """
        With two attempts a suspect stays one: only a trial that it was alone in parks it.
        """
        assert deaths_after(row(deaths=1), "gone", 2) == 1


class TestSuspects:
    @pytest.mark.parametrize(
        ("deaths", "attempts_max", "suspect", "on_trial"),
        [
            (0, 3, False, False),
            (1, 3, False, False),
            (2, 3, True, False),
            (3, 3, True, True),
            (0, 2, False, False),
            (1, 2, True, False),
            (2, 2, True, True),
        ],
    )
    def test_by_their_deaths(self, deaths, attempts_max, suspect, on_trial):
        """
        The last attempt that a run has is a trial; who begins it notes the last death in advance.
        """
        assert is_suspect(deaths, attempts_max) is suspect
        assert is_on_trial(row(deaths=deaths), attempts_max) is on_trial

    @pytest.mark.parametrize(("saves", "progressed"), [(0, False), (1, False), (2, True)])
    def test_that_progress(self, saves, progressed):
        """
        A claim of a thread doesn't count; saves after it do.
        """
        assert has_progressed(saves) is progressed

    @pytest.mark.parametrize(
        ("lease_s", "silent"), [(1.0, False), (-2.0 * SILENT_LEASES, False), (-9.0, True)]
    )
    def test_whose_process_is_elsewhere(self, lease_s, silent):
        """
        It is taken as gone some leases after its own is over, or when it has given that up.
        """
        assert is_silent(lease_s, 2.0) is silent
        assert is_silent(None, 2.0)
