"""Find the public classes, and make subclasses of them that record the calls of a method."""

import dataclasses
import enum
import inspect
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

import actorgraph
from actorgraph import GraphBuildError, channels, prebuilt, stores


def is_data(kind: type) -> bool:
    """Whether objects of a class are data: nothing of them is called by a run."""
    shapes = (BaseException, enum.Enum, msgspec.Struct, tuple, dict)
    return (
        issubclass(kind, shapes)
        or dataclasses.is_dataclass(kind)
        or getattr(kind, "_is_protocol", False)
    )


def public_classes() -> Iterator[type]:
    """Every class that a program can import from the front doors."""
    for module in (actorgraph, channels, stores, prebuilt):
        for name in module.__all__:
            found = getattr(module, name, None)
            if inspect.isclass(found):
                yield found


def methods_of(kind: type) -> list[str]:
    """The public methods that a subclass can override."""
    return [n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n))]


def overriding(kind: type, name: str, calls: list[str]) -> type | None:
    """A subclass that notes the calls of one method; None where it is refused."""

    def method(self, *args, **more):
        calls.append(name)
        return getattr(super(made, self), name)(*args, **more)

    static = inspect.getattr_static(kind, name)
    body: Any = method if not isinstance(static, classmethod) else static
    made: Any = None
    with suppress(GraphBuildError):
        made = type(f"Own{kind.__name__}", (kind,), {name: body, "__module__": __name__})
    return made


def kinds(base: type) -> list[type]:
    return sorted({k for k in public_classes() if issubclass(k, base)}, key=lambda k: k.__name__)


def cases(base: type, *without: type) -> list[Any]:
    """Each method of each public class below `base`."""
    found = [
        (kind, name) for kind in kinds(base) if kind not in without for name in methods_of(kind)
    ]
    return [pytest.param(kind, name, id=f"{kind.__name__}.{name}") for kind, name in found]
