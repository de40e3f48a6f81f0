"""Every saver that keeps runs and the requests of ActorSystems."""

import time
from typing import Any

import msgspec
import pytest

from actorgraph import ConflictError, LeaseLostError, ThreadBusyError
from actorgraph.values.commits import Committed, Refused
from actorgraph.values.ids import as_text
from actorgraph.values.retention import DeleteThread
from actorgraph.values.systems import (
    AdoptRun,
    AskCancel,
    CountWaiting,
    DropOwner,
    EventRow,
    ForgetRun,
    ListRuns,
    ListWaiting,
    PutRun,
    ReadEvents,
    RenewOwner,
    RunRow,
    SetRun,
    StoreEvents,
    TrimRuns,
    WaitingCount,
)
from tests.savers.test_contract import claim, point, port, save
from tests.support.systems import SYSTEM_KINDS, place

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

__all__ = ["port"]

RUN, LATER = b"r" * 16, b"s" * 16
ONE, TWO = b"1" * 16, b"2" * 16
HOUR_S = 3600.0
store = pytest.fixture(params=SYSTEM_KINDS, name="store")(place.__wrapped__)


def row(run: bytes = RUN, owner: bytes | None = ONE, **columns: Any) -> RunRow:
    """A run that was just accepted."""
    given = {"metadata": '{"a":"\\u0000"}', "payload": b"\x00\xff", "created": 1, **columns}
    given |= {"claimed": False, "owner": owner}
    given = {"thread_id": "t", **given}
    return RunRow(run=run, graph="g", status="pending", attempts=1, **given)


def put(run: bytes = RUN, owner: bytes | None = ONE, **columns: Any) -> PutRun:
    return PutRun(row(run, owner, **columns), "t")


def adopt(run: bytes = RUN, was: bytes | None = ONE, owner: bytes = TWO) -> AdoptRun:
    return AdoptRun(run, "t", owner, was, 2)


def events(*places: int, owner: bytes = ONE, keep: int = 10, older_than: int = 0) -> StoreEvents:
    rows = tuple(EventRow(place, place * 100, b"e%d" % place) for place in places)
    return StoreEvents(RUN, "t", owner, rows, keep, older_than)


async def runs(port: Any, **query: Any) -> list[RunRow]:
    (found,) = await port.query([ListRuns(**query)])
    return found


async def told(port: Any, after: int = 0, limit: int = 10, **query: Any) -> list[int]:
    (found,) = await port.query([ReadEvents(RUN, "t", after, limit, **query)])
    assert [event.payload for event in found] == [b"e%d" % event.place for event in found]
    return [event.place for event in found]


def kinds(outcomes: list[Any]) -> list[type]:
    return [type(o.error) if isinstance(o, Refused) else Committed for o in outcomes]


async def test_a_run_that_is_taken_over_waits_to_begin(port):
    """
    A running run is pending once another system has it, with the deaths that were counted; its own
    system changes its deaths alone.
    """
    await port.commit([put(), RenewOwner(ONE, HOUR_S)])
    await port.commit([SetRun(RUN, "t", ONE, "running")])
    await port.commit([AdoptRun(RUN, "t", ONE, ONE, 1, deaths=3)])
    (noted,) = await runs(port)
    await port.commit([AdoptRun(RUN, "t", TWO, ONE, 2, deaths=2)])
    (taken,) = await runs(port)
    await port.commit([SetRun(RUN, "t", TWO, "running", "why")])
    (kept,) = await runs(port)
    await port.commit([SetRun(RUN, "t", TWO, "parked", "why", 5, deaths=4)])
    (parked,) = await runs(port)
    await port.commit([SetRun(RUN, "t", TWO, "pending", "", 0)])
    (cleared,) = await runs(port)

    seen = [(r.status, r.attempts, r.deaths) for r in (noted, taken, kept, parked, cleared)]
    assert seen == [
        ("running", 1, 3),
        ("pending", 2, 2),
        ("running", 2, 2),
        ("parked", 5, 4),
        ("pending", 0, 0),
    ]


async def test_deaths_of_a_new_row_are_stored(port):
    """
    A row that is put with deaths, as from a copy of a database, is read with them.
    """
    await port.commit([put(deaths=2)])
    (found,) = await runs(port)

    assert (found.attempts, found.deaths) == (1, 2)


