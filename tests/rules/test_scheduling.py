"""Turns on a thread, by hand-fed arrivals and departures."""

from functools import partial

import pytest

from actorgraph.rules.run_order import is_ahead, is_to_come, newest_of, waits_for_time
from actorgraph.rules.system.scheduling import (
    FREE,
    BeginRun,
    CancelRun,
    DropRun,
    EraseRun,
    Lane,
    LeaveRun,
    ParkRun,
    RefuseBusy,
    RefuseFull,
    Share,
    TakeOver,
    action_on_rival,
    arrived,
    decide_takeover,
    erased,
    freed,
    held,
    is_replaced,
    left,
    misfit_of,
    misfit_reason,
    next_misfit,
    replacement_reason,
    rolls_back,
    taken_up,
    why_not_retried,
)
from actorgraph.values.systems import OpenRun, RunRow

A, B, C, D = b"a", b"b", b"c", b"d"
BUSY = Lane(A)
ENDING = Lane(A, ending=True, waiting=(B,))
ERASING = Lane(A, ending=True, erasing=True)


class TestArrived:
    @pytest.mark.parametrize("if_busy", ["reject", "enqueue", "interrupt", "rollback"])
    def test_a_free_thread_is_given_at_once(self, if_busy):
        """
        With any strategy, a thread without a run is the next one's.
        """
        assert arrived(FREE, A, if_busy, 1) == (Lane(A), (BeginRun(A),))

    @pytest.mark.parametrize(
        ("lane", "if_busy", "then", "steps"),
        [
            (BUSY, "reject", BUSY, (RefuseBusy(A),)),
            (BUSY, "enqueue", Lane(A, waiting=(C,)), ()),
            (Lane(A, waiting=(B,)), "enqueue", Lane(A, waiting=(B, C)), ()),
            (Lane(A, waiting=(B, D)), "enqueue", Lane(A, waiting=(B, D)), (RefuseFull(2),)),
            (BUSY, "interrupt", Lane(A, ending=True, waiting=(C,)), (CancelRun(A, C),)),
            (
                BUSY,
                "rollback",
                Lane(A, ending=True, rollback=True, waiting=(C,)),
                (CancelRun(A, C),),
            ),
            (
                Lane(A, waiting=(B, D)),
                "interrupt",
                Lane(A, ending=True, waiting=(C,)),
                (DropRun(B, C), DropRun(D, C), CancelRun(A, C)),
            ),
            (ENDING, "interrupt", Lane(A, ending=True, waiting=(C,)), (DropRun(B, C),)),
            (
                Lane(A, ending=True, rollback=True, waiting=(B,)),
                "interrupt",
                Lane(A, ending=True, rollback=True, waiting=(C,)),
                (DropRun(B, C),),
            ),
            (ERASING, "reject", Lane(A, ending=True, erasing=True, waiting=(C,)), ()),
            (
                Lane(A, ending=True, erasing=True, waiting=(B,)),
                "reject",
                Lane(A, ending=True, erasing=True, waiting=(B,)),
                (RefuseBusy(B),),
            ),
            (
                Lane(A, ending=True, erasing=True, waiting=(B,)),
                "interrupt",
                Lane(A, ending=True, erasing=True, waiting=(C,)),
                (DropRun(B, C),),
            ),
        ],
    )
    def test_a_busy_thread(self, lane, if_busy, then, steps):
        """
        Each strategy refuses, waits, or takes the place of all runs before it.
        """
        assert arrived(lane, C, if_busy, 2) == (then, steps)


class TestLeft:
    @pytest.mark.parametrize(
        ("lane", "run", "then", "steps"),
        [
            (BUSY, A, FREE, ()),
            (Lane(A, waiting=(B, C)), A, Lane(B, waiting=(C,)), (BeginRun(B),)),
            (Lane(A, waiting=(B, C)), B, Lane(A, waiting=(C,)), ()),
            (ENDING, A, Lane(B), (BeginRun(B),)),
            (
                Lane(A, ending=True, rollback=True, waiting=(B,)),
                A,
                Lane(A, ending=True, erasing=True, waiting=(B,)),
                (EraseRun(A),),
            ),
            (Lane(A, ending=True, rollback=True), A, ERASING, (EraseRun(A),)),
            (Lane(A, ending=True, erasing=True, waiting=(B,)), B, ERASING, ()),
        ],
    )
    def test_the_next_one_begins(self, lane, run, then, steps):
        """
        First in, first out; what is rolled back is removed before the next one begins.
        """
        assert left(lane, run) == (then, steps)

    @pytest.mark.parametrize(
        ("waiting", "then", "steps"),
        [((), FREE, ()), ((B, C), Lane(B, waiting=(C,)), (BeginRun(B),))],
    )
    def test_a_run_that_waits_for_a_removal_begins_after_it(self, waiting, then, steps):
        """
        A thread whose last run is rolled back is free, or the next one's, when that is removed.
        """
        lane = Lane(A, ending=True, erasing=True, waiting=waiting)

        assert erased(lane) == (then, steps)


