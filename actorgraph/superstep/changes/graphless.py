"""Functions that run no graph, as far as their code shows.

Where a subgraph has become a plain function, the state that it has stored would be left out. But a
function may run a graph that no look at a plan finds: one of a tool, of a helper, of an object.
Only a function that can't is known to be none of these.
"""

import functools
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from actorgraph.bridging import BRIDGE
from actorgraph.plan.closures import closure_values

_RUNS = frozenset(
    ("invoke", "ainvoke", "stream", "astream", "batch", "abatch", "astream_events", "transform")
)
_GIVEN = frozenset(("context", "runtime", "config", "store"))
"""Names of what the runtime gives: objects of the caller may be reached from there."""
_PLAIN = (type, ModuleType, BuiltinFunctionType, str, bytes, int, float, tuple, list, dict, set)
DEPTH_MAX = 4
"""Functions that call each other are followed so far."""


def runs_no_graph(call: Any, depth: int = 0) -> bool:
    """Whether a node's function, and those that it refers to, can't run a graph."""
    while isinstance(call, functools.partial):
        call = call.func
    if call is None or isinstance(call, _PLAIN):
        return True
    if not isinstance(call, FunctionType) or depth > DEPTH_MAX:
        return False
    names = {name for code in _codes(call.__code__) for name in (*code.co_names, *code.co_varnames)}
    if names & (_RUNS | _GIVEN):
        return False
    named = [call.__globals__[name] for name in sorted(names) if name in call.__globals__]
    held = (*closure_values(call), *named)
    return all(_is_library(one) or runs_no_graph(one, depth + 1) for one in held)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _is_library(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] in ("actorgraph", *BRIDGE.unread)
