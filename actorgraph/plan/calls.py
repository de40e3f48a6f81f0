"""Inspection of user's callables without calling them: kind, name, hints, injected parameters."""

import functools
import inspect
from collections.abc import Callable
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from actorgraph.errors.replacing import overrides_sync
from actorgraph.plan.injection import parameters_of
from actorgraph.plan.schema import is_schema
from actorgraph.values.commands import Command
from actorgraph.values.interop import is_langgraph_command


def as_callable(action: Any) -> Callable[..., Any]:
    """Return the function of a node: itself, or the `ainvoke` or `invoke` of an object.

    Raises:
        TypeError: it is neither callable nor has such a method.
    """
    methods = ("invoke",) if overrides_sync(type(action), "invoke") else ("ainvoke", "invoke")
    for method in methods:
        if not inspect.isroutine(action) and hasattr(action, method):
            return getattr(action, method)
    if not callable(action):
        msg = f"{action!r} is neither callable nor has `ainvoke` or `invoke`"
        raise TypeError(msg)
    return action


def is_async(action: Callable[..., Any]) -> bool:
    """Whether a call of it returns a coroutine."""
    while isinstance(action, functools.partial):
        action = action.func
    if inspect.iscoroutinefunction(action):
        return True
    return inspect.iscoroutinefunction(getattr(type(action), "__call__", None))  # noqa: B004


def is_generator(action: Callable[..., Any]) -> bool:
    """Whether a call of it returns an iterator instead of a result."""
    while isinstance(action, functools.partial):
        action = action.func
    return inspect.isgeneratorfunction(action) or inspect.isasyncgenfunction(action)


def first_schema(action: Callable[..., Any]) -> Any | None:
    """Return the annotation of the first parameter if it is a state schema; else None."""
    parameters = parameters_of(action)
    hint = _hints_of(action).get(parameters[0].name) if parameters else None
    return hint if is_schema(hint) else None


def literal_returns(action: Callable[..., Any]) -> tuple[Any, ...]:
    """List the values of a `-> Literal[...]` annotation."""
    hint = _hints_of(action).get("return")
    return get_args(hint) if get_origin(hint) is Literal else ()


def command_destinations(action: Callable[..., Any]) -> tuple[str, ...]:
    """List the nodes in a return annotation's `Command[Literal[...]]`, also inside a Union."""
    hint = _hints_of(action).get("return")
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    commands = [get_args(o)[0] for o in options if _is_command(get_origin(o)) and get_args(o)]
    named = [get_args(literal) for literal in commands if get_origin(literal) is Literal]
    return tuple(dict.fromkeys(name for names in named for name in names))


def _is_command(kind: Any) -> bool:
    return kind is Command or is_langgraph_command(kind)


def name_of(action: Any) -> str | None:
    """Return the name under which a node is added when none is given."""
    while isinstance(action, functools.partial):
        action = action.func
    name = getattr(action, "name", None) or getattr(action, "__name__", None)
    return name or type(action).__name__


def _hints_of(action: Any) -> dict[str, Any]:
    while isinstance(action, functools.partial):
        action = action.func
    if not inspect.isroutine(action) and not isinstance(action, type):
        action = getattr(type(action), "__call__", action)  # noqa: B004 - not a test
    try:
        return get_type_hints(action)
    except Exception:  # noqa: BLE001 - a user's annotations may raise anything; hints are optional
        return {}
