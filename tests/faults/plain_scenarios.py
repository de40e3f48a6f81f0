"""The graphs of `scenarios.py` with plain functions, for blocking calls, and how to run them."""

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from actorgraph import (
    END,
    START,
    Command,
    EmptyInputError,
    RetryPolicy,
    Send,
    StateGraph,
    TaskFunction,
    interrupt,
)
from actorgraph import task as step_of
from tests.faults.oracle import Oracle
from tests.faults.scenarios import CONFIG, INPUT, NAMED, Delta, Program, Scenario, State

Node = Callable[[Any], dict[str, Any]]
MOMENT_S = 0.005


class PlainOracle(Oracle):
    """An oracle for functions in any thread."""

    def __init__(self, *, staggers: bool = False, nested: bool = True) -> None:
        super().__init__(staggers=staggers, nested=nested)
        self._told = threading.Condition()

    def write(self, what: str, label: str) -> None:
        with self._told:
            super().write(what, label)
            self._told.notify_all()

    def wait_a_moment(self, label: str) -> None:
        """Wait until a sibling is stored, if siblings are staggered; but not for long.

        A sibling that has ended in another thread is stored when this thread is free.
        """
        if self._staggers:
            with self._told:
                self._told.wait_for(lambda: ("stored", label) in self.lines, MOMENT_S)


def task(oracle: Oracle, name: str) -> Node:
    """A node that writes to the oracle and adds its label to the log."""

    def run(state: Any) -> dict[str, Any]:
        item = state.get("item")
        label = f"{name};" if item is None else f"{name}{item};"
        oracle.write("start", label)
        if item and isinstance(oracle, PlainOracle):
            oracle.wait_a_moment(f"{name}{item - 1};")
        oracle.write("done", label)
        return {"log": [label]}

    return run


def in_a_row(oracle: Oracle, nodes: dict[str, Node | None]) -> StateGraph:
    """A chain of nodes.

    Args:
        nodes: name -> function; None for one that only writes its label.
    """
    graph = StateGraph(State)
    for name, function in nodes.items():
        graph.add_node(name, function or task(oracle, name))
    names = [START, *nodes, END]
    for one, two in pairwise(names):
        graph.add_edge(one, two)
    return graph


def chain(oracle: Oracle) -> StateGraph:
    return in_a_row(oracle, dict.fromkeys("abc"))


def fan_out(oracle: Oracle, schema: Any = State) -> StateGraph:
    graph = StateGraph(schema)
    for name in ("plan", "work", "gather"):
        graph.add_node(name, task(oracle, name))
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda _: [Send("work", {"item": i}) for i in range(3)])
    graph.add_edge("work", "gather")
    return graph


def deltas(oracle: Oracle) -> StateGraph:
    return fan_out(oracle, Delta)


def asking(oracle: Oracle) -> Node:
    def ask(_: Any) -> dict[str, Any]:
        oracle.write("start", "ask;")
        answer = interrupt("go on?")
        oracle.write("done", "ask;")
        return {"log": ["ask;", answer]}

    return ask


def question(oracle: Oracle) -> StateGraph:
    return in_a_row(oracle, {"before": None, "ask": asking(oracle), "after": None})


def nested(oracle: Oracle) -> StateGraph:
    """A graph that asks, in a node between two others; one node calls it, with its own log."""
    inner = question(oracle).compile()

    def child(_: State) -> dict[str, Any]:
        return {"log": inner.invoke({"log": []})["log"]}

    return in_a_row(oracle, {"first": None, "child": child, "last": None})


def step(oracle: Oracle) -> TaskFunction[[str, str], str]:
    """A `@task` function that returns its label."""

    @step_of(name="step")
    def run(label: str, after: str = "") -> str:
        oracle.write("start", label)
        if after and isinstance(oracle, PlainOracle):
            oracle.wait_a_moment(after)
        oracle.write("done", label)
        return label

    return run


def calls(oracle: Oracle) -> StateGraph:
    """A node whose calls of `@task` functions are all that it does; between them it asks."""
    run = step(oracle)

    def program(_: State) -> dict[str, Any]:
        first = run("one;", "").result()
        both = [run("two;", ""), run("three;", "two;")]
        log = [first, *[call.result() for call in both]]
        return {"log": [*log, interrupt("go on?"), run("four;", "").result()]}

    return in_a_row(oracle, {"program": program})


def loop(oracle: Oracle) -> StateGraph:
    graph = StateGraph(State)
    graph.add_node("turn", turn(oracle, "turn"))
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda s: "turn" if s["turns"] < 4 else END)
    return graph


def turn(oracle: Oracle, name: str) -> Node:
    def run(state: State) -> dict[str, Any]:
        turns = state.get("turns", 0) + 1
        label = f"{name}{turns};"
        oracle.write("start", label)
        oracle.write("done", label)
        return {"log": [label], "turns": turns}

    return run


