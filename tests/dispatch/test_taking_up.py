"""How runs are taken up: each path asks the same, and leaves no open run without a system."""

from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.errors import StorageBusyError, UnknownTypeError
from actorgraph.rules.system.dispatching import following
from actorgraph.runtime.clock import microseconds_now
from actorgraph.runtime.saver.persistence import PersistenceActor
from actorgraph.values.ids import as_bytes
from actorgraph.values.systems import NO_OWNER, AdoptRun, AskCancel, ListRuns, SetRun
from tests.dispatch.fleet import Fleet, fleet, soon
from tests.support.gates import Turnstile, settled
from tests.support.graphs import in_a_row, writer

__all__ = ["fleet"]


async def by_hint(system: Any, row: Any) -> None:
    """Take a run up as its hint does."""
    await system._dispatch._claim((row.run,))  # noqa: SLF001 - one path


async def by_thread(system: Any, row: Any) -> None:
    """Take a run up as the next of its thread."""
    rows = await system._host.reader.ask(ListRuns(open_of=(row.thread_id,)))  # noqa: SLF001
    first = following(rows, microseconds_now())
    await system._dispatch._claim_of(first, rows)  # noqa: SLF001 - one path


async def by_recovery(system: Any, row: Any) -> None:
    """Take a run up as `recover` does, also for a web application."""
    await system.recover()


async def by_turn(system: Any, row: Any) -> None:
    """Take a run up that is before a waiting one on its thread."""
    await system._take_up(row)  # noqa: SLF001 - one path


async def by_sweep(system: Any, row: Any) -> None:
    """Take a run up whose hint doesn't come."""
    await system._dispatch._claim_around([row])  # noqa: SLF001 - one path


PATHS = [by_hint, by_thread, by_recovery, by_turn, by_sweep]


def without_hints(fleet: Fleet) -> None:
    """Lose all hints."""
    fleet.dispatcher.queues.clear()
    fleet.dispatcher.waiting.clear()


async def lost_run(fleet: Fleet, web: Any, **options: Any) -> Any:
    """Start a run; without a delay a worker begins it and leaves it."""
    build = web._policy.build  # noqa: SLF001 - of the worker too
    if options:
        run = await web.start("g", None, {"bar": []}, **options)
    else:
        stuck = Turnstile({})
        async with fleet.system("work", stuck, build=build) as worker:
            run = await web.start("g", None, {"bar": []})
            await stuck.entered.wait()
            await worker.drain(0)
    without_hints(fleet)
    return run


async def row_of(system: Any, run: Any) -> Any:
    """The row of a run as it is stored now."""
    (row,) = await system._host.reader.ask(ListRuns(run=as_bytes(run.id)))  # noqa: SLF001
    return row


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
class TestEachPath:
    """Hints, the next of a thread, recovery and turns ask for role, build and time."""

    @pytest.mark.one_loop
    @pytest.mark.parametrize(
        ("role", "build", "delay"),
        [("accept", "v1", {}), ("work", "v2", {}), ("work", "v1", {"delay_s": 600})],
        ids=["role", "build", "time"],
    )
    async def test_leaves_a_run_alone(self, fleet, path, role, build, delay):
        """
        A system that only accepts, one of another build, and any before the run's time leave it.
        """
        async with fleet.system("accept", build="v1") as web, soon():
            run = await lost_run(fleet, web, **delay)
            before = await row_of(web, run)
            async with fleet.system(role, build=build, lease_s=600.0) as other:
                await path(other, before)
                assert await row_of(web, run) == before

    async def test_takes_a_run_that_fits(self, fleet, path):
        """
        A worker of its build takes it.
        """
        async with fleet.system("accept", build="v1") as web, soon():
            run = await lost_run(fleet, web)
            async with fleet.system("work", build="v1", lease_s=600.0) as other:
                await path(other, await row_of(web, run))
                assert await run.wait() == "success"


