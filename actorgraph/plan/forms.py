"""Nodes of two forms: objects with `invoke` and `ainvoke`, such as LangChain's Runnables.

An awaited call of a graph runs `ainvoke`, a blocking call runs `invoke`, as LangGraph does: such
an object may do in one form what it can't in the other.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

from actorgraph.plan.plan import BranchPlan, NodePlan, Plan


def blocking_plan(plan: Plan) -> Plan:
    """Return the plan of blocking calls; the same object if no function has two forms."""
    nodes = {name: _node(node) for name, node in plan.nodes.items()}
    handlers = {name: _node(node) for name, node in plan.handlers.items()}
    pairs = [(nodes[n], plan.nodes[n]) for n in nodes]
    pairs += [(handlers[n], plan.handlers[n]) for n in handlers]
    if all(new is old for new, old in pairs):
        return plan
    return replace(plan, nodes=nodes, handlers=handlers)


def _node(node: NodePlan) -> NodePlan:
    branches = tuple(map(_branch, node.branches))
    # A time limit ends async functions only: the node keeps the form that it applies to.
    call = None if node.timeout is not None else _blocking_form(node.call)
    if call is None and all(new is old for new, old in zip(branches, node.branches, strict=True)):
        return node
    if call is None:
        return replace(node, branches=branches)
    is_async = node.is_async and call.__name__ == "ainvoke"
    return replace(node, call=call, is_async=is_async, branches=branches)


def _branch(branch: BranchPlan) -> BranchPlan:
    path = _blocking_form(branch.path)
    return branch if path is None else replace(branch, path=path, is_async=False)


def _blocking_form(function: Callable[..., Any]) -> Any:
    """Return what a blocking call runs instead of an `ainvoke`; None: the same.

    A compiled graph stays async: its own functions are replaced.
    """
    owner: Any = getattr(function, "__self__", None)
    if owner is None or getattr(function, "__name__", "") != "ainvoke":
        return None
    graph_form = getattr(owner, "blocking_form", None)
    if graph_form is not None:
        graph = graph_form()
        return None if graph is owner else graph.ainvoke
    return owner.invoke if has_sync_form(owner) else None


def has_sync_form(owner: Any) -> bool:
    """Whether `invoke` of an object needs no event loop.

    LangChain's objects that are made of an async function alone have an `invoke` that raises.
    """
    if not hasattr(owner, "invoke"):
        return False
    made_of_functions = hasattr(owner, "afunc") or hasattr(owner, "coroutine")
    if made_of_functions and getattr(owner, "func", None) is None:
        return False
    return all(map(has_sync_form, _parts(owner)))


def _parts(owner: Any) -> Iterable[Any]:
    """The objects that a chain, a mapping of chains or a bound object calls."""
    for steps in (getattr(owner, "steps", ()), getattr(owner, "steps__", ())):
        if isinstance(steps, (list, dict)):  # any object may be a node, a mock too
            yield from cast("dict[str, Any]", steps).values() if isinstance(steps, dict) else steps
    bound: Any = getattr(owner, "bound", None)
    if bound is not None:
        yield bound
