"""Sleeps: a run leaves for a time and goes on after it, in async and plain nodes and functions."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actorgraph import Command, InMemorySaver, entrypoint, interrupt, sleep, sleep_until, task
from actorgraph.errors import AlreadyResumedError, InvalidConfigError
from actorgraph.testing import ManualClock
from tests.support.graphs import at, in_a_row, side_by_side
from tests.support.timed import DAY, HOUR, Timed, asked, place, timed

__all__ = ["place", "timed"]

WAY_OFF = datetime(2200, 1, 1, tzinfo=UTC)


async def sleeper(state):
    """Sleeps for a month, in an async node."""
    await sleep(30 * DAY)
    return {"bar": ["awake"]}


def plain_sleeper(state):
    """The same in a plain node."""
    sleep(30 * DAY)
    return {"bar": ["awake"]}


async def until(state):
    """Sleeps until a date."""
    await sleep_until(WAY_OFF)
    return {"bar": ["awake"]}


def tell(question, times):
    """A function that reminds."""


async def asleep(system: Any) -> Any:
    """A run that sleeps; returns the sleep."""
    await (await system.start("g", "t", {"bar": []})).wait()
    (question,) = await asked(system.graphs["g"])
    assert question.sleeps
    return question


async def bar(system: Any) -> Any:
    """What the thread's `bar` is."""
    return (await system.graphs["g"].aget_state(at())).values.get("bar")