HELD = Lane(B, held=True)


class TestHeld:
    @pytest.mark.parametrize(
        ("lane", "if_busy", "then", "steps"),
        [
            (HELD, "reject", HELD, (RefuseBusy(B),)),
            (HELD, "enqueue", Lane(B, held=True, waiting=(D,)), ()),
            (HELD, "interrupt", Lane(D), (DropRun(B, D), BeginRun(D))),
            (
                Lane(B, held=True, waiting=(C,)),
                "rollback",
                Lane(D),
                (DropRun(B, D), DropRun(C, D), BeginRun(D)),
            ),
        ],
    )
    def test_a_run_on_a_thread_of_another_system(self, lane, if_busy, then, steps):
        """
        A run that waits for another system is in the way as one that goes on is.
        """
        assert arrived(lane, D, if_busy, 2) == (then, steps)

    def test_a_held_run_begins_when_its_thread_is_free(self):
        """
        It is the same run again; a lane without a holder is left alone.
        """
        assert held(Lane(B, waiting=(C,))) == (Lane(B, held=True, waiting=(C,)), ())
        assert freed(Lane(B, held=True, waiting=(C,))) == (Lane(B, waiting=(C,)), (BeginRun(B),))
        assert freed(BUSY) == (BUSY, ())
        assert freed(FREE) == (FREE, ())
        assert left(Lane(B, held=True, waiting=(C,)), B) == (Lane(C), (BeginRun(C),))

    @pytest.mark.parametrize(
        ("lane", "begun", "then"),
        [
            (Lane(C, waiting=(A, B)), (), Lane(A, waiting=(B, C))),
            (Lane(C, waiting=(B, D)), {D}, Lane(D, waiting=(B, C))),
            (Lane(A, waiting=(B,)), {B}, Lane(B, waiting=(A,))),
        ],
    )
    def test_a_run_that_comes_first_does_not_wait_behind_a_held_one(self, lane, begun, then):
        """
        If the active run can't begin, one that was taken up behind it and comes first begins: the
        other system's run may be waiting for that one, and both would wait for ever.
        """
        assert held(lane, begun) == (then, (BeginRun(then.active),))

    @pytest.mark.parametrize(
        ("lane", "run", "then", "steps"),
        [
            (FREE, B, Lane(B), (BeginRun(B),)),
            (HELD, A, Lane(A, waiting=(B,)), (BeginRun(A),)),
            (HELD, C, Lane(B, held=True, waiting=(C,)), ()),
            (Lane(C), A, Lane(C, waiting=(A,)), ()),
            (Lane(A, waiting=(B, D)), C, Lane(A, waiting=(B, C, D)), ()),
        ],
    )
    def test_a_run_that_is_taken_up_has_its_old_place(self, lane, run, then, steps):
        """
        Runs of a thread go on in the order of their ids, wherever they were accepted.
        """
        assert taken_up(lane, run) == (then, steps)

    def test_a_run_that_had_begun_goes_on_first(self):
        """
        Its id doesn't matter: it is in front of a held run, of waiting ones, and of other systems'.
        """
        assert taken_up(HELD, D, {D}) == (Lane(D, waiting=(B,)), (BeginRun(D),))
        assert taken_up(Lane(A, waiting=(B,)), D, {D}) == (Lane(A, waiting=(D, B)), ())
        assert taken_up(Lane(A, waiting=(D,)), C, {D}) == (Lane(A, waiting=(D, C)), ())
        other = partial(OpenRun, owner=b"2")
        for alive in (True, False):
            assert not is_ahead(B, b"1", other(A, claimed=False, alive=alive), begun=True)
            assert is_ahead(B, b"1", other(A, claimed=True, alive=alive), begun=True)
            assert not is_ahead(B, b"1", other(C, claimed=True, alive=alive), begun=True)

    def test_two_that_have_begun_do_not_wait_for_each_other(self):
        """
        The lower id goes first, whichever of the two asks.
        """
        one, two = (
            OpenRun(run, owner, claimed=True, alive=True) for run, owner in ((A, b"1"), (B, b"2"))
        )
        assert not is_ahead(one.run, one.owner, two, begun=True)
        assert is_ahead(two.run, two.owner, one, begun=True)

    @pytest.mark.parametrize(
        ("run", "owner", "claimed", "alive", "ahead"),
        [
            (A, b"2", False, True, True),
            (A, b"2", True, False, True),
            (A, None, False, False, True),
            (A, b"1", True, True, False),
            (C, b"2", True, True, True),
            (C, b"2", False, True, False),
            (C, b"2", True, False, True),
            (B, b"2", True, True, False),
        ],
    )
    def test_which_runs_come_first(self, run, owner, claimed, alive, ahead):
        """
        Older ones of other systems, and a younger one that goes on there; never its own.
        """
        assert is_ahead(B, b"1", OpenRun(run, owner, claimed, alive)) is ahead

    @pytest.mark.parametrize(
        ("if_busy", "alive", "cancel", "way"),
        [
            ("enqueue", True, None, "wait"),
            ("enqueue", False, None, "take_up"),
            ("reject", True, None, "wait"),
            ("interrupt", True, None, "end"),
            ("interrupt", False, None, "end"),
            ("rollback", True, None, "end"),
            ("rollback", True, "x", "wait"),
            ("rollback", False, "x", "end"),
            ("enqueue", True, "x", "wait"),
            ("enqueue", False, "x", "end"),
        ],
    )
    def test_an_earlier_run_is_waited_for_ended_or_adopted(self, if_busy, alive, cancel, way):
        """
        It is waited for, asked to end once, or taken up where no system has it any more.
        """
        assert action_on_rival(if_busy, row(alive=alive, cancel=cancel)) == way

    @pytest.mark.parametrize("if_busy", ["enqueue", "interrupt", "rollback"])
    def test_a_delayed_run_ends_nothing_at_its_time(self, if_busy):
        """
        Runs that came while it waited are waited for; those that it has replaced were asked before.
        """
        assert action_on_rival(if_busy, row(alive=True, cancel=None), delayed=True) == "wait"
        assert action_on_rival(if_busy, row(alive=False, cancel=None), delayed=True) == "take_up"
        assert action_on_rival(if_busy, row(alive=False, cancel="x"), delayed=True) == "end"

    @pytest.mark.parametrize(
        ("due", "alive", "claimed", "waits"),
        [
            (0, False, False, False),
            (100, False, False, False),
            (101, False, False, True),
            (101, True, False, False),
            (101, False, True, False),
        ],
    )
    def test_a_run_whose_time_is_to_come_holds_nothing(self, due, alive, claimed, waits):
        """
        Unless a system whose clock is ahead has it, or it has begun there.
        """
        assert waits_for_time(OpenRun(A, None, claimed, alive, due), 100) is waits

    @pytest.mark.parametrize(
        ("fields", "later"),
        [
            ({"status": "cancelled", "due": 101, "alive": True}, True),
            ({"status": "cancelled", "due": 100}, False),
            ({"status": "cancelled", "due": 101, "claimed": True}, False),
            ({"status": "pending", "due": 101}, True),
            ({"status": "pending", "due": 101, "alive": True}, False),
        ],
    )
    def test_a_run_belongs_to_a_later_time_even_if_it_is_cancelled_before(self, fields, later):
        """
        Nothing of it has happened then; a run that has begun belongs to now.
        """
        assert is_to_come(row(**{"claimed": False, **fields}), 100) is later

    @pytest.mark.parametrize(
        ("fields", "ended"),
        [
            ({"run": A}, True),
            ({"run": B}, False),
            ({"run": C}, False),
            ({"run": C, "alive": True}, False),
            ({"run": C, "due": 9}, False),
            ({"run": C, "due": 1, "alive": True}, True),
            ({"run": C, "due": 9, "claimed": True}, True),
            ({"run": D, "due": 9, "claimed": True}, False),
        ],
    )
    def test_a_delayed_run_that_another_system_has_is_replaced(self, fields, ended):
        """
        As those of now are; the new run itself, and those that come after it, never.
        """
        assert is_replaced(row(**{"claimed": False, **fields}), D, B) is ended

    @pytest.mark.parametrize(
        ("times", "newest"),
        [
            ({}, None),
            ({C: 101}, C),
            ({B: 0, A: 0}, B),
            ({A: 0, B: 100, C: 101}, B),
            ({B: 0, A: 0, D: 101, C: 102}, B),
            ({C: 102, D: 101}, D),
        ],
    )
    def test_the_newest_run_is_of_now_if_there_is_one(self, times, newest):
        """
        The highest id of those whose time has come; else that of later times; None of no runs.
        """
        rows = [
            row(run=run, due=due, claimed=False, status="pending") for run, due in times.items()
        ]
        found = newest_of(rows, 100)

        assert (found and found.run) == newest

    @pytest.mark.parametrize(
        ("replaced", "head", "delayed", "removed"),
        [
            ({A}, B, False, True),
            ({A}, A, True, True),
            ({A}, B, True, False),
            ({A}, None, True, False),
            (set(), None, False, False),
        ],
    )
    def test_a_delayed_rollback_keeps_what_others_go_on_from(
        self, replaced, head, delayed, removed
    ):
        """
        It removes the steps of the runs that it replaces only while these are the newest ones.
        """
        assert rolls_back(replaced, head, delayed=delayed) is removed


