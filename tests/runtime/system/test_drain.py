"""How an ActorSystem ends, and how the next one goes on."""

import gc
import signal
from functools import partial

import anyio
import pytest

from actorgraph import ActorSystem, GraphDrained, InvalidConfigError, SystemClosedError
from tests.support.every_saver import Store
from tests.support.gates import PATIENCE_S, Box, Turnstile, settled
from tests.support.graphs import ab, at, in_a_row, writer
from tests.support.systems import kinds, place, system_of, turnstile_first

pytestmark = pytest.mark.every_saver

__all__ = ["place"]


class TestDrain:
    @pytest.mark.promise("E11")
    async def test_supersteps_are_finished_and_the_rest_is_left(self, place: Store):
        """
        A draining system refuses runs, finishes supersteps, notifies readers, and leaves the rest.
        """
        slow = Turnstile({"bar": ["a"]})
        async with system_of(place, turnstile_first(slow)) as system:
            run = await system.start("g", "t", {"bar": ["x"]})
            queued = await system.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
            await slow.entered.wait()
            async with anyio.create_task_group() as group:
                group.start_soon(system.drain)
                await settled()
                with pytest.raises(SystemClosedError):
                    await system.start("g", "u", {})
                slow.out.set()
            told = await kinds(run.events())
            state = await system.graphs["g"].aget_state(at())
            with pytest.raises(GraphDrained):
                await run.result()

        assert (run.status, queued.status) == ("pending", "pending")
        assert told[-1] == "drain"
        assert (state.values["bar"], state.next) == (["x", "a"], ("b",))

    async def test_the_deadline_cancels_what_does_not_end(self, place: Store):
        """
        A node that does not return is cancelled when the time is over, and the run is left.
        """
        stuck = Turnstile()
        async with system_of(place, turnstile_first(stuck), drain_timeout_s=0.1) as system:
            run = await system.start("g", "t", {"bar": ["x"]})
            await stuck.entered.wait()

        assert (run.status, stuck.closed) == ("pending", 1)

    @pytest.mark.promise("E10")
    async def test_the_next_system_goes_on(self, place: Store):
        """
        Runs that one system left in good order the next one ends, queued runs in their order.
        """
        slow, log = Turnstile({"bar": ["a"]}), []
        graph = in_a_row({"a": slow, "b": writer("b", log)})
        async with system_of(place, graph) as system:
            await system.start("g", "t", {"bar": ["x"]})
            await system.start("g", "t", {"bar": ["y"]}, if_busy="enqueue")
            await slow.entered.wait()
            async with anyio.create_task_group() as group:
                group.start_soon(system.drain)
                await settled()
                slow.out.set()
        assert (slow.calls, log) == (1, [])
        async with system_of(place, graph) as system:
            runs = await system.recover()
            results = [await run.result() for run in runs]

        assert results[-1]["bar"] == ["x", "a", "b", "y", "a", "b"]
        assert slow.calls == 2


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
    async def test_a_signal_drains(self, place: Store, number: signal.Signals):
        """
        A program without a server waits for a signal, which ends supersteps and leaves the rest.
        """
        slow, heard = Turnstile({"bar": ["a"]}), Box()
        wanted = (number,) if number == signal.SIGUSR1 else ()
        async with system_of(place, turnstile_first(slow)) as system:
            run = await system.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            async with anyio.create_task_group() as group:
                group.start_soon(partial(heard.fill, system.drain_at_signal, *wanted))
                await settled()
                assert system.statistics().draining is None
                signal.raise_signal(number)
                with anyio.fail_after(PATIENCE_S):
                    while system.statistics().draining is None:
                        await anyio.lowlevel.checkpoint()
                slow.out.set()

        assert (heard.value, run.status, slow.closed) == (number, "pending", 1)

    async def test_its_time_limit_counts(self, place: Store):
        """
        A run that does not end by itself is cancelled when the time that was given is over.
        """
        stuck = Turnstile()
        async with system_of(place, turnstile_first(stuck)) as system:
            run = await system.start("g", "t", {"bar": ["x"]})
            await stuck.entered.wait()
            async with anyio.create_task_group() as group:
                group.start_soon(partial(system.drain_at_signal, timeout_s=0.1))
                await settled()
                signal.raise_signal(signal.SIGTERM)

        assert (run.status, stuck.closed) == ("pending", 1)


class TestCollector:
    async def test_the_threshold_holds_while_the_system_is_open(self, place: Store):
        """
        The collector's first threshold is the system's own, and as before afterwards.
        """
        before = gc.get_threshold()
        async with system_of(place, ab(), gc_threshold=12_345):
            inside = gc.get_threshold()

        assert inside == (12_345, *before[1:])
        assert gc.get_threshold() == before

    async def test_by_default_it_is_left_alone(self, place: Store):
        """
        A system without that setting changes nothing of the process.
        """
        before = gc.get_threshold()
        async with system_of(place, ab()):
            assert gc.get_threshold() == before

    def test_it_is_above_0(self):
        """
        A threshold of 0 would turn the collector off, and is refused.
        """
        with pytest.raises(InvalidConfigError):
            ActorSystem({"g": ab()}, gc_threshold=0)


async def test_a_system_may_go_when_its_owner_fails(tmp_path):
    """
    An error in the block drains the system too, and is what the caller gets.
    """
    stuck = Turnstile()
    place = Store("sqlite", tmp_path)
    runs = []

    async def owner():
        async with system_of(place, turnstile_first(stuck), drain_timeout_s=0.1) as system:
            runs.append(await system.start("g", "t", {}))
            await stuck.entered.wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await owner()

    assert (runs[0].status, stuck.closed) == ("pending", 1)
