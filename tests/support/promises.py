"""Write docs/reference/promises.md: which tests show which promise, and where a gap is.

A test, a class or a file of tests marked `@pytest.mark.promise("S074", "S079")` shows these
promises. `make promises` writes the page.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tests.support import decision_list
from tests.support.source_files import FUNCTIONS, ROOT, Source, dotted, parse, sources

PAGE = ROOT / "docs" / "reference" / "promises.md"
NUMBER = re.compile(r"([A-Z]+)(\d+)([a-z]?)")
Subject = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
"""The markable nodes: a file, a class or a function."""
Read = Callable[[Subject], list[str]]

HEAD = """\
# Promises, and the tests that show them

Written by `make promises`; do not edit. {shown} of {total} promises are shown by at least one test.
A gap is a promise that no test shows yet.
"""


def defects() -> dict[str, str]:
    """Id -> phrase of what other libraries get wrong, from defects.toml."""
    return tomllib.loads(Path(__file__).with_name("defects.toml").read_text("utf-8"))


def catalogue() -> dict[str, dict[str, str]]:
    """Section -> id -> phrase, from promises.toml."""
    return tomllib.loads(Path(__file__).with_name("promises.toml").read_text("utf-8"))


def numbers_of(subject: Subject) -> list[str]:
    """The arguments of the marker `promise` on a function or class, or in a file's `pytestmark`.

    Raises: ValueError when an argument isn't a string such as "S074".
    """
    numbers = arguments_of(subject, "promise")
    if wrong := [number for number in numbers if not NUMBER.fullmatch(number)]:
        raise ValueError(f"not the number of a promise: {', '.join(wrong)}")
    return numbers


def arguments_of(subject: Subject, marker: str) -> list[str]:
    """The arguments of a marker on a function or class, or in a file's `pytestmark`."""
    arguments: list[str] = []
    for mark in _marks_of(subject):
        if isinstance(mark, ast.Call) and dotted(mark.func) == f"pytest.mark.{marker}":
            arguments += [str(getattr(argument, "value", argument)) for argument in mark.args]
    return arguments


def _marks_of(subject: Subject) -> list[ast.expr]:
    if not isinstance(subject, ast.Module):
        return subject.decorator_list
    values = [
        node.value
        for node in subject.body
        if isinstance(node, ast.Assign) and dotted(node.targets[0]) == "pytestmark"
    ]
    return [
        mark
        for value in values
        for mark in (value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value])
    ]


def claims(source: Source, read: Read = numbers_of) -> Iterator[tuple[str, str]]:
    """Each (id, test) of one file; a test is named as pytest would take it."""
    yield from ((i, source.path) for i in read(source.tree))
    nodes: list[tuple[str, ast.stmt]] = [(source.path, s) for s in source.tree.body]
    while nodes:
        where, node = nodes.pop(0)
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            name = f"{where}::{node.name}"
            yield from ((i, name) for i in read(node))
            if isinstance(node, ast.ClassDef):
                nodes += [(name, s) for s in node.body]


def collect(files: Iterable[Source], read: Read = numbers_of) -> dict[str, list[str]]:
    """Id -> the tests that show it, sorted; `read` finds the ids of a file, class or function."""
    found = defaultdict[str, set[str]](set)
    files = tuple(files)
    parse(files)
    for file in files:
        if file.is_test:
            for promise, test in claims(file, read):
                found[promise].add(test)
    return {promise: sorted(tests) for promise, tests in found.items()}


def unknown(found: Mapping[str, list[str]], known: Iterable[str]) -> dict[str, list[str]]:
    """Numbers that are not in the catalogues of promises (S) and defects (D): misspelt, likely."""
    names = set(known)
    return {i: tests for i, tests in found.items() if i[0] in "SD" and i not in names}


def by_number(promise: str) -> tuple[str, int, str]:
    """C4 before C32: the letters, then the number."""
    letters, number, part = NUMBER.fullmatch(promise).groups()  # type: ignore[union-attr]
    return letters, int(number), part


def row(promise: str, phrase: str, tests: Iterable[str]) -> str:
    return f"| {promise} | {phrase} | {'<br>'.join(f'`{t}`' for t in tests) or 'gap'} |"


def page(sections: Mapping[str, Mapping[str, str]], found: Mapping[str, list[str]]) -> str:
    """The whole page, as Markdown."""
    known = {i for phrases in sections.values() for i in phrases}
    lines = [HEAD.format(shown=len(known & set(found)), total=len(known))]
    for title, phrases in sections.items():
        shown = sum(i in found for i in phrases)
        lines += [f"## {title} ({shown} of {len(phrases)})", ""]
        lines += ["| id | promise | tests |", "|---|---|---|"]
        lines += [row(i, phrase, found.get(i, ())) for i, phrase in phrases.items()]
        lines.append("")
    wrong = defects()
    lines += [
        "## Defects of others that are not here",
        "",
        "| id | defect | tests |",
        "|---|---|---|",
    ]
    lines += [row(i, phrase, found.get(i, ())) for i, phrase in wrong.items()]
    lines.append("")
    others = sorted(set(found) - known - set(wrong), key=by_number)
    if others:
        lines += ["## Other rules that tests name", "", "| id | tests |", "|---|---|"]
        lines += [f"| {i} | {'<br>'.join(f'`{t}`' for t in found[i])} |" for i in others]
        lines.append("")
    return "\n".join(lines)


def current() -> str:
    """The page as it should be now."""
    return page(catalogue(), collect(sources("tests")))


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(current(), "utf-8")
    decision_list.PAGE.write_text(decision_list.current(), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} and the list of decisions")
