"""Functions that are found again by name: those that a question calls when it reminds.

A question outlives its process, so it can't hold a function. It holds the way to it: the nodes
from the graph to the one that asks, and the name of the function where that node's code would
find it: among the variables that it takes from the function around it, else in its module.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from actorgraph.plan.plan import Plan
from actorgraph.values.constants import NAMESPACE_SEPARATOR

CALL = "__call__"


def way_to(nodes: Sequence[str], name: str) -> str:
    """Return the way to a function as it is stored.

    Args:
        nodes: from the graph to the one whose code names the function.
        name: the function's, there.
    """
    return NAMESPACE_SEPARATOR.join((*nodes, name))


def function_at(plan: Plan, way: str) -> Callable[..., Any] | None:
    """Find a function by its way; None if the graph doesn't have it any more.

    Args:
        plan: of the root graph.
    """
    *nodes, name = way.split(NAMESPACE_SEPARATOR)
    for place, node in enumerate(nodes):
        known = plan.nodes.get(node)
        if known is None:
            return None
        below = getattr(getattr(known.call, "__self__", None), "plan", None)
        if place == len(nodes) - 1 or not isinstance(below, Plan):
            return _named(known.call, name)
        plan = below
    return None


def _named(call: Any, name: str) -> Callable[..., Any] | None:
    while isinstance(call, partial):
        call = call.func
    function: Any = inspect.unwrap(getattr(call, "__func__", call))
    code = getattr(function, "__code__", None)
    if code is None:  # an object with `__call__`
        function = getattr(type(call), CALL, None)
        code = getattr(function, "__code__", None)
    if code is None:
        return None
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    found = cells[name].cell_contents if name in cells else function.__globals__.get(name)
    return found if callable(found) else None
