"""Small graphs that many tests run, and short ways to ask about their threads."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from operator import add
from typing import Annotated, Any, TypedDict

from actorgraph import END, START, CompiledStateGraph, StateGraph, StateSnapshot

Config = dict[str, Any]


class AB(TypedDict, total=False):
    """`foo` keeps the last value, `bar` appends."""

    foo: str
    bar: Annotated[list[str], add]


def at(thread_id: str = "t", **place: Any) -> Config:
    """The config of a thread; with `checkpoint_id=`, of one of its checkpoints."""
    return {"configurable": {"thread_id": thread_id, **place}}


def writer(name: str, log: list[str] | None = None) -> Callable[[AB], Any]:
    """An async node that writes its name to both channels, and says in `log` that it ran."""

    async def node(state: AB) -> dict[str, Any]:
        if log is not None:
            log.append(name)
        return {"foo": name, "bar": [name]}

    return node


def compiled(
    nodes: Mapping[str, Callable[..., Any]],
    edges: Iterable[tuple[str | list[str], str]],
    *,
    schema: Any = AB,
    **options: Any,
) -> CompiledStateGraph:
    """A graph of these nodes and edges; `options` go to `compile`."""
    builder = StateGraph(schema)
    for name, action in nodes.items():
        builder.add_node(name, action)
    for start, end in edges:
        builder.add_edge(start, end)
    return builder.compile(**options)


def in_a_row(
    nodes: Mapping[str, Callable[..., Any]], *, schema: Any = AB, **options: Any
) -> CompiledStateGraph:
    """The nodes one after the other."""
    names = [START, *nodes, END]
    return compiled(nodes, pairwise(names), schema=schema, **options)


def side_by_side(
    nodes: Mapping[str, Callable[..., Any]], *, schema: Any = AB, **options: Any
) -> CompiledStateGraph:
    """All the nodes in one superstep."""
    return compiled(nodes, [(START, name) for name in nodes], schema=schema, **options)


def chain(names: Iterable[str], log: list[str] | None = None, **options: Any) -> CompiledStateGraph:
    """Nodes that write their names, one after the other."""
    return in_a_row({name: writer(name, log) for name in names}, **options)


def ab(checkpointer: Any = None, log: list[str] | None = None, **options: Any) -> Any:
    """START -> a -> b -> END."""
    return chain("ab", log, checkpointer=checkpointer, **options)


async def history(
    graph: CompiledStateGraph, config: Config | str, **options: Any
) -> list[StateSnapshot]:
    """The thread's checkpoints, newest first."""
    return [found async for found in graph.aget_state_history(config, **options)]


async def count(graph: CompiledStateGraph, config: Config) -> int:
    """How many checkpoints the thread has."""
    return len(await history(graph, config))
