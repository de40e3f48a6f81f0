"""Uses of graphs of plain functions, whose results must not depend on the driver.

A scenario builds a graph and calls the async names of its methods, through `Calls`, which writes
down what comes of each call. It never waits for anything else.
"""

import json
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from actorgraph import (
    START,
    CachePolicy,
    Command,
    InMemoryCache,
    InMemorySaver,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    entrypoint,
    interrupt,
    task,
)
from actorgraph.streams import get_stream_writer
from tests.support.graphs import AB, at, compiled, in_a_row, side_by_side

MODES = ["values", "updates", "custom", "checkpoints", "tasks", "debug"]
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)")


class Calls:
    """The calls of one graph, and what came of them.

    Args:
        graph: has the async methods, or looks so.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.told: list[Any] = []

    async def invoke(self, given: Any, config: Any = None, **options: Any) -> Any:
        """One run."""
        return await self._noted(self.graph.ainvoke(given, config, **options))

    async def stream(self, given: Any, config: Any = None, **options: Any) -> None:
        """One run, chunk by chunk."""
        try:
            async for chunk in self.graph.astream(given, config, **options):
                self.told.append(str(chunk))
        except Exception as error:  # noqa: BLE001 - compared
            self.told.append(repr(error))

    async def update(self, *args: Any, **options: Any) -> None:
        """A change of the state from outside."""
        await self._noted(self.graph.aupdate_state(*args, **options))

    async def bulk_update(self, *args: Any) -> None:
        """Several changes."""
        await self._noted(self.graph.abulk_update_state(*args))

    async def history(self, config: Any) -> list[Any]:
        """All checkpoints, with their pending writes."""
        found = [state async for state in self.graph.aget_state_history(config)]
        self.told.append([str(state) for state in found])
        return found

    async def _noted(self, call: Awaitable[Any]) -> Any:
        try:
            result = await call
        except Exception as error:  # noqa: BLE001 - compared
            self.told.append([repr(error), getattr(error, "__notes__", [])])
            return None
        self.told.append(str(result))
        return result

    def trace(self) -> str:
        """The results as a text; ids by the order in which they occur, no times."""
        ids: dict[str, str] = {}
        text = _TIME.sub("TIME", json.dumps(self.told, indent=1))
        return _ID.sub(lambda found: ids.setdefault(found[0], f"#{len(ids)}"), text)


Scenario = Callable[[Callable[[Any], Calls]], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Add a scenario to the list."""
    SCENARIOS[function.__name__] = function
    return function


def says(*texts: str) -> Callable[[Any], Any]:
    """A node that adds texts."""
    return lambda _: {"foo": texts[-1], "bar": [*texts]}


def asks(name: str) -> Callable[[Any], Any]:
    """A node that asks two questions."""
    return lambda _: {"bar": [f"{name}:{interrupt(name + '1')}{interrupt(name + '2')}"]}


class FailsOnce:
    """A node that fails the first time."""

    def __init__(self, *, always: bool = False) -> None:
        self.fails, self.always = True, always

    def __call__(self, state: Any) -> Any:
        if self.fails:
            self.fails = self.always
            raise ValueError("first")
        return {"bar": ["again"]}


@scenario
async def every_mode(calls: Any) -> None:
    """Chunks of all modes of a row of nodes."""

    def writes(state: Any) -> Any:
        get_stream_writer()({"seen": state["bar"]})
        return {"bar": ["w"]}

    graph = in_a_row({"a": says("a"), "w": writes, "b": says("b")}, checkpointer=InMemorySaver())
    told = calls(graph)
    await told.stream({"bar": ["in"]}, at(), stream_mode=MODES)
    for mode in MODES:
        await told.stream({"bar": ["in"]}, at(mode), stream_mode=mode)
    await told.history(at())


@scenario
async def interrupts(calls: Any) -> None:
    """Questions, in two tasks at once, answered one after the other and by id."""
    nodes = {"p": asks("p"), "q": asks("q"), "r": says("r")}
    edges = [(START, "p"), (START, "q"), (["p", "q"], "r")]
    told = calls(compiled(nodes, edges, checkpointer=InMemorySaver()))
    result = await told.invoke({"bar": []}, at())
    for _ in range(4):
        if result is None or "__interrupt__" not in result:
            break
        first = result["__interrupt__"][0]
        result = await told.invoke(Command(resume={first.id: "x"}), at())
        await told.history(at())