class TestMisfits:
    def test_each_pause_is_twice_as_long(self):
        """
        A run that doesn't fit is tried less and less often, and never given up.
        """
        misfit, pauses = None, []
        for _ in range(9):
            misfit = next_misfit(misfit, "why", 100.0, 5.0)
            pauses.append(misfit.until - 100.0)

        assert (misfit.tries, misfit.reason) == (9, "why")
        assert pauses == [5, 10, 20, 40, 80, 160, 320, 320, 320]


def row(**fields):
    values = {
        "run": A,
        "thread_id": "t",
        "graph": "g",
        "status": "running",
        "attempts": 1,
        "claimed": True,
        "owner": None,
        "created": 0,
        "metadata": "{}",
        "payload": b"",
    }
    return RunRow(**{**values, **fields})


class TestTakenOver:
    @pytest.mark.promise("E10")
    @pytest.mark.parametrize(
        ("orphan", "verdict"),
        [
            (row(), TakeOver(go_on=True)),
            (row(claimed=False, status="pending"), TakeOver(go_on=False)),
            (row(attempts=2), TakeOver(go_on=True)),
            (row(build="v1"), TakeOver(go_on=True)),
            (row(build="v2"), LeaveRun("waits for a process of the build 'v2'")),
            (row(graph="other"), LeaveRun("waits for a process that has the graph 'other'")),
            (row(deaths=3, owner=A), ParkRun("3 processes have ended while they ran it", 3)),
            (row(attempts=30), TakeOver(go_on=True)),
            (row(deaths=1, owner=A), TakeOver(go_on=True, deaths=2)),
        ],
    )
    def test_an_orphan(self, orphan, verdict):
        """
        It goes on, begins, is parked after too many deaths, or waits for who has its graph.
        """
        assert decide_takeover(orphan, Share({"g"}, ["v1"]), 3, "gone") == verdict


