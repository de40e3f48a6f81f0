"""Large work of one run or update leaves turns of the event loop to others."""

from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import anyio.lowlevel

from actorgraph import END, START, InMemorySaver, Send, StateGraph
from actorgraph.loops import TURN_S, Turns
from actorgraph.runtime.run.node_actor import TaskActors


class Log(TypedDict, total=False):
    """A line of each task."""

    log: Annotated[list[str], add]


class Ticker:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.turns = 0

    async def run(self) -> None:
        """Count until cancelled."""
        while True:
            await anyio.lowlevel.checkpoint()
            self.turns += 1


class TestStarts:
    async def test_many_tasks_start_in_slices(self):
        """
        Of many tasks of a superstep only some start before the rest of the loop has a turn.
        """
        ticker, at = Ticker(), list[int]()

        async def one(_: Any) -> Log:
            at.append(ticker.turns)
            return {"log": ["x"]}

        def many(_: Any) -> list[Send]:
            return [Send("one", {}) for _ in range(8 * TaskActors.STARTS_SLICE)]

        graph = StateGraph(Log).add_node("one", one)
        graph = graph.add_conditional_edges(START, many, ["one"]).add_edge("one", END)
        async with anyio.create_task_group() as group:
            group.start_soon(ticker.run)
            result = await graph.compile().ainvoke({})
            group.cancel_scope.cancel()

        assert len(result["log"]) == 8 * TaskActors.STARTS_SLICE
        # Trio shuffles the tasks of a turn: two slices may lie between two turns of the counter.
        assert max(at.count(turn) for turn in set(at)) <= 2 * TaskActors.STARTS_SLICE


class TestUpdates:
    async def test_many_supersteps_are_written_in_turns(self, monkeypatch):
        """
        An update of many supersteps lets others run between them.
        """
        monkeypatch.setattr("actorgraph.loops.TURN_S", 0.0)
        ticker, saver = Ticker(), InMemorySaver()
        graph = StateGraph(Log).add_node("one", lambda _: {"log": ["x"]}).add_edge(START, "one")
        made = graph.compile(checkpointer=saver)
        steps = [[({"log": ["x"]}, "one")]] * 50
        async with anyio.create_task_group() as group:
            group.start_soon(ticker.run)
            await anyio.lowlevel.checkpoint()
            await made.abulk_update_state({"configurable": {"thread_id": "t"}}, steps)
            turns = ticker.turns
            group.cancel_scope.cancel()

        assert turns >= 25

    async def test_short_work_gives_no_turn(self):
        """
        Work that is over at once doesn't wait for the loop.
        """
        ticker = Ticker()
        async with anyio.create_task_group() as group:
            group.start_soon(ticker.run)
            turns = Turns()
            await turns.give()
            seen = ticker.turns
            group.cancel_scope.cancel()

        assert seen == 0
        assert 0 < TURN_S < 0.05
