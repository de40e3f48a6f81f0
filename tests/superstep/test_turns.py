"""Whose turn it is on a thread, by hand-fed arrivals and departures."""

import pytest

from actorgraph.superstep.takeover import Leave, Park, TakeUp, taken_over
from actorgraph.superstep.turns import (
    FREE,
    Begin,
    Busy,
    Drop,
    End,
    Erase,
    Full,
    Lane,
    arrived,
    erased,
    left,
)
from actorgraph.values.systems import RunRow

A, B, C, D = b"a", b"b", b"c", b"d"
BUSY = Lane(A)
ENDING = Lane(A, ending=True, waiting=(B,))
ERASING = Lane(A, ending=True, erasing=True)


class TestArrived:
    @pytest.mark.parametrize("if_busy", ["reject", "enqueue", "interrupt", "rollback"])
    def test_a_free_thread_is_given_at_once(self, if_busy):
        """
        Whatever the strategy, a thread without a run is the next one's.
        """
        assert arrived(FREE, A, if_busy, 1) == (Lane(A), (Begin(A),))

    @pytest.mark.parametrize(
        ("lane", "if_busy", "then", "steps"),
        [
            (BUSY, "reject", BUSY, (Busy(A),)),
            (BUSY, "enqueue", Lane(A, waiting=(C,)), ()),
            (Lane(A, waiting=(B,)), "enqueue", Lane(A, waiting=(B, C)), ()),
            (Lane(A, waiting=(B, D)), "enqueue", Lane(A, waiting=(B, D)), (Full(2),)),
            (BUSY, "interrupt", Lane(A, ending=True, waiting=(C,)), (End(A, C),)),
            (
                BUSY,
                "rollback",
                Lane(A, ending=True, rollback=True, waiting=(C,)),
                (End(A, C),),
            ),
            (
                Lane(A, waiting=(B, D)),
                "interrupt",
                Lane(A, ending=True, waiting=(C,)),
                (Drop(B, C), Drop(D, C), End(A, C)),
            ),
            (ENDING, "interrupt", Lane(A, ending=True, waiting=(C,)), (Drop(B, C),)),
            (
                Lane(A, ending=True, rollback=True, waiting=(B,)),
                "interrupt",
                Lane(A, ending=True, rollback=True, waiting=(C,)),
                (Drop(B, C),),
            ),
            (ERASING, "reject", Lane(A, ending=True, erasing=True, waiting=(C,)), ()),
            (
                Lane(A, ending=True, erasing=True, waiting=(B,)),
                "reject",
                Lane(A, ending=True, erasing=True, waiting=(B,)),
                (Busy(B),),
            ),
            (
                Lane(A, ending=True, erasing=True, waiting=(B,)),
                "interrupt",
                Lane(A, ending=True, erasing=True, waiting=(C,)),
                (Drop(B, C),),
            ),
        ],
    )
    def test_a_busy_thread(self, lane, if_busy, then, steps):
        """
        Each strategy refuses, waits, or takes the place of everybody before it.
        """
        assert arrived(lane, C, if_busy, 2) == (then, steps)


class TestLeft:
    @pytest.mark.parametrize(
        ("lane", "run", "then", "steps"),
        [
            (BUSY, A, FREE, ()),
            (Lane(A, waiting=(B, C)), A, Lane(B, waiting=(C,)), (Begin(B),)),
            (Lane(A, waiting=(B, C)), B, Lane(A, waiting=(C,)), ()),
            (ENDING, A, Lane(B), (Begin(B),)),
            (
                Lane(A, ending=True, rollback=True, waiting=(B,)),
                A,
                Lane(A, ending=True, erasing=True, waiting=(B,)),
                (Erase(A),),
            ),
            (Lane(A, ending=True, rollback=True), A, ERASING, (Erase(A),)),
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
        [((), FREE, ()), ((B, C), Lane(B, waiting=(C,)), (Begin(B),))],
    )
    def test_who_waits_for_a_removal_begins_after_it(self, waiting, then, steps):
        """
        A thread whose last run is rolled back is free, or the next one's, when that is removed.
        """
        lane = Lane(A, ending=True, erasing=True, waiting=waiting)

        assert erased(lane) == (then, steps)


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
    @pytest.mark.parametrize(
        ("orphan", "verdict"),
        [
            (row(), TakeUp(go_on=True)),
            (row(claimed=False, status="pending"), TakeUp(go_on=False)),
            (row(attempts=2), TakeUp(go_on=True)),
            (row(graph="other"), Leave()),
            (row(attempts=3), Park("3 processes have ended while they ran it")),
        ],
    )
    def test_an_orphan(self, orphan, verdict):
        """
        It goes on, begins, is parked after too many deaths, or waits for who has its graph.
        Promise: E10.
        """
        assert taken_over(orphan, {"g"}, 3) == verdict
