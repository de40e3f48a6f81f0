"""Find the subgraphs that the nodes of a graph run, without running anything.

A subgraph is a compiled graph added as a node, or one that a node's function refers to by a
global name or a closure variable.
"""

import functools
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

from actorgraph.plan.graph import Plan
from actorgraph.ports import Saver

_NO_GRAPHS = frozenset(
    (types.NoneType, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
)


@runtime_checkable
class Graph(Protocol):
    """The attributes of a compiled graph that its parent reads."""

    plan: Plan
    checkpointer: Saver | bool | None
    stored_types: tuple[type, ...]
    subgraphs: "dict[str, Graph]"


def types_below(subgraphs: Mapping[str, Graph]) -> tuple[type, ...]:
    """Return the user types of subgraphs: the parent stores their interrupts' values too."""
    found: dict[type, None] = {}
    for graph in subgraphs.values():
        found.update(dict.fromkeys(graph.stored_types))
    return tuple(found)


def subgraphs_of(plan: Plan) -> dict[str, Graph]:
    """Return node -> the subgraph that it runs."""
    found: dict[str, Graph] = {}
    for node in plan.nodes.values():
        graph = _graph_in(node.call)
        if graph is not None:
            found[node.name] = graph
    return found


def graph_at(graph: Graph, nodes: Sequence[str]) -> Graph | None:
    """Return the subgraph on a path of nodes, outermost first; None if a node runs none."""
    found: Graph | None = graph
    for name in nodes:
        found = found.subgraphs.get(name) if found is not None else None
    return found


def _graph_in(call: Any) -> Graph | None:
    while isinstance(call, functools.partial):
        call = call.func
    owner = getattr(call, "__self__", None)
    if _is_graph(owner):
        return owner
    function = inspect.unwrap(getattr(call, "__func__", call))
    if not inspect.isfunction(function):
        return None
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    return next((value for value in (*cells, *named) if _is_graph(value)), None)


def _is_graph(value: Any) -> TypeGuard[Graph]:
    # isinstance() of a runtime protocol is slow, and most names are of these types.
    return type(value) not in _NO_GRAPHS and isinstance(value, Graph)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading is the test
    except ValueError:
        return False
    return True
