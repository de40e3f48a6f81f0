"""Find the methods that a program's subclass overrides, for classes that must call or refuse them.

In this package because every layer needs it, and all of them may import it.
"""

from collections.abc import Iterable
from types import FunctionType

from actorgraph.errors.graphs import GraphBuildError

_PACKAGE = "actorgraph"


def overridden_methods(kind: type, names: Iterable[str]) -> list[str]:
    """Return the names that a class of the program defines before any class of this package."""
    return [
        name for name in names if (home := defining_class(kind, name)) and not is_own_class(home)
    ]


def defining_class(kind: type, name: str) -> type | None:
    """Return the class of the MRO that defines a name; None if none does."""
    return next((each for each in kind.__mro__ if name in vars(each)), None)


def is_own_class(kind: type) -> bool:
    """Whether a class belongs to this package."""
    return kind.__module__.partition(".")[0] == _PACKAGE


def overrides_sync(kind: type, name: str) -> bool:
    """Whether a subclass overrides the sync form of a method, and not its async one."""
    twin, own = defining_class(kind, f"a{name}"), defining_class(kind, name)
    if twin is None or own is None or not is_own_class(twin) or is_own_class(own):
        return False
    return kind.__mro__.index(own) < kind.__mro__.index(twin)


def check_names(kind: type, parts: Iterable[type]) -> None:
    """Refuse a method of a program's class that takes the place of a private one of this package.

    Args:
        parts: the classes whose private methods the others of them call.
    Raises:
        GraphBuildError: it has the name of such a method.
    """
    if is_own_class(kind):
        return
    for name in vars(kind):
        if name.startswith("_") and not name.startswith("__"):
            home = next((part for part in parts if name in vars(part)), None)
            if home is not None and is_own_class(home):
                raise GraphBuildError(
                    f"{kind.__name__} has {name!r}, a name that the methods of its base class use",
                    do=f"rename it, for example to {f'{name}_of_{kind.__name__.lower()}'!r}",
                )


def show_methods_of(kind: type) -> None:
    """Make errors of Python name a class for the methods that it inherits from its own parts.

    Python's errors, such as "missing 1 required positional argument", and its warning about a
    coroutine that was never awaited name the class in which a method was written.
    """
    for part in kind.__mro__[1:]:
        if is_own_class(part):
            for name, method in vars(part).items():
                while isinstance(method, FunctionType) and method.__name__ == name:
                    method.__qualname__ = f"{kind.__qualname__}.{name}"
                    method = getattr(method, "__wrapped__", None)  # noqa: PLW2901 - the inner one
