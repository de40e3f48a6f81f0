"""What can be told about a user's callable without calling it: its kind, parameters, hints."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from actorgraph.plan.schema import is_schema
from actorgraph.values.commands import Command

INJECTABLE = ("config", "writer")
"""Parameters that the runtime fills in when a node declares them by name."""


def as_callable(action: Any) -> Callable[..., Any]:
    """The function behind a node: itself, or the `ainvoke`/`invoke` of an object.

    Raises:
        TypeError: it is neither.
    """
    for method in ("ainvoke", "invoke"):
        if not inspect.isroutine(action) and hasattr(action, method):
            return getattr(action, method)
    if not callable(action):
        msg = f"{action!r} is neither callable nor has `ainvoke` or `invoke`"
        raise TypeError(msg)
    return action


def is_async(action: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    while isinstance(action, functools.partial):
        action = action.func
    if inspect.iscoroutinefunction(action):
        return True
    return inspect.iscoroutinefunction(getattr(type(action), "__call__", None))  # noqa: B004


def injected(action: Callable[..., Any]) -> tuple[str, ...]:
    """The injectable parameters that it declares after its first one."""
    names = [p.name for p in _parameters(action)[1:]]
    return tuple(name for name in INJECTABLE if name in names)


def first_schema(action: Callable[..., Any]) -> Any | None:
    """The state schema by which the first parameter is annotated, if it is one."""
    parameters = _parameters(action)
    hint = _hints_of(action).get(parameters[0].name) if parameters else None
    return hint if is_schema(hint) else None


def literal_returns(action: Callable[..., Any]) -> tuple[Any, ...]:
    """The values of a `-> Literal[...]` annotation."""
    hint = _hints_of(action).get("return")
    return get_args(hint) if get_origin(hint) is Literal else ()


def command_destinations(action: Callable[..., Any]) -> tuple[str, ...]:
    """The nodes in a `-> Command[Literal[...]]` annotation, also inside a Union."""
    hint = _hints_of(action).get("return")
    options = get_args(hint) if get_origin(hint) in (Union, type(int | str)) else (hint,)
    for option in options:
        if get_origin(option) is Command and get_args(option):
            literal = get_args(option)[0]
            if get_origin(literal) is Literal:
                return get_args(literal)
    return ()


def name_of(action: Any) -> str | None:
    """The name under which a node is added when none is given."""
    while isinstance(action, functools.partial):
        action = action.func
    name = getattr(action, "name", None) or getattr(action, "__name__", None)
    return name or type(action).__name__


def _parameters(action: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(action).parameters.values())
    except (TypeError, ValueError):
        return []


def _hints_of(action: Any) -> dict[str, Any]:
    while isinstance(action, functools.partial):
        action = action.func
    if not inspect.isroutine(action) and not isinstance(action, type):
        action = getattr(type(action), "__call__", action)  # noqa: B004 - not a test
    try:
        return get_type_hints(action)
    except Exception:  # noqa: BLE001 - hints are a convenience; whatever breaks them is the user's
        return {}