async def test_a_run_that_has_ended_is_not_run_again(fleet):
    """
    A run that its system has ended after another one has read its row is left as it is.
    """
    calls = Turnstile({})
    async with fleet.system("accept") as web, soon():
        run = await lost_run(fleet, web)
        row = await row_of(web, run)
        async with fleet.system("work", calls, lease_s=600.0) as other:
            ended = SetRun(row.run, row.thread_id, row.owner, "success", "")
            await web._host.writer.store(ended)  # noqa: SLF001 - a save that was on its way
            assert await other._take_up_all([row]) == []  # noqa: SLF001 - as each path does
            assert (await row_of(web, run)).status == "success"
            assert (other.statistics().active, calls.calls) == (0, 0)


class Unread(InMemorySaver):
    """Fails one read of the open runs of threads."""

    fails = False

    def query_now(self, queries: Any) -> list[Any]:
        """Read, or fail."""
        if self.fails and any(isinstance(q, ListRuns) and q.open_of for q in queries):
            self.fails = False
            raise StorageBusyError("the rows can't be read now", do="try again")
        return super().query_now(queries)


class TestCancelledRuns:
    """Runs that are cancelled where nothing runs them."""

    async def test_an_error_in_between_leaves_no_run_behind(self, fleet, monkeypatch):
        """
        A waiting run whose cancellation can't be stored is any worker's afterwards.
        """
        real = PersistenceActor.store

        async def fails_once(writer: Any, *requests: Any) -> Any:
            if isinstance(requests[0], SetRun):
                monkeypatch.setattr(PersistenceActor, "store", real)
                raise StorageBusyError("it can't be stored now", do="try again")
            return await real(writer, *requests)

        async with fleet.system("accept", lease_s=600.0) as web, soon():
            run = await web.start("g", "t", {"bar": []})
            monkeypatch.setattr(PersistenceActor, "store", fails_once)
            with pytest.raises(StorageBusyError, match="can't be stored now"):
                await web.cancel(run.id)
            while (await row_of(web, run)).alive:  # noqa: ASYNC110 - given back by a task
                await anyio.sleep(0.01)
            async with fleet.system("work"):
                assert await run.wait() == "success"

    async def test_a_run_that_has_ended_keeps_its_status(self, fleet):
        """
        A run that its system has ended after its row was read is not cancelled.
        """
        async with fleet.system("accept") as web, soon():
            run = await lost_run(fleet, web)
            row = await row_of(web, run)
            ended = SetRun(row.run, row.thread_id, row.owner, "success", "")
            await web._host.writer.store(ended)  # noqa: SLF001 - a save that was on its way
            await web._end_row(row, "late")  # noqa: SLF001 - what `cancel` calls
            assert (await row_of(web, run)).status == "success"

    async def test_a_run_that_is_being_adopted_is_not_over(self, fleet):
        """
        The request to cancel a run that is just being taken up waits until it is here.
        """
        async with fleet.system("accept") as web, fleet.system("both", lease_s=600.0) as system:
            run = await lost_run(fleet, web, delay_s=600)
            row, host = await row_of(web, run), system._host  # noqa: SLF001 - the saver
            owner = system._actor.owner  # noqa: SLF001 - the id of the system
            await host.writer.store(
                AdoptRun(row.run, row.thread_id, owner, row.owner, 1),
                AskCancel(row.run, row.thread_id, "asked"),
            )
            look = system._dispatch._look_for_cancels  # noqa: SLF001 - that of news
            with system._coming([], [row]):  # noqa: SLF001 - as `_take_up_all` does
                await look()
                assert (await row_of(web, run)).status == "pending"
            await look()
            assert (await row_of(web, run)).status == "cancelled"

    async def test_a_stored_run_is_accepted(self):
        """
        `start` returns a run that is stored, also if the runs that it replaces can't be read then.
        """
        async with Unread() as saver:
            fleet = Fleet(saver)
            async with fleet.system("accept") as web, soon():
                first = await web.start("g", "t", {"bar": []})
                saver.fails = True
                second = await web.start("g", "t", {"bar": []}, if_busy="interrupt")
                assert not saver.fails
                async with fleet.system("work"):
                    assert await second.wait() == "success"
                    assert await first.wait() == "cancelled"


