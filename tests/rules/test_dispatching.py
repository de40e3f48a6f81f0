"""Decisions of the dispatch: which runs a worker claims, and how many."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.rules.system.dispatching import (
    claimable,
    following,
    graph_room,
    looks_after,
    queues_of,
    room,
    within_room,
    within_slots,
)
from actorgraph.rules.system.scheduling import Share
from actorgraph.values.dispatch import RESCUE, hint_of, queue_of
from actorgraph.values.ids import run_id_at, run_id_of
from actorgraph.values.systems import RunRow

OWNER = b"o" * 16


def row(number: int, thread_id: str = "t", **changes) -> RunRow:
    """A run that no system has."""
    plain = RunRow(
        run=bytes([number]) * 16,
        thread_id=thread_id,
        graph="g",
        status="pending",
        attempts=0,
        claimed=False,
        owner=None,
        created=number,
        metadata="{}",
        payload=b"",
    )
    return msgspec.structs.replace(plain, **changes)


class TestClaimable:
    @pytest.mark.parametrize(
        ("changes", "claimed"),
        [
            ({}, True),
            ({"status": "running", "claimed": True, "owner": OWNER}, True),
            ({"status": "success"}, False),
            ({"status": "parked"}, False),
            ({"owner": OWNER, "alive": True}, False),
            ({"graph": "other"}, False),
            ({"build": "v1"}, True),
            ({"build": "v3"}, False),
            ({"due": 100}, True),
            ({"due": 101}, False),
        ],
        ids=str,
    )
    def test_one_run(self, changes, claimed):
        """
        A run is claimed if it is open, due, of the worker's graphs and builds, and no system's.
        """
        one = row(1, **changes)
        found = claimable([one], [one], Share({"g"}, ("v1", "v2")), 100)
        assert found == ([one] if claimed else [])

    @given(st.dictionaries(st.integers(1, 40), st.sampled_from("abc")).map(lambda d: [*d.items()]))
    def test_at_most_the_oldest_of_each_thread(self, pairs):
        """
        Of the open runs of a thread only the oldest is claimed, however hints come.
        """
        rows = [row(number, thread) for number, thread in pairs]
        found = claimable(rows, rows, Share({"g"}), 0)
        oldest = {t: min(n for n, other in pairs if other == t) for _, t in pairs}
        assert {one.thread_id: one.run[0] for one in found} == oldest
        assert {one.run for one in following(rows, 0)} == {one.run for one in found}

    def test_a_thread_that_a_living_system_has(self):
        """
        The runs behind a run that is going on elsewhere wait.
        """
        first, second = row(1, owner=OWNER, alive=True), row(2)
        assert claimable([second], [first, second], Share({"g"}), 0) == []
        assert following([second, first], 0) == []

    def test_a_thread_whose_open_runs_were_not_found(self):
        """
        The row that was read decides; the saver compares again when it is claimed.
        """
        one = row(1)
        assert claimable([one], [], Share({"g"}), 0) == [one]


MINUTE = 60_000_000
TIMES = st.tuples(st.integers(0, 9), st.integers(0, 9))
"""The minute in which a run is accepted, and for how many it is delayed."""


def accepted(number: int, minute: int, delay: int) -> RunRow:
    """A run of thread "t", with the id that a system gives it."""
    made = run_id_of(minute * 60_000, str(number))
    due = (minute + delay) * MINUTE if delay else 0
    identity = run_id_at(made, due // 1000) if due else made
    return msgspec.structs.replace(row(0), run=identity, created=minute * MINUTE, due=due)


class TestDelays:
    @given(st.lists(TIMES, min_size=1, max_size=8), st.integers(0, 20))
    def test_a_delayed_run_holds_its_thread_from_its_time_on(self, pairs, minute):
        """
        Of the runs whose time has come one is claimed, the first of them, whatever else is to come.
        """
        now = minute * MINUTE
        rows = [accepted(n, *pair) for n, pair in enumerate(pairs) if pair[0] <= minute]
        due = [one for one in rows if one.due <= now]
        found = claimable(rows, rows, Share({"g"}), now)

        assert len(found) == bool(due)
        assert following(rows, now) == found
        for one in found:
            begins = max(one.created, one.due)
            assert begins == min(max(other.created, other.due) for other in due)

    def test_a_run_that_has_begun_is_waited_for(self):
        """
        A run whose time comes while another one goes on waits, also if that one's system is dead.
        """
        late, running = accepted(1, 0, 5), accepted(2, 3, 0)
        for alive in (True, False):
            begun = msgspec.structs.replace(running, owner=OWNER, alive=alive, claimed=True)
            for other in (late, accepted(1, 0, 0)):  # one with a lower id too, that was stored late
                rows = [other, begun]
                assert other not in claimable(rows, rows, Share({"g"}), 9 * MINUTE)
                assert following(rows, 9 * MINUTE) == ([] if alive else [begun])

    def test_the_id_keeps_its_chance_and_its_bucket(self):
        """
        Two runs for the same time have two ids, which still say where their threads are.
        """
        one, two = run_id_of(1, "one"), run_id_of(2, "two")
        assert [run_id_at(one, 9)[:6], run_id_at(one, 9)[6:]] == [bytes(5) + b"\x09", one[6:]]
        assert run_id_at(one, 9) != run_id_at(two, 9)


class TestRoom:
    @pytest.mark.parametrize(
        ("taken", "rescued", "expected"),
        [(0, 0, (10, 7)), (7, 0, (3, 0)), (8, 3, (2, 2)), (10, 0, (0, 0)), (12, 0, (0, 0))],
    )
    def test_the_reserve_is_for_lost_runs(self, taken, rescued, expected):
        """
        New runs leave three of ten slots free, less those that lost runs have already.
        """
        assert room(taken, rescued, 10, 3) == expected

    @pytest.mark.parametrize(
        ("free", "claimed"),
        [
            ((9, 9), [1, 2, 3, 4]),
            ((2, 2), [1, 2]),
            ((3, 1), [1, 2, 3]),
            ((9, 0), [2, 3]),
            ((9, 1), [1, 2, 3]),
            ((9, 2), [1, 2, 3, 4]),
            ((0, 0), []),
        ],
    )
    def test_new_runs_take_no_reserved_slot(self, free, claimed):
        """
        The next runs of threads get free slots in their order; new ones only those of new runs.
        """
        rows = [row(1), row(2, owner=OWNER), row(3, attempts=1), row(4)]
        assert [one.run[0] for one in within_slots(rows, *free)] == claimed


class TestQueues:
    def test_each_run_has_a_queue_that_its_workers_take_from(self):
        """
        Queues of lost runs come first; builds have queues of their own.
        """
        queues = queues_of(["g"], ["v1"])
        assert queues == ("g!", "g@v1!", "g", "g@v1")
        assert queues_of(["g"], [], rescue_only=True) == ("g!",)
        assert queue_of("g", "v1") in queues

    def test_a_lost_run_goes_first(self):
        """
        The hint of a run that had a system is urgent; that of a new one has the run's priority.
        """
        new = hint_of(row(1, priority=7, due=5))
        lost = hint_of(row(1, priority=7, owner=OWNER, attempts=1))
        assert (new.queue, new.priority, new.due) == ("g", 7, 5)
        assert (lost.queue, lost.priority) == ("g!", RESCUE)


def test_the_room_of_a_graph():
    """
    Of each graph with a limit so many more may be claimed; one above its limit has no room.
    """
    assert graph_room({"a": 3, "b": 1, "c": 2}, {"a": 1, "b": 2, "d": 9}) == {
        "a": 2,
        "b": 0,
        "c": 2,
    }


def test_runs_above_the_limit_of_their_graph():
    """
    The first runs of a graph are allowed, and all of a graph without a limit; the order stays.
    """
    rows = [row(n, graph=graph) for n, graph in enumerate("abaab")]

    within, above = within_room(rows, {"a": 1})

    assert ([r.created for r in within], [r.created for r in above]) == ([0, 1, 4], [2, 3])


def test_a_reader_without_news_looks_less_often():
    """
    The first look is after 2 s, the next after 4 s, and all others are 8 s apart.
    """
    assert [looks_after(quiet) for quiet in (0, 1, 2, 3, 40)] == [2.0, 4.0, 8.0, 8.0, 8.0]
