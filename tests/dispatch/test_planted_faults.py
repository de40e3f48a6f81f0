"""Adapters with a planted fault: the contract finds each of them."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import anyio
import msgspec
import pytest

from actorgraph import PostgresSaver
from actorgraph.testing import DispatchPlace, dispatcher_checks
from actorgraph.values.systems import NO_OWNER, AdoptRun, ListRuns, RunRow
from tests.dispatch.faulty_links import FAULTS, FaultyLink, faulty
from tests.dispatch.places import AGAIN_S, KINDS, memory_place, nats, place

__all__ = ["nats", "place"]

MODULE = import_module("actorgraph.testing.dispatcher_checks")
CHECKS = {check.__name__: check for check in dispatcher_checks()}


class _Loses:
    """Every third hint is lost."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    async def announce(self, hints: Any) -> None:
        kept = []
        for hint in hints:
            self._count += 1
            if self._count % 3:
                kept.append(hint)
        await self._link.announce(kept)


class _Doubles(_Loses):
    """Each hint is delivered to two systems."""

    delivered: list[Any]

    async def announce(self, hints: Any) -> None:
        await self._link.announce(hints)

    async def take(self, queues: Any, limit: int) -> Any:
        if self.delivered:
            again, self.delivered[:] = [*self.delivered], []
            return again[:limit]
        found = await self._link.take(queues, limit)
        self.delivered.extend(found)
        return found

    async def settle(self, hints: Any) -> None:
        pass


class _SettlesEarly(_Loses):
    """A hint is over when it is taken."""

    async def announce(self, hints: Any) -> None:
        await self._link.announce(hints)

    async def take(self, queues: Any, limit: int) -> Any:
        found = await self._link.take(queues, limit)
        await self._link.settle(found)
        return found

    async def settle(self, hints: Any) -> None:
        pass


class _Planted:
    """A dispatcher whose links have a fault."""

    def __init__(self, inner: Any, fault: type[_Loses]) -> None:
        self._inner = inner
        self._fault = fault
        self.in_commit = inner.in_commit

    async def open(self, saver: Any, heard: Any) -> Any:
        return self._fault(await self._inner.open(saver, heard))


def planted(place: DispatchPlace, fault: type[_Loses]) -> DispatchPlace:
    """The same place with a fault in each link."""
    return DispatchPlace(lambda: _Planted(place.dispatcher(), fault), place.saver, place.again_s)


def owners_now(rows: list[RunRow], batch: Sequence[Any]) -> list[Any]:
    """The same requests, but that claims expect the owner that the run has now."""
    owners = {row.run: row.owner for row in rows}
    return [
        msgspec.structs.replace(request, was=owners[request.run])
        if request in claims_of(batch) and request.run in owners
        else request
        for request in batch
    ]


def claims_of(batch: Sequence[Any]) -> list[AdoptRun]:
    """The claims among the requests; giving a run back is none."""
    return [r for r in batch if isinstance(r, AdoptRun) and r.owner != NO_OWNER]


class _Second:
    """Holds the first one that waits until there is a second one, or for a second."""

    def __init__(self) -> None:
        self._first: anyio.Event | None = None

    async def wait(self) -> None:
        if self._first is not None:
            self._first.set()
            return
        self._first = anyio.Event()
        with anyio.move_on_after(1.0):
            await self._first.wait()


class _BlindPostgres(PostgresSaver):
    """A store that sets the owner of a run without comparing it with the one that was read.

    Args:
        claimed: open once two stores have been asked for claims: the first one waits for it, so
            that two workers have chosen before either has a run.
    """

    def __init__(self, *args: Any, claimed: "_Second", **options: Any) -> None:
        super().__init__(*args, **options)
        self._claimed = claimed

    async def commit(self, batch: Sequence[Any]) -> list[Any]:
        runs = tuple(claim.run for claim in claims_of(batch))
        if runs:
            await self._claimed.wait()
        rows = (await self.query([ListRuns(among=runs)]))[0] if runs else []
        return await super().commit(owners_now(rows, batch))


@pytest.fixture(scope="module", params=["asyncio"])
def anyio_backend(request):
    """
    The checks find what they find on any loop: tests/faults has trio.
    """
    return request.param


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (_Loses, "hints_reach_a_taker_of_their_queue"),
        (_Doubles, "two_takers_share_the_hints"),
        (_SettlesEarly, "an_unsettled_hint_comes_again"),
    ],
    ids=["lost hints", "doubled hints", "early completion"],
)
async def test_a_planted_fault_is_found(place, fault, check, monkeypatch):
    """
    The check that names what the fault breaks fails, over each adapter.
    """
    monkeypatch.setattr(MODULE, "PATIENCE_S", AGAIN_S if fault is _SettlesEarly else 1.0)
    fault.delivered = []

    with pytest.raises((AssertionError, TimeoutError)):
        await CHECKS[check](planted(place, fault))


@pytest.mark.parametrize(
    "place",
    [kind if kind == "memory" else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS],
    indirect=True,
)
async def test_claims_without_compare_and_set_are_found(place, postgres, schema):
    """
    Over each adapter, a store that gives a run to each worker that asks fails the check of races.
    """
    # Never over the store in memory: it answers at once, so that two claims never overlap in it.
    second = _Second()
    blind = DispatchPlace(
        place.dispatcher,
        lambda: _BlindPostgres(postgres.url, schema=schema, claimed=second),
        place.again_s,
    )

    with pytest.raises(AssertionError, match=r"claimed|begun twice"):
        await CHECKS["workers_that_race_for_a_run_claim_it_once"](blind)


@pytest.mark.parametrize("fault", [_Loses, _Doubles], ids=["lost hints", "doubled hints"])
async def test_systems_survive_lost_and_doubled_hints(fault, monkeypatch):
    """
    Whole systems run each run once all the same: hints only say where to look.
    """
    monkeypatch.setattr("actorgraph.runtime.system.dispatch_actor.NEW_S", 0.2)
    fault.delivered = []
    async with memory_place() as place:
        await CHECKS["every_accepted_run_is_run_once"](planted(place, fault))
        await CHECKS["runs_of_a_thread_are_run_in_order"](planted(place, fault))


async def passes_without_a_fault(place, check):
    """The check of a fault, over links that only forward."""
    await CHECKS[check](faulty(place, FaultyLink))


@pytest.mark.parametrize("place", ["memory"], indirect=True)
@pytest.mark.parametrize("check", sorted({check for _, check in FAULTS.values()}))
async def test_links_that_only_forward_pass(place, check):
    """
    Without a fault a wrapped link passes: what the checks find is the fault.
    """
    await passes_without_a_fault(place, check)


@pytest.mark.parametrize("name", FAULTS)
async def test_a_faulty_link_is_found(place, name, monkeypatch):
    """
    A link that leaves out one part of the contract fails the check of that part.
    """
    fault, check = FAULTS[name]
    monkeypatch.setattr(MODULE, "PATIENCE_S", AGAIN_S)

    with pytest.raises((AssertionError, TimeoutError)):
        await CHECKS[check](faulty(place, fault))
