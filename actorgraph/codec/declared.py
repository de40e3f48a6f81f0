"""The types that a program declares outside of any graph: in the signatures of `@task` functions.

A task may be called in any graph, so what it returns may be stored with any of them. A type
stands on this list as long as it exists, and only if the program itself has named it.
"""

from collections.abc import Iterable
from weakref import WeakValueDictionary

from actorgraph.codec.types import extension_of, name_of

_DECLARED: WeakValueDictionary[str, type] = WeakValueDictionary()


def declare(kinds: Iterable[type]) -> None:
    """Put the user's types on the list; other types are left out."""
    for kind in kinds:
        if extension_of(kind) is not None:
            _DECLARED[name_of(kind)] = kind


def declared(name: str) -> type | None:
    """The type of that name, if it is on the list."""
    return _DECLARED.get(name)
