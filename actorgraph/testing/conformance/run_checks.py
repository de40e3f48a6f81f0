"""Checks of savers that store runs of an ActorSystem: rows, claims, leases, events, takeovers.

They are left out unless the saver's `keeps_runs` is true.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from actorgraph.errors import ConflictError, LeaseLostError, ThreadBusyError
from actorgraph.ports import Saver
from actorgraph.testing.conformance.builders import Ids, commit_batch, load
from actorgraph.testing.conformance.harness import Bench, NotOfferedError, check, holds, same
from actorgraph.testing.conformance.row_checks import kind_of, outcome_of
from actorgraph.values.commits import Request
from actorgraph.values.retention import DeleteThread
from actorgraph.values.systems import (
    AdoptRun,
    AskCancel,
    CountWaiting,
    DropOwner,
    EventRow,
    ForgetRun,
    ListOwners,
    ListRuns,
    ListWaiting,
    PutRun,
    ReadEvents,
    RenewOwner,
    RunRow,
    SealRun,
    SearchRuns,
    SetRun,
    StoreEvents,
    TrimRuns,
    WaitingCount,
)

ONE, TWO, THREE = (bytes([n]) * 16 for n in (1, 2, 3))
LIVE, DEAD = b"l" * 16, b"d" * 16
LOST, BUSY, CONFLICT = (e.__name__ for e in (LeaseLostError, ThreadBusyError, ConflictError))
FAR = 2**50
"""A time in microseconds, long after every run of the checks."""


@asynccontextmanager
async def _system(bench: Bench) -> AsyncGenerator[Saver]:
    """An open saver that stores runs, with a system that lives and one whose lease has ended."""
    async with bench.port() as port:
        if not getattr(port, "keeps_runs", False):
            raise NotOfferedError("its keeps_runs is false")
        await commit_batch(port, RenewOwner(LIVE, 60.0), RenewOwner(DEAD, 60.0), DropOwner(DEAD))
        yield port


def _row(run: bytes, owner: bytes | None = LIVE, thread: str = "t", **more: Any) -> RunRow:
    known: dict[str, Any] = {"status": "pending", "attempts": 1, "claimed": False}
    known |= {"created": run[0] * 1000, "graph": "g", "metadata": '{"a":1}', "payload": b"in"}
    return RunRow(run=run, thread_id=thread, owner=owner, **(known | more))


def _put(run: bytes, owner: bytes | None = LIVE, thread: str = "t", **more: Any) -> PutRun:
    if_busy = more.pop("if_busy", "enqueue")
    return PutRun(_row(run, owner, thread, **more), thread, if_busy=if_busy)


async def _runs(port: Saver, **wanted: Any) -> list[RunRow]:
    (found,) = await port.query([ListRuns(**wanted)])
    return [*found]


async def _names(port: Saver, query: Any) -> list[bytes]:
    (found,) = await port.query([query])
    return [row.run for row in found]


@check("runs")
async def a_run_is_stored_whole(bench: Bench) -> None:
    """A run's row is read as it was stored; putting it again changes nothing."""
    async with _system(bench) as port:
        await commit_batch(port, _put(ONE), _put(ONE, DEAD, metadata="{}"), _put(TWO, DEAD))
        wanted = [_row(ONE, alive=True), _row(TWO, DEAD)]
        same(await _runs(port), wanted, "the runs, oldest first")
        same(await _runs(port, run=ONE), wanted[:1], "one run")


@check("runs")
async def runs_are_found(bench: Bench) -> None:
    """Runs are found by id, thread, status, owner and whether they are left."""
    async with _system(bench) as port:
        await commit_batch(port, _put(ONE), _put(TWO, DEAD, "u"), _put(THREE, None, "u"))
        await commit_batch(port, SetRun(ONE, "t", LIVE, "error", "broke", 2))
        found = {
            "thread_id": (await _names(port, ListRuns(thread_id="u")), [TWO, THREE]),
            "statuses": (await _names(port, ListRuns(statuses=("error",))), [ONE]),
            "orphaned": (await _names(port, ListRuns(orphaned=True)), [TWO, THREE]),
            "open_of": (await _names(port, ListRuns(open_of=("t", "u"))), [TWO, THREE]),
            "among": (await _names(port, ListRuns(among=(THREE, ONE))), [ONE, THREE]),
        }
        for what, (have, wanted) in found.items():
            same(have, wanted, f"runs by {what}")
        (row,) = await _runs(port, run=ONE)
        same((row.status, row.reason, row.attempts), ("error", "broke", 2), "the ended run")
        same([r.payload for r in await _runs(port, open_of=("u",))], [b"", b""], "payloads")


