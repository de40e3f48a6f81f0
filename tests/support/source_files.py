"""The project's Python files, parsed once, for tests that check rules over source text.

A rule is a function from a `Source` to the places that break it, each `(line, what)`. So the
same function is tried on small made-up sources, which proves that the rule can fail, and then
on every file of the project.
"""

import ast
import gc
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
STRING_OR_COMMENT = re.compile(
    r'''""".*?(?<!\\)(?:\\\\)*"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*'''
    r"""|'''.*?(?<!\\)(?:\\\\)*'''|'(?:[^'\\\n]|\\.)*'""",
    re.DOTALL,
)
"""Of Python's text; Python's own tokenizer takes twenty times as long."""
MANY = 20
"""Files from which on they are parsed without the collector of garbage."""
Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Source:
    """One file: its path from the project's root, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def comments(self) -> list[tuple[int, str]]:
        """Each comment from its `#` on, with its line."""
        found: list[tuple[int, str]] = []
        line, last = 1, 0
        for place in STRING_OR_COMMENT.finditer(self.text):
            if place[0][0] == "#":
                line += self.text.count("\n", last, place.start())
                last = place.start()
                found.append((line, place[0]))
        return found

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/") and Path(self.path).name.startswith("test_")

    @cached_property
    def by_kind(self) -> dict[type[ast.AST], list[Any]]:
        """Every node by its class: walking the trees anew for each rule takes seconds."""
        found: dict[type[ast.AST], list[Any]] = {}
        for node in ast.walk(self.tree):
            found.setdefault(type(node), []).append(node)
        return found

    def nodes(self, *kinds: type[Node]) -> Iterator[Node]:
        """The nodes of these classes, and of those made of them."""
        for kind, nodes in self.by_kind.items():
            if issubclass(kind, kinds):
                yield from nodes


Place = tuple[int, str]
Rule = Callable[[Source], Iterable[Place]]


@cache
def sources(*folders: str) -> tuple[Source, ...]:
    """Every Python file below the folders, in order of path."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return tuple(_read(file) for file in files)


@cache
def _read(file: Path) -> Source:
    return Source(file.relative_to(ROOT).as_posix(), file.read_text("utf-8"))


def parse(files: Iterable[Source]) -> None:
    """Parse files now, all at once: trees of a million nodes stay, and no collection sees them."""
    fresh = [file for file in files if "by_kind" not in vars(file)]
    if len(fresh) < MANY:
        return
    gc.collect()
    gc.disable()
    try:
        for file in fresh:
            file.by_kind  # noqa: B018 - it is kept
    finally:
        gc.freeze()
        gc.enable()


def hold(rule: Rule, files: Iterable[Source]) -> None:
    """Fail with every place that breaks the rule, as `path:line what`."""
    files = tuple(files)
    parse(files)
    places = [f"{file.path}:{line} {what}" for file in files for line, what in rule(file)]
    assert not places, "\n" + "\n".join(places)


def snippet(text: str, path: str = "actorgraph/made_up.py") -> Source:
    """A made-up file, to try a rule on."""
    return Source(path, dedent(text))


def call_name(call: ast.Call) -> str:
    """The dotted name that is called: `a.b.c(...)` -> "a.b.c"; unknown parts are "?"."""
    return dotted(call.func)


def dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value)}.{attr}"
        case _:
            return "?"