@scenario
async def one_answer(calls: Any) -> None:
    """An answer without an id, given to a stream."""
    told = calls(in_a_row({"a": says("a"), "p": asks("p")}, checkpointer=InMemorySaver()))
    await told.stream({"bar": []}, at(), stream_mode=["updates", "values"])
    await told.stream(Command(resume="1"), at())
    await told.stream(Command(resume="2"), at(), stream_mode="debug")
    await told.history(at())


@scenario
async def failures(calls: Any) -> None:
    """A failure beside a success: its writes are kept, and only the failed node runs again."""
    graph = compiled(
        {"a": says("a"), "f": FailsOnce(), "z": says("z")},
        [(START, "a"), ("a", "f"), ("f", "z")],
        checkpointer=InMemorySaver(),
    )
    told = calls(graph)
    await told.invoke({"bar": []}, at())
    await told.history(at())
    await told.invoke(None, at())
    await told.history(at())


@scenario
async def retries_caches_handlers(calls: Any) -> None:
    """The policies of nodes."""
    policy = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ValueError)
    ran: list[int] = []

    def cached(state: Any) -> Any:
        ran.append(1)
        return {"bar": [f"c{len(ran)}"]}

    builder = StateGraph(AB)
    builder.add_node("r", FailsOnce(), retry_policy=policy)
    builder.add_node("c", cached, cache_policy=CachePolicy())
    handles = lambda state, error: {"bar": [f"handled {error.error!r}"]}  # noqa: E731
    builder.add_node("h", FailsOnce(always=True), error_handler=handles)
    builder.add_node("n", FailsOnce(always=True), retry_policy=policy)
    for source, target in [(START, "c"), ("c", "r"), ("r", "h"), ("h", "n")]:
        builder.add_edge(source, target)
    told = calls(builder.compile(checkpointer=InMemorySaver(), cache=InMemoryCache()))
    await told.stream({"bar": []}, at(), stream_mode=["updates", "tasks"])
    await told.stream({"bar": []}, at("other"), stream_mode=["updates", "tasks"])
    await told.history(at())


@scenario
async def subgraphs(calls: Any) -> None:
    """A nested graph that asks, stateful or not, called in a node or as a node."""
    for saver in (None, True):
        inner = in_a_row({"x": says("x"), "p": asks("p")}, checkpointer=saver)
        nodes = {"a": says("a"), "sub": inner, "b": says("b")}
        told = calls(in_a_row(nodes, checkpointer=InMemorySaver()))
        await told.stream({"bar": []}, at(), stream_mode=["updates", "values"], subgraphs=True)
        await told.stream(Command(resume="1"), at(), stream_mode=["updates"])
        await told.invoke(Command(resume="2"), at())
        await told.history(at())
    inner = in_a_row({"x": says("x"), "y": says("y")})
    nodes = {"a": lambda state: {"bar": inner.invoke({"bar": ["in"]})["bar"]}, "b": says("b")}
    told = calls(in_a_row(nodes, checkpointer=InMemorySaver()))
    await told.stream({"bar": []}, at(), stream_mode=["updates", "tasks"], subgraphs=True)
    await told.history(at())


@scenario
async def functional(calls: Any) -> None:
    """Tasks, an answer in one of them, the previous result, and a failure in the middle."""
    ran: list[str] = []

    @task
    def double(number: int) -> int:
        ran.append(f"double {number}")
        return 2 * number

    @task
    def fails_once(number: int) -> int:
        ran.append("fails")
        if ran.count("fails") == 1:
            raise ValueError(number)
        return number

    @entrypoint(checkpointer=InMemorySaver())
    def flow(number: int, *, previous: Any = None) -> Any:
        first = double(number).result()
        answer = interrupt(f"{first}?")
        second = fails_once(first).result()
        return entrypoint.final(value=[first, second, answer, previous], save=first)

    told = calls(flow)
    await told.invoke(1, at())
    await told.invoke(Command(resume="yes"), at())
    await told.invoke(None, at())
    told.told.append(list(ran))
    await told.stream(3, at(), stream_mode=["updates", "values"])
    await told.invoke(Command(resume="no"), at())
    await told.history(at())


