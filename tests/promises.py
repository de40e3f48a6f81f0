"""Write docs/reference/promises.md: which tests show which promise, and where a gap is.

A docstring of a test (or of a class or file of tests) that says "Promise: S074, S079." is
counted. `make promises` writes the page; tests/test_promises.py fails when it is stale.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from tests import decisions
from tests.source import FUNCTIONS, ROOT, Source, sources

PAGE = ROOT / "docs" / "reference" / "promises.md"
ONE_ID = r"[A-Z]+\d+"
Read = Callable[[str | None], list[str]]


def mention(word: str, one_id: str) -> re.Pattern[str]:
    """Matches a claim: a word, a colon, and ids; one group for all of the ids."""
    return re.compile(rf"\b{word}:\s*({one_id}(?:\s*,\s*{one_id})*)")


MENTION = mention("Promises?", ONE_ID)

HEAD = """\
# Promises, and the tests that show them

Written by `make promises`; do not edit. {shown} of {total} promises are shown by at least one test.
A gap is a promise that no test shows yet.
"""


def defects() -> dict[str, str]:
    """Id -> phrase of what other libraries get wrong, from tests/defects.toml."""
    return tomllib.loads((ROOT / "tests" / "defects.toml").read_text("utf-8"))


def catalogue() -> dict[str, dict[str, str]]:
    """Section -> id -> phrase, from tests/promises.toml."""
    return tomllib.loads((ROOT / "tests" / "promises.toml").read_text("utf-8"))


def ids_in(docstring: str | None) -> list[str]:
    """The ids that a docstring claims to show."""
    return [i for claim in MENTION.findall(docstring or "") for i in re.findall(ONE_ID, claim)]


def claims(source: Source, read: Read = ids_in) -> Iterator[tuple[str, str]]:
    """Each (id, test) of one file; a test is named as pytest would take it."""
    yield from ((i, source.path) for i in read(ast.get_docstring(source.tree)))
    nodes: list[tuple[str, ast.stmt]] = [(source.path, s) for s in source.tree.body]
    while nodes:
        where, node = nodes.pop(0)
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            name = f"{where}::{node.name}"
            yield from ((i, name) for i in read(ast.get_docstring(node)))
            if isinstance(node, ast.ClassDef):
                nodes += [(name, s) for s in node.body]


def collect(files: Iterable[Source], read: Read = ids_in) -> dict[str, list[str]]:
    """Id -> the tests that show it, sorted; `read` finds the ids in a docstring."""
    found = defaultdict[str, set[str]](set)
    for file in files:
        if file.is_test:
            for promise, test in claims(file, read):
                found[promise].add(test)
    return {promise: sorted(tests) for promise, tests in found.items()}


def unknown(found: Mapping[str, list[str]], known: Iterable[str]) -> dict[str, list[str]]:
    """Claimed S ids that are not in the catalogue: misspelt, most likely."""
    names = set(known)
    return {i: tests for i, tests in found.items() if i.startswith("S") and i not in names}


def by_number(promise: str) -> tuple[str, int]:
    """C4 before C32: the letter, then the number."""
    letters = promise.rstrip("0123456789")
    return letters, int(promise.removeprefix(letters))


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
    decisions.PAGE.write_text(decisions.current(), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} and the list of decisions")