async def test_reads_together_answer_as_alone(port):
    """
    Runs and events that are asked for at once are answered each in its place.
    """
    await port.commit([put(), put(LATER, thread_id="u")])
    other = StoreEvents(LATER, "u", ONE, (EventRow(7, 1, b"x"),), 10, 0)
    await port.commit([events(1, 2, 3), other])
    asked = [
        ReadEvents(RUN, "t", 1, 10),
        ListRuns(run=LATER),
        ReadEvents(LATER, "u", 0, 10),
        ListRuns(run=b"x" * 16),
        ReadEvents(RUN, "t", 0, 2),
        ReadEvents(RUN, "t", 3, 10),
        ListRuns(run=RUN),
        ReadEvents(RUN, "t", 0, 9, newest=True),
        ListRuns(run=LATER),
    ]
    together = await port.query(asked)

    assert together == [(await port.query([query]))[0] for query in asked]
    assert [[event.place for event in together[place]] for place in (0, 2, 4, 5, 7)] == [
        [2, 3],
        [7],
        [1, 2],
        [],
        [3],
    ]
    assert [[row.run for row in together[place]] for place in (1, 3, 6)] == [[LATER], [], [RUN]]


class TestRunsOfSystems:
    async def test_a_row_is_stored_once_and_read_as_it_was(self, port):
        """
        A run's row comes back as it was given, with whether its owner lives.
        """
        other = put(LATER, TWO, reason="x")
        await port.commit([RenewOwner(ONE, HOUR_S), put(), other, put(owner=TWO)])

        found = await runs(port)
        assert found == [msgspec.structs.replace(row(), alive=True), other.row]
        assert await runs(port, run=RUN) == found[:1]
        assert await runs(port, thread_id="t") == found
        assert await runs(port, statuses=("success",)) == await runs(port, thread_id="u") == []
        assert [r.run for r in await runs(port, statuses=("error", "pending"))] == [RUN, LATER]

    async def test_the_status_changes_with_the_runs_own_saves(self, port):
        """
        A claim makes it running, a last save says how it left, all in one batch or in several.
        """
        await port.commit([RenewOwner(ONE, HOUR_S)])
        begins = claim(RUN, None, point(1), owner=ONE)
        assert kinds(await port.commit([put(), begins])) == [Committed] * 2
        (running,) = await runs(port)
        ends = save(RUN, 1, point(2, 1), epoch=2, ends="success", owner=ONE)
        assert kinds(await port.commit([ends])) == [Committed]
        (left,) = await runs(port)
        more = claim(LATER, 2, point(3, 2), epoch=2, owner=ONE, ends="drained")
        assert kinds(await port.commit([put(LATER), more])) == [Committed] * 2

        assert (running.status, running.claimed) == ("running", True)
        assert (left.status, left.claimed) == ("success", True)
        assert [r.status for r in await runs(port)] == ["success", "pending"]

    async def test_only_the_owner_changes_a_run(self, port):
        """
        A row of a system about a run that another one has is refused, and changes nothing.
        """
        await port.commit([put()])
        wrong = [
            SetRun(RUN, "t", TWO, "error", "no"),
            events(1, owner=TWO),
            adopt(was=TWO),
            SetRun(LATER, "t", ONE, "error"),
        ]
        right = [events(1), SetRun(RUN, "t", ONE, "error", "yes", 0)]
        outcomes = await port.commit([*wrong, *right])

        assert kinds(outcomes) == [LeaseLostError] * 4 + [Committed] * 2
        (found,) = await runs(port)
        assert (found.status, found.reason, found.attempts) == ("error", "yes", 0)
        assert await told(port) == [1]

    async def test_events_are_kept_within_bounds(self, port):
        """
        Events are stored once each, read in pages, and the oldest go.
        """
        await port.commit([put(), events(1, 2, 3), events(3, 4)])
        assert await told(port, after=1, limit=2) == [2, 3]
        assert await told(port, newest=True) == [4]

        await port.commit([events(5, keep=3)])
        assert await told(port) == [3, 4, 5]
        await port.commit([events(6, older_than=500)])
        assert await told(port) == [5, 6]

    async def test_ended_runs_are_forgotten(self, port):
        """
        Open runs stay, whatever is forgotten; with a thread its runs go, and their events.
        """
        await port.commit([put(), events(1), TrimRuns(10), ForgetRun(RUN, "t")])
        assert [r.run for r in await runs(port)] == [RUN]
        await port.commit([put(LATER), SetRun(LATER, "t", ONE, "error"), ForgetRun(LATER, "t")])
        assert [r.run for r in await runs(port)] == [RUN]
        await port.commit([SetRun(RUN, "t", ONE, "success"), TrimRuns(1)])
        assert [r.run for r in await runs(port)] == [RUN]
        await port.commit([TrimRuns(2)])
        assert (await runs(port), await told(port)) == ([], [])

        await port.commit([put(), claim(RUN, None, point(1), owner=ONE), events(1)])
        await port.commit([DeleteThread("t")])
        assert (await runs(port), await told(port)) == ([], [])

    async def test_the_age_of_a_delayed_run_counts_from_its_time(self, port):
        """
        It is kept as long after that as others after they were accepted, and waits since then.
        """
        await port.commit([put(due=50), events(1), free(9, "u", due=60)])
        assert await port.query([CountWaiting(9, 100)]) == [[WaitingCount(1, 60)]]
        await port.commit([SetRun(RUN, "t", ONE, "success"), TrimRuns(50)])
        assert (len(await runs(port, run=RUN)), await told(port)) == (1, [1])
        await port.commit([TrimRuns(51)])
        assert (await runs(port, run=RUN), await told(port)) == ([], [])

    async def test_a_cancellation_is_asked_of_the_owner(self, port):
        """
        The first reason counts, the owner finds it among its open runs, and so does its next owner.
        """
        await port.commit([put(), put(LATER, TWO), SetRun(LATER, "t", TWO, "success")])
        asks = [AskCancel(run, "t", reason) for run in (RUN, LATER) for reason in ("a", "b")]
        assert kinds(await port.commit(asks)) == [Committed] * 4

        assert [(r.run, r.cancel) for r in await runs(port, asked_of=ONE)] == [(RUN, "a")]
        assert await runs(port, asked_of=TWO) == []
        await port.commit([adopt()])
        assert [r.cancel for r in await runs(port, asked_of=TWO)] == ["a"]

    async def test_a_run_that_replaces_others_asks_for_all_older_ones(self, port):
        """
        Open runs of its thread that are older are asked, in one transaction with its row; neither
        it, nor younger ones, nor ended ones, nor those of other threads.
        """
        older, ended, mine = b"q" * 16, b"p" * 16, AskCancel(LATER, "t", "why", earlier=True)
        await port.commit([put(older), put(RUN, TWO), put(ended), put(b"z" * 16)])
        elsewhere = PutRun(msgspec.structs.replace(row(b"o" * 16), thread_id="u"), "u")
        await port.commit([elsewhere, SetRun(ended, "t", ONE, "success")])

        assert kinds(await port.commit([put(LATER), mine])) == [Committed] * 2

        asked = [(r.run, r.cancel) for r in await runs(port) if r.cancel is not None]
        assert asked == [(older, "why"), (RUN, "why")]


