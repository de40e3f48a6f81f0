"""Whether a function starts tasks, `@task` calls or steps, as far as its code shows.

A plain function that does can't be called in the thread of the run's event loop: that loop runs
the tasks, and the function may wait for them in any way, in threads of its own too.

The search reads code and calls nothing. It follows the names that a function mentions, through its
globals, closure and defaults, and attributes of modules, classes and objects, into the functions of
the same program. It misses objects that are found at run time only, by `getattr` for example.
"""

import sys
from collections import deque
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Final

from actorgraph.plan.closures import closure_values

MARK: Final = "starts_tasks"
"""Attribute of functions, and of the classes of objects, that start tasks when they are called."""

OBJECTS_MAX: Final = 1_000
"""Objects that are looked at; a search of more counts as one without a find."""

_DEAD_ENDS: Final = (str, bytes, int, float, complex, type(None))
"""Kinds of data, of which a container may have many."""

_OURS: Final = __name__.partition(".")[0]


def reached(function: object, homes: set[str] | None = None) -> Iterator[object]:
    """Iterate over a function and the objects that it mentions, directly or through others.

    Args:
        homes: the packages of the program; those that are found are added.
    """
    homes = set() if homes is None else homes
    waiting = deque([function])
    seen: dict[int, object] = {}  # held: an object that is freed would leave its id to another one
    while waiting and len(seen) < OBJECTS_MAX:
        found = waiting.popleft()
        if id(found) in seen:
            continue
        seen[id(found)] = found
        yield found
        inside = [*_inside(found, homes)]
        # The program is where the node's function is: what the given one is or wraps.
        if found is function or _package(found) == _OURS:
            homes.update(_package(each) for each in (found, *inside))
            homes.discard(_OURS)
        inside = inside if found is not function else [*_inside(found, homes)]
        waiting.extend(each for each in inside if not isinstance(each, _DEAD_ENDS))


def is_marked(found: object) -> bool:
    """Whether an object itself starts tasks."""
    if isinstance(found, FunctionType):
        return MARK in vars(found)
    return any(MARK in vars(kind) for kind in type(found).__mro__)


def _inside(found: object, homes: AbstractSet[str]) -> Iterator[object]:
    """The objects that one mentions."""
    if isinstance(found, FunctionType):
        yield from _mentioned(found, homes)
    elif isinstance(found, MethodType):
        yield from (found.__func__, found.__self__)
    elif isinstance(found, partial):
        yield from (found.func, *found.args, *found.keywords.values())
    elif isinstance(found, classmethod | staticmethod):
        yield found.__func__
    elif is_marked(found):  # a task: its function may call others
        yield from getattr(found, "__dict__", {}).values()
    elif isinstance(found, dict):  # of tools by name, for example
        yield from found.values()
    elif isinstance(found, list | tuple | set | frozenset):
        yield from found
    elif isinstance(found, type):
        if is_of_program(found, homes):
            yield from vars(found).values()
    elif not isinstance(found, ModuleType) and is_of_program(type(found), homes):
        yield type(found)
        yield from getattr(found, "__dict__", {}).values()


def _mentioned(function: FunctionType, homes: AbstractSet[str]) -> Iterator[object]:
    yield from closure_values(function)
    yield from function.__defaults__ or ()
    yield from vars(function).values()  # a decorated function is in `__wrapped__`
    # Wrappers of our own matter for what they hold.
    if not is_of_program(function, homes):
        return
    names = {*names_in(function.__code__)}
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value)[other] for other in names & vars(value).keys())


def names_in(code: CodeType) -> Iterator[str]:
    """The names in a function's code, and in that of the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def is_of_program(found: FunctionType | type, homes: AbstractSet[str]) -> bool:
    """Whether a function's or a class's code is searched: the program's own, not a library's."""
    package = _package(found)
    if package in homes:
        return True
    if package == _OURS or package in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(found.__module__), "__file__", None)
    return "-packages" not in (file or "")


def _package(found: object) -> str:
    module = getattr(found if callable(found) else type(found), "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else ""
