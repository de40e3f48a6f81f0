"""Types that a program declares in the signatures of `@task` functions, outside of any graph."""

from collections.abc import Iterable
from weakref import WeakValueDictionary

from actorgraph.codec.types import extension_of, name_of

_DECLARED: WeakValueDictionary[str, type] = WeakValueDictionary()


def declare(kinds: Iterable[type]) -> None:
    """Allow these types in every codec for as long as they exist; unsupported ones are skipped."""
    for kind in kinds:
        if extension_of(kind) is not None:
            _DECLARED[name_of(kind)] = kind


def declared(name: str) -> type | None:
    """Return the declared type of that name, if there is one."""
    return _DECLARED.get(name)