class TestLeases:
    async def test_an_owner_is_alive_while_its_lease_holds(self, port):
        """
        Runs of an owner without a lease may be taken over; a dropped lease is over at once.
        """
        await port.commit([put(), RenewOwner(ONE, HOUR_S)])
        assert await runs(port, orphaned=True) == []
        await port.commit([DropOwner(ONE)])
        assert [r.run for r in await runs(port, orphaned=True)] == [RUN]
        await port.commit([RenewOwner(ONE, HOUR_S), RenewOwner(ONE, -1.0)])
        assert [r.run for r in await runs(port, orphaned=True)] == [RUN]

    async def test_a_thread_is_leased_while_its_run_goes_on(self, port):
        """
        No other run begins there, until it has left; another system's run not before this
        one, whose system is dead, has been taken up.
        """
        await port.commit([RenewOwner(ONE, HOUR_S), put()])
        await port.commit([claim(RUN, None, point(1), owner=ONE)])
        await port.commit([put(LATER, TWO)])
        others = [claim(LATER, 1, epoch=2, owner=TWO), claim(b"x" * 16, 1, epoch=2)]
        assert kinds(await port.commit(others)) == [ThreadBusyError] * 2
        await port.commit([DropOwner(ONE)])
        assert kinds(await port.commit(others)) == [ThreadBusyError, Committed]

    async def test_runs_have_their_thread_in_the_order_of_their_ids(self, port):
        """
        A run's claim waits for older open runs of other systems, alive or dead, begun or not.
        """
        await port.commit([RenewOwner(TWO, HOUR_S), put(), put(LATER, TWO)])
        begins = claim(LATER, None, point(1), owner=TWO)
        assert kinds(await port.commit([begins])) == [ThreadBusyError]
        await port.commit([RenewOwner(ONE, HOUR_S)])
        assert kinds(await port.commit([begins])) == [ThreadBusyError]
        left = [SetRun(RUN, "t", ONE, "cancelled"), begins]

        assert kinds(await port.commit(left)) == [Committed] * 2

    async def test_a_younger_run_that_goes_on_has_its_thread(self, port):
        """
        An older run, which has come late, waits for it; its failure frees the thread.
        """
        await port.commit([RenewOwner(ONE, HOUR_S), RenewOwner(TWO, HOUR_S)])
        begun = claim(LATER, None, point(1), owner=TWO)
        assert kinds(await port.commit([put(LATER, TWO), begun, put()])) == [Committed] * 3
        late = claim(RUN, 1, epoch=2, owner=ONE)
        assert kinds(await port.commit([late])) == [ThreadBusyError]
        failed = [SetRun(LATER, "t", TWO, "error"), late]

        assert kinds(await port.commit(failed)) == [Committed] * 2

    async def test_a_run_that_must_not_wait_is_refused_with_its_row(self, port):
        """
        "reject": any open run of another system is in the way, and nothing is stored.
        """
        await port.commit([RenewOwner(ONE, HOUR_S), put()])
        waits = put(LATER, TWO)
        rejects = msgspec.structs.replace(waits, if_busy="reject")
        mine = msgspec.structs.replace(put(b"m" * 16), if_busy="reject")
        (refused, *rest) = await port.commit([rejects, mine])
        assert kinds([refused, *rest]) == [ThreadBusyError, Committed]
        assert refused.error.run_id == as_text(RUN)
        assert [r.run for r in await runs(port)] == sorted([RUN, b"m" * 16])
        ends = [SetRun(run, "t", ONE, "success") for run in (RUN, b"m" * 16)]

        assert kinds(await port.commit([*ends, rejects])) == [Committed] * 3

    async def test_two_rejecting_runs_are_distinguished_in_one_batch(self, port):
        """
        Of two systems over one saver the first one's run is taken, the other one's refused.
        """
        batch = [msgspec.structs.replace(p, if_busy="reject") for p in (put(), put(LATER, TWO))]

        assert kinds(await port.commit(batch)) == [Committed, ThreadBusyError]

    async def test_open_runs_of_threads_are_read_at_once(self, port):
        """
        Only open ones, of those threads alone, without their payloads.
        """
        await port.commit([RenewOwner(ONE, HOUR_S), put(), put(LATER, TWO)])
        await port.commit([SetRun(LATER, "t", TWO, "success"), AskCancel(RUN, "t", "why")])

        (found,) = await runs(port, open_of=("t", "u"))
        assert (found.run, found.alive, found.cancel, found.payload) == (RUN, True, "why", b"")
        assert await runs(port, open_of=("u",)) == []

    async def test_an_adopted_run_is_fenced(self, port):
        """
        From the adoption on every write of the owner before is refused: saves, claims, events.
        """
        await port.commit([RenewOwner(ONE, HOUR_S), put(), put(LATER)])
        await port.commit([claim(RUN, None, point(1), owner=ONE)])
        assert kinds(await port.commit([adopt(), adopt(LATER)])) == [Committed] * 2
        stale = [
            save(RUN, 1, point(2, 1), epoch=2, owner=ONE),
            save(RUN, 1, epoch=2, ends="success", owner=ONE),
            claim(LATER, 1, point(2, 1), epoch=3, owner=ONE),
            claim(RUN, 1, point(2, 1), epoch=3, owner=ONE),
            events(1),
            SetRun(RUN, "t", ONE, "success"),
            adopt(),
        ]
        refused = kinds(await port.commit(stale))
        one_by_one = [kinds(await port.commit([request]))[0] for request in stale]

        assert refused == one_by_one == [ConflictError] * 2 + [LeaseLostError] * 5
        assert kinds(await port.commit([claim(RUN, 1, epoch=3, owner=TWO)])) == [Committed]
        assert [(r.status, r.attempts) for r in await runs(port)] == [
            ("running", 2),
            ("pending", 2),
        ]

    async def test_an_adoption_fences_what_comes_after_it_in_its_batch(self, port):
        """
        The same batch may hold the adoption and what it refuses.
        """
        await port.commit([put(), claim(RUN, None, point(1), owner=ONE)])
        stale = save(RUN, 1, point(2, 1), epoch=2, owner=ONE)
        outcomes = await port.commit([stale, adopt(), save(RUN, 2, epoch=2, ends="x", owner=ONE)])

        assert kinds(outcomes) == [Committed, Committed, ConflictError]

    async def test_a_deleted_thread_has_no_owner(self, port):
        """
        Its run's saves are refused, and any other run may begin.
        """
        await port.commit([RenewOwner(ONE, HOUR_S), put()])
        await port.commit([claim(RUN, None, point(1), owner=ONE), DeleteThread("t")])
        late = save(RUN, 1, point(2, 1), epoch=2, owner=ONE)
        outcomes = await port.commit([late, claim(LATER, None, point(3), epoch=3)])

        assert kinds(outcomes) == [ConflictError, Committed]