class TestRunsThatCannotBegin:
    """Runs whose thread a system can't read."""

    async def test_they_keep_no_others(self, fleet, monkeypatch):
        """
        An error of any kind while one run is made ready is its own: those beside it go on, and it
        is left to other systems.
        """
        real = CompiledStateGraph.aget_state

        async def fails(graph: Any, config: Any, **rest: Any) -> Any:
            if config["configurable"]["thread_id"] == bad.thread_id:
                raise KeyError("no such field")
            return await real(graph, config, **rest)

        async with fleet.system("accept") as web, soon():
            bad, good = await lost_run(fleet, web), await lost_run(fleet, web)
            monkeypatch.setattr(CompiledStateGraph, "aget_state", fails)
            async with fleet.system("work", lease_s=600.0) as worker:
                (found,) = await worker.recover()
                assert (found.id, await found.wait()) == (good.id, "success")
                row = await row_of(web, bad)
                assert (row.owner, row.status) == (NO_OWNER, "pending")
                assert "no such field" in (await worker.run(bad.id)).reason

    async def test_they_are_not_tried_again_at_once(self, fleet, monkeypatch):
        """
        A worker that can't read a run after it was begun leaves it, and pauses before another try.
        """
        tries = []

        async def fails(launch: Any) -> Any:
            tries.append(launch)
            raise UnknownTypeError("its input can't be read", do="use the build that stored it")

        async with fleet.system("accept") as web, soon():
            run = await lost_run(fleet, web)
            monkeypatch.setattr("actorgraph.runtime.system.actor.prepare", fails)
            async with fleet.system("work", lease_s=600.0) as worker:
                assert len(await worker.recover()) == 1
                while (await row_of(web, run)).owner != NO_OWNER:  # noqa: ASYNC110 - by a task
                    await anyio.sleep(0.01)
                await settled()
                assert await worker.recover() == []
                assert (len(tries), worker.statistics().misfits) == (1, 1)


async def test_a_full_graph_hides_no_orphan(fleet, monkeypatch):
    """
    Sweeps find an orphan behind so many of a graph at its limit that one query reads no others.
    """
    monkeypatch.setattr("actorgraph.runtime.system.dispatch_actor.BATCH_MAX", 1)
    slow, stuck, names = Turnstile({}), Turnstile({}), ("g", "h")
    async with fleet.system("accept", names=names) as web, soon():
        async with fleet.system("work", stuck, names=names) as worker:
            for name in ("g", "g", "h"):
                last = await web.start(name, None, {"bar": []})
            while stuck.calls < 3:  # noqa: ASYNC110 - runs begin on an idle loop
                await anyio.sleep(0.01)
            await worker.drain(0)
        without_hints(fleet)
        async with fleet.system("work", slow, names=names, lease_s=0.3, max_runs_of={"g": 1}):
            while (await row_of(web, last)).owner is None or slow.calls < 2:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            slow.out.set()
            assert await last.wait() == "success"


async def test_a_run_that_is_being_taken_up_is_not_taken_up_beside_that(fleet):
    """
    A lost lease gives a system another owner, to which the store would give the run too.
    """
    async with fleet.system("accept") as web:
        await web.start("g", "t", {"bar": []})
    graphs = {"g": in_a_row({"a": writer("a")})}
    async with ActorSystem(graphs, saver=fleet.saver) as system, soon():
        rows = await system._orphans()  # noqa: SLF001 - what a sweep may have read
        with system._coming(["g"], rows):  # noqa: SLF001 - by another part of the system
            beside = await system._take_up_all(rows)  # noqa: SLF001
        (run,) = await system.recover()
        await run.wait()
    assert (len(rows), beside, run.status) == (1, [], "success")