def program(oracle: Oracle) -> Program:
    """An entrypoint with two calls at once, and one that asks after them."""

    @step_of
    def item(number: int) -> dict[str, Any]:
        return task(oracle, "item")({"item": number})

    @step_of
    def ask() -> dict[str, Any]:
        return asking(oracle)(None)

    @step_of
    def last() -> dict[str, Any]:
        return task(oracle, "last")({})

    def flow(_: Any) -> dict[str, Any]:
        first, second = item(0), item(1)
        log = [*first.result()["log"], *second.result()["log"]]
        log += ask().result()["log"]
        return {"log": [*log, *last().result()["log"]]}

    return Program(flow)


def handled(oracle: Oracle) -> StateGraph:
    """A node that fails beside another one, and its error handler, which leads to the end."""

    def fails(_: State) -> dict[str, Any]:
        oracle.write("start", "fails;")
        raise ValueError("fails;")

    graph = StateGraph(State)

    def handler(state: State) -> Command[str]:
        made = task(oracle, "handler")(state)
        return Command(update={"log": ["fails;", *made["log"]]}, goto="last")

    graph.add_node("fails", fails, error_handler=handler)
    graph.add_node("sibling", task(oracle, "sibling"))
    graph.add_node("last", task(oracle, "last"))
    graph.add_edge(START, "fails")
    graph.add_edge(START, "sibling")
    graph.add_edge("sibling", "last")
    return graph


def retried(oracle: Oracle) -> StateGraph:
    """A node that fails once behind its graph, and is tried again."""
    inner = chain(oracle).compile()
    failed = False

    def child(_: State) -> dict[str, Any]:
        nonlocal failed
        result = inner.invoke({"log": []})
        if not failed:
            failed = True
            raise ConnectionError("once")
        return {"log": result["log"]}

    graph = StateGraph(State)
    graph.add_node("first", task(oracle, "first"))
    graph.add_node("child", child, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False))
    graph.add_node("last", task(oracle, "last"))
    for one, two in ((START, "first"), ("first", "child"), ("child", "last")):
        graph.add_edge(one, two)
    return graph


def stateful(oracle: Oracle) -> StateGraph:
    """A graph with a state of its own, which one node runs in two supersteps."""
    counter = in_a_row(oracle, {"count": turn(oracle, "count")}).compile(checkpointer=True)

    def child(state: State) -> dict[str, Any]:
        result = counter.invoke({"log": []})
        return {"log": result["log"][-1:], "turns": state.get("turns", 0) + 1}

    graph = StateGraph(State)
    graph.add_node("child", child)
    graph.add_edge(START, "child")
    graph.add_conditional_edges("child", lambda s: "child" if s["turns"] < 3 else END)
    return graph


_BUILDERS: dict[str, Callable[[Oracle], StateGraph | Program]] = {
    "chain": chain,
    "fan-out": fan_out,
    "interrupt": question,
    "nested": nested,
    "calls": calls,
    "loop": loop,
    "deltas": deltas,
    "program": program,
    "handler": handled,
    "retried": retried,
    "stateful": stateful,
}
PLAIN = {
    name: Scenario(name, build, NAMED[name].log, NAMED[name].modes)
    for name, build in _BUILDERS.items()
}


def plain_scenarios_of(mode: str) -> list[Scenario]:
    """The scenarios whose promises a durability mode keeps."""
    return [scenario for scenario in PLAIN.values() if mode in scenario.modes]


def compiled(scenario: Scenario, oracle: Oracle, saver: Any) -> Any:
    """The graph; its blocking calls must run in the thread that makes them."""
    graph: Any = scenario.build(oracle).compile(checkpointer=saver)
    assert graph.plan.plain
    return graph


def call(graph: Any, given: Any, mode: str, oracle: Oracle) -> Any:
    """One run to its return. In `sync` each delivered chunk goes to the oracle."""
    if mode != "sync":
        return graph.invoke(given, CONFIG, durability=mode)
    result: dict[str, Any] = {}
    modes = ["updates", "values"]
    for kind, chunk in graph.stream(given, CONFIG, stream_mode=modes, durability=mode):
        if kind == "values" or "__interrupt__" in chunk:
            result |= chunk or {}  # an entrypoint that goes on has no value yet
        else:
            oracle.chunk(chunk)
            result.pop("__interrupt__", None)
    return result


def run_through(graph: Any, given: Any, mode: str, oracle: Oracle) -> Any:
    """Run, and answer what the graph asks, until it ends."""
    result = call(graph, given, mode, oracle)
    while "__interrupt__" in result:
        result = call(graph, Command(resume="yes"), mode, oracle)
    return result


def go_on(graph: Any, mode: str, oracle: Oracle) -> Any:
    """Finish the thread after a crash; with its input again if nothing was ever accepted."""
    try:
        return run_through(graph, None, mode, oracle)
    except EmptyInputError:
        assert oracle.labels("start") == [], "nodes ran before their input was durable"
        return run_through(graph, INPUT, mode, oracle)
