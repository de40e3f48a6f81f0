"""The names of `actorgraph.__all__` are documented and typed, and its errors carry advice."""

import ast
import enum
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import actorgraph
from actorgraph.errors import ActorGraphError, EmptyChannelError, InvalidUpdateError
from tests.support.source_files import call_name, sources

RAISED_BY_CHANNELS = (EmptyChannelError, InvalidUpdateError)
PUBLIC = {name: getattr(actorgraph, name) for name in sorted(actorgraph.__all__)}
PACKAGES = (
    *("caches", "channels", "codec", "errors", "messages", "migrate", "prebuilt", "sessions"),
    *("stores", "testing", "testing.conformance", "web"),
)
"""The packages that programs import from, besides the root."""


def is_ours(thing: object) -> bool:
    return str(getattr(thing, "__module__", "")).split(".")[0] == "actorgraph"


def documented(thing: Any) -> bool:
    """Whether the docstring was written: dataclasses and tuples make up `Name(field, ...)`."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    return bool(text) and not text.startswith(f"{getattr(thing, '__name__', '')}(")


def untyped(function: Callable[..., Any], *, method: bool) -> list[str]:
    """The parts of a signature that have no annotation."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if method else 0 :]
    missing = [p.name for p in parameters if p.annotation is p.empty]
    return missing + ["return"] * (signature.return_annotation is signature.empty)


def underneath(member: Any) -> Any:
    """The function that a property, a class method or a static method wraps."""
    for attribute in ("fget", "func", "__func__"):
        member = getattr(member, attribute, member)
    return member


def members(cls: type) -> Iterator[tuple[str, Any, bool]]:
    """The public functions of a class and our bases: (name, function, has self or cls)."""
    for owner in cls.__mro__:
        if not is_ours(owner):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") and name != "__init__":
                continue
            function = inspect.unwrap(underneath(member))
            # Not ours: the __init__ that typing gives to a Protocol.
            if inspect.isfunction(function) and is_ours(function):
                yield name, function, not isinstance(member, staticmethod)


def gaps(name: str, thing: Any) -> Iterator[str]:
    """Return the faults of one exported name."""
    if not is_ours(thing):
        return
    if isinstance(thing, type):
        if not documented(thing):
            yield f"{name}: no docstring"
        # Enums, tuples and generated __init__s have no source of ours, and are typed by fields.
        generated = issubclass(thing, enum.Enum | tuple) or hasattr(thing, "__dataclass_fields__")
        for member, function, method in members(thing):
            if member == "__init__" and generated:
                continue
            if member != "__init__" and not documented(function):
                yield f"{name}.{member}: no docstring"
            yield from (f"{name}.{member}: {p} untyped" for p in untyped(function, method=method))
    elif inspect.isroutine(thing):
        if not documented(thing):
            yield f"{name}: no docstring"
        yield from (f"{name}: {part} untyped" for part in untyped(thing, method=False))


def error_classes() -> list[type[ActorGraphError]]:
    """Every error class of ours that was imported, wherever it was written."""
    found, queue = list[type[ActorGraphError]](), [ActorGraphError]
    while queue:
        cls = queue.pop()
        queue += cls.__subclasses__()
        found += [cls] if is_ours(cls) else []
    return sorted(found, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_documented_and_typed(name):
    """
    Each exported function and class, and each public method, says what it does and takes.
    """
    assert list(gaps(name, PUBLIC[name])) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_exports_is_documented_and_typed(package):
    """
    The same of each name in the `__all__` of the packages that programs import from.
    """
    module = import_module(f"actorgraph.{package}")
    names = module.__all__

    assert names
    assert [gap for name in names for gap in gaps(name, getattr(module, name))] == []


def test_public_names_are_found_lazily_or_not():
    """
    `dir()` and `__all__` agree, so that completion shows what can be imported.
    """
    assert set(actorgraph.__all__) <= set(dir(actorgraph))
    assert len(set(actorgraph.__all__)) == len(actorgraph.__all__)


def test_every_public_error_carries_advice():
    """
    An exported exception is an ActorGraphError; interrupts are none, and warnings may differ.
    """
    exceptions = {
        name: thing
        for name, thing in PUBLIC.items()
        if isinstance(thing, type) and issubclass(thing, Exception) and is_ours(thing)
    }
    without = {n for n, e in exceptions.items() if not issubclass(e, ActorGraphError | Warning)}

    assert without == set()


@pytest.mark.parametrize("cls", error_classes(), ids=lambda cls: cls.__name__)
def test_advice_can_not_be_forgotten(cls):
    """
    `do` is a keyword without a default, so that an error without advice can't be made; only what
    a program's own channels raise has advice to fall back on.
    """
    do = inspect.signature(cls).parameters.get("do")

    assert do is not None
    assert do.kind is inspect.Parameter.KEYWORD_ONLY
    if issubclass(cls, RAISED_BY_CHANNELS):
        assert do.default
    else:
        assert do.default is inspect.Parameter.empty


def test_every_error_is_raised_with_advice():
    """
    The same, read from the source: branches that no test takes are held too.
    """
    names = {cls.__name__ for cls in error_classes()}
    forgotten = [
        f"{file.path}:{call.lineno} {call_name(call)}"
        for file in sources("actorgraph")
        for call in file.nodes(ast.Call)
        if call_name(call).split(".")[-1] in names
        and not {k.arg for k in call.keywords} & {"do", None}
    ]

    assert forgotten == []


class TestTheRulesThemselves:
    def test_a_bare_function_is_found(self):
        """
        A function without docstring and annotations has three gaps.
        """

        def bare(state): ...

        bare.__module__ = "actorgraph.made_up"

        assert len(list(gaps("bare", bare))) == 3

    def test_a_bare_class_is_found(self):
        """
        A class is read with its methods, properties and class methods; private ones are not.
        """

        class Bare:
            def __init__(self, a): ...
            def method(self, b: int) -> None: ...
            @property
            def size(self): ...
            @classmethod
            def make(cls) -> "Bare": ...
            def _private(self, c): ...

        for thing in (Bare, *map(underneath, vars(Bare).values())):
            if callable(thing):
                thing.__module__ = "actorgraph.made_up"
        found = {gap.split(":")[0] for gap in gaps("Bare", Bare)}

        assert found == {"Bare", "Bare.__init__", "Bare.method", "Bare.size", "Bare.make"}
