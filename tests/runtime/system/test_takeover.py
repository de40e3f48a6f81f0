"""Two systems over one store: what becomes of the runs of the other one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from actorgraph import RunCancelledError
from actorgraph.runtime.system import peers as cancels
from actorgraph.values.ids import as_text
from actorgraph.values.systems import PutRun
from tests.support.every_saver import Store
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import at, in_a_row, writer
from tests.support.systems import place, system_of, turnstile_first

pytestmark = pytest.mark.every_saver

__all__ = ["place"]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems look for cancellations every tenth of a second; leases hold for half a minute."""
    monkeypatch.setattr(cancels, "LOOKS", 300)


@asynccontextmanager
async def two(place: Store, graph: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Two systems with the same graph."""
    async with (
        system_of(place, graph, lease_s=30.0) as one,
        system_of(place, graph, lease_s=30.0) as other,
    ):
        yield one, other


class TestCancelElsewhere:
    async def test_the_owner_ends_the_run(self, place: Store):
        """
        A run is cancelled from another system through the store; what it did is kept.
        """
        slow = Turnstile()
        async with two(place, in_a_row({"a": writer("a"), "b": slow})) as (owner, other):
            run = await owner.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            status = await other.cancel(run.id, "the user left")
            with pytest.raises(RunCancelledError):
                await run.result()
            state = await other.graphs["g"].aget_state(at())
            again = await other.cancel(run.id, "too late")
            stored = await other.run(run.id)

        assert (status, again, run.status) == ("cancelled",) * 3
        assert (run.reason, stored.reason) == ("the user left",) * 2
        assert (state.values["bar"], state.next) == (["x", "a"], ("b",))

    async def test_a_run_that_waits_there_never_begins(self, place: Store):
        """
        A queued run of another system is cancelled too, and the first reason counts.
        """
        slow = Turnstile({"bar": ["a"]})
        async with two(place, turnstile_first(slow)) as (owner, other):
            first = await owner.start("g", "t", {"bar": ["x"]})
            queued = await owner.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
            stored = await other.run(queued.id)
            assert await stored.cancel("one", wait=False) == "pending"
            await stored.cancel("two")
            slow.out.set()
            result = await first.result()

        assert (queued.status, queued.reason) == ("cancelled", "one")
        assert result["bar"] == ["x", "a", "b"]

    async def test_a_run_that_its_owner_does_not_know_is_over(self, place: Store):
        """
        An open row that is unknown to its living owner is cancelled on request.
        """
        async with system_of(place, in_a_row({"a": writer("a")}), lease_s=30.0) as system:
            run = await system.start("g", "t", {"bar": ["x"]})
            await run.result()
            await run.cancel()
            row = run._job.row  # noqa: SLF001
            lost = replace(row, run=b"\x01" * 16, status="pending")
            await system._host.writer.store(PutRun(lost, "t"))  # noqa: SLF001

            assert await system.cancel(as_text(lost.run), "nobody knows it") == "cancelled"

    async def test_a_run_with_nothing_to_do_has_left(self, place: Store):
        """
        Its end is stored too, though it saved nothing: no other system waits for it.
        """
        async with two(place, in_a_row({"a": writer("a")})) as (owner, other):
            await (await owner.start("g", "t", {"bar": ["x"]})).result()
            run = await owner.start("g", "t", None)
            await run.result()

            assert await (await other.run(run.id)).wait(PATIENCE_S) == "success"

    async def test_an_orphaned_run_is_cancelled_at_once(self, place: Store):
        """
        A run that a system has left is cancelled by any system, and not taken up any more.
        """
        slow = Turnstile()
        graph = turnstile_first(slow)
        async with system_of(place, graph) as owner:
            left = await owner.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            await owner.drain(0)
        async with system_of(place, graph) as other:
            status = await other.cancel(left.id, "nobody wants it")
            taken = await other.recover()
            with pytest.raises(RunCancelledError) as raised:
                await other.join(left.id)

        assert (status, taken, raised.value.reason) == ("cancelled", [], "nobody wants it")

    async def test_the_system_that_adopts_it_cancels_it(self, place: Store, monkeypatch):
        """
        A cancellation that the owner has not seen before it ended is not forgotten.
        """
        monkeypatch.setattr(cancels, "LOOKS", 0.1)
        slow = Turnstile()
        graph = turnstile_first(slow)
        async with system_of(place, graph) as other:
            async with system_of(place, graph) as owner:
                left = await owner.start("g", "t", {"bar": ["x"]})
                await slow.entered.wait()
                stored = await other.run(left.id)
                assert await stored.cancel("late", wait=False) == "running"
                await owner.drain(0)
            taken = await other.recover()
            status = await stored.wait()

        assert (left.status, taken, status, stored.reason) == ("pending", [], "cancelled", "late")


async def test_a_run_is_not_begun_by_a_system_that_has_lost_it(place: Store):
    """
    A run that another system has taken up and ended meanwhile is not begun a second time.
    """
    slow = Turnstile({"bar": ["a"]})
    graph = turnstile_first(slow)
    async with system_of(place, graph, max_runs=1) as owner:
        first = await owner.start("g", "u", {"bar": ["x"]})
        queued = await owner.start("g", "t", {"bar": ["y"]})
        await slow.entered.wait()
        await owner._drop_lease(owner._host)  # noqa: SLF001 - as when it stands for too long
        async with system_of(place, graph) as other:
            runs = [run for run in await other.recover() if run.thread_id == "t"]
            slow.out.set()
            await runs[0].result()
            with pytest.raises(Exception, match="taken over"):
                await queued.result()
            state = await other.graphs["g"].aget_state(at("t"))
        with anyio.fail_after(30):
            await first.wait()

    assert state.values["bar"] == ["y", "a", "b"]
