"""Find the data classes that a graph's functions hold in their closures.

An agent of LangChain's keeps the class of its structured responses there, and no annotation names
it. Only classes are looked for, and nothing is called: attributes that run code are not read.
"""

import dataclasses
import functools
import types
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from actorgraph.codec.known_types import names_subclasses
from actorgraph.codec.stored_types import extension_of
from actorgraph.plan.closures import closure_values
from actorgraph.plan.schema import types_in

DEPTH_MAX = 10
"""Objects inside one another that are looked into: functions, containers, dataclasses."""
OBJECTS_MAX = 500
"""Objects of one function that are looked at."""
ITEMS_MAX = 100
"""Items of one container that are looked at."""


def captured_types(functions: Iterable[Any]) -> tuple[type, ...]:
    """Return the data classes that functions hold, which are allowed like those of a schema."""
    found: dict[type, None] = {}
    for function in functions:
        found.update(dict.fromkeys(_types_in(function)))
        found.update(dict.fromkeys(_asked_types(function)))
    return tuple(found)


def _asked_types(function: Any) -> Iterable[type]:
    """Return the classes that a function may name as the `response_schema` of its questions.

    An answer is stored before the function says again what it expects.
    """
    if type(function) is types.MethodType:
        function = function.__func__
    if type(function) is not types.FunctionType:
        return ()
    code = function.__code__
    # The names of a call's keyword arguments are one constant.
    if not any(type(each) is tuple and "response_schema" in each for each in code.co_consts):
        return ()
    held = (function.__globals__.get(name) for name in code.co_names)
    return types_in([kind for kind in held if isinstance(kind, type) and extension_of(kind)])


def _types_in(function: Any) -> Iterator[type]:
    left, seen = deque([(function, DEPTH_MAX)]), set[int]()
    while left and len(seen) < OBJECTS_MAX:
        thing, depth = left.popleft()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        try:
            if issubclass(type(thing), type):
                if names_subclasses(thing) and extension_of(thing) is not None:
                    yield thing
            elif depth:
                left += [(inner, depth - 1) for inner in _held_by(thing)]
        except Exception:  # noqa: BLE001, S112 - a class of the program's may be of any kind
            continue


def _held_by(thing: Any) -> Iterable[Any]:
    """Return the objects in a function's closure, in a container, or in a dataclass.

    The type is asked, not the object: `isinstance` runs code of a class with a `__class__`.
    """
    kind: type[Any] = type(thing)
    if kind is types.FunctionType:
        return [*closure_values(thing), *(thing.__defaults__ or ())]
    if kind is types.MethodType:
        return thing.__func__, thing.__self__
    if issubclass(kind, functools.partial):
        partial = cast("functools.partial[Any]", thing)
        return partial.func, *partial.args, *partial.keywords.values()
    for base in (dict, list, tuple, set, frozenset):
        if issubclass(kind, base):
            items: Any = dict.values(thing) if base is dict else base.__iter__(thing)
            return islice(items, ITEMS_MAX)
    held: Any = object.__getattribute__(thing, "__dict__")
    if type(held) is not dict:
        return ()
    if dataclasses.is_dataclass(kind):
        return islice(cast("dict[str, Any]", held).values(), ITEMS_MAX)
    # The two functions of a Runnable that LangGraph's and LangChain's make of a node.
    return [held[name] for name in ("func", "afunc") if name in held]
