"""Which methods a subclass in a program has replaced, for classes that must call or refuse them."""

from collections.abc import Iterable

_PACKAGE = "actorgraph"


def replaced(kind: type, names: Iterable[str]) -> list[str]:
    """The names that classes of the program define, before any of this package does."""
    return [name for name in names if (home := home_of(kind, name)) and not is_ours(home)]


def home_of(kind: type, name: str) -> type | None:
    """The class that defines a name for another one; None if none does."""
    return next((each for each in kind.__mro__ if name in vars(each)), None)


def is_ours(kind: type) -> bool:
    """Whether a class is one of this package."""
    return kind.__module__.partition(".")[0] == _PACKAGE


def prefers_blocking(kind: type, name: str) -> bool:
    """Whether a subclass has replaced the blocking form of a method, and not its async twin."""
    twin, own = home_of(kind, f"a{name}"), home_of(kind, name)
    if twin is None or own is None or not is_ours(twin) or is_ours(own):
        return False
    return kind.__mro__.index(own) < kind.__mro__.index(twin)
