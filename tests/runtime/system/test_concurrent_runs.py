"""A run comes to a thread that has one: in the same system, in another, in a dead one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from actorgraph import ThreadBusyError
from actorgraph.runtime.system import peers as cancels
from actorgraph.values.systems import ListRuns
from tests.support.every_saver import Store
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import at, in_a_row, writer
from tests.support.systems import place, system_of, turnstile_first

pytestmark = pytest.mark.every_saver

__all__ = ["place"]

PLACES = ["here", "elsewhere", "left", "stopped"]
"""The same system; another one that lives; one that has drained; one that is stopped in its node
when its lease is over."""

BARS = {
    "enqueue": ["x", "a", "b", "y", "a", "b"],
    "interrupt": ["x", "y", "a", "b"],
    "rollback": ["y", "a", "b"],
}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems look for cancellations every tenth of a second; leases hold for half a minute."""
    monkeypatch.setattr(cancels, "LOOKS", 300)


@asynccontextmanager
async def with_a_run(
    where: str, place: Store, slow: Turnstile
) -> AsyncIterator[tuple[Any, Any, Any]]:
    """A system that is to start a run on "t", the run that "t" has, and the system of that."""
    graph = turnstile_first(slow)
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(system_of(place, graph, lease_s=30.0))
        owner = system
        if where != "here":
            others = AsyncExitStack()
            limit_s = 0.05 if where == "left" else 30.0
            made = system_of(place, graph, lease_s=30.0, drain_timeout_s=limit_s)
            owner = await others.enter_async_context(made)
            stack.push_async_exit(others.__aexit__)
        first = await owner.start("g", "t", {"bar": ["x"]}, resumable=True)
        await slow.entered.wait()
        if where == "left":
            await others.aclose()
        if where == "stopped":
            await owner._drop_lease(owner._host)  # noqa: SLF001 - as when it stands for too long
        yield system, first, owner


async def until_held(system: Any, count: int = 1) -> None:
    """Wait until so many runs of a system wait for another one."""
    enough = anyio.Event()

    def hear(_: Any) -> None:
        if system.statistics().held >= count:
            enough.set()

    system._actor.on_held.append(hear)  # noqa: SLF001
    hear(None)
    await enough.wait()


async def rows_of(system: Any, **query: Any) -> list[Any]:
    """The stored rows of the runs of "t"."""
    return await system._host.reader.ask(ListRuns(thread_id="t", **query))  # noqa: SLF001


@pytest.mark.first_case
@pytest.mark.one_loop
@pytest.mark.parametrize("where", PLACES)
class TestEveryPolicyInEveryPlace:
    async def test_reject_stores_nothing(self, place: Store, where: str):
        """
        The error names the run that the thread has; no row, input or status mentions the call.
        """
        slow = Turnstile({"bar": ["a"]})
        async with with_a_run(where, place, slow) as (system, first, _):
            before = await rows_of(system)
            with pytest.raises(ThreadBusyError) as refused:
                await system.start("g", "t", {"bar": ["y"]})
            state = await system.graphs["g"].aget_state(at("t"))

            assert refused.value.run_id == first.id
            assert [row.run for row in await rows_of(system)] == [row.run for row in before]
            assert [run.id for run in await system.runs(thread_id="t")] == [first.id]
            assert (state.values["bar"], system.statistics().refused) == (["x"], 1)
            slow.out.set()

    @pytest.mark.one_loop
    @pytest.mark.parametrize("if_busy", ["enqueue", "interrupt", "rollback"])
    async def test_accepted_runs_are_run(self, place: Store, where: str, if_busy: Any):
        """
        The run waits until the thread is free, goes on from what its policy says, and succeeds.
        """
        slow = Turnstile({"bar": ["a"]})
        async with with_a_run(where, place, slow) as (system, first, _):
            second = await system.start("g", "t", {"bar": ["y"]}, if_busy=if_busy)
            if if_busy != "enqueue":
                await (await system.run(first.id)).wait(PATIENCE_S)
            slow.out.set()
            result = await second.result(PATIENCE_S)
            kinds = [event.kind async for event in second.events()]
            rows = await rows_of(system)

        assert result["bar"] == BARS[if_busy]
        ended = "success" if if_busy == "enqueue" else "cancelled"
        assert [(row.status, row.claimed) for row in rows] == [(ended, True), ("success", True)]
        assert (kinds.count("metadata"), kinds[-1]) == (1, "end")

    @pytest.mark.one_loop
    async def test_a_run_that_waits_can_be_cancelled(self, place: Store, where: str):
        """
        It leaves its place, is stored as cancelled, and the run before it goes on.
        """
        slow = Turnstile({"bar": ["a"]})
        async with with_a_run(where, place, slow) as (system, first, _):
            second = await system.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
            assert await second.cancel("not wanted") == "cancelled"
            slow.out.set()
            if where in ("left", "stopped"):
                await system.recover()
            await (await system.run(first.id)).wait(PATIENCE_S)
            state = await system.graphs["g"].aget_state(at("t"))
            _, row = await rows_of(system)

        assert (row.status, row.reason, row.claimed) == ("cancelled", "not wanted", False)
        assert state.values["bar"] == ["x", "a", "b"]