@check("runs")
async def a_search_is_newest_first(bench: Bench) -> None:
    """A search has the newest runs first, without payloads, and its bounds narrow it."""
    async with _system(bench) as port:
        await commit_batch(port, _put(ONE), _put(TWO, None, "u-1", graph="h"), _put(THREE))
        searches = {
            "limit": (SearchRuns(2), [THREE, TWO]),
            "graph": (SearchRuns(9, graph="h"), [TWO]),
            "prefix": (SearchRuns(9, prefix="u-"), [TWO]),
            "since": (SearchRuns(9, since=2000), [THREE, TWO]),
            "floor": (SearchRuns(9, floor=THREE), [THREE]),
            "before": (SearchRuns(9, before=TWO), [ONE]),
            "statuses": (SearchRuns(9, statuses=("success",)), []),
        }
        for what, (query, wanted) in searches.items():
            same(await _names(port, query), wanted, f"a search by {what}")
        ((row,),) = await port.query([SearchRuns(1)])
        same((row.payload, row.alive), (b"", True), "payload and life of a found run")


@check("runs")
async def a_busy_thread_rejects(bench: Bench) -> None:
    """With "reject" a run is refused while another system's is open, and stored after it."""
    async with _system(bench) as port:
        await commit_batch(port, _put(ONE))
        rejected = _put(TWO, DEAD, if_busy="reject")
        same(await outcome_of(port, rejected), BUSY, "a run beside another system's")
        same(await _names(port, ListRuns()), [ONE], "the stored runs")
        same(await outcome_of(port, _put(THREE, if_busy="reject")), "stored", "its own system's")
        for run in (ONE, THREE):
            await commit_batch(port, SetRun(run, "t", LIVE, "success"))
        same(await outcome_of(port, rejected), "stored", "a run behind those that ended")


@check("runs")
async def claims_change_the_status(bench: Bench) -> None:
    """A run is running from its claim; with its last save it has ended, or is pending again."""
    ids = Ids()
    async with _system(bench) as port:
        await commit_batch(port, _put(ONE))
        same(await outcome_of(port, ids.claim(ONE, None, ids.point(1), owner=LIVE)), "stored", "")
        (row,) = await _runs(port, run=ONE)
        same((row.status, row.claimed), ("running", True), "a run that has begun")
        epoch = (await load(port)).epoch
        for ends, status in (("drained", "pending"), ("success", "success")):
            known = await load(port)
            claim = ids.claim(ONE, 1, owner=LIVE, epoch=known.epoch)
            await commit_batch(port, claim)
            known = await load(port)
            last = ids.save(ONE, 1, owner=LIVE, epoch=known.epoch, ends=ends)
            same(await outcome_of(port, last), "stored", f"a save that ends as {ends}")
            same([r.status for r in await _runs(port, run=ONE)], [status], f"after {ends}")
        holds((await load(port)).epoch > epoch, "claims of a system didn't raise the epoch")


@check("runs")
async def claims_of_others_are_refused(bench: Bench) -> None:
    """A system can't claim another one's run, a removed run, or a thread whose turn isn't its."""
    ids = Ids()
    async with _system(bench) as port:
        await commit_batch(port, _put(ONE), _put(TWO, DEAD))
        found = {
            "another's run": await outcome_of(port, ids.claim(ONE, None, owner=DEAD)),
            "a run that is gone": await outcome_of(port, ids.claim(THREE, None, owner=LIVE)),
            "a run that is behind": await outcome_of(port, ids.claim(TWO, None, owner=DEAD)),
        }
        wanted = {"another's run": LOST, "a run that is gone": LOST, "a run that is behind": BUSY}
        same(found, wanted, "claims")
        await commit_batch(port, ids.claim(ONE, None, ids.point(1), owner=LIVE))
        epoch = (await load(port)).epoch
        outside = ids.claim(THREE, 1, epoch=epoch)
        same(await outcome_of(port, outside), BUSY, "a claim of no system, on a leased thread")


