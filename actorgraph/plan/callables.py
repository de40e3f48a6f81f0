"""Inspection of user's callables without calling them: kind, name, hints, injected parameters."""

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from actorgraph.errors.excerpts import shown
from actorgraph.errors.overrides import overrides_sync
from actorgraph.plan.schema import is_schema
from actorgraph.values.commands import Command
from actorgraph.values.from_langgraph import is_langgraph_command


def as_callable(action: Any) -> Callable[..., Any]:
    """Return the function of a node: itself, or the `ainvoke` or `invoke` of an object.

    A dict of functions becomes LangChain's `RunnableParallel`, in a program that uses LangChain.

    Raises:
        TypeError: it is neither callable nor has such a method.
    """
    if isinstance(action, Mapping):
        action = _parallel(cast("Mapping[str, Any]", action))
    methods = ("invoke",) if overrides_sync(type(action), "invoke") else ("ainvoke", "invoke")
    # An object that can be called and makes up its attributes, such as a Mock, has no methods of
    # its class by these names. `__class__` and not `type`: the former is a mock's `spec`.
    home = action.__class__ if callable(action) else action
    for method in methods:
        if not inspect.isroutine(action) and hasattr(home, method):
            return getattr(action, method)
    if not callable(action):
        msg = f"expected a function, got {shown(action)}"
        raise TypeError(msg)
    return action


def _parallel(functions: Mapping[str, Any]) -> Any:
    """Make a dict of functions into the object that calls all of them, as LangChain does."""
    langchain = sys.modules.get("langchain_core.runnables")
    parts = (hasattr(each, "invoke") or callable(each) for each in functions.values())
    if langchain is None or not all(parts):
        msg = f"expected a function, got the dict {shown(functions)}"
        raise TypeError(msg)
    return langchain.RunnableParallel(functions)


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
    for attribute in ("name", "__name__"):
        name = getattr(action, attribute, None)
        if name and isinstance(name, str):  # a Mock has any attribute, but no name
            return name
    return type(action).__name__


def _hints_of(action: Any) -> dict[str, Any]:
    while isinstance(action, functools.partial):
        action = action.func
    if not inspect.isroutine(action) and not isinstance(action, type):
        action = getattr(type(action), "__call__", action)  # noqa: B004 - not a test
    try:
        return get_type_hints(action)
    except Exception:  # noqa: BLE001 - a user's annotations may raise anything; hints are optional
        return {}


INJECTABLE = ("config", "error", "previous", "runtime", "store", "writer")

_ANY_TYPE = ("previous", "runtime")
_TYPE_NAMES = {
    "config": ("RunnableConfig", "dict", "Mapping", "Config"),
    "error": ("NodeError",),
    "store": ("Store",),
    "writer": ("StreamWriter", "Writer", "Callable"),
}


def injected(action: Callable[..., Any]) -> tuple[str, ...]:
    """List the injectable parameters that it declares after its first one."""
    declared = parameters_of(action)[1:]
    bound = _bound(action)
    return tuple(sorted(p.name for p in declared if p.name not in bound and _is_filled(p)))


def fillable(action: Callable[..., Any]) -> dict[str, int | None]:
    """Make injectable parameter of a step -> its positional place; None for keyword-only ones.

    A step is called with arguments of the program's own, which may fill in any of these.
    """
    bound = _bound(action)
    return {
        p.name: None if p.kind is p.KEYWORD_ONLY else place
        for place, p in enumerate(parameters_of(action))
        if p.name != "error" and p.name not in bound and _is_filled(p)
    }


def needs_store(action: Callable[..., Any]) -> bool:
    """Whether it requires a store: its `store` is neither optional nor has a default."""
    bound = _bound(action)
    return any(
        p.name == "store" and p.default is p.empty and not _is_optional(p.annotation)
        for p in parameters_of(action)[1:]
        if p.name not in bound
    )


def parameters_of(action: Callable[..., Any]) -> list[inspect.Parameter]:
    """List the parameters of a callable; [] if Python can't read its signature."""
    try:
        return list(inspect.signature(action).parameters.values())
    except (TypeError, ValueError):
        return []


def _bound(action: Any) -> frozenset[str]:
    names: set[str] = set()
    while isinstance(action, functools.partial):
        names.update(action.keywords)
        action = action.func
    return frozenset(names)


def _is_filled(parameter: inspect.Parameter) -> bool:
    name, empty = parameter.name, inspect.Parameter.empty
    if name not in INJECTABLE or parameter.kind in (
        parameter.POSITIONAL_ONLY,
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    ):
        return False
    if name in _ANY_TYPE or parameter.annotation is empty or parameter.default is empty:
        return True
    return any(kind in _text(parameter.annotation) for kind in _TYPE_NAMES[name])


def _is_optional(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return "Optional" in annotation or "None" in annotation
    union = get_origin(annotation) in (Union, types.UnionType)
    return union and type(None) in get_args(annotation)


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else f"{annotation!r}"
