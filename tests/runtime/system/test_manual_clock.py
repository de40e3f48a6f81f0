"""ManualClock: days pass in a test without a sleep, and what is due by then has been done."""

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import pytest

from actorgraph import InMemorySaver, interrupt
from actorgraph.dispatch import InMemoryDispatcher
from actorgraph.errors import InvalidConfigError
from actorgraph.testing import ManualClock
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import in_a_row, writer
from tests.support.timed import DAY, HOUR, Timed, place, timed

__all__ = ["place", "timed"]

START = datetime(2030, 1, 1, tzinfo=UTC)


def written() -> tuple[list[str], object]:
    """A graph that says when it ran."""
    log: list[str] = []
    return log, in_a_row({"a": writer("a", log)})


class TestDelayedRuns:
    @pytest.mark.every_saver
    @pytest.mark.parametrize("dispatcher", [None, InMemoryDispatcher])
    async def test_they_begin_at_their_times(self, timed: Timed, dispatcher):
        """
        A run that begins in an hour hasn't begun a minute earlier, and has ended at that time.
        """
        log, graph = written()
        more = {"dispatcher": dispatcher()} if dispatcher else {}
        async with timed.system(graph, **more) as system:
            run = await system.start("g", "t", {"bar": []}, delay_s=3600)
            await timed.advance(HOUR - timedelta(minutes=1))
            assert (log, run.status) == ([], "pending")

            await timed.advance(timedelta(minutes=1))
            assert log == ["a"]
            assert (await system.run(run.id)).status == "success"

    async def test_they_begin_in_the_order_of_their_times(self, timed: Timed):
        """
        Two runs that become due in one move begin one after the other, the earlier one first.
        """
        order: list[tuple[str, datetime]] = []

        async def node(state):
            order.append((state["foo"], timed.clock.now))
            return {}

        async with timed.system(in_a_row({"n": node})) as system:
            began = timed.clock.now
            await system.start("g", "late", {"foo": "late"}, delay_s=7200)
            await system.start("g", "soon", {"foo": "soon"}, delay_s=3600)
            await timed.advance(DAY)

        assert order == [("soon", began + HOUR), ("late", began + 2 * HOUR)]
        assert timed.clock.now == began + DAY

    async def test_a_run_that_does_not_end_is_waited_for_once(self):
        """
        A node that waits for the test holds the clock up for its patience, and not again.
        """
        slow = Turnstile({})
        with ManualClock(saver := InMemorySaver(), patience_s=0.05) as clock:
            own = Timed(saver, clock)
            async with own.system(in_a_row({"n": slow})) as system:
                await system.start("g", "t", {})
                await slow.entered.wait()
                await own.advance(DAY)
                clock._patience_s = PATIENCE_S * 2  # noqa: SLF001 - a second wait would fail
                await own.advance(DAY)
                slow.out.set()


class TestMoves:
    def test_it_stands_where_it_was_put(self):
        """
        The clock begins at `start`, and each move adds to it.
        """
        clock = ManualClock(InMemorySaver(), start=START)
        clock.move(DAY)
        clock.move(HOUR)
        assert clock.now == START + DAY + HOUR

    async def test_it_goes_to_a_time(self):
        """
        `advance_to` ends at the time that it is given.
        """
        clock = ManualClock(InMemorySaver(), start=START)
        await clock.advance_to(START + DAY)
        assert clock.now == START + DAY

    @pytest.mark.parametrize(
        ("call", "says"),
        [
            (lambda c: c.move(-HOUR), "a clock doesn't go back"),
            (lambda c: ManualClock(start=datetime(2030, 1, 1)), "has no time zone"),  # noqa: DTZ001
        ],
        ids=["backwards", "naive"],
    )
    def test_what_it_refuses(self, call, says):
        """
        It neither goes back nor takes a time without a zone.
        """
        with pytest.raises(InvalidConfigError, match=says):
            call(ManualClock(start=START))

    async def test_it_does_not_go_back_to_a_time(self):
        """
        A time that has passed is refused by `advance_to`.
        """
        with pytest.raises(InvalidConfigError, match="doesn't go back"):
            await ManualClock(start=START).advance_to(START - HOUR)


class TestSavers:
    async def test_after_the_block_its_own_clock_counts(self, timed: Timed):
        """
        A saver goes by its store's clock again once the ManualClock is left.
        """
        _, graph = written()
        async with timed.system(graph) as system:
            timed.clock.move(10 * DAY)
            timed.clock.close()
            run = await system.start("g", "t", {"bar": []}, delay_s=3600)
            assert run.due_at is not None
            assert abs(run.due_at - datetime.now(UTC) - HOUR) < timedelta(seconds=2 * PATIENCE_S)

    async def test_a_clock_is_one_for_several_savers(self, place):
        """
        Two systems over one place, each with its saver, go by one clock; a question reminds once.
        """
        calls: list[int] = []

        def tell(question, times):
            calls.append(times)

        async def node(state):
            return {"foo": interrupt("?", remind=[HOUR], escalate=tell)}

        savers = list({id(saver): saver for saver in (place.again(), place.again())}.values())
        async with AsyncExitStack() as stack:
            for saver in savers:
                await stack.enter_async_context(saver)
            clock = stack.enter_context(ManualClock(*savers))
            for saver in (savers[0], savers[-1]):
                own = Timed(saver, clock)
                system = await stack.enter_async_context(own.system(in_a_row({"n": node})))
            await (await system.start("g", "t", {})).wait()
            await own.advance(DAY)
        assert calls == [1]
