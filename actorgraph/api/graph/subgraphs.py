"""Find the subgraphs that the nodes of a graph run, without running anything.

A subgraph is a compiled graph added as a node, or one that a node's function refers to by a
global name or a closure variable.
"""

import functools
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

from actorgraph.codec import Codec
from actorgraph.errors import GraphBuildError, UnsafeSettingWarning
from actorgraph.errors.warning_places import warn
from actorgraph.plan.closures import closure_values
from actorgraph.plan.plan import Plan
from actorgraph.ports import Saver
from actorgraph.superstep.changes.half_converted import converted_below, cure_of

_NO_GRAPHS = frozenset(
    (types.NoneType, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
)


@runtime_checkable
class Subgraph(Protocol):
    """The attributes of a compiled graph that its parent reads."""

    plan: Plan
    checkpointer: Saver | bool | None
    stored_types: tuple[type, ...]
    subgraphs: "dict[str, Subgraph]"

    def codec_for(self, saver: object) -> Codec:
        """Return the codec of the graph's values in a saver."""
        ...


def types_below(subgraphs: Mapping[str, Subgraph]) -> tuple[type, ...]:
    """Return the user types of subgraphs: the parent stores their interrupts' values too."""
    found: dict[type, None] = {}
    for graph in subgraphs.values():
        found.update(dict.fromkeys(graph.stored_types))
    return tuple(found)


def subgraphs_of(plan: Plan) -> dict[str, Subgraph]:
    """Return node -> the subgraph that it runs."""
    found: dict[str, Subgraph] = {}
    for node in plan.nodes.values():
        graph = _subgraph_in(node.call)
        if graph is not None:
            found[node.name] = graph
    return found


def check_conversions(plan: Plan, subgraphs: Mapping[str, Subgraph]) -> None:
    """Refuse a subgraph that converts a key which it shares with a graph that doesn't.

    The graph would hand it stored values of the old form as if they were new. The code of a
    function may convert them on the way: there it is a warning.

    Raises:
        GraphBuildError: a node is such a subgraph.
    """
    for node, graph in subgraphs.items():
        one = converted_below(plan, graph.plan)
        if one is None:
            continue
        what = (
            f"node {node!r} of graph {plan.name!r} runs graph {graph.plan.name!r}, which alone "
            f"converts {one.channel!r}, a key of both: it would get old values as if they were new"
        )
        do = (
            f"compile(migrations=[{cure_of(one)}]) of graph {plan.name!r} too: with the same "
            "function; with None if no thread of it has older values, which are then refused; "
            "with `lambda value: value` where its values are the same in both versions"
        )
        if getattr(plan.nodes[node].call, "__self__", None) is graph:
            raise GraphBuildError(what, do=do)
        warn(f"{what}\n  Do this: {do}", UnsafeSettingWarning, about=plan.nodes[node].call)


def graphs_on(graph: Subgraph, nodes: Sequence[str]) -> list[Subgraph]:
    """Return a graph and the subgraphs on a path of nodes, outermost first.

    The list is shorter than the path if a node runs none that is known. The nodes may have old
    names.
    """
    found = [graph]
    for name in nodes:
        now = found[-1].plan.renames.node(name)
        below = found[-1].subgraphs.get(name) or found[-1].subgraphs.get(now or name)
        if below is None:
            break
        found.append(below)
    return found


def graph_at(graph: Subgraph, nodes: Sequence[str]) -> Subgraph | None:
    """Return the subgraph on a path of nodes, outermost first; None if a node runs none."""
    way = graphs_on(graph, nodes)
    return way[-1] if len(way) > len(nodes) else None


def _subgraph_in(call: Any) -> Subgraph | None:
    candidates, known = [call], set[int]()
    for one in candidates:  # which grows by the steps of sequences in sequences
        graph = _subgraph_of(one)
        if graph is not None:
            return graph
        owner = getattr(one, "__self__", one)
        # The function of a Runnable may be a method of the same Runnable.
        if id(owner) not in known:
            known.add(id(owner))
            candidates.extend(_parts_of(owner))
    return None


def _parts_of(runnable: Any) -> list[Any]:
    """Return the functions and the steps of a Runnable that a node calls; [] for other objects."""
    if not hasattr(runnable, "invoke") or _is_subgraph(runnable):
        return []
    steps = getattr(runnable, "steps", ())
    given: dict[str, Any] = getattr(runnable, "__dict__", {})
    functions = [given[name] for name in ("func", "afunc") if callable(given.get(name))]
    return [*(steps if isinstance(steps, list) else ()), *functions]


def _subgraph_of(call: Any) -> Subgraph | None:
    """Return the graph that a function is a method of or refers to, or that the object is."""
    while isinstance(call, functools.partial):
        call = call.func
    owner = getattr(call, "__self__", call)
    if _is_subgraph(owner):
        return owner
    function = inspect.unwrap(getattr(call, "__func__", call))
    if not inspect.isfunction(function):
        return None
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    held = (*closure_values(function), *named)
    return next((value for value in held if _is_subgraph(value)), None)


def _is_subgraph(value: Any) -> TypeGuard[Subgraph]:
    # isinstance() of a runtime protocol is slow, and most names are of these types.
    # A mock has every attribute, but no plan.
    plan = getattr(value, "plan", None) if type(value) not in _NO_GRAPHS else None
    return isinstance(plan, Plan) and isinstance(value, Subgraph)