@check("runs")
async def leases_end(bench: Bench) -> None:
    """A lease is valid until its time, a renewal or the end of its owner; owners are listed."""
    async with _system(bench) as port:
        await commit_batch(port, _put(ONE), _put(TWO, DEAD, "u", attempts=2))
        (owners,) = await port.query([ListOwners()])
        known = {o.owner: (o.lease_s is not None, o.runs, o.adopted) for o in owners}
        same(known, {LIVE: (True, 1, 0), DEAD: (False, 1, 1)}, "owners: lease, runs, adopted")
        steps: list[tuple[Request, list[bool]]] = [
            (RenewOwner(DEAD, 60.0), [True, True]),
            (RenewOwner(LIVE, -1.0), [False, True]),
            (DropOwner(DEAD), [False, False]),
            (RenewOwner(LIVE, 60.0), [True, False]),
        ]
        for request, alive in steps:
            await commit_batch(port, request)
            same([row.alive for row in await _runs(port)], alive, f"alive after {request}")


@check("runs")
async def a_takeover_fences_the_dead(bench: Bench) -> None:
    """A run is taken over once, and what its former system stores afterwards is refused."""
    ids = Ids()
    async with _system(bench) as port:
        await commit_batch(port, RenewOwner(DEAD, 60.0), _put(ONE, DEAD))
        await commit_batch(port, ids.claim(ONE, None, ids.point(1), owner=DEAD))
        epoch = (await load(port)).epoch
        await commit_batch(port, DropOwner(DEAD))  # the worker was killed
        adopt = AdoptRun(ONE, "t", LIVE, was=DEAD, attempts=2)
        same(await outcome_of(port, adopt), "stored", "a takeover")
        same(await outcome_of(port, adopt), LOST, "a second one that read the same owner")
        (row,) = await _runs(port, run=ONE)
        same((row.owner, row.attempts, row.alive), (LIVE, 2, True), "the run")
        same((await load(port)).epoch, epoch + 1, "the epoch")
        event = StoreEvents(ONE, "t", DEAD, (EventRow(1, 1, b"late"),), 9, 0)
        late = {
            "a save": ids.save(ONE, 1, ids.point(2, 1), owner=DEAD, epoch=epoch),
            "a status": SetRun(ONE, "t", DEAD, "error"),
            "an event": event,
        }
        for what, request in late.items():
            wanted = CONFLICT if what == "a save" else LOST
            same(await outcome_of(port, request), wanted, f"{what} of the killed worker")
        again = ids.claim(ONE, 1, owner=LIVE, epoch=epoch + 1)
        same(await outcome_of(port, again), "stored", "the claim of the one that took it over")
        same([r.status for r in await _runs(port)], ["running"], "the run goes on")


@check("runs")
async def cancellations_are_asked_for_once(bench: Bench) -> None:
    """The first reason to cancel an open run stays; its owner finds it; older runs are asked."""
    async with _system(bench) as port:
        await commit_batch(port, *(_put(run) for run in (ONE, TWO, THREE)))
        await commit_batch(port, SetRun(THREE, "t", LIVE, "success"))
        asks = [AskCancel(TWO, "t", "first"), AskCancel(TWO, "t", "late")]
        await commit_batch(port, *asks, AskCancel(THREE, "t", "ended"))
        found = [(r.run, r.cancel) for r in await _runs(port, asked_of=LIVE)]
        same(found, [(TWO, "first")], "open runs that are asked to stop")
        same(await _runs(port, asked_of=DEAD), [], "those of another owner")
        await commit_batch(port, AskCancel(TWO, "t", "older", earlier=True))
        found = [(r.run, r.cancel) for r in await _runs(port, asked_of=LIVE)]
        same(found, [(ONE, "older"), (TWO, "first")], "with those that are older")


