"""Plain words: turns of phrase that aren't English, or that leave the reader guessing.

A word of plain English is never banned: a ban breeds odder sentences than it prevents. Each
pattern is tried first on made-up texts.

Docstrings, comments and texts of `actorgraph/` and `examples/`, the pages directly in
`docs/`, the decisions and the pages beside README.md keep the rules. Code between backticks and in
fenced blocks is left out.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.source_files import ROOT, Place, Source, hold, snippet, sources

PAGES = (
    "*.md",
    "docs/*.md",
    "docs/how-to/*.md",
    "docs/explanation/*.md",
    "docs/decisions/*.md",
    "tests/README.md",
)
CODE = re.compile(r"```.*?```|``[^`]*``|`[^`\n]*`", re.DOTALL)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Wording:
    """A turn of phrase to avoid.

    Attributes:
        pattern: finds it.
        instead: advice.
        found: texts with it.
        passed: similar texts without it.
    """

    pattern: str
    instead: str
    found: tuple[str, ...]
    passed: tuple[str, ...] = ()


THINGS = (
    r"(?:`|(?:bool|boolean|channel|checkpoint|class|config|dict|duration|function|graph|id"
    r"|integer|key|list|mapping|method|name|node|number|object|path|saver|schema|set|state|store"
    r"|string|task|text|thread|time|tuple|type|url|value)s?\b)"
)
RULES = (
    Wording(
        rf"(?i)(?<!there )\b(?:is|are|was|were)\s+no\s+{THINGS}",
        'write "isn\'t a ..." or "must be ..., got ..."',
        ("limit=-1 is no number", "They are\nno nodes.", "It is no `dict`."),
        (
            "It is no longer open.",
            "There is no node 'a'.",
            "It is no secret.",
            "It is not a number.",
        ),
    ),
    Wording(
        r"\A\s*(Itself|Themselves|Later)\.",
        "name the thing",
        ("Itself.", "Later."),
        ("Itself a node, it runs graphs.", "What a run stores."),
    ),
    Wording(
        r"(?i)\b(lets? go of (?:it|them)sel(?:f|ves)|of itself and)\b",
        'write "frees", "releases", "breaks the reference cycle"',
        ("A run that has left lets go of itself.",),
        ("It releases the lock.", "Nobody lets go of the lock."),
    ),
)


def docstrings(source: Source) -> Iterator[tuple[int, str]]:
    """Docstrings, with the line that each begins at; those below constants too."""
    for node in source.nodes(ast.Expr):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def comments(source: Source) -> Iterator[tuple[int, str]]:
    """Comments, those in successive lines as one text."""
    begun, last, text = 0, -1, ""
    for line, comment in source.comments:
        if line == last + 1 and text:
            text += "\n" + comment[1:]
        else:
            if text:
                yield begun, text
            begun, text = line, comment[1:]
        last = line
    if text:
        yield begun, text


def literals(source: Source) -> Iterator[tuple[int, str]]:
    """Strings of several words: texts of errors, advice, logs and of the API's description."""
    seen = {piece for node in source.nodes(ast.JoinedStr) for piece in node.values}
    seen |= {node.value for node in source.nodes(ast.Expr)}  # docstrings
    for node in source.nodes(ast.JoinedStr):
        parts = (str(p.value) if isinstance(p, ast.Constant) else "..." for p in node.values)
        yield node.lineno, "".join(parts)
    for node in source.nodes(ast.Constant):
        if isinstance(node.value, str) and " " in node.value and node not in seen:
            yield node.lineno, node.value


def texts(source: Source) -> Iterator[tuple[int, str]]:
    yield from docstrings(source)
    yield from comments(source)
    yield from literals(source)


def pages() -> list[Path]:
    return sorted(file for pattern in PAGES for file in ROOT.glob(pattern))


def without_code(text: str) -> str:
    """Blank out code; lines keep their numbers."""
    return CODE.sub(lambda found: "`" + "\n" * found.group().count("\n"), text)


def private_words(line: int, text: str, rules: tuple[Wording, ...] = RULES) -> Iterator[Place]:
    """Find the turns of phrase of a text that begins at this line."""
    plain = without_code(text)
    for rule in rules:
        for found in re.finditer(rule.pattern, plain):
            words = " ".join(found.group().split())
            yield line + plain.count("\n", 0, found.end()), f"{words!r}: {rule.instead}"


def plain_texts(source: Source) -> Iterator[Place]:
    """Every text of a file keeps every rule."""
    for line, text in texts(source):
        yield from private_words(line, text)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.pattern)
def test_each_rule_finds_its_phrases(rule):
    """
    Each pattern finds made-up texts with its phrase, and passes similar ones.
    """
    for text in rule.found:
        assert list(private_words(1, text, (rule,))), text
    for text in rule.passed:
        assert not list(private_words(1, text, (rule,))), text


def test_texts_of_a_file_are_found():
    """
    Docstrings, comments and literals are read, with their lines; code in backticks is not.
    """
    source = snippet('''\
        """Later."""
        x = 1  # 0 is no number
        raise ValueError(
            f"{x} is no number"
        )
        "`0 is no number`"
    ''')

    assert sorted(line for line, _ in plain_texts(source)) == [1, 2, 4]


def test_the_package_has_plain_words():
    """
    Docstrings, comments and texts of actorgraph/ and the examples keep every rule.
    """
    hold(plain_texts, sources("actorgraph", "examples"))


def test_the_pages_have_plain_words():
    """
    The pages of the documentation keep every rule.
    """
    found = [
        f"{page.relative_to(ROOT)}:{line} {problem}"
        for page in pages()
        for line, problem in private_words(1, page.read_text("utf-8"))
    ]

    assert len(pages()) > 100
    assert not found, "\n".join(found)
