"""Inspection of user's callables without calling them: kind, name, hints, injected parameters."""

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin

from actorgraph.bridging import BRIDGE
from actorgraph.errors.excerpts import shown
from actorgraph.errors.overrides import overrides_sync
from actorgraph.errors.signatures import signature_of
from actorgraph.plan.annotation_forms import Unknown, items_of, literals_of, members_of
from actorgraph.plan.annotations import function_annotations
from actorgraph.plan.schema import is_schema
from actorgraph.values.commands import Command

T = TypeVar("T")


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
    parts = (hasattr(each, "invoke") or callable(each) for each in functions.values())
    made = BRIDGE.adapt_parallel(functions) if all(parts) else None
    if made is None:
        msg = f"expected a function, got the dict {shown(functions)}"
        raise TypeError(msg)
    return made


_ONLY_READS = "only_reads"


def mark_only_reads(router: T) -> T:
    """Mark a router of this library that only reads the state: the event loop may call it."""
    # Not True: `functools.wraps` copies the attribute to a wrapper, which may do more.
    setattr(router, _ONLY_READS, router)
    return router


def only_reads(router: Callable[..., Any]) -> bool:
    """Whether a router is marked by `mark_only_reads`."""
    return getattr(router, _ONLY_READS, None) is router


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
    """Return the annotation of the first parameter if it is a state schema; else None.

    A node always gets a state: of `State | None` it is `State`. A union of more names none.
    """
    some = state_members(action)
    return some[0] if len(some) == 1 and is_schema(some[0]) else None


def state_members(action: Callable[..., Any]) -> list[Any]:
    """List the members of the first parameter's annotation, without wrapping and without None."""
    parameters = parameters_of(action)
    if not parameters or parameters[0].annotation is inspect.Parameter.empty:
        return []
    members = members_of(function_annotations(action).get(parameters[0].name))
    return [member for member in members if member is not NoneType]


def is_unresolved(member: Any) -> bool:
    """Whether it names a type that no scope has; other texts may describe the state."""
    if not isinstance(member, Unknown):
        return False
    try:
        ast.parse(member.text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def literal_returns(action: Callable[..., Any]) -> tuple[Any, ...]:
    """List the values of a `-> Literal[...]` annotation, or of one of a list of them."""
    return literals_of(function_annotations(action).get("return"))


def command_destinations(action: Callable[..., Any]) -> tuple[str, ...]:
    """List the nodes in a return annotation's `Command[Literal[...]]`, in a Union or list too."""
    members = items_of(function_annotations(action).get("return"))
    commands = [get_args(one)[0] for one in members if _is_command(get_origin(one))]
    return tuple(dict.fromkeys(name for to in commands for name in literals_of(to)))


def _is_command(kind: Any) -> bool:
    return kind is Command or BRIDGE.is_command(kind)


def name_of(action: Any) -> str | None:
    """Return the name under which a node is added when none is given."""
    while isinstance(action, functools.partial):
        action = action.func
    for attribute in ("name", "__name__"):
        name = getattr(action, attribute, None)
        if name and isinstance(name, str):  # a Mock has any attribute, but no name
            return name
    return type(action).__name__


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
    hints = _injectable_hints(action, declared)
    filled = (p.name for p in declared if p.name not in bound and _is_filled(p, hints))
    return tuple(sorted(filled))


def fillable(action: Callable[..., Any]) -> dict[str, int | None]:
    """Make injectable parameter of a step -> its positional place; None for keyword-only ones.

    A step is called with arguments of the program's own, which may fill in any of these.
    """
    bound = _bound(action)
    declared = parameters_of(action)
    hints = _injectable_hints(action, declared)
    return {
        p.name: None if p.kind is p.KEYWORD_ONLY else place
        for place, p in enumerate(declared)
        if p.name != "error" and p.name not in bound and _is_filled(p, hints)
    }


def needs_store(action: Callable[..., Any]) -> bool:
    """Whether it requires a store: its `store` is neither optional nor has a default."""
    bound = _bound(action)
    stores = [p for p in parameters_of(action)[1:] if p.name == "store" and p.name not in bound]
    hints = _injectable_hints(action, stores)
    return any(p.default is p.empty and not _is_optional(hints.get("store")) for p in stores)


def _injectable_hints(
    action: Callable[..., Any], declared: list[inspect.Parameter]
) -> Mapping[str, Any]:
    """Return the annotations of a callable if it annotates a parameter that may be filled in."""
    annotated = (p.name in INJECTABLE and p.annotation is not p.empty for p in declared)
    return function_annotations(action) if any(annotated) else {}


def parameters_of(action: Callable[..., Any]) -> list[inspect.Parameter]:
    """List the parameters of a callable; [] if Python can't read its signature."""
    try:
        return list(signature_of(action).parameters.values())
    except (TypeError, ValueError):
        return []


def _bound(action: Any) -> frozenset[str]:
    names: set[str] = set()
    while isinstance(action, functools.partial):
        names.update(action.keywords)
        action = action.func
    return frozenset(names)


def _is_filled(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
    name, empty = parameter.name, inspect.Parameter.empty
    if name not in INJECTABLE or parameter.kind in (
        parameter.POSITIONAL_ONLY,
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    ):
        return False
    if name in _ANY_TYPE or parameter.annotation is empty or parameter.default is empty:
        return True
    members = members_of(hints.get(name))
    texts = [_text(one) for one in (*members, *map(get_origin, members))]
    return any(kind in text for kind in _TYPE_NAMES[name] for text in texts)


def _is_optional(annotation: Any) -> bool:
    """Whether None fits; of an annotation that can't be resolved, by its text."""
    members = members_of(annotation)
    if NoneType in members:
        return True
    return any(isinstance(m, Unknown) and "Optional" in m.text for m in members)


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else f"{annotation!r}"
