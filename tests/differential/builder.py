"""A spec as a graph of either library: the one place that builds, with the library as argument."""

import operator
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated, Any, TypedDict

from anyio import sleep

from tests.differential.behaviour import NodeError, Returned, act, decide
from tests.differential.rules import Spec

# A node fails when its siblings have finished: which of them are cut off is no library's promise.
SECONDS_BEFORE_FAILING = 0.1
OURS, THEIRS = "actorgraph", "langgraph"
HOMES = {
    OURS: {
        "StateGraph": OURS,
        "Send": OURS,
        "Command": OURS,
        "interrupt": OURS,
        "InMemorySaver": OURS,
    },
    THEIRS: {
        "StateGraph": "langgraph.graph",
        "Send": "langgraph.types",
        "Command": "langgraph.types",
        "interrupt": "langgraph.types",
        "InMemorySaver": "langgraph.checkpoint.memory",
    },
}


def larger(one: int, other: int) -> int:
    """A reducer with a signature, which `max` has not."""
    return max(one, other)


TYPES = {
    "append": Annotated[list, operator.add],
    "sum": Annotated[int, operator.add],
    "max": Annotated[int, larger],
    "last": str,
}


@dataclass
class Library:
    """The names that a graph is built of, from one library."""

    name: str

    def __post_init__(self) -> None:
        for name, module in HOMES[self.name].items():
            setattr(self, name, getattr(import_module(module), name))


@dataclass
class Built:
    """A compiled graph, and how often each of its nodes was called."""

    graph: Any
    saver: Any
    calls: Counter[str] = field(default_factory=Counter)


def build(library: Any, spec: Spec, *, plain: bool = False) -> Built:
    """The graph of a spec, with a saver of its own; of plain functions, or of async ones."""
    built = Built(None, library.InMemorySaver())
    builder = builder_of(library, spec, built.calls, "", plain=plain)
    options = {"interrupt_before": spec["before"], "interrupt_after": spec["after"]}
    built.graph = builder.compile(checkpointer=built.saver, **options)
    return built


def builder_of(library: Any, spec: Spec, calls: Counter[str], prefix: str, *, plain: bool) -> Any:
    """The nodes and edges; nested graphs are compiled without a saver."""
    builder = library.StateGraph(schema_of(spec))
    for name, node in spec["nodes"].items():
        if "graph" in node:
            inner = builder_of(library, node["graph"], calls, f"{prefix}{name}/", plain=plain)
            builder.add_node(name, inner.compile())
        else:
            call = node_of(library, prefix + name, node, calls, plain=plain)
            builder.add_node(name, call, **({"defer": True} if node.get("defer") else {}))
    for source, target in spec["edges"]:
        builder.add_edge(source, target)
    for place, branch in enumerate(spec["branches"]):
        route = branch_of(library, branch, place, plain=plain)
        builder.add_conditional_edges(branch["source"], route)
    return builder


def schema_of(spec: Spec) -> Any:
    """The state: a TypedDict of the spec's channels."""
    fields = {name: TYPES[kind] for name, kind in spec["channels"].items()}
    return TypedDict("State", fields, total=False)  # pyright: ignore[reportArgumentType]


_COUNTING = threading.Lock()


def node_of(
    library: Any, path: str, node: dict[str, Any], calls: Counter[str], *, plain: bool
) -> Any:
    """A node that asks, fails and returns as its spec says."""
    name = path.rpartition("/")[2]

    def fails() -> bool:
        with _COUNTING:
            calls[path] += 1
            return calls[path] <= node.get("fails", 0)

    def returned(state: Any) -> Any:
        answers = [library.interrupt(question(path, k, state)) for k in range(node.get("asks", 0))]
        return formed(library, node["form"], act(name, node, state, answers))

    async def call(state: Any) -> Any:
        if fails():
            await sleep(SECONDS_BEFORE_FAILING)
            raise NodeError(name)
        return returned(state)

    def plain_call(state: Any) -> Any:
        if fails():
            time.sleep(SECONDS_BEFORE_FAILING)
            raise NodeError(name)
        return returned(state)

    call.__name__ = plain_call.__name__ = name
    return plain_call if plain else call


def question(path: str, number: int, seen: dict[str, Any]) -> str:
    """The question of a node; two tasks of one node differ by what they see."""
    return f"{path}?{number} at {seen.get('n', 0)}"


def formed(library: Any, form: str, made: Returned) -> Any:
    """The result of a node, in one of the forms that a return may have."""
    sends = [library.Send(target, arg) for target, arg in made.sends]
    match form:
        case "dict" if not sends:
            return made.update
        case "list":
            pairs = [{key: value} for key, value in made.update.items()]
            return [*pairs, library.Command(goto=sends)]
        case "none" if not sends:
            return None
        case _:
            return library.Command(update=made.update, goto=[*made.goto, *sends])


def branch_of(library: Any, branch: dict[str, Any], place: int, *, plain: bool) -> Any:
    """A conditional edge."""

    def plain_route(state: Any) -> Any:
        found = decide(branch, state)
        return [library.Send(*t) if isinstance(t, tuple) else t for t in found]

    async def route(state: Any) -> Any:
        return plain_route(state)

    route.__name__ = plain_route.__name__ = f"route{place}"
    return plain_route if plain else route