@check("runs")
async def events_are_kept_in_order(bench: Bench) -> None:
    """Events are stored once, read in pages after an offset, and the oldest over a limit go."""
    rows = [EventRow(n, n * 10, b"%d" % n) for n in range(1, 7)]
    async with _system(bench) as port:
        await commit_batch(port, _put(ONE), _put(TWO, LIVE, "u"))
        await commit_batch(port, StoreEvents(ONE, "t", LIVE, tuple(rows[:4]), 9, 0))
        forged = (msgspec.structs.replace(rows[3], payload=b"forged"), rows[4])
        await commit_batch(port, StoreEvents(ONE, "t", LIVE, forged, 9, 0))
        reads = {
            "all": (ReadEvents(ONE, "t", 0, 9), rows[:5]),
            "a page": (ReadEvents(ONE, "t", 2, 2), rows[2:4]),
            "few bytes": (ReadEvents(ONE, "t", 1, 9, bytes_max=2), rows[1:3]),
            "one event above the bytes": (ReadEvents(ONE, "t", 1, 9, bytes_max=0), rows[1:2]),
            "the newest": (ReadEvents(ONE, "t", 0, 9, newest=True), rows[4:5]),
            "of another run": (ReadEvents(TWO, "u", 0, 9), []),
        }
        for what, (query, wanted) in reads.items():
            (found,) = await port.query([query])
            same([*found], wanted, f"events: {what}")
        await commit_batch(port, StoreEvents(ONE, "t", LIVE, (rows[5],), 3, 0))
        (found,) = await port.query([ReadEvents(ONE, "t", 0, 9)])
        same([*found], rows[3:], "the newest three")
        await commit_batch(port, StoreEvents(ONE, "t", LIVE, (), 9, 55))
        (found,) = await port.query([ReadEvents(ONE, "t", 0, 9)])
        same([*found], rows[5:], "those that are young enough")


@check("runs")
async def events_are_replaced(bench: Bench) -> None:
    """A row takes the place of the run's rows from an offset on, in one step with its storing."""
    rows = [EventRow(n, n * 10, b"%d" % n) for n in range(1, 9)]

    def stored(run: bytes, *events: EventRow, owner: bytes = LIVE, replaces: int = 0) -> Request:
        thread = "t" if run == ONE else "u"
        return StoreEvents(run, thread, owner, events, 99, 0, replaces=replaces)

    async with _system(bench) as port:
        await commit_batch(port, _put(ONE), _put(TWO, LIVE, "u"))
        await commit_batch(port, stored(ONE, *rows[:4]), stored(TWO, *rows[:4]))
        outcome = await outcome_of(port, stored(ONE, rows[5], owner=DEAD, replaces=1))
        same(outcome, LOST, "a request of another system")
        await commit_batch(port, stored(ONE, rows[5], rows[6], replaces=3))
        asked = [ReadEvents(ONE, "t", 0, 9), ReadEvents(TWO, "u", 0, 9)]
        found, others = await port.query(asked)
        same([*found], [*rows[:2], rows[5], rows[6]], "the run's events")
        same([*others], rows[:4], "those of another run")
        await commit_batch(port, stored(TWO, rows[5]), stored(TWO, rows[7], replaces=4))
        (found,) = await port.query(asked[1:])
        same([*found], [*rows[:3], rows[7]], "with rows of the same batch")


@check("runs")
async def open_runs_are_not_removed(bench: Bench) -> None:
    """Runs that ended are trimmed by age or forgotten, with their events; open ones stay."""
    event = (EventRow(1, 1, b"e"),)
    async with _system(bench) as port:
        for run in (ONE, TWO, THREE):
            await commit_batch(port, _put(run), StoreEvents(run, "t", LIVE, event, 9, 0))
        await commit_batch(port, SetRun(ONE, "t", LIVE, "success"))
        await commit_batch(port, SetRun(THREE, "t", LIVE, "error"))
        await commit_batch(port, TrimRuns(older_than=3000))
        same(await _names(port, ListRuns()), [TWO, THREE], "after a trim")
        await commit_batch(port, ForgetRun(TWO, "t"), ForgetRun(THREE, "t"))
        same(await _names(port, ListRuns()), [TWO], "after runs were forgotten")
        left = [ReadEvents(run, "t", 0, 9) for run in (ONE, TWO, THREE)]
        same([len(e) for e in await port.query(left)], [0, 1, 0], "events that are left")
        await commit_batch(port, DeleteThread("t"))
        same(await _runs(port), [], "runs of a deleted thread")
        same([len(e) for e in await port.query(left)], [0, 0, 0], "its events")


