"""Instants of alarms that are seldom: an answer during a reminder, functions that take long."""

from datetime import timedelta
from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, interrupt
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, in_a_row

SOON = timedelta(milliseconds=20)


async def test_an_answer_during_a_reminder_keeps_the_alarm_of_the_next_question(saver):
    """
    A person answers while the function of the reminder is called, and the node asks again: the
    second question answers itself in time.
    """
    called, go_on, reminded = anyio.Event(), anyio.Event(), anyio.Event()

    async def escalate(question: Any, how_often: int) -> None:
        called.set()
        await go_on.wait()
        reminded.set()

    def node(state: Any) -> dict[str, Any]:
        first = interrupt("first", remind=[SOON], escalate=escalate)
        return {"bar": [first, interrupt("second", due=20 * SOON, otherwise="nobody")]}

    graph = in_a_row({"node": node})
    async with ActorSystem({"g": graph}, saver=saver) as system:
        graph_of = system.graphs["g"]
        with anyio.fail_after(PATIENCE_S):
            await (await system.start("g", "t", {})).wait()
            await called.wait()
            (question,) = (await graph_of.aget_state(at())).interrupts
            await (await system.resume("g", "t", answers={question.id: "yes"})).wait()
            go_on.set()
            await reminded.wait()
            while (state := await graph_of.aget_state(at())).next:  # noqa: ASYNC110
                await anyio.sleep(0.01)

    assert state.values["bar"] == ["yes", "nobody"]


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_function_that_takes_long_holds_up_no_other_thread(saver, kind):
    """
    While the function of one thread's reminder is called, the question of another thread that
    is due later answers itself.
    """
    called, go_on = anyio.Event(), anyio.Event()

    async def escalate(question: Any, how_often: int) -> None:
        called.set()
        await go_on.wait()

    def plain(question: Any, how_often: int) -> None:
        anyio.from_thread.run(escalate, question, how_often)

    def node(state: Any) -> dict[str, Any]:
        if state["foo"] == "slow":
            interrupt("slow", remind=[SOON], escalate=escalate if kind == "async" else plain)
        return {"bar": [interrupt("quick", due=SOON, otherwise="nobody")]}

    graph = in_a_row({"node": node})
    async with ActorSystem({"g": graph}, saver=saver) as system:
        graph_of = system.graphs["g"]
        with anyio.fail_after(PATIENCE_S):
            await (await system.start("g", "slow", {"foo": "slow"})).wait()
            await called.wait()
            await (await system.start("g", "quick", {"foo": "quick"})).wait()
            while (state := await graph_of.aget_state(at("quick"))).next:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            go_on.set()

    assert state.values["bar"] == ["nobody"]


async def test_a_question_that_is_due_while_the_system_is_full_is_answered_soon(saver):
    """
    A system that has no room for a further run answers the question once it has, not only when
    its lease of the alarm is over.
    """
    go_on = anyio.Event()

    async def node(state: Any) -> dict[str, Any]:
        if state["foo"] == "slow":
            await go_on.wait()
            return {"bar": ["slow"]}
        return {"bar": [interrupt("quick", due=5 * SOON, otherwise="nobody")]}

    graph = in_a_row({"node": node})
    async with ActorSystem({"g": graph}, saver=saver, max_runs=1, max_queued=1) as system:
        graph_of = system.graphs["g"]
        with anyio.fail_after(PATIENCE_S):
            await (await system.start("g", "quick", {"foo": "quick"})).wait()
            slow = [await system.start("g", f"slow{n}", {"foo": "slow"}) for n in range(2)]
            while not system.statistics().refused:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            go_on.set()
            for run in slow:
                await run.wait()
            while (state := await graph_of.aget_state(at("quick"))).next:  # noqa: ASYNC110
                await anyio.sleep(0.01)

    assert state.values["bar"] == ["nobody"]
