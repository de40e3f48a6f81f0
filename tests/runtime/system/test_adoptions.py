"""A run that a system has adopted in the store holds its thread before it is in its lane."""

from typing import Any

import anyio
import pytest

from actorgraph import ThreadBusyError
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.runtime.mailbox import Gate
from actorgraph.values.systems import IfBusy
from tests.support.every_saver import Store
from tests.support.gates import PATIENCE_S, Box, Turnstile
from tests.support.graphs import at, in_a_row, writer
from tests.support.systems import place, system_of, turnstile_first
from tests.support.wall_clock import Forward, forward

pytestmark = pytest.mark.every_saver

__all__ = ["forward", "place"]


class Reading:
    """Holds systems that have adopted a run, when they read its thread.

    Attributes:
        begun: opens once a run is adopted, and its thread is read.
        go_on: lets those reads go on.
    """

    def __init__(self) -> None:
        self.begun, self.go_on = Gate(), Gate()


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """Reads of thread "t" wait."""
    made, real = Reading(), CompiledStateGraph.aget_state

    async def slow(graph: Any, config: Any, **rest: Any) -> Any:
        if config["configurable"]["thread_id"] == "t":
            made.begun.open()
            await made.go_on.wait()
        return await real(graph, config, **rest)

    monkeypatch.setattr(CompiledStateGraph, "aget_state", slow)
    return made


async def dies_inside(place: Store, turnstile: Turnstile, **options: Any) -> Any:
    """Leave a run of thread "t" that has done "a" and was in "b" when its process died."""
    graph = in_a_row({"a": writer("a"), "b": turnstile})
    async with system_of(place, graph) as old:
        run = await old.start("g", "t", {"bar": ["old"]}, **options)
        await turnstile.entered.wait()
        await old.drain(0)
    return run


def two_steps() -> Any:
    """The same graph in the next process, without the turnstile."""
    return in_a_row({"a": writer("a"), "b": writer("b")})


class TestNewRuns:
    """Runs that are started while the thread's run is being taken up."""

    async def test_one_with_reject_is_refused(
        self, place: Store, forward: Forward, reading: Reading
    ):
        """
        The thread is busy from the moment at which a due run is adopted.
        """
        door = Turnstile({"bar": ["slow"]})
        async with system_of(place, turnstile_first(door)) as one, anyio.create_task_group() as g:
            late = await one.start("g", "t", {"bar": []}, delay_s=600)
            forward(700)
            g.start_soon(one.recover)
            await reading.begun.wait()
            second = Box()
            g.start_soon(second.fill, one.start, "g", "t", {"bar": []})
            await anyio.wait_all_tasks_blocked()
            reading.go_on.open()
            await second.done.wait()
            door.out.set()
            await late.result()

        assert isinstance(second.error, ThreadBusyError)
        assert late.id in str(second.error)

    @pytest.mark.parametrize("if_busy", ["enqueue", "interrupt"])
    async def test_a_run_that_had_begun_goes_first(
        self, place: Store, if_busy: IfBusy, reading: Reading
    ):
        """
        One that is enqueued runs after it; one with "interrupt" cancels it, and it never goes on.
        """
        door = Turnstile({"bar": ["b"]})
        old = await dies_inside(place, door)
        async with system_of(place, two_steps()) as one, anyio.create_task_group() as g:
            g.start_soon(one.recover)
            await reading.begun.wait()
            new = Box()
            g.start_soon(lambda: new.fill(one.start, "g", "t", {"bar": ["new"]}, if_busy=if_busy))
            await anyio.wait_all_tasks_blocked()
            reading.go_on.open()
            await new.done.wait()
            values = (await new.value.result())["bar"]
            ended = (await one.run(old.id)).status

        if if_busy == "enqueue":
            assert (values, ended) == (["old", "a", "b", "new", "a", "b"], "success")
        else:
            assert ended in ("cancelled", "success")  # it may have ended before it was cancelled
            assert values[-3:] == ["new", "a", "b"]

    async def test_other_threads_go_on(self, place: Store, reading: Reading):
        """
        Only the thread of the adopted run is held.
        """
        door = Turnstile({"bar": ["b"]})
        await dies_inside(place, door)
        async with system_of(place, two_steps()) as one, anyio.create_task_group() as g:
            g.start_soon(one.recover)
            await reading.begun.wait()
            with anyio.fail_after(PATIENCE_S):
                run = await one.start("g", "u", {"bar": ["x"]})
                assert (await run.result())["bar"] == ["x", "a", "b"]
            reading.go_on.open()


class TestWaitingRuns:
    """Runs that wait for another system's run when that is taken up."""

    async def test_the_next_one_waits_too(self, place: Store, reading: Reading):
        """
        If the first that waits is cancelled meanwhile, the next one doesn't begin either.
        """
        door = Turnstile({"bar": ["b"]})
        graph = in_a_row({"a": writer("a"), "b": door})
        async with (
            system_of(place, two_steps(), lease_s=30.0) as one,
            anyio.create_task_group() as g,
        ):
            held = anyio.Event()
            one._actor.on_held.append(lambda _: held.set())  # noqa: SLF001 - its claim was refused
            async with system_of(place, graph) as old:
                first = await old.start("g", "t", {"bar": ["old"]})
                await door.entered.wait()
                waits = [
                    await one.start("g", "t", {"bar": [name]}, if_busy="enqueue") for name in "xy"
                ]
                await held.wait()
                await old.drain(0)
            g.start_soon(one.recover)  # or its own watch of the thread does
            await reading.begun.wait()
            assert await waits[0].cancel() == "cancelled"
            assert waits[1].status == "pending"
            reading.go_on.open()
            await waits[1].result()
            values = (await one.graphs["g"].aget_state(at())).values
            assert (await one.run(first.id)).status == "success"

        assert values["bar"] == ["old", "a", "b", "y", "a", "b"]
