"""The graphs that are crashed, cancelled and killed: small, with each way to move on.

Every node run writes `start` and `done` with its label into an oracle, and puts the label into
the state's `log`, so that the state shows which runs it is made of.
"""

import operator
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import anyio.lowlevel

from actorgraph import (
    END,
    START,
    Command,
    EmptyInputError,
    RetryPolicy,
    Send,
    StateGraph,
    TaskFunction,
    entrypoint,
    interrupt,
)
from actorgraph import task as step_of
from actorgraph.channels import DeltaChannel
from tests.faults.oracle import Oracle

MODES = ("sync", "async", "exit")
Node = Callable[[Any], Awaitable[dict[str, Any]]]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    turns: int


def joined(log: list[str], writes: list[list[str]]) -> list[str]:
    return [*log, *(label for write in writes for label in write)]


class Delta(TypedDict, total=False):
    """A state whose checkpoints hold the writes rather than the log."""

    log: Annotated[list[str], DeltaChannel(joined)]


def task(oracle: Oracle, name: str) -> Node:
    """A node that writes to the oracle and adds its label to the log."""

    async def run(state: Any) -> dict[str, Any]:
        label = f"{name}{state['item']};" if "item" in state else f"{name};"
        oracle.write("start", label)
        await anyio.lowlevel.checkpoint()
        if state.get("item"):
            await oracle.wait_stored(f"{name}{state['item'] - 1};")
        oracle.write("done", label)
        return {"log": [label]}

    return run


def thread_task(oracle: Oracle, name: str) -> Callable[[Any], dict[str, Any]]:
    """The same as a sync node: it runs in a worker thread."""
    process = len(oracle.crashes)

    def run(_: Any) -> dict[str, Any]:
        if process == len(oracle.crashes):  # else its process is dead, and so is this thread
            oracle.write("start", f"{name};")
            oracle.write("done", f"{name};")
        return {"log": [f"{name};"]}

    return run


def chain(oracle: Oracle) -> StateGraph:
    graph = StateGraph(State)
    graph.add_node("a", task(oracle, "a"))
    graph.add_node("b", thread_task(oracle, "b"))
    graph.add_node("c", task(oracle, "c"))
    for one, two in ((START, "a"), ("a", "b"), ("b", "c")):
        graph.add_edge(one, two)
    return graph


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


def question(oracle: Oracle) -> StateGraph:
    async def ask(_: State) -> dict[str, Any]:
        oracle.write("start", "ask;")
        answer = interrupt("go on?")
        oracle.write("done", "ask;")
        return {"log": ["ask;", answer]}

    graph = StateGraph(State)
    graph.add_node("before", task(oracle, "before"))
    graph.add_node("ask", ask)
    graph.add_node("after", task(oracle, "after"))
    for one, two in ((START, "before"), ("before", "ask"), ("ask", "after"), ("after", END)):
        graph.add_edge(one, two)
    return graph


def nested(oracle: Oracle) -> StateGraph:
    """A graph that asks, in a node between two others; one node calls it, with its own log."""
    inner = question(oracle).compile()

    async def child(_: State) -> dict[str, Any]:
        result = await inner.ainvoke({"log": []})
        return {"log": result["log"]}

    graph = StateGraph(State)
    graph.add_node("first", task(oracle, "first"))
    graph.add_node("child", child)
    graph.add_node("last", task(oracle, "last"))
    for one, two in ((START, "first"), ("first", "child"), ("child", "last"), ("last", END)):
        graph.add_edge(one, two)
    return graph


def step(oracle: Oracle) -> TaskFunction[[str, str], str]:
    """A `@task` function that returns its label."""

    @step_of(name="step")
    async def run(label: str, after: str = "") -> str:
        oracle.write("start", label)
        await anyio.lowlevel.checkpoint()
        if after:
            await oracle.wait_stored(after)
        oracle.write("done", label)
        return label

    return run


