"""Find every iterator that the public API returns, by its annotations.

The search begins at what the packages export, and goes on through the classes that methods
return. So a new method that hands out an iterator is found without being named anywhere.
"""

import inspect
import pkgutil
import typing
from collections import abc
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import actorgraph
from tests.support.names_page import HOMES
from tests.test_public_names import is_ours, underneath

ITERATING = (abc.Iterator, abc.AsyncIterator, abc.Generator, abc.AsyncGenerator)
SPECIAL = ("__iter__", "__aiter__")


@cache
def iterators() -> frozenset[str]:
    """`<class>.<method>` of each, under the class that defines it."""
    found: set[str] = set()
    todo, seen = list(_exported()), set[Any]()
    while todo:
        thing = todo.pop()
        if thing in seen:
            continue
        seen.add(thing)
        for name, annotation in _annotations(thing):
            classes = set(_classes(annotation))
            todo += [one for one in classes if is_ours(one)]
            if any(map(_iterates, classes)):
                found.add(name)
        if isinstance(thing, type):
            kin = (*thing.__mro__, *type.__subclasses__(thing))
            todo += [one for one in kin if is_ours(one)]
    return frozenset(found)


def _exported() -> Iterator[Any]:
    for package in ("actorgraph", *(f"actorgraph.{name}" for name in HOMES)):
        module = import_module(package)
        exported = [getattr(module, name) for name in module.__all__]
        yield from (one for one in exported if isinstance(one, type) or inspect.isfunction(one))


def _annotations(thing: Any) -> Iterator[tuple[str, Any]]:
    """The result of a function; for a class its methods' results and its attributes."""
    if inspect.isfunction(thing):
        yield thing.__name__, _returned(thing)
    if not isinstance(thing, type) or not is_ours(thing) or issubclass(thing, tuple):
        return  # what iterates over a tuple holds nothing
    for name, annotation in vars(thing).get("__annotations__", {}).items():
        if not name.startswith("_"):
            yield f"{thing.__name__}.{name}", annotation
    for name, member in vars(thing).items():
        function = underneath(member)
        if (not name.startswith("_") or name in SPECIAL) and inspect.isfunction(function):
            yield f"{thing.__name__}.{name}", _returned(function)


def _returned(function: Any) -> Any:
    made_for_with = hasattr(function, "__wrapped__")
    return None if made_for_with else function.__annotations__.get("return")


def _classes(annotation: Any) -> Iterator[type]:
    """The classes that an annotation names, also inside of others."""
    if isinstance(annotation, str):
        holder = type("Holder", (), {"__annotations__": {"text": annotation}})
        names = {**vars(typing), **vars(abc), **_by_name()}
        try:
            annotation = typing.get_type_hints(holder, localns=names)["text"]
        except (NameError, SyntaxError, TypeError):  # a word of a Literal, a type variable
            return
    origin = typing.get_origin(annotation)
    for one in (annotation, origin):
        if isinstance(one, type):
            yield one
    if origin is not typing.Literal:
        for part in typing.get_args(annotation):
            yield from _classes(part) if not isinstance(part, list) else ()


@cache
def _by_name() -> dict[str, type]:
    """All classes of the package, for the annotations that are text."""
    found: dict[str, type] = {}
    for place in pkgutil.walk_packages(actorgraph.__path__, "actorgraph."):
        if not place.name.endswith("__main__"):
            named = vars(import_module(place.name)).items()
            found |= {name: one for name, one in named if isinstance(one, type) and is_ours(one)}
    return found


def _iterates(cls: type) -> bool:
    if cls in ITERATING:
        return True
    if issubclass(cls, tuple):
        return False
    ours = filter(is_ours, cls.__mro__)
    return any(name in vars(base) for base in ours for name in SPECIAL)
