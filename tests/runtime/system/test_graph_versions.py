"""Two versions of a program over one store: runs that only the other version can go on with."""

from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem
from actorgraph.values.systems import NO_OWNER, ListRuns
from tests.support.every_saver import Store
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import in_a_row, writer
from tests.support.systems import kinds, place, system_of

pytestmark = pytest.mark.every_saver

__all__ = ["place"]


def version(slow: Any, last: str) -> Any:
    """A graph whose last node has another name in each version."""
    return in_a_row({"a": writer("a"), last: slow})


async def left_by(place: Store, graph: Any, slow: Turnstile, **options: Any) -> Any:
    """A run of "t" that a system has left in the middle of the graph's last node."""
    async with system_of(place, graph) as system:
        run = await system.start("g", "t", {"bar": ["x"]}, **options)
        await slow.entered.wait()
        await system.drain(0)
    return run


async def row_of(system: ActorSystem) -> Any:
    """The stored row of the oldest run of "t"."""
    rows = await system._host.reader.ask(ListRuns(thread_id="t"))  # noqa: SLF001
    return rows[0]


class TestOtherVersions:
    async def test_a_run_waits_for_a_process_that_can_go_on_with_it(self, place: Store):
        """
        A node was renamed: the new version leaves the run, says why, and counts it; the old one
        ends it. It isn't parked, and no attempt is counted.
        """
        slow = Turnstile({"bar": ["b"]})
        old, new = version(slow, "b"), version(slow, "c")
        run = await left_by(place, old, slow, resumable=True)
        async with system_of(place, new) as system:
            for _ in range(3):
                assert await system.recover() == []
            row = await row_of(system)
            (shown,) = await system.runs(statuses=["pending"])
            again = await system.run(run.id)
            misfits = system.statistics().misfits
            async with system_of(place, old) as returned:
                slow.out.set()
                (taken,) = await returned.recover()
                result = await taken.result(PATIENCE_S)
                told = await kinds(taken.events())
            await system.recover()

            assert (row.status, row.attempts, row.owner) == ("pending", 0, NO_OWNER)
            assert (misfits, system.statistics().misfits) == (1, 0)
            assert shown.reason == again.reason
            assert shown.reason.startswith("waits for a process that can go on with it")
            assert "waits for node 'b'" in shown.reason
            assert (result["bar"], taken.attempt) == (["x", "a", "b"], 1)
            assert (told.count("gap"), told[-1]) == (0, "end")

    async def test_a_run_of_an_unknown_graph_waits(self, place: Store):
        """
        The list of runs says which graph is missing, also before a search for orphans.
        """
        slow = Turnstile({"bar": ["b"]})
        run = await left_by(place, version(slow, "b"), slow)
        async with ActorSystem({"h": version(slow, "b")}, saver=place.again()) as system:
            (shown,) = await system.runs()
            assert await system.recover() == []
            row = await row_of(system)

            assert shown.reason == "waits for a process that has the graph 'g'"
            assert (shown.id, row.status, row.reason) == (run.id, "pending", "shutdown")
            assert system.statistics().misfits == 1

    async def test_it_is_not_taken_up_in_a_loop(self, place: Store, monkeypatch):
        """
        The process that has tried in vain leaves the run alone for a third of its lease, then
        for longer and longer, so that one that fits finds it free.
        """
        slow = Turnstile()
        await left_by(place, version(slow, "b"), slow)
        async with system_of(place, version(slow, "c"), lease_s=30.0) as system:
            adopted: list[int] = []
            adopt = system._adopt_all  # noqa: SLF001

            async def counted(rows: list[Any], *, another: int, owed: Any) -> set[bytes]:
                adopted.extend(row.attempts + another for row in rows)
                return await adopt(rows, another=another, owed=owed)

            monkeypatch.setattr(system, "_adopt_all", counted)
            for _ in range(5):
                await system.recover()
            (known,) = system._misfits.values()  # noqa: SLF001

            assert (adopted, known.tries) == ([1], 1)

    async def test_a_waiting_run_can_be_cancelled_by_any_process(self, place: Store):
        """
        A caller that knows that the old version never comes back ends the run, and its thread is
        free.
        """
        slow = Turnstile({"bar": ["b"]})
        run = await left_by(place, version(slow, "b"), slow)
        async with system_of(place, version(slow, "c")) as system:
            await system.recover()
            assert await system.cancel(run.id, "the old version is gone") == "cancelled"
            await system.recover()

            assert (await row_of(system)).reason == "the old version is gone"
            assert system.statistics().misfits == 0

    async def test_runs_behind_it_keep_their_order(self, place: Store):
        """
        A run that the new version accepts waits until the old version has ended the one before.
        """
        slow = Turnstile({"bar": ["b"]})
        old, new = version(slow, "b"), version(slow, "c")
        await left_by(place, old, slow)
        async with system_of(place, new, lease_s=0.9) as system:
            second = await system.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
            async with system_of(place, old) as returned:
                slow.out.set()
                while not (taken := await returned.recover()):  # noqa: ASYNC110 - as web does
                    await anyio.sleep(0.05)
                assert (await taken[0].result(PATIENCE_S))["bar"] == ["x", "a", "b"]
            result = await second.result(PATIENCE_S)

        assert result["bar"] == ["x", "a", "b", "y", "a", "b"]

    async def test_a_run_that_only_waited_waits_too(self, place: Store):
        """
        A run behind that one, accepted by the old version, is not failed by the new one.
        """
        slow = Turnstile({"bar": ["b"]})
        old, new = version(slow, "b"), version(slow, "c")
        async with system_of(place, old) as owner:
            await owner.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            await owner.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
            await owner.drain(0)
        async with system_of(place, new) as system:
            assert await system.recover() == []
            assert system.statistics().misfits == 2
            async with system_of(place, old) as returned:
                slow.out.set()
                taken = await returned.recover()
                results = [await run.result(PATIENCE_S) for run in taken]

        assert [len(result["bar"]) for result in results] == [3, 6]
