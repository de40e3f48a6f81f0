"""Commands with a goto on a thread whose Sends or nodes have not run yet."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, Command, InMemorySaver, Send, StateGraph, interrupt
from tests.support.graphs import at


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


async def fan(state: State) -> dict[str, Any]:
    return {"log": ["fan"]}


async def work(given: dict[str, Any]) -> dict[str, Any]:
    answer = interrupt(f"{given['name']}?") if given.get("asks") else ""
    return {"log": [given["name"] + answer]}


async def other(state: State) -> dict[str, Any]:
    return {"log": ["other"]}


def graph(*, asks: bool, **options: Any) -> Any:
    """A node that sends two tasks to work; other is gone to by Commands only."""
    builder = StateGraph(State)
    builder.add_node("fan", fan, destinations=("work", "other"))
    builder.add_node("work", work)
    builder.add_node("other", other)
    builder.add_edge(START, "fan")
    sends = [Send("work", {"name": f"w{i}", "asks": asks}) for i in range(2)]
    builder.add_conditional_edges("fan", lambda _: sends, ["work"])
    return builder.compile(checkpointer=InMemorySaver(), **options)


def sent(name: str) -> Command[Any]:
    return Command(goto=[Send("work", {"name": name, "asks": True})])


class TestGoto:
    @pytest.mark.langgraph("F-C7", "L30")
    async def test_sends_replace_the_sends_that_wait(self):
        """
        A Command whose goto is a Send takes the place of the pending ones.
        """
        waiting = graph(asks=False, interrupt_before=["work"])
        await waiting.ainvoke({"log": []}, at())

        last = Command(goto=[Send("work", {"name": "new"})])

        assert await waiting.ainvoke(last, at()) == {"log": ["fan", "new"]}

    @pytest.mark.langgraph("F-C7", "L29", "L30")
    async def test_a_name_is_added_to_them(self):
        """
        A goto by name runs beside pending Sends.
        """
        waiting = graph(asks=False, interrupt_before=["work"])
        await waiting.ainvoke({"log": []}, at())

        final = await waiting.ainvoke(Command(goto="other"), at())

        assert final == {"log": ["fan", "other", "w0", "w1"]}


class TestReplacedSends:
    @pytest.mark.langgraph("L116")
    async def test_the_state_lists_the_new_ones_only(self):
        """
        After a replacement no task of the replaced Sends is left in the state.
        """
        waiting = graph(asks=True)
        await waiting.ainvoke({"log": []}, at())
        await waiting.ainvoke(sent("new"), at())

        state = await waiting.aget_state(at())

        assert [i.value for i in state.interrupts] == ["new?"]
        assert state.next == ("work",)

    @pytest.mark.langgraph("L9", "L116")
    async def test_a_new_send_has_nothing_of_the_old_one(self):
        """
        A Send in the place of one that has finished runs, and asks its own question.
        """
        waiting = graph(asks=True)
        await waiting.ainvoke({"log": []}, at())
        before = await waiting.aget_state(at())
        await waiting.ainvoke(Command(resume={before.interrupts[0].id: " done"}), at())

        result = await waiting.ainvoke(sent("new"), at())

        assert [i.value for i in result["__interrupt__"]] == ["new?"]
        final = await waiting.ainvoke(Command(resume=" answered"), at())
        assert final == {"log": ["fan", "new answered"]}

    @pytest.mark.langgraph("L30", "L116")
    @pytest.mark.parametrize("times", [2, 3])
    async def test_the_last_replacement_counts(self, times):
        """
        However often Sends are replaced, those of the last Command are what is due, also for a
        reader of the stored thread.
        """
        waiting = graph(asks=True)
        await waiting.ainvoke({"log": []}, at())
        for number in range(times):
            await waiting.ainvoke(sent(f"new{number}"), at())

        state = await waiting.aget_state(at())

        assert [i.value for i in state.interrupts] == [f"new{times - 1}?"]
        final = await waiting.ainvoke(Command(resume="!"), at())
        assert final == {"log": ["fan", f"new{times - 1}!"]}
