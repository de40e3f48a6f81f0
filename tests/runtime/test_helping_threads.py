"""Threads that help a blocking call: they work through tasks that wait behind one that lasts."""

import operator
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import InMemorySaver, Send, StateGraph
from actorgraph.runtime.task.calling import abandoned
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at

HELPED = 3
ITEMS = range(HELPED + 1)


class State(TypedDict, total=False):
    log: Annotated[list[int], operator.add]
    item: int


def spread(_: State) -> list[Send]:
    return [Send("work", {"item": item}) for item in ITEMS]


class Crowd:
    """Four tasks at once: the first runs in the caller's thread, the others in helping threads."""

    def __init__(self, first: Callable[[], Any]) -> None:
        self.first = first
        self.begun = threading.Barrier(HELPED + 1)
        self.goes_on = threading.Event()
        self.ended = threading.Semaphore(0)
        self.saver = InMemorySaver()
        builder = StateGraph(State)
        builder.add_node("spread", lambda _: {})
        builder.add_node("work", self._work)
        builder.add_node("last", lambda _: {"log": [-1]})
        builder.set_entry_point("spread")
        builder.add_conditional_edges(
            "spread", lambda _: [Send("work", {"item": i}) for i in ITEMS]
        )
        builder.add_edge("work", "last")
        self.graph = builder.compile(checkpointer=self.saver)

    def _work(self, state: State) -> dict[str, Any]:
        item = state.get("item", 0)
        self.begun.wait(PATIENCE_S)
        if item == 0:
            self.first()
        else:
            self.goes_on.wait(PATIENCE_S)
            self.ended.release()
        return {"log": [item]}


def fail() -> None:
    raise ValueError("fails beside them")


class TestAbandoned:
    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
    def test_a_call_does_not_wait_for_functions_that_hang(self, error):
        """
        While functions hang in helping threads, the error of another one ends the call at once.
        """

        def first() -> None:
            raise error("fails beside them")

        crowd = Crowd(first)
        with pytest.raises(error):
            crowd.graph.invoke({"log": []}, at())
        left = abandoned()
        crowd.goes_on.set()

        assert left == ["work"] * HELPED
        assert all(crowd.ended.acquire(timeout=PATIENCE_S) for _ in range(HELPED))

    def test_results_that_come_later_are_dropped(self):
        """
        Abandoned functions end later; the thread is resumed from what was stored, all of them run
        again, and none is named any more.
        """
        crowd = Crowd(fail)
        with pytest.raises(ValueError, match="beside"):
            crowd.graph.invoke({"log": []}, at())
        crowd.goes_on.set()
        assert all(crowd.ended.acquire(timeout=PATIENCE_S) for _ in range(HELPED))
        crowd.first = lambda: None

        assert crowd.graph.invoke(None, at())["log"] == [*ITEMS, -1]
        assert abandoned() == []


def test_a_node_begins_after_tasks_of_helping_threads():
    """
    The last tasks of a superstep end in helping threads, after the caller's; the next node begins.
    """
    alone = threading.Event()
    crowd = Crowd(alone.set)

    def later() -> None:
        alone.wait(PATIENCE_S)
        crowd.goes_on.set()

    threading.Thread(target=later).start()

    assert crowd.graph.invoke({"log": []}, at())["log"] == [*ITEMS, -1]