class TestReasonsOfRuns:
    def test_of_a_run_that_another_one_replaced(self):
        """
        The reason has the id of the run that took its place.
        """
        assert (
            replacement_reason(bytes(range(16)))
            == "run 00010203-0405-0607-0809-0a0b0c0d0e0f took its place"
        )

    def test_of_a_run_that_this_process_cannot_go_on_with(self):
        """
        The reason has the error's text.
        """
        assert misfit_reason(ValueError("no such type")) == (
            "waits for a process that can go on with it; this one can't: no such type"
        )

    def test_of_a_system_that_takes_no_runs(self):
        """
        The graphs that it has don't matter.
        """
        assert misfit_of(row(), Share({"g"}, works=False)) == "waits for a worker"

    @pytest.mark.parametrize(
        ("graph_name", "deaths", "decision"),
        [
            ("h", 0, LeaveRun("waits for a process that has the graph 'h'")),
            ("g", 2, ParkRun("2 processes have ended while they ran it", 2)),
        ],
    )
    def test_of_an_orphan(self, graph_name, deaths, decision):
        """
        A run whose graph is missing, or that has ended too many processes, has a reason.
        """
        orphan = row(graph=graph_name, deaths=deaths, owner=A)
        assert decide_takeover(orphan, Share({"g"}), 2, "gone") == decision

    def test_of_a_run_whose_last_process_may_live(self):
        """
        It is left until that process is known to be gone, and is not parked before.
        """
        verdict = decide_takeover(row(deaths=3, owner=A), Share({"g"}), 3, "unknown")

        assert verdict == LeaveRun(
            "waits until the process that has tried it alone is known to be gone"
        )

    def test_of_a_run_whose_process_lives(self):
        """
        It is taken over without a further death: its process has given it up.
        """
        verdict = decide_takeover(row(deaths=1, owner=A), Share({"g"}), 3, "alive")

        assert verdict == TakeOver(go_on=True, deaths=1)

    @pytest.mark.parametrize(
        ("parked", "head", "others", "reason"),
        [
            (row(status="parked"), None, (), ""),
            (row(status="parked"), A, (row(run=B, claimed=False),), ""),
            (row(), None, (), "it is not parked: its status is 'running'"),
            (row(status="parked"), B, (), "its thread has gone on with another run since"),
            (
                row(status="parked"),
                B,
                (row(run=C, claimed=False), row(run=B)),
                "another run of its thread is going on",
            ),
        ],
        ids=["alone", "before one that waits", "not parked", "passed by", "another one goes on"],
    )
    def test_of_a_parked_run_that_cannot_go_on(self, parked, head, others, reason):
        """
        A parked run goes on where it was unless another one has its thread, or had it since.
        """
        assert why_not_retried(parked, head, others) == reason