class TestWaiting:
    @pytest.mark.one_loop
    async def test_runs_of_several_systems_go_on_in_the_order_of_their_arrival(self, place: Store):
        """
        First come, first served, whichever system a run was given to.
        """
        graph = in_a_row({"a": writer("a")})
        async with (
            system_of(place, graph) as one,
            system_of(place, graph) as two,
            system_of(place, graph) as three,
        ):
            runs = []
            for number in range(9):
                system = (one, two, three)[number % 3]
                given = {"bar": [str(number)]}
                runs.append(await system.start("g", "t", given, if_busy="enqueue"))
            for run in runs:
                await run.result(PATIENCE_S)
            state = await one.graphs["g"].aget_state(at("t"))

        assert [item for item in state.values["bar"] if item != "a"] == list("012345678")
        assert state.values["bar"][1::2] == ["a"] * 9

    async def test_a_run_that_waits_for_another_system_has_no_slot(self, place: Store):
        """
        Runs of other threads go on meanwhile, however few may go on at once; it is counted.
        """
        slow = Turnstile({"bar": ["a"]})
        graph = turnstile_first(slow)
        other = in_a_row({"a": writer("a")})
        async with system_of(place, graph) as owner, system_of(place, other, max_runs=1) as system:
            await owner.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            waits = await system.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
            await until_held(system)
            free = await system.start("g", "u", {"bar": ["z"]}, if_busy="enqueue")
            assert (await free.result(PATIENCE_S))["bar"] == ["z", "a"]
            assert (waits.status, system.statistics().held) == ("pending", 1)
            slow.out.set()
            await waits.result(PATIENCE_S)

            assert (system.statistics().held, system.statistics().active) == (0, 0)

    @pytest.mark.one_loop
    async def test_however_many_wait_the_store_is_asked_once(self, place: Store, monkeypatch):
        """
        One query per look covers the runs of all threads; without such runs none is sent.
        """
        slow = Turnstile({"bar": ["a"]})
        graph = turnstile_first(slow)
        asked: list[int] = []
        runs: list[Any] = []
        enough = anyio.Event()
        async with system_of(place, graph) as owner, system_of(place, graph) as system:
            reader = system._host.reader  # noqa: SLF001
            ask = reader.ask

            async def counted(query):
                if isinstance(query, ListRuns) and query.open_of:
                    asked.append(len(query.open_of))
                    if asked.count(20) == 3:
                        enough.set()
                return await ask(query)

            monkeypatch.setattr(reader, "ask", counted)
            for number in range(20):
                await owner.start("g", f"t{number}", {"bar": ["x"]})
            await slow.entered.wait()
            assert asked == []
            for number in range(20):
                given = {"bar": ["y"]}
                runs.append(await system.start("g", f"t{number}", given, if_busy="enqueue"))
            await until_held(system, len(runs))
            await enough.wait()
            looks = asked[-3:]
            slow.out.set()
            for run in runs:
                await run.result(PATIENCE_S)

        assert looks == [20] * 3

    async def test_a_run_that_waits_is_left_to_others_by_a_drain(self, place: Store):
        """
        A system that closes gives such a run back; the next system on the store runs it.
        """
        slow = Turnstile({"bar": ["a"]})
        graph = turnstile_first(slow)
        async with system_of(place, graph) as owner:
            await owner.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            async with system_of(place, graph) as system:
                waits = await system.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
                await until_held(system)
            assert waits.status == "pending"
            (taken,) = await owner.recover()
            slow.out.set()
            result = await taken.result(PATIENCE_S)

        assert (taken.id, result["bar"]) == (waits.id, ["x", "a", "b", "y", "a", "b"])

    @pytest.mark.parametrize("if_busy", ["interrupt", "rollback"])
    async def test_systems_that_adopt_a_run_keep_its_strategy(self, place: Store, if_busy: Any):
        """
        The store knows how a run is to treat those before it: the first system may be gone.
        """
        slow = Turnstile({"bar": ["a"]})
        graph = turnstile_first(slow)
        async with system_of(place, graph) as owner:
            first = await owner.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            async with system_of(place, graph) as system:
                waits = await system.start("g", "t", {"bar": ["y"]}, if_busy=if_busy)
            async with system_of(place, graph) as third:
                (run,) = await third.recover()
                await first.wait(PATIENCE_S)
                slow.out.set()
                await run.wait(PATIENCE_S)
            state = await owner.graphs["g"].aget_state(at("t"))

        assert (first.status, run.id) == ("cancelled", waits.id)
        assert state.values["bar"] == BARS[if_busy]


async def test_no_system_waits_for_what_has_failed_elsewhere(place: Store):
    """
    A run that ends with an error frees its thread for the other systems at once.
    """

    async def broken(state):
        raise KeyError("gone")

    graph = in_a_row({"a": broken})
    async with system_of(place, graph) as one, system_of(place, graph) as two:
        first = await one.start("g", "t", {"bar": ["x"]})
        assert await first.wait() == "error"
        second = await two.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
        assert await second.wait(PATIENCE_S) == "error"


@pytest.mark.parametrize("why", ["drain", "lease"])
async def test_a_run_that_is_left_to_others_is_never_stored_as_ended(
    place: Store, why: str, monkeypatch
):
    """
    Its own last save leaves it open: the process may die before it can say that the run goes on.
    """
    ends: list[str | None] = []
    async with system_of(place, turnstile_first(slow := Turnstile())) as one:
        writer_of = one._host.writer  # noqa: SLF001
        post = writer_of.post

        def heard(request: Any, *rest: Any, **options: Any) -> Any:
            ends.append(getattr(request, "ends", None))
            return post(request, *rest, **options)

        monkeypatch.setattr(writer_of, "post", heard)
        run = await one.start("g", "t", {"bar": ["x"]})
        await slow.entered.wait()
        if why == "lease":
            one._lost_lease()  # noqa: SLF001
            await run.wait(PATIENCE_S)
        await one.drain(0)

    assert [end for end in ends if end] == ["drained"]
