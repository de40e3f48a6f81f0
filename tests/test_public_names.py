"""Public names are found where docs/reference/names.md says, documented and typed.

Errors among them carry advice.
"""

import ast
import enum
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import actorgraph
from actorgraph.api.lazy_imports import LAZY_IMPORTS
from actorgraph.errors import ActorGraphError, EmptyChannelError, InvalidUpdateError
from tests.support import names_page
from tests.support.names_page import HOMES, OLDER, earlier, home_of
from tests.support.source_files import ROOT, call_name, sources

RAISED_BY_CHANNELS = (EmptyChannelError, InvalidUpdateError)
FOUND = sorted({*actorgraph.__all__, *earlier()})
"""The names that `from actorgraph import` finds, in `__all__` or not."""

PUBLIC = {name: getattr(actorgraph, name) for name in FOUND}
ROOT_NAMES_MAX = 70
IMPORTS = re.compile(r"^ *from (actorgraph[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)

FOR_AUTHORS = {
    "actorgraph.values.alarms",
    *(f"actorgraph.savers.{name}" for name in ("judge", "paging", "retention", "systems")),
    *(f"actorgraph.values.{n}" for n in ("commits", "retention", "systems", "thread_rows")),
    *("actorgraph.codec.records", "actorgraph.rules.run_order"),
}
"""Modules of rows and decisions: authors of savers import the names that their two pages have."""


def named_for_authors():
    pages = ("own-savers.md", "reference/saver-rows.md")
    texts = [(ROOT / "docs" / page).read_text("utf-8") for page in pages]
    return {name for text in texts for name in re.findall(r"`(\w+)`", text)}


DOCUMENTED_PATHS = {
    "actorgraph.api.system.prometheus": "metrics_registry",
    "actorgraph.api.system_metrics": "metrics_registry",
    "actorgraph.channels": "BaseChannel Channel DeltaChannel EphemeralValue LastValue "
    "UntrackedValue",
    "actorgraph.cli.codemod": "main",
    "actorgraph.dispatch": "InMemoryDispatcher NATSDispatcher PGQueuerDispatcher",
    "actorgraph.messages": "AIMessage _messages_delta_reducer",
    "actorgraph.migrate": "migrate",
    "actorgraph.ports": "Saver",
    "actorgraph.prebuilt": "InjectedState ToolNode ToolRuntime create_react_agent tools_condition",
    "actorgraph.savers.memory": "MemoryBackend",
    "actorgraph.savers.memory.saver": "MemoryBackend",
    "actorgraph.sessions": "Checkpoint CheckpointSaver SessionSaver session",
    "actorgraph.stores": "BaseStore GetOp InMemoryStore PutOp SqliteStore",
    "actorgraph.testing": "CHECKS DispatchPlace FaultySaver check_saver dispatcher_checks "
    "session_saver_checks store_checks",
    "actorgraph.values.commits": "Commit",
    "actorgraph.values.retention": "",
    "actorgraph.web": "ACTIONS EventStream GraphRoutes running serve",
}
"""Module -> names: every path that README, docs or examples have ever imported, but the root's."""


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


@pytest.mark.parametrize("package", HOMES)
def test_exports_of_packages_are_documented_and_typed(package):
    """
    The same of each name in the `__all__` of the packages that programs import from.
    """
    module = import_module(f"actorgraph.{package}")
    names = module.__all__

    assert names
    assert [gap for name in names for gap in gaps(name, getattr(module, name))] == []


class TestTheRoot:
    def test_its_list_is_that_of_a_first_program(self):
        """
        `__all__` stays short, has no name twice, and `dir()` shows each, so that completion does.
        """
        assert len(set(actorgraph.__all__)) == len(actorgraph.__all__) <= ROOT_NAMES_MAX
        assert set(actorgraph.__all__) <= set(dir(actorgraph))

    def test_every_name_of_before_is_found(self):
        """
        `from actorgraph import X` works in a fresh process for each name that `__all__` ever had.
        """
        program = f"from actorgraph import {', '.join(earlier())}"
        command = [sys.executable, "-W", "error", "-c", program]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

        assert len(earlier()) == 199
        assert ran.returncode == 0, ran.stderr

    def test_a_name_outside_the_list_has_a_module(self):
        """
        Each other name is exported by a module of docs/reference/names.md too.
        """
        others = set(FOUND) - set(actorgraph.__all__) - {"channels", "messages"}

        assert [name for name in sorted(others) if home_of(name) is None] == []

    def test_type_checkers_see_what_is_imported_lazily(self):
        """
        Under TYPE_CHECKING are exactly the lazy names, from the modules that have them; a name
        outside `__all__` is written `X as X`, which is how typed packages export.
        """
        tree = ast.parse((ROOT / "actorgraph" / "__init__.py").read_text("utf-8"))
        typed = next(node for node in tree.body if isinstance(node, ast.If))
        imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
        seen = {alias.name: node.module for node in imports for alias in node.names}
        aliased = {alias.name for node in imports for alias in node.names if alias.asname}

        assert seen == LAZY_IMPORTS
        assert aliased == set(LAZY_IMPORTS) - set(actorgraph.__all__)
        assert all(a.asname in (None, a.name) for node in imports for a in node.names)

    def test_an_unknown_name_is_refused(self):
        """
        A name that is nowhere is an AttributeError that repeats it.
        """
        with pytest.raises(AttributeError, match="'StatGraph'"):
            _ = actorgraph.StatGraph


class TestPaths:
    @pytest.mark.parametrize("module", sorted({*DOCUMENTED_PATHS, *OLDER}))
    def test_a_documented_path_is_importable(self, module):
        """
        Names that pages have ever imported are still there, although modules have moved.
        """
        found = import_module(module)

        assert [n for n in DOCUMENTED_PATHS[module].split() if not hasattr(found, n)] == []

    @pytest.mark.parametrize(("old", "new"), OLDER.items())
    def test_an_older_path_has_the_same_names(self, old, new):
        """
        A module that keeps an older path exports nothing but objects of its replacement.
        """
        before, now = import_module(old), import_module(new)

        assert before.__all__
        assert all(getattr(before, name) is getattr(now, name) for name in before.__all__)

    def test_pages_and_examples_import_public_names_only(self):
        """
        README, docs and examples teach the root's `__all__` and the modules of names.md.
        """
        known = {f"actorgraph.{home}": set(names_page.exported(home)) for home in HOMES}
        known["actorgraph"] = set(actorgraph.__all__)
        known["actorgraph.savers.memory"] = {"MemoryBackend"}  # for authors of savers
        known |= dict.fromkeys(FOR_AUTHORS, named_for_authors())
        pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
        found = [
            (f"{page.name}: {module}.{name}", name in known.get(module, ()))
            for page in [ROOT / "README.md", *pages]
            for module, names in IMPORTS.findall(page.read_text("utf-8"))
            for name in re.findall(r"(\w+)(?: as \w+)?", re.sub(r"#.*", "", names))
        ]

        assert len(found) > 100
        assert [place for place, public in found if not public] == []

    def test_the_page_is_fresh(self):
        """
        docs/reference/names.md is what `make promises` would write now.
        """
        assert names_page.PAGE.read_text("utf-8") == names_page.current()


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
