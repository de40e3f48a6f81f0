"""Call plain routers on the event loop, and warn of those that hold it up.

A router gets here by proof or by declaration (`BranchPlan.inline`); the clock never changes where
it is called, it only finds a declaration that doesn't hold. In a blocking call's own thread, and
with its node in a worker thread, it holds up no event loop, however long it takes.
"""

import warnings
from time import perf_counter
from typing import Any

from actorgraph.errors import SlowRouterWarning
from actorgraph.loops import in_event_loop
from actorgraph.plan.plan import BranchPlan
from actorgraph.runtime.caller import loop_here

SLOW_S = 0.05
_WARNED_MAX = 1000
_warned: set[tuple[str, str, str]] = set()
"""Node, branch and function of each slow router, so that each is named once per process."""


def call_inline(node: str, branch: BranchPlan, seen: Any, extra: dict[str, Any]) -> Any:
    """Call a router here.

    Args:
        node: the name of the node whose conditional edge it is.
        seen: the state as the router gets it.
        extra: its injected parameters.
    Returns: its answer, which may be an awaitable.
    Raises: its error.
    """
    began = perf_counter()
    answer = branch.path(seen, **extra) if extra else branch.path(seen)
    took = perf_counter() - began
    if took > SLOW_S and in_event_loop() and loop_here() is None:
        _warn(node, branch, took)
    return answer


def _warn(node: str, branch: BranchPlan, took: float) -> None:
    path = branch.path
    function = f"{getattr(path, '__module__', '')}.{getattr(path, '__qualname__', '')}"
    key = (node, branch.name, function)
    if key in _warned or len(_warned) >= _WARNED_MAX:
        return
    _warned.add(key)
    warnings.warn(
        f"the router {branch.name!r} of node {node!r} held up the event loop for "
        f"{took * 1000:.0f} ms; it is called there because: {branch.why}\n"
        "  Do this: add_conditional_edges(..., inline=False) calls it in a worker thread; or "
        "make it async and await what it waits for",
        SlowRouterWarning,
        stacklevel=3,
    )