def calls(oracle: Oracle) -> StateGraph:
    """A node whose calls of `@task` functions are all that it does; between them it asks."""
    run = step(oracle)

    async def program(_: State) -> dict[str, Any]:
        first = await run("one;", "")
        both = [run("two;", ""), run("three;", "two;")]
        log = [first, *[await call for call in both]]
        return {"log": [*log, interrupt("go on?"), await run("four;", "")]}

    graph = StateGraph(State)
    graph.add_node("program", program)
    graph.add_edge(START, "program")
    return graph


def loop(oracle: Oracle) -> StateGraph:
    async def turn(state: State) -> dict[str, Any]:
        turns = state.get("turns", 0) + 1
        label = f"turn{turns};"
        oracle.write("start", label)
        await anyio.lowlevel.checkpoint()
        oracle.write("done", label)
        return {"log": [label], "turns": turns}

    graph = StateGraph(State)
    graph.add_node("turn", turn)
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda s: "turn" if s["turns"] < 4 else END)
    return graph


class Program:
    """The entrypoint that a scenario gives in place of a graph's builder."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def compile(self, checkpointer: Any) -> Any:
        return entrypoint(checkpointer)(self._function)


def program(oracle: Oracle) -> Program:
    """An entrypoint with two calls at once, and one that asks after them."""

    @step_of
    async def item(number: int) -> dict[str, Any]:
        return await task(oracle, "item")({"item": number})

    @step_of
    async def ask() -> dict[str, Any]:
        oracle.write("start", "ask;")
        answer = interrupt("go on?")
        oracle.write("done", "ask;")
        return {"log": ["ask;", answer]}

    @step_of
    def last() -> dict[str, Any]:
        return thread_task(oracle, "last")(None)

    async def flow(_: Any) -> dict[str, Any]:
        first, second = item(0), item(1)
        log = [*(await first)["log"], *(await second)["log"]]
        log += (await ask())["log"]
        return {"log": [*log, *(await last())["log"]]}

    return Program(flow)


def handled(oracle: Oracle) -> StateGraph:
    """A node that fails beside another one, and its error handler, which leads to the end."""

    async def fails(_: State) -> dict[str, Any]:
        oracle.write("start", "fails;")
        raise ValueError("fails;")

    graph = StateGraph(State)

    async def handler(state: State) -> Command[str]:
        made = await task(oracle, "handler")(state)
        return Command(update={"log": ["fails;", *made["log"]]}, goto="last")

    graph.add_node("fails", fails, error_handler=handler)
    graph.add_node("sibling", thread_task(oracle, "sibling"))
    graph.add_node("last", task(oracle, "last"))
    graph.add_edge(START, "fails")
    graph.add_edge(START, "sibling")
    graph.add_edge("sibling", "last")
    return graph


def retried(oracle: Oracle) -> StateGraph:
    """A node that fails once behind its graph, and is tried again."""
    inner = chain(oracle).compile()
    failed = False

    async def child(_: State) -> dict[str, Any]:
        nonlocal failed
        result = await inner.ainvoke({"log": []})
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

    async def count(state: State) -> dict[str, Any]:
        turns = state.get("turns", 0) + 1
        label = f"count{turns};"
        oracle.write("start", label)
        await anyio.lowlevel.checkpoint()
        oracle.write("done", label)
        return {"log": [label], "turns": turns}

    inner = StateGraph(State)
    inner.add_node("count", count)
    inner.add_edge(START, "count")
    counter = inner.compile(checkpointer=True)

    async def child(state: State) -> dict[str, Any]:
        result = await counter.ainvoke({"log": []})
        return {"log": result["log"][-1:], "turns": state.get("turns", 0) + 1}

    graph = StateGraph(State)
    graph.add_node("child", child)
    graph.add_edge(START, "child")
    graph.add_conditional_edges("child", lambda s: "child" if s["turns"] < 3 else END)
    return graph


class Piece(TypedDict, total=False):
    """The state of one of several subgraphs side by side."""

    log: Annotated[list[str], operator.add]
    item: int


def handing(oracle: Oracle) -> StateGraph:
    """Two subgraphs side by side, whose nodes command the graph above."""
    work = task(oracle, "work")

    async def up(state: Piece) -> Command[Any]:
        goto = Send("after", {"item": state["item"]})
        return Command(graph=Command.PARENT, update=await work(state), goto=goto)

    inner = StateGraph(Piece).add_node("up", up).add_edge(START, "up").compile()
    graph = StateGraph(State)
    graph.add_node("plan", task(oracle, "plan"))
    graph.add_node("team", inner, destinations=("after",))
    graph.add_node("after", task(oracle, "after"))
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda _: [Send("team", {"item": i}) for i in range(2)])
    return graph


@dataclass(frozen=True)
class Scenario:
    """A graph and the log of a run that nothing disturbed.

    Attributes:
        modes: in which it keeps what is promised; decision 17 says what `exit` gives up.
    """

    name: str
    build: Callable[[Oracle], StateGraph | Program]
    log: tuple[str, ...]
    modes: tuple[str, ...] = MODES


SCENARIOS = (
    Scenario("chain", chain, ("a;", "b;", "c;")),
    Scenario("fan-out", fan_out, ("plan;", "work0;", "work1;", "work2;", "gather;")),
    Scenario("interrupt", question, ("before;", "ask;", "yes", "after;")),
    Scenario("nested", nested, ("first;", "before;", "ask;", "yes", "after;", "last;")),
    Scenario("calls", calls, ("one;", "two;", "three;", "yes", "four;")),
    Scenario("loop", loop, ("turn1;", "turn2;", "turn3;", "turn4;")),
    Scenario("deltas", deltas, ("plan;", "work0;", "work1;", "work2;", "gather;")),
    Scenario("program", program, ("item0;", "item1;", "ask;", "yes", "last;")),
    Scenario("handler", handled, ("fails;", "handler;", "sibling;", "last;")),
    Scenario("retried", retried, ("first;", "a;", "b;", "c;", "last;")),
    Scenario("hand-overs", handing, ("plan;", "work0;", "work1;", "after0;", "after1;")),
    Scenario("stateful", stateful, ("count1;", "count2;", "count3;"), modes=("sync", "async")),
)
NAMED = {scenario.name: scenario for scenario in SCENARIOS}


def scenarios_of(mode: str) -> list[Scenario]:
    """The scenarios whose promises a durability mode keeps."""
    return [scenario for scenario in SCENARIOS if mode in scenario.modes]


CONFIG = {"configurable": {"thread_id": "thread"}}
INPUT: dict[str, Any] = {"log": []}


async def call(graph: Any, given: Any, mode: str, oracle: Oracle) -> Any:
    """One run to its return. In `sync` each delivered chunk goes to the oracle."""
    if mode != "sync":
        return await graph.ainvoke(given, CONFIG, durability=mode)
    result: dict[str, Any] = {}
    modes = ["updates", "values"]
    async with graph.astream(given, CONFIG, stream_mode=modes, durability=mode) as stream:
        async for kind, chunk in stream:
            if kind == "values" or "__interrupt__" in chunk:
                result |= chunk or {}  # an entrypoint that goes on has no value yet
            else:
                oracle.chunk(chunk)
                result.pop("__interrupt__", None)
    return result


async def run_through(graph: Any, given: Any, mode: str, oracle: Oracle) -> Any:
    """Run, and answer what the graph asks, until it ends."""
    result = await call(graph, given, mode, oracle)
    while "__interrupt__" in result:
        result = await call(graph, Command(resume="yes"), mode, oracle)
    return result


async def go_on(graph: Any, mode: str, oracle: Oracle) -> Any:
    """Finish the thread after a crash; with its input again if nothing was ever accepted."""
    try:
        return await run_through(graph, None, mode, oracle)
    except EmptyInputError:
        assert oracle.labels("start") == [], "nodes ran before their input was durable"
        return await run_through(graph, INPUT, mode, oracle)
