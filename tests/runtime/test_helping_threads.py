"""Threads that help a blocking call: they work through tasks that wait behind one that lasts."""

import operator
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, InMemorySaver, Send, StateGraph
from actorgraph.graph import MessagesState
from actorgraph.messages import AIMessage, HumanMessage
from actorgraph.prebuilt import ToolNode
from actorgraph.runtime.helping import LentThreads
from actorgraph.runtime.run import blocking_supervisor
from actorgraph.runtime.task.calling import abandoned
from actorgraph.testing import FaultySaver
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, compiled, side_by_side

HELPED = 3
ITEMS = range(HELPED + 1)


class State(TypedDict, total=False):
    log: Annotated[list[int], operator.add]
    item: int


def spread(_: State) -> list[Send]:
    return [Send("work", {"item": item}) for item in ITEMS]


class Crowd:
    """Four tasks at once.

    Args:
        first: what the first of them does.
        durability: with "exit" it runs in the caller's thread, and the others in helping threads;
            with another one, which stores each task that has ended, all run in helping threads.
    """

    def __init__(self, first: Callable[[], Any], durability: str) -> None:
        self.first, self.durability = first, durability
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

    def invoke(self, given: Any) -> Any:
        """Call the graph."""
        return self.graph.invoke(given, at(), durability=self.durability)

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


each_way = pytest.mark.parametrize("durability", ["exit", "async"])


@each_way
class TestAbandoned:
    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
    def test_a_call_does_not_wait_for_functions_that_hang(self, error, durability):
        """
        While functions hang in helping threads, the error of another one ends the call at once.
        """

        def first() -> None:
            raise error("fails beside them")

        crowd = Crowd(first, durability)
        with pytest.raises(error):
            crowd.invoke({"log": []})
        left = abandoned()
        crowd.goes_on.set()

        assert left == ["work"] * HELPED
        assert all(crowd.ended.acquire(timeout=PATIENCE_S) for _ in range(HELPED))

    def test_results_that_come_later_are_dropped(self, durability):
        """
        Abandoned functions end later; the thread is resumed from what was stored, all of them run
        again, and none is named any more.
        """
        crowd = Crowd(fail, durability)
        with pytest.raises(ValueError, match="beside"):
            crowd.invoke({"log": []})
        crowd.goes_on.set()
        assert all(crowd.ended.acquire(timeout=PATIENCE_S) for _ in range(HELPED))
        crowd.first = lambda: None

        assert crowd.invoke(None)["log"] == [*ITEMS, -1]
        assert abandoned() == []


@each_way
def test_a_node_begins_after_tasks_of_helping_threads(durability):
    """
    The last tasks of a superstep end in helping threads, after the caller's; the next node begins.
    """
    alone = threading.Event()
    crowd = Crowd(alone.set, durability)

    def later() -> None:
        alone.wait(PATIENCE_S)
        crowd.goes_on.set()

    threading.Thread(target=later).start()

    assert crowd.invoke({"log": []})["log"] == [*ITEMS, -1]


@pytest.mark.promise("S072", "B1")
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_task_that_has_ended_is_stored_while_its_sibling_runs(durability):
    """
    A blocking call stores the task of a short function before a long one beside it has ended.
    """
    ended, stored = threading.Event(), threading.Event()

    def note(request: Any) -> None:
        if ended.is_set():
            stored.set()

    def short(_: Any) -> dict[str, Any]:
        ended.set()
        return {"bar": [1]}

    def long(_: Any) -> dict[str, Any]:
        return {"bar": [2 if stored.wait(PATIENCE_S) else 0]}

    graph = side_by_side(
        {"long": long, "short": short}, checkpointer=FaultySaver(InMemorySaver(), on_stored=note)
    )

    assert sorted(graph.invoke({}, at(), durability=durability)["bar"]) == [1, 2]


every_way = pytest.mark.parametrize("durability", ["exit", "async", "sync", None])
"""None: without a saver."""


