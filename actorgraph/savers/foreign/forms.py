"""Values and versions for savers with LangGraph's interface.

Classes    Send, Interrupt and Overwrite become LangGraph's, where the program has imported it, so
           that LangGraph's serializers and tools can read them. Nothing is imported here
Payloads   such a saver encodes values itself: here a payload is an empty one that carries a copy
           of its value, so that later changes by a node don't change what was saved
Versions   ours are integers; a saver may count with text or floats. LangGraph's text is the number,
           a dot and a random part, so a version that the parent has keeps its text
"""

import sys
from typing import Any, cast

from actorgraph.values.commands import Interrupt, Send
from actorgraph.values.interop import from_langgraph
from actorgraph.values.node_policies import TimeoutPolicy
from actorgraph.values.overwrite import Overwrite

_TYPES = "langgraph.types"


def convert_to_langgraph(value: Any) -> Any:
    """Convert a value, or the items of a list or tuple, to LangGraph's classes."""
    types = sys.modules.get(_TYPES)
    return value if types is None else _mapped(value, lambda item: _theirs(types, item))


def convert_from_langgraph(value: Any) -> Any:
    """Convert a value, or the items of a list or tuple, to our classes."""
    return _mapped(value, _ours)


def _mapped(value: Any, change: Any) -> Any:
    if type(value) is list:
        return [change(item) for item in cast("list[Any]", value)]
    if type(value) is tuple:
        return tuple(change(item) for item in cast("tuple[Any, ...]", value))
    return change(value)


def _theirs(types: Any, item: Any) -> Any:
    if type(item) is Send:
        limit = TimeoutPolicy.coerce(item.timeout)
        if limit is None:
            return types.Send(item.node, item.arg)
        made = types.TimeoutPolicy(
            run_timeout=limit.run_timeout,
            idle_timeout=limit.idle_timeout,
            refresh_on=limit.refresh_on,
        )
        return types.Send(item.node, item.arg, timeout=made)
    if type(item) is Interrupt:
        schema = item.response_schema
        more = {} if schema is None else {"response_schema": schema}
        return types.Interrupt(value=item.value, id=item.id, **more)
    if type(item) is Overwrite:
        return types.Overwrite(value=item.value)
    return item


def _ours(item: Any) -> Any:
    kind = type(item)
    if not kind.__module__.startswith("langgraph."):
        return item
    return item.value if kind.__name__ == "_DeltaSnapshot" else from_langgraph(item)