class TestSleeps:
    @pytest.mark.every_saver
    @pytest.mark.parametrize("node", [sleeper, plain_sleeper])
    async def test_the_node_goes_on_after_the_time(self, timed: Timed, node):
        """
        A node that sleeps for thirty days has not gone on a day earlier, and has at that time.
        """
        async with timed.system(in_a_row({"n": node})) as system:
            question = await asleep(system)
            assert question.due == timed.clock.now + 30 * DAY
            await timed.advance(29 * DAY)
            assert await bar(system) == []

            await timed.advance(DAY)
            assert await bar(system) == ["awake"]

    async def test_until_a_date(self, timed: Timed):
        """
        `sleep_until` ends at its date, by the store's clock.
        """
        async with timed.system(in_a_row({"n": until})) as system:
            assert (await asleep(system)).due == WAY_OFF
            await timed.clock.advance_to(WAY_OFF)
            assert await bar(system) == ["awake"]

    @pytest.mark.parametrize("length", [0, -5, timedelta(0), datetime(1999, 1, 1, tzinfo=UTC)])
    async def test_a_time_that_is_over_does_not_sleep(self, timed: Timed, length):
        """
        A length of nothing, and a date of the past, let the node go on at once.
        """

        async def node(state):
            await (sleep_until(length) if isinstance(length, datetime) else sleep(length))
            return {"bar": ["awake"]}

        graph = in_a_row({"n": node}, checkpointer=timed.saver)
        assert (await graph.ainvoke({"bar": []}, at()))["bar"] == ["awake"]

    async def test_sleeps_in_a_row(self, timed: Timed):
        """
        A node that sleeps three times for a day is through after three days, not before.
        """

        async def node(state):
            for _ in range(3):
                await sleep(DAY)
            return {"bar": [str(timed.clock.now - began)]}

        began = timed.clock.now
        async with timed.system(in_a_row({"n": node})) as system:
            await asleep(system)
            await timed.advance(5 * DAY)
            assert await bar(system) == [str(3 * DAY)]

    async def test_a_sleep_and_a_question_side_by_side(self, timed: Timed):
        """
        An answer without an id goes to the question, and the sleep goes on until its time.
        """

        async def asks(state):
            return {"bar": [interrupt("?")]}

        graph = side_by_side({"a": asks, "s": sleeper})
        async with timed.system(graph) as system:
            await (await system.start("g", "t", {"bar": []})).wait()
            await (await system.resume("g", "t", "yes")).wait()
            (question,) = await asked(system.graphs["g"])
            assert question.sleeps

            await timed.advance(30 * DAY)
            assert await bar(system) == ["yes", "awake"]

    async def test_an_answer_without_an_id_never_reaches_it(self, timed: Timed):
        """
        An answer to a thread that only sleeps is refused, by the system and by the graph.
        """
        async with timed.system(in_a_row({"n": sleeper})) as system:
            await asleep(system)
            with pytest.raises(AlreadyResumedError, match="it sleeps"):
                await system.resume("g", "t", "yes")
            graph = in_a_row({"n": sleeper}, checkpointer=timed.saver)
            with pytest.raises(AlreadyResumedError, match="it sleeps"):
                await graph.ainvoke(Command(resume="yes"), at())

            await timed.advance(30 * DAY)
            assert await bar(system) == ["awake"]

    async def test_an_answer_by_its_id_ends_it(self, timed: Timed):
        """
        A person who knows the id of a sleep ends it early; the clock begins nothing later.
        """
        async with timed.system(in_a_row({"n": sleeper})) as system:
            question = await asleep(system)
            await (await system.resume("g", "t", {question.id: None})).wait()
            assert await bar(system) == ["awake"]

            await timed.advance(40 * DAY)
            assert len(await system.runs(thread_id="t")) == 2

    async def test_functions(self, timed: Timed):
        """
        An entrypoint sleeps in its body and in a task; a task that has ended is not run again.
        """
        ran: list[str] = []

        @task
        async def fetch(number: int) -> int:
            ran.append("fetch")
            return number + 1

        @task
        async def rest(number: int) -> int:
            await sleep(DAY)
            ran.append("rest")
            return number * 10

        @entrypoint(checkpointer=timed.saver)
        async def flow(number: int) -> int:
            one = await fetch(number)
            await sleep(HOUR)
            return await rest(one)

        async with timed.system(flow) as system:
            await (await system.start("g", "t", 1)).wait()
            await timed.advance(HOUR)
            assert ran == ["fetch"]

            await timed.advance(DAY)
            newest = (await system.runs(thread_id="t"))[-1]
            assert (await newest.result(), ran) == (20, ["fetch", "rest"])

    def test_a_blocking_call_returns_with_the_time(self):
        """
        `invoke` returns with the sleep in `__interrupt__`, and a later `invoke(None)` goes on.
        """
        saver = InMemorySaver()
        graph = in_a_row({"n": plain_sleeper}, checkpointer=saver)
        with ManualClock(saver) as clock:
            (question,) = graph.invoke({"bar": []}, at())["__interrupt__"]
            assert question.due == clock.now + 30 * DAY
            clock.move(29 * DAY)
            assert graph.invoke(None, at())["__interrupt__"] == [question]

            clock.move(DAY)
            assert graph.invoke(None, at())["bar"] == ["awake"]


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({"otherwise": "no"}, "due= is missing"),
            ({"escalate": tell}, "remind= is missing"),
            ({"due": HOUR, "remind": [HOUR]}, "not before due="),
            ({"due": HOUR, "remind": [DAY]}, "not before due="),
            ({"due": datetime(2200, 1, 1)}, "has no time zone"),  # noqa: DTZ001
            ({"remind": [datetime(2200, 1, 1)]}, "has no time zone"),  # noqa: DTZ001
            ({"due": 60}, "takes a timedelta or a datetime"),
            ({"remind": [HOUR], "escalate": lambda question, times: None}, "found again"),
        ],
    )
    async def test_arguments_of_a_question(self, given, says):
        """
        Times that contradict each other, or mean nothing elsewhere, are refused when it is asked.
        """

        async def node(state):
            interrupt("?", **given)

        graph = in_a_row({"n": node}, checkpointer=InMemorySaver())
        with pytest.raises(InvalidConfigError, match=says):
            await graph.ainvoke({"bar": []}, at())

    @pytest.mark.parametrize("length", [True, "a day", None])
    async def test_lengths_of_a_sleep(self, length):
        """
        A sleep takes a timedelta or seconds.
        """

        async def node(state):
            await sleep(length)

        graph = in_a_row({"n": node}, checkpointer=InMemorySaver())
        with pytest.raises(InvalidConfigError, match="takes a timedelta or seconds"):
            await graph.ainvoke({"bar": []}, at())

    @pytest.mark.parametrize("node", [sleeper, plain_sleeper, until])
    async def test_without_a_saver(self, node):
        """
        A graph without a saver has nowhere to leave the thread.
        """
        with pytest.raises(InvalidConfigError, match="needs a saver"):
            await in_a_row({"n": node}).ainvoke({"bar": []})

    async def test_a_question_with_a_time_without_a_saver(self):
        """
        A question with a time is refused likewise.
        """

        async def node(state):
            interrupt("?", due=HOUR)

        with pytest.raises(InvalidConfigError, match="needs a saver"):
            await in_a_row({"n": node}).ainvoke({"bar": []})