@every_way
@pytest.mark.parametrize("beside", ["node", "tools"])
def test_a_task_that_has_ended_is_read_while_its_sibling_runs(durability, beside):
    """
    A blocking stream delivers the update of a short node, or of a ToolNode with two calls, before
    a long function beside it has ended.
    """
    read = threading.Event()

    def echo(word: str) -> str:
        """Say it."""
        return word

    def long(_: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage("read" if read.wait(PATIENCE_S) else "not read")]}

    def short(_: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage("short")]}

    builder = StateGraph(MessagesState)
    builder.add_node("a", long)
    builder.add_node("b", ToolNode([echo]) if beside == "tools" else short)
    builder.add_edge(START, "a").add_edge(START, "b")
    saver = InMemorySaver() if durability else None
    calls = [{"name": "echo", "args": {"word": word}, "id": word} for word in "xy"]
    given = {"messages": [AIMessage("", tool_calls=calls)]}
    chunks = []
    for chunk in builder.compile(checkpointer=saver).stream(
        given, at(), stream_mode="updates", durability=durability
    ):
        chunks.append(chunk)
        read.set()

    assert [next(iter(chunk)) for chunk in chunks] == ["b", "a"]
    assert chunks[1]["a"]["messages"][0].content == "read"


@every_way
def test_a_place_that_is_free_is_taken_while_a_long_task_runs(durability):
    """
    With `max_concurrency` a blocking call begins the next task when a short one has ended, and not
    when a long function beside that has.
    """
    begun = threading.Event()

    def long(_: Any) -> dict[str, Any]:
        return {"bar": ["begun" if begun.wait(PATIENCE_S) else "waited"]}

    def short(_: Any) -> dict[str, Any]:
        return {"bar": ["short"]}

    def third(_: Any) -> dict[str, Any]:
        begun.set()
        return {"bar": ["third"]}

    saver = InMemorySaver() if durability else None
    graph = side_by_side({"a": long, "b": short, "c": third}, checkpointer=saver)
    config = {**at(), "max_concurrency": 2}

    assert graph.invoke({}, config, durability=durability)["bar"] == ["begun", "short", "third"]


class TestFewThreads:
    @each_way
    def test_without_threads_functions_run_one_after_the_other(self, durability, monkeypatch):
        """
        If the system has no thread for a helper, a call performs all tasks in its own.
        """

        def refuse(*_: Any) -> None:
            raise RuntimeError("can't start new thread")

        graph = wide(lambda: None)
        graph.invoke({}, at("first"), durability=durability)  # the saver has its threads
        monkeypatch.setattr("actorgraph.runtime.worker_threads.start", refuse)

        assert len(graph.invoke({}, at(), durability=durability)["bar"]) == 2 * WIDTH

    def test_all_calls_together_have_a_limit(self, monkeypatch):
        """
        Helpers of all calls of a process are counted together.
        """
        monkeypatch.setattr(blocking_supervisor, "LENT", LentThreads(2))
        lock, running, most, both = threading.Lock(), [0], [0], threading.Barrier(2)

        def function() -> None:
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            both.wait(PATIENCE_S)
            with lock:
                running[0] -= 1

        result = wide(function).invoke({}, at())

        assert (len(result["bar"]), most[0]) == (2 * WIDTH, 2)


WIDTH = 6


def wide(function: Callable[[], None]) -> Any:
    """A graph of two supersteps, each of several tasks."""

    def node(_: Any) -> dict[str, Any]:
        function()
        return {"bar": ["x"]}

    names = [[f"{layer}{number}" for number in range(WIDTH)] for layer in "ab"]
    edges = [(START, name) for name in names[0]] + [(names[0], "join")]
    edges += [("join", name) for name in names[1]]
    nodes = {name: node for layer in names for name in layer} | {"join": lambda _: None}
    return compiled(nodes, edges, checkpointer=InMemorySaver())