@check("runs")
async def payloads_are_sealed(bench: Bench) -> None:
    """New payloads replace those of a run and of events that are there, and add nothing."""
    events = (EventRow(1, 1, b"e"), EventRow(2, 2, b"f"))
    sealed = (EventRow(1, 1, b"E"), EventRow(7, 7, b"G"))
    async with _system(bench) as port:
        await commit_batch(port, _put(ONE), StoreEvents(ONE, "t", LIVE, events, 9, 0))
        await commit_batch(port, SealRun(ONE, "t", b"IN", sealed), SealRun(TWO, "t", b"x", ()))
        same([(r.run, r.payload) for r in await _runs(port)], [(ONE, b"IN")], "payloads")
        (found,) = await port.query([ReadEvents(ONE, "t", 0, 9)])
        same([*found], [sealed[0], events[1]], "events")


@check("runs")
async def waiting_runs_are_offered(bench: Bench) -> None:
    """Workers are offered due runs without a living owner, each thread's first, of their graphs."""
    async with _system(bench) as port:
        await commit_batch(
            port,
            _put(ONE, None),
            _put(TWO, None),
            _put(THREE, DEAD, "u"),
            _put(b"4" * 16, None, "v", graph="h"),
            _put(b"5" * 16, LIVE, "w"),
        )
        offers = {
            "g": (ListWaiting(("g",), (), FAR, 9), [ONE, THREE]),
            "both": (ListWaiting(("g", "h"), (), FAR, 9), [ONE, THREE, b"4" * 16]),
            "owned": (ListWaiting(("g", "h"), (), FAR, 9, owned=True), [THREE]),
            "limit": (ListWaiting(("g",), (), FAR, 1), [ONE]),
        }
        for what, (query, wanted) in offers.items():
            same(await _names(port, query), wanted, f"waiting: {what}")
        (counts,) = await port.query([CountWaiting(9, FAR)])
        same(counts, [WaitingCount(3, 1000)], "the runs that wait")
        (counts,) = await port.query([CountWaiting(2, FAR)])
        same([c.runs for c in counts], [2], "at most the limit")


@check("runs")
async def runs_outlive_the_saver(bench: Bench) -> None:
    """Runs, their events, owners and requests to cancel are there after reopening."""
    bench.require_durable()
    async with _system(bench) as port:
        outcomes = await commit_batch(
            port,
            _put(ONE),
            StoreEvents(ONE, "t", LIVE, (EventRow(1, 1, b"e"),), 9, 0),
            AskCancel(ONE, "t", "stop"),
        )
        same([*map(kind_of, outcomes)], ["stored"] * 3, "outcomes")
    async with bench.port() as port:
        rows = [(r.run, r.owner, r.cancel, r.payload) for r in await _runs(port)]
        same(rows, [(ONE, LIVE, "stop", b"in")], "the run")
        (found,) = await port.query([ReadEvents(ONE, "t", 0, 9)])
        same([e.payload for e in found], [b"e"], "its event")


@check("runs")
async def attempts_and_deaths_are_kept(bench: Bench) -> None:
    """Attempts and deaths are stored with a new run, a takeover, and a status that has them."""
    async with _system(bench) as port:
        steps: list[tuple[Request, tuple[str, int, int]]] = [
            (_put(ONE, DEAD, deaths=1), ("pending", 1, 1)),
            (AdoptRun(ONE, "t", LIVE, was=DEAD, attempts=3, deaths=2), ("pending", 3, 2)),
            (SetRun(ONE, "t", LIVE, "parked", "it died"), ("parked", 3, 2)),
            (SetRun(ONE, "t", LIVE, "pending", "", attempts=4, deaths=3), ("pending", 4, 3)),
            (SetRun(ONE, "t", LIVE, "pending", "", attempts=5), ("pending", 5, 0)),
        ]
        for request, wanted in steps:
            await commit_batch(port, request)
            (row,) = await _runs(port, run=ONE)
            same((row.status, row.attempts, row.deaths), wanted, f"the run after {request}")