@scenario
async def sends_and_commands(calls: Any) -> None:
    """Sends, Commands, a deferred node, routers and a join."""
    builder = StateGraph(AB)
    builder.add_node("go", lambda _: Command(update={"bar": ["go"]}, goto=["s", "t"]))
    builder.add_node("s", lambda state: {"bar": [f"s{len(state['bar'])}"]})
    builder.add_node("t", says("t"))
    builder.add_node("each", lambda state: {"bar": [f"each{state['n']}"]})
    builder.add_node("late", says("late"), defer=True)
    builder.add_edge(START, "go")
    builder.add_edge("s", "late")
    builder.add_conditional_edges("t", lambda _: [Send("each", {"n": n}) for n in range(5)])
    told = calls(builder.compile(checkpointer=InMemorySaver()))
    await told.invoke({"bar": []}, at())
    await told.stream({"bar": []}, at("values"), stream_mode="values")
    await told.history(at())


@scenario
async def time_travel(calls: Any) -> None:
    """Updates, a replay and a fork."""
    nodes = {name: says(name) for name in "abc"}
    told = calls(in_a_row(nodes, checkpointer=InMemorySaver()))
    await told.invoke({"bar": []}, at())
    states = await told.history(at())
    await told.invoke(None, states[2].config)
    await told.update(states[2].config, {"bar": ["changed"]}, as_node="a")
    await told.stream(None, at(), stream_mode=["values", "checkpoints"])
    await told.update(at(), {"nowhere": 1})
    await told.update(at(), {"bar": ["end"]}, as_node="nobody")
    await told.history(at())


@scenario
async def stops(calls: Any) -> None:
    """Breakpoints, the recursion limit, and each durability."""
    nodes = {name: says(name) for name in "abc"}
    for durability in ("sync", "async", "exit"):
        told = calls(in_a_row(nodes, checkpointer=InMemorySaver(), interrupt_before=["b"]))
        await told.invoke({"bar": []}, at(), durability=durability)
        await told.stream(None, at(), durability=durability, interrupt_after=["b"])
        await told.invoke(None, {**at(), "recursion_limit": 1}, durability=durability)
        await told.history(at())
        again = calls(in_a_row(nodes, checkpointer=InMemorySaver()))
        limited = {**at(), "recursion_limit": 2}
        await again.invoke({"bar": []}, limited, durability=durability)
        await again.history(at())
        told.told += again.told


@scenario
async def injected(calls: Any) -> None:
    """The runtime's context, the config and the metadata that nodes see."""

    def node(state: Any, config: Any, runtime: Runtime[Any]) -> Any:
        place = config["metadata"]["langgraph_node"], config["metadata"]["langgraph_step"]
        return {"bar": [str(runtime.context), str(place), str(config["configurable"]["extra"])]}

    graph = in_a_row({"a": node, "b": node}, checkpointer=InMemorySaver())
    config = {**at(extra=3), "metadata": {"own": "x"}, "tags": ["t"]}
    told = calls(graph)
    await told.invoke({"bar": []}, config, context={"user": 1})
    await told.history(at())


@scenario
async def bad_results(calls: Any) -> None:
    """Errors of nodes, routers and updates."""
    bad: dict[str, Callable[[Any], Any]] = {
        "number": lambda _: 7,
        "unknown": lambda _: Command(goto="nowhere"),
        "stop": lambda _: next(iter(())),
        "key": lambda state: state["absent"],
        "group": lambda _: _raise(ExceptionGroup("several", [ValueError("x"), KeyError("y")])),
        "type": lambda _: {"bar": [object()]},
    }
    for name, node in bad.items():
        told = calls(in_a_row({"a": says("a"), name: node}, checkpointer=InMemorySaver()))
        await told.invoke({"bar": []}, at())
        await told.history(at())
    two = side_by_side({"a": says("a"), "b": says("b")}, checkpointer=InMemorySaver())
    told = calls(two)
    await told.invoke({"bar": []}, at())
    await told.history(at())


def _raise(error: BaseException) -> None:
    raise error


def checked_ids() -> bool:
    """Whether ids are found in a text: the traces depend on it."""
    return bool(_ID.fullmatch(str(uuid.uuid4())))
