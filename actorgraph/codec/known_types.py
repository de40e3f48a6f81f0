"""The types that a process knows besides those on a codec's own list.

Declared   by a graph's schema or the signature of a `@task` function: known in every process that
           makes the graph or the function
Stored     the program has put a value of the type into a store: known until this process ends
Below      subclasses of declared types, found among the classes that exist

Each list is weak: a class is on it no longer than it exists. Nothing is imported, so a name in
stored bytes finds a class that the program has made, or none.
"""

import gc
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from actorgraph.bridging import BRIDGE
from actorgraph.codec.stored_types import extension_of, name_of
from actorgraph.errors import UndeclaredTypeWarning
from actorgraph.errors.warning_places import warn

_DECLARED: WeakValueDictionary[str, type] = WeakValueDictionary()
_STORED: WeakValueDictionary[str, type] = WeakValueDictionary()
_BASES: WeakSet[type] = WeakSet()
_LOCK = threading.RLock()
"""Held while the lists change or are copied. Reentrant: the collector may run a program's code."""
_WARNED: set[str] = set()
_WARNED_MAX = 1_000

_LIBRARIES = frozenset(
    {
        *("pydantic.main", "pydantic.v1.main", "pydantic.root_model", "msgspec", "msgspec._core"),
    }
)
"""Modules besides the standard library whose classes are bases of too many others."""


def _is_wide(module: str) -> bool:
    return module in _LIBRARIES or module in BRIDGE.wide_bases


def declare(kinds: Iterable[type]) -> None:
    """Allow these types and their subclasses in every codec, for as long as they exist."""
    for kind in kinds:
        known = extension_of(kind) is not None
        with _LOCK:
            if known:
                _DECLARED[name_of(kind)] = kind
            elif names_subclasses(kind):
                _BASES.add(kind)


def declared(name: str) -> type | None:
    """Return the declared type of that name, if there is one."""
    return _DECLARED.get(name)


def remember(kind: type) -> type:
    """Note that the program has put a value of this type into a store.

    Returns: the type that is known as stored by that name: another, as long as that one exists.
    """
    with _LOCK:
        return _STORED.setdefault(name_of(kind), kind)


def stored(name: str) -> type | None:
    """Return the type of that name whose values this process has stored, if there is one."""
    return _STORED.get(name)


def has_other_stored(kind: type) -> bool:
    """Whether another class of the same name, which still exists, has values in a store."""
    name = name_of(kind)
    if stored(name) in (None, kind):
        return False
    # Each class refers to itself: one that the program has dropped exists until it is collected.
    gc.collect()
    return stored(name) not in (None, kind)


def names_subclasses(kind: type) -> bool:
    """Whether a declaration of this class declares its subclasses: it is the program's own.

    Everything is derived from some class of the standard library, or from `pydantic.BaseModel`:
    who names such a class doesn't mean every class there is.
    """
    package = kind.__module__.partition(".")[0]
    return package not in sys.stdlib_module_names and not _is_wide(kind.__module__)


def is_below(kind: type, types: Iterable[type] = ()) -> bool:
    """Whether a class is a subclass of a declared one.

    Args:
        types: those that a codec declares.
    """
    bases = kind.__mro__[1:]
    if any(base in bases and names_subclasses(base) for base in types):
        return True
    return any(
        base in _BASES or (_DECLARED.get(name_of(base)) is base and names_subclasses(base))
        for base in bases
    )


def find_below(name: str, types: Iterable[type] = ()) -> type | None:
    """Find the subclass with this stored name of a declared class, among the classes there are.

    Args:
        types: those that a codec declares.
    """
    seen: set[type] = set()
    last = name.rpartition(":")[2].rpartition(".")[2]
    with _LOCK:
        bases = (*types, *_DECLARED.values(), *_BASES)
    for base in bases:
        if names_subclasses(base):
            for kind in _subclasses(base, seen):
                if kind.__name__ == last and name_of(kind) == name and extension_of(kind):
                    return kind
    return None


def _subclasses(base: Any, seen: set[type]) -> Iterator[type]:
    left: list[Any] = [base]
    while left:
        for kind in type.__subclasses__(left.pop()):
            if kind not in seen:
                seen.add(kind)
                left.append(kind)
                yield kind


def warn_undeclared(kind: type, path: str) -> None:
    """Warn, once per type, that only this process can read a value.

    Args:
        path: what the value is.
    """
    name = name_of(kind)
    if name in _WARNED or len(_WARNED) >= _WARNED_MAX:
        return
    warn(
        f"{path} has the type {name!r}, which nothing declares: this process can read it, but "
        f"after a restart the thread can't be read; {how_to_declare(name)}",
        UndeclaredTypeWarning,
        about=kind,
    )
    _WARNED.add(name)  # not before: where the warning is an error, each save raises it


def how_to_declare(name: str) -> str:
    """Return the advice about a type with this stored name."""
    known = name.removeprefix("__main__:").replace(":", ".")
    return (
        f"pass codec=Codec(types=[{known}]) to the saver, or annotate a key of the graph's state "
        "with it"
    )