def free(number: int, thread_id: str = "", **columns: Any) -> PutRun:
    """A run that no system has yet, on a thread of its own unless that is given."""
    made = msgspec.structs.replace(row(bytes([number]) * 16, None, **columns), attempts=0)
    made = msgspec.structs.replace(made, thread_id=thread_id or f"t{number}")
    return PutRun(made, made.thread_id)


async def waiting(port: Any, limit: int = 10, **query: Any) -> list[int]:
    """The numbers of the runs that a worker of the graph "g" is offered."""
    asked = {"graphs": ("g",), "builds": (), "now": 100, "limit": limit, **query}
    (found,) = await port.query([ListWaiting(**asked)])
    assert not any(one.payload for one in found)
    return [one.run[0] for one in found]


class TestWaitingRuns:
    async def test_runs_without_a_living_owner_are_offered(self, port):
        """
        Free runs and those of dead owners, oldest first, but not those of a living one.
        """
        await port.commit([RenewOwner(ONE, HOUR_S), put(LATER), free(3), free(1)])
        dead = PutRun(row(b"\2" * 16, TWO), "t")

        assert await waiting(port) == [1, 3]
        await port.commit([dead])
        assert await waiting(port) == [1, 2, 3]
        assert await waiting(port, owned=True) == [2]
        assert await waiting(port, limit=1) == [1]
        assert await waiting(port, graphs=("h",)) == []

    async def test_a_thread_offers_its_oldest_open_run_alone(self, port):
        """
        The next run of a thread is offered when the one before it has ended.
        """
        await port.commit([free(1, "t"), free(2, "t"), free(3, "u")])
        assert await waiting(port) == [1, 3]

        await port.commit([AdoptRun(b"\1" * 16, "t", ONE, None, 1)])
        await port.commit([SetRun(b"\1" * 16, "t", ONE, "success")])
        assert await waiting(port) == [2, 3]

    async def test_a_run_that_has_begun_is_before_the_others(self, port):
        """
        Its system is dead; one with a lower id that is stored now is not offered, and can't begin.
        """
        await port.commit([put(LATER, TWO), claim(LATER, None, point(1), owner=TWO)])
        early = PutRun(row(b"\1" * 16, ONE), "t")
        begins = claim(b"\1" * 16, 1, point(2, 1), epoch=2, owner=ONE)
        outcomes = await port.commit([early, free(2, "t"), begins])

        assert kinds(outcomes) == [Committed, Committed, ThreadBusyError]
        assert await waiting(port) == [LATER[0]]
        await port.commit([AdoptRun(LATER, "t", TWO, TWO, 2), RenewOwner(TWO, HOUR_S)])
        assert await waiting(port) == []

    async def test_builds_and_times_are_kept(self, port):
        """
        A run of another build, or one whose time has not come, is not offered.
        """
        if not getattr(port, "routes_runs", False):
            pytest.skip("its tables have no builds and no times")
        runs_of_builds = [free(1, build="v1"), free(2, build="v2"), free(3)]
        await port.commit([*runs_of_builds, free(4, due=101, priority=7)])

        assert await waiting(port) == [3]
        assert await waiting(port, builds=("v2", "v3")) == [2, 3]
        assert await waiting(port, now=101) == [3, 4]
        (found,) = await runs(port, run=b"\4" * 16)
        assert (found.priority, found.due, found.build) == (7, 101, "")

    async def test_free_runs_are_counted(self, port):
        """
        The count stops at its limit; runs that a system has had are not in it.
        """
        await port.commit([put(), *(free(n, created=100 - n) for n in range(1, 6))])

        assert await port.query([CountWaiting(9, 100)]) == [[WaitingCount(5, 95)]]
        ((some,),) = await port.query([CountWaiting(2, 100)])
        assert some.runs == 2

    async def test_free_runs_that_no_worker_may_begin_are_not_counted(self, port):
        """
        Those of another build and those that are not due yet wait for something else.
        """
        if not getattr(port, "routes_runs", False):
            pytest.skip("its tables have no builds and no times")
        waits = [free(1, build="v1"), free(2, build="v2"), free(3, due=101, created=50)]
        await port.commit([*waits, free(4, created=60)])

        assert await port.query([CountWaiting(9, 100)]) == [[WaitingCount(1, 60)]]
        assert await port.query([CountWaiting(9, 101)]) == [[WaitingCount(2, 60)]]
        ((both,),) = await port.query([CountWaiting(9, 101, ("v1", "v2"))])
        assert both.runs == 4

    async def test_many_runs_are_adopted_at_once(self, port):
        """
        Of two systems that adopt the same runs in one batch each, every run goes to the first.
        """
        numbers = range(1, 101)
        await port.commit([free(n) for n in numbers])
        first = [AdoptRun(bytes([n]) * 16, f"t{n}", ONE, None, 1) for n in numbers if n % 2]
        second = [AdoptRun(bytes([n]) * 16, f"t{n}", TWO, None, 1) for n in numbers]

        assert kinds(await port.commit(first)) == [Committed] * 50
        assert kinds(await port.commit(second)) == [LeaseLostError, Committed] * 50
        among = tuple(bytes([n]) * 16 for n in (1, 2, 3, 200))
        assert [r.owner for r in await runs(port, among=among)] == [ONE, TWO, ONE]
        assert {r.attempts for r in await runs(port)} == {1}

    async def test_a_free_run_that_must_not_wait(self, port):
        """
        A run with "reject" that any worker may get is refused for each open run of its thread.
        """

        def rejecting(number: int) -> PutRun:
            return msgspec.structs.replace(free(number, "t"), if_busy="reject")

        both = await port.commit([rejecting(1), rejecting(2)])
        later = await port.commit([rejecting(3)])

        assert kinds(both + later) == [Committed, ThreadBusyError, ThreadBusyError]
        assert [r.run[0] for r in await runs(port)] == [1]

    async def test_runs_that_wait_for_their_times_are_in_the_way_of_none(self, port):
        """
        A run with "reject" is stored beside them, in their batch too; a later one beside that too.
        """

        def rejecting(number: int, owner: bytes | None, **columns: Any) -> PutRun:
            made = msgspec.structs.replace(row(bytes([number]) * 16, owner, **columns), attempts=0)
            return PutRun(made, "t", if_busy="reject")

        await port.commit([RenewOwner(ONE, HOUR_S)])
        tomorrow, after = time.time_ns() // 1000 + 86_400_000_000, 2**52
        first = await port.commit([rejecting(9, None, due=tomorrow)])
        second = await port.commit([rejecting(8, None, due=after), rejecting(2, ONE)])
        third = await port.commit([rejecting(7, None, due=after), rejecting(3, None)])
        begins = await port.commit([claim(b"\2" * 16, None, point(1), owner=ONE)])
        over = await port.commit([rejecting(4, TWO, due=1), rejecting(5, TWO)])

        assert kinds(first + second) == [Committed] * 3
        assert kinds(third) == [ThreadBusyError, ThreadBusyError]
        assert kinds(begins) == [Committed]
        assert kinds(over) == [ThreadBusyError, ThreadBusyError]

    async def test_a_run_whose_time_has_come_is_in_the_way(self, port):
        """
        So is one of an earlier version, whose id puts it in front of the new one.
        """

        def rejecting(number: int) -> PutRun:
            return msgspec.structs.replace(free(number, "t"), if_busy="reject")

        past = await port.commit([free(1, "t", due=1), rejecting(2)])
        old = await port.commit([free(4, "u", due=2**52)])
        behind = msgspec.structs.replace(free(5, "u"), if_busy="reject")
        front = msgspec.structs.replace(free(3, "u"), if_busy="reject")
        both = await port.commit([behind, front])

        assert kinds(past) == [Committed, ThreadBusyError]
        assert kinds(old + both) == [Committed, ThreadBusyError, Committed]
