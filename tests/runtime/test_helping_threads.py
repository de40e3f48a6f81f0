"""Threads that help a blocking call: they work through tasks that wait behind one that lasts."""

import operator
import threading
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, InMemorySaver, Send, StateGraph, task
from actorgraph.graph import MessagesState
from actorgraph.messages import AIMessage, HumanMessage
from actorgraph.prebuilt import ToolNode
from actorgraph.runtime.helping import LentThreads
from actorgraph.runtime.run import blocking_supervisor
from actorgraph.runtime.task.calling import abandoned
from actorgraph.testing import FaultySaver
from tests.support.gates import PATIENCE_S
from tests.support.graphs import AB, at, compiled, side_by_side

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


class Watcher:
    """The clock of the driver, whose watcher of waiting tasks sleeps for as long as a test wants.

    Attributes:
        over: set when the watcher may go on.
        asked: helpers that were asked for before each of its sleeps.
        ran_out: whether a task has waited for it to the end of a test's patience.
    """

    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.over = threading.Event()
        self.asked: list[int] = []
        self.helpers = 0
        self.ran_out = False

    def sleep(self, _seconds: float) -> None:
        self.asked.append(self.helpers)
        self.ran_out = not self.over.wait(PATIENCE_S) or self.ran_out

    def count(self, begin: Callable[[Any], bool]) -> Callable[[Any], bool]:
        """Count the helpers that a function of the driver asks for."""

        def counted(supervisor: Any) -> bool:
            self.helpers += 1
            return begin(supervisor)

        return counted


@pytest.fixture
def watcher(monkeypatch) -> Iterator[Watcher]:
    made = Watcher()
    begin = vars(blocking_supervisor.BlockingSupervisor)["_begin_help"]
    monkeypatch.setattr(blocking_supervisor.BlockingSupervisor, "_begin_help", made.count(begin))
    monkeypatch.setattr(blocking_supervisor, "time", made)
    yield made
    made.over.set()


@task
def following(item: int) -> int:
    return item + 1


class TestWithoutTheWatcher:
    """What happens at once, and not when a task has waited for some time."""

    def test_a_call_of_a_function_has_a_thread_at_once(self, watcher):
        """
        A function gets the result of its `@task` call though no watcher looks at what waits.
        """
        graph = side_by_side({"a": lambda _: {"bar": [following(1).result(PATIENCE_S)]}})

        assert (graph.invoke({}), watcher.ran_out) == ({"bar": [2]}, False)

    def test_helpers_of_one_step_are_not_counted_in_the_next(self, watcher):
        """
        A step whose tasks are for helpers gets its first at once, after one that had several.
        """
        begun = threading.Barrier(3)

        @task
        def together(item: int) -> int:
            begun.wait(PATIENCE_S)
            return item

        def first(_: Any) -> dict[str, Any]:
            calls = [together(item) for item in range(3)]
            return {"bar": [call.result(PATIENCE_S) for call in calls]}

        nodes = {"first": first, "a": lambda _: {"bar": ["a"]}, "b": lambda _: {"bar": ["b"]}}
        edges = [(START, "first"), ("first", "a"), ("first", "b")]
        graph = compiled(nodes, edges, checkpointer=InMemorySaver())

        assert graph.invoke({}, at(), durability="async")["bar"] == [0, 1, 2, "a", "b"]
        assert not watcher.ran_out

    def test_helpers_double_while_no_task_ends(self, watcher):
        """
        While the functions last, the watcher asks for one helper, then for two, then for four.
        """
        begun = threading.Barrier(8)
        watcher.over.set()

        def node(_: Any) -> dict[str, Any]:
            begun.wait(PATIENCE_S)
            return {"bar": ["x"]}

        graph = side_by_side(dict.fromkeys("abcdefgh", node))

        assert graph.invoke({})["bar"] == ["x"] * 8
        assert watcher.asked[:3] == [0, 1, 3]


class TestWhoPerforms:
    """Whether the thread that calls a graph performs a task of it, or helpers do all."""

    @pytest.mark.parametrize(
        ("nodes", "options", "call"),
        [
            ("ab", {}, {}),
            ("ab", {"checkpointer": InMemorySaver()}, {"durability": "exit"}),
            ("a", {"checkpointer": InMemorySaver()}, {"durability": "async"}),
            ("a", {}, {"stream_mode": "updates"}),
        ],
    )
    def test_the_caller_does_where_nothing_has_to_happen_meanwhile(self, nodes, options, call):
        """
        Alone, or where the end of a task has no effect before that of its siblings, the first task
        is performed in the calling thread.
        """
        seen: dict[str, int] = {}
        graph = side_by_side({name: noting(name, seen) for name in nodes}, **options)
        graph.invoke({}, at(), **call)

        assert seen["a"] == threading.get_ident()

    @pytest.mark.parametrize(
        ("nodes", "options", "config", "call"),
        [
            ("ab", {"checkpointer": InMemorySaver()}, {}, {"durability": "async"}),
            ("ab", {"checkpointer": InMemorySaver()}, {}, {"durability": "sync"}),
            ("ab", {}, {}, {"stream_mode": "updates"}),
            ("abc", {}, {"max_concurrency": 2}, {}),
            ("a", {}, {}, {"stream_mode": "custom"}),
        ],
    )
    def test_helpers_do_where_the_end_of_a_task_has_effects(self, nodes, options, config, call):
        """
        Where a task that ends is stored, read, or followed by one that waits for its place, and
        where a reader wants live chunks, the calling thread performs none of those that begin.
        """
        seen: dict[str, int] = {}
        graph = side_by_side({name: noting(name, seen) for name in nodes}, **options)
        graph.invoke({}, {**at(), **config}, **call)

        assert threading.get_ident() not in {seen["a"], seen[nodes[:2][-1]]}

    def test_helpers_do_where_a_failure_may_be_handled(self):
        """
        With error handlers, the calling thread performs none of several tasks.
        """
        seen: dict[str, int] = {}
        builder = StateGraph(AB)
        for name in "ab":
            builder.add_node(name, noting(name, seen), error_handler=lambda _, error: {})
            builder.add_edge(START, name)
        builder.compile().invoke({})

        assert threading.get_ident() not in seen.values()

    def test_helpers_do_where_a_step_has_a_time_limit(self):
        """
        With a `step_timeout`, the calling thread performs not even a single task.
        """
        seen: dict[str, int] = {}
        graph = side_by_side({"a": noting("a", seen)})
        graph.step_timeout = PATIENCE_S
        graph.invoke({})

        assert threading.get_ident() not in seen.values()


def noting(name: str, seen: dict[str, int]) -> Callable[[Any], dict[str, Any]]:
    """A node that notes its thread."""

    def node(_: Any) -> dict[str, Any]:
        seen[name] = threading.get_ident()
        return {"bar": [name]}

    return node
