"""Questions with times over runs that fail, answers that are refused, and nodes that ask others."""

from dataclasses import dataclass
from typing import Any

import pytest

from actorgraph import START, Command, StateGraph, interrupt, sleep
from actorgraph.errors import InvalidConfigError, InvalidResumeError
from actorgraph.messages import AIMessage, MessagesState
from actorgraph.prebuilt import ToolNode
from tests.support.graphs import at, in_a_row
from tests.support.timed import DAY, HOUR, Timed, asked, place, timed

__all__ = ["place", "timed"]


@dataclass
class Decision:
    """The answer of a question."""

    ok: bool


async def bar(system: Any) -> Any:
    """What the thread's `bar` is."""
    return (await system.graphs["g"].aget_state(at())).values.get("bar")


async def test_a_run_that_fails_before_it_asks_again(timed: Timed):
    """
    A question that stays open, because its node failed before it could ask again, is still
    answered when it is due.
    """
    fails = [False, True, False]

    def ask(state):
        if fails.pop(0):
            raise ConnectionError
        return {"bar": [interrupt("ok?", due=HOUR, otherwise="no")]}

    async with timed.system(in_a_row({"ask": ask})) as system:
        await (await system.start("g", "t", {"bar": []})).wait()
        assert await (await system.start("g", "t", None)).wait() == "error"
        await timed.advance(2 * HOUR)
        assert await bar(system) == ["no"]


async def test_calls_of_tools_that_sleep(timed: Timed):
    """
    Two calls of a tool that sleeps three times end after the third sleep of each.
    """
    ran = []

    def work(part: int) -> str:
        """Sleep for three hours."""
        ran.append(part)
        for _ in range(3):
            sleep(HOUR)
        return "done"

    calls: Any = [{"name": "work", "args": {"part": n}, "id": f"c{n}"} for n in (1, 2)]
    builder = StateGraph(MessagesState).add_node("tools", ToolNode([work]))
    graph = builder.add_edge(START, "tools").compile()
    async with timed.system(graph) as system:
        given = {"messages": [AIMessage("", tool_calls=calls)]}
        await (await system.start("g", "t", given)).wait()
        await timed.advance(4 * HOUR)
        state = await system.graphs["g"].aget_state(at())

    assert state.next == ()
    assert [message.content for message in state.values["messages"][1:]] == ["done", "done"]
    assert sorted(ran) == [1] * 4 + [2] * 4


async def test_a_refused_answer_leaves_the_times(timed: Timed):
    """
    A question whose answer doesn't fit is still due at its time.
    """

    def ask(state):
        answer = interrupt("ok?", response_schema=Decision, due=HOUR, otherwise=Decision(ok=False))
        return {"bar": [answer.ok]}

    async with timed.system(in_a_row({"ask": ask})) as system:
        await (await system.start("g", "t", {"bar": []})).wait()
        with pytest.raises(InvalidResumeError):
            await system.graphs["g"].ainvoke(Command(resume="perhaps"), at())
        (question,) = await asked(system.graphs["g"])
        assert question.due == timed.clock.now + HOUR
        await timed.advance(HOUR)
        assert await bar(system) == [False]


async def test_a_date_with_reminders_after_some_time(timed: Timed):
    """
    A question that is due at a date and reminds after a length is answered near that date too.
    """
    date = timed.clock.now + DAY

    def ask(state):
        return {"bar": [interrupt("ok?", due=date, otherwise="no", remind=[4 * HOUR])]}

    async with timed.system(in_a_row({"ask": ask})) as system:
        await (await system.start("g", "t", {"bar": []})).wait()
        await timed.advance(23 * HOUR)
        await (await system.start("g", "t", Command(resume="yes"))).wait()
        assert await bar(system) == ["yes"]


async def test_another_question_at_the_place_of_a_sleep(timed: Timed):
    """
    A node that asks a person where it slept before has the question's own times and answer.
    """
    sleeps = [True, False, False]

    def ask(state):
        if sleeps.pop(0):
            sleep(HOUR)
        return {"bar": [interrupt("pay?", due=2 * HOUR, otherwise="no")]}

    async with timed.system(in_a_row({"ask": ask})) as system:
        await (await system.start("g", "t", {"bar": []})).wait()
        await (await system.start("g", "t", None)).wait()
        (question,) = await asked(system.graphs["g"])
        assert (question.value, question.sleeps) == ("pay?", False)
        await timed.advance(2 * HOUR)
        assert await bar(system) == ["no"]


async def test_a_time_after_the_calendar_is_refused(timed: Timed):
    """
    A time that no calendar has is refused with a cause.
    """

    def ask(state):
        interrupt("ok?", due=DAY * 4_400_000, otherwise="no")

    async with timed.system(in_a_row({"ask": ask})) as system:
        run = await system.start("g", "t", {"bar": []})
        with pytest.raises(InvalidConfigError, match="9999"):
            await run.result()
