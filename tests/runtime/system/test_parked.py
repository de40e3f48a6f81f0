"""Parked runs that are run again."""

from typing import Any

import pytest

from actorgraph import ActorSystem
from actorgraph.values.ids import as_bytes
from actorgraph.values.systems import NO_OWNER, AdoptRun, ListRuns, SetRun
from tests.support.every_saver import Store
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import at, in_a_row, writer
from tests.support.systems import place, system_of

pytestmark = pytest.mark.every_saver

__all__ = ["place"]

OWN = b"p" * 16


async def park(system: ActorSystem, run_id: str) -> None:
    """Park a run that no system has, as after three deaths."""
    host = system._host  # noqa: SLF001
    (row,) = await host.reader.ask(ListRuns(run=as_bytes(run_id)))
    await host.writer.store(
        AdoptRun(row.run, row.thread_id, OWN, row.owner, 3, deaths=3),
        SetRun(row.run, row.thread_id, OWN, "parked", "3 processes have ended", 3, deaths=3),
    )


async def parked_at(place: Store, graph: Any, slow: Turnstile) -> str:
    """The id of a parked run of "t", which was left in the second node."""
    async with system_of(place, graph) as system:
        run = await system.start("g", "t", {"bar": ["x"]}, resumable=True)
        await slow.entered.wait()
        await system.drain(0)
    async with system_of(place, graph) as system:
        await park(system, run.id)
    return run.id


class TestRetry:
    async def test_a_parked_run_goes_on_where_it_was(self, place: Store):
        """
        Its first node isn't run again, its deaths are forgotten, and recovery left it before.
        """
        slow = Turnstile({"bar": ["b"]})
        graph = in_a_row({"a": writer("a"), "b": slow})
        run_id = await parked_at(place, graph, slow)
        slow.out.set()
        async with system_of(place, graph) as system:
            before = await system.recover()
            found = await system.retry_parked()
            run = await system.run(run_id)
            status = await run.wait()
            values = (await system.graphs["g"].aget_state(at("t"))).values
            (row,) = await system._host.reader.ask(ListRuns(run=as_bytes(run_id)))  # noqa: SLF001

        assert (before, found.retried, found.left) == ([], (run_id,), {})
        assert (status, values["bar"]) == ("success", ["x", "a", "b"])
        assert (row.attempts, row.deaths, row.reason) == (2, 0, "")

    async def test_a_run_whose_thread_has_gone_on_is_left(self, place: Store):
        """
        It would go on in a state that it has not made; the reason says so, and nothing is changed.
        """
        slow = Turnstile({"bar": ["b"]})
        graph = in_a_row({"a": writer("a"), "b": slow})
        run_id = await parked_at(place, graph, slow)
        slow.out.set()
        async with system_of(place, graph) as system:
            later = await system.start("g", "t", {"bar": ["y"]})
            await later.result(PATIENCE_S)
            found = await system.retry_parked()
            status = (await system.run(run_id)).status

        assert found.left == {run_id: "its thread has gone on with another run since"}
        assert (found.retried, status) == ((), "parked")

    async def test_named_runs_that_are_not_parked_are_left(self, place: Store):
        """
        Each has its reason: it has ended, is unknown, or has a wrong id; other threads' stay.
        """
        slow = Turnstile({"bar": ["b"]})
        graph = in_a_row({"a": writer("a"), "b": slow})
        run_id = await parked_at(place, graph, slow)
        slow.out.set()
        async with system_of(place, graph) as system:
            ended = await system.start("g", "u", {"bar": []})
            await ended.result(PATIENCE_S)
            unknown = "0" * 32
            found = await system.retry_parked([ended.id, unknown, "x"])
            elsewhere = await system.retry_parked(thread_id="u")
            status = (await system.run(run_id)).status

        assert found.left[ended.id] == "it is not parked: its status is 'success'"
        assert found.left[unknown] == "no such run is stored"
        assert found.left["x"] == "it is not the id of a run"
        assert (found.retried, elsewhere.retried, status) == ((), (), "parked")


async def test_a_suspect_that_progresses_is_none_any_more(place: Store):
    """
    A run with deaths is begun alone, and has none once a task of it has ended; another run waits
    for that.
    """
    slow = Turnstile({"bar": ["b"]})
    graph = in_a_row({"a": writer("a"), "b": slow})
    async with system_of(place, graph) as system:
        run = await system.start("g", "t", {"bar": []})
        await slow.entered.wait()
        await system.drain(0)
    again = Turnstile({"bar": ["b"]})
    last = Turnstile({"bar": ["c"]})
    graph = in_a_row({"a": writer("a"), "b": again, "c": last})
    async with system_of(place, graph) as system:
        host = system._host  # noqa: SLF001
        (row,) = await host.reader.ask(ListRuns(run=as_bytes(run.id)))
        await host.writer.store(AdoptRun(row.run, "t", NO_OWNER, row.owner, 2, deaths=2))
        await system.recover()
        await again.entered.wait()
        (tried,) = await host.reader.ask(ListRuns(run=as_bytes(run.id)))
        other = await system.start("g", "u", {"bar": []})
        waits = other.status
        again.out.set()
        await last.entered.wait()
        begun = await anext(aiter(other.events()))
        last.out.set()
        await other.result(PATIENCE_S)
        await (await system.run(run.id)).result(PATIENCE_S)
        (ended,) = await host.reader.ask(ListRuns(run=as_bytes(run.id)))

    assert (tried.deaths, waits, begun.kind) == (3, "pending", "metadata")
    assert (ended.deaths, ended.status) == (0, "success")