@check("runs")
async def a_run_that_was_taken_over_is_pending(bench: Bench) -> None:
    """A takeover leaves a run pending, with its input in the thread, until its claim."""
    ids = Ids()
    async with _system(bench) as port:
        await commit_batch(port, RenewOwner(DEAD, 60.0), _put(ONE, DEAD))
        await commit_batch(port, ids.claim(ONE, None, ids.point(1), owner=DEAD))
        await commit_batch(port, DropOwner(DEAD), AdoptRun(ONE, "t", LIVE, was=DEAD, attempts=2))
        (row,) = await _runs(port, run=ONE)
        same((row.status, row.claimed), ("pending", True), "the run")
        await commit_batch(port, ids.claim(ONE, 1, owner=LIVE, epoch=(await load(port)).epoch))
        await commit_batch(port, AdoptRun(ONE, "t", LIVE, was=LIVE, attempts=1))
        (row,) = await _runs(port, run=ONE)
        same((row.status, row.attempts), ("running", 1), "the run, counted again by its owner")


@check("runs")
async def a_refused_request_leaves_the_others(bench: Bench) -> None:
    """In a batch a refused request of a system stores nothing; those around it are stored."""
    ids = Ids()
    requests: list[tuple[Request, str]] = [
        (_put(ONE), "stored"),
        (SetRun(ONE, "t", DEAD, "error"), LOST),
        (_put(TWO, DEAD, if_busy="reject"), BUSY),
        (StoreEvents(ONE, "t", DEAD, (EventRow(1, 1, b"forged"),), 9, 0), LOST),
        (AdoptRun(ONE, "t", DEAD, was=DEAD, attempts=9), LOST),
        (ids.claim(THREE, None, ids.point(1), owner=LIVE), LOST),
        (StoreEvents(ONE, "t", LIVE, (EventRow(1, 1, b"own"),), 9, 0), "stored"),
        (ids.claim(ONE, None, ids.point(2), owner=LIVE), "stored"),
        (AskCancel(ONE, "t", "stop"), "stored"),
    ]
    async with _system(bench) as port:
        outcomes = await commit_batch(port, *(request for request, _ in requests))
        same([*map(kind_of, outcomes)], [wanted for _, wanted in requests], "outcomes")
        begun = _row(ONE, alive=True, status="running", claimed=True, cancel="stop")
        same(await _runs(port), [begun], "the runs")
        (found,) = await port.query([ReadEvents(ONE, "t", 0, 9)])
        same([e.payload for e in found], [b"own"], "its events")
        same((await load(port)).head, ids(2), "the head")


@check("runs")
async def builds_and_times_are_kept(bench: Bench) -> None:
    """Build, priority and time of a run are stored, and workers are offered those that fit."""
    async with _system(bench) as port:
        if not getattr(port, "routes_runs", False):
            raise NotOfferedError("its routes_runs is false")
        await commit_batch(
            port,
            _put(ONE, None, build="b", priority=3),
            _put(TWO, None, "u", due=FAR),
            _put(THREE, None, "v"),
        )
        rows = [(r.build, r.priority, r.due) for r in await _runs(port)]
        same(rows, [("b", 3, 0), ("", 0, FAR), ("", 0, 0)], "builds, priorities and times")
        offers = {
            "without builds": (ListWaiting(("g",), (), 1, 9), [THREE]),
            "of a build": (ListWaiting(("g",), ("b",), 1, 9), [ONE, THREE]),
            "later": (ListWaiting(("g",), ("b",), FAR, 9), [ONE, TWO, THREE]),
        }
        for what, (query, wanted) in offers.items():
            same(await _names(port, query), wanted, f"waiting: {what}")
        counts = await port.query([CountWaiting(9, 1), CountWaiting(9, 1, ("b",))])
        same([found[0].runs for found in counts], [1, 2], "counted, without and with builds")
