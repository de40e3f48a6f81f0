"""Plain words: the rules of wording that a machine can hold, over code, documentation and tests.

A text names the thing and uses the field's term. The patterns find turns of phrase that leave the
reader guessing. Each is tried first on made-up texts.

Docstrings, comments and texts of `actorgraph/` and `examples/`, the pages directly in `docs/`, the
decisions and the pages beside README.md keep every rule; docstrings of `tests/` keep the rules of
`EVERYWHERE`. Code between backticks and in fenced blocks is left out.
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


# A sentence begins at the start of a text, after a full stop, or in a heading or a list.
SENTENCE = r"(?:\A\s*|[.!?:]\s+|\n\s*\n\s*|\n#+ |\n- |\| )"

EVERYWHERE = (
    Wording(
        r"(?i)\b(whoever|whomever|nobody|somebody|anybody|everybody)\b",
        "name the caller, the client, the task ...",
        ("It fails for whoever waits.", "Nobody reads it.", "Seen by\neverybody."),
        ("Each client reads it.",),
    ),
    Wording(
        r"\b(?:is|are|was|were)\s+no\s+(?!longer\b|more\b|less\b|matter\b)\S",
        'write "isn\'t a ..." or "must be ..., got ..."',
        ("limit=-1 is no number", "They are\nno nodes.", "It is no `Send`."),
        ("It is no longer open.", "It is not a number."),
    ),
    Wording(
        r"(?i)\bthere\s+(?:is|are|was|were)\s+(?:no|none)\b(?!\s+longer)",
        'name the thing: "the graph has no store", "None if absent", "unknown run ..."',
        ("There is no such run.", "None if there\nwere none.", "there are no more"),
        ("The saver has no such run.", "None is there.", "There is one."),
    ),
    Wording(
        r"(?i)\b(tells?|told|telling)\b",
        'write "returns", "reports", "distinguishes" ...',
        ("A client is told of a gap.", "The byte tells both apart."),
        ("A client gets a notice of a gap.", "`told` is a variable"),
    ),
    Wording(
        r"(?i)\b(stands?|stood)\b(?!-)",
        'write "is stored", "waits", "represents" ...',
        ("The value stands in the record.", "Where it stood."),
        ("A standard value.", "It is understood."),
    ),
    Wording(
        SENTENCE + r"(What|Who|Whose|Whatever)\b(?![^.\n]{0,80}\?)",
        "begin with a verb or with the thing",
        ("What a run stores.", "It ends. What is left is stored.", "# A\n\n## Who watches\n"),
        ("Which of them?\n", "## What is a run?\n", "The caller, whose loop ended."),
    ),
)
STRICT = (
    *EVERYWHERE,
    Wording(
        r"\A\s*(How|Which|Why|Where)\b(?![^.\n]{0,80}\?)",
        "begin with a verb or with the thing",
        ("How one datum flows.", "Where it is stored."),
        ("Return how many there are.",),
    ),
    Wording(
        r"\A\s*(Itself|Themselves|Later)\.",
        "name the thing",
        ("Itself.", "Later."),
        ("Itself a node, it runs graphs.",),
    ),
    Wording(
        r"\bwhat (is|was|are|were|it did|it has done)\b",
        "name the rows, the tasks, the results ...",
        ("Store what is queued.", "It keeps what it did."),
        ("Store queued requests.", "what a node may return"),
    ),
    Wording(
        r"(?i)\b(lets? go of|of itself and)\b",
        'write "frees", "releases", "breaks the reference cycle"',
        ("A run that has left lets go of itself.",),
        ("It releases the lock.",),
    ),
)

PRIVATE_NAME = re.compile(
    r"test_(?:what|who)_|_(?:is|are)_no_|_(?:(?:who|what)ever|(?:no|some|any|every)bod(?:y|ys)"
    r"|tells?|told|stands?|stood)(?:_|\Z)"
)
"""Found in the name of a test that doesn't name its subject."""

# (path, text) -> the reason why this place may keep its words.
ALLOWED = {
    ("actorgraph/codec/records.py", "stands"): "a key of stored records",
    ("actorgraph/superstep/begin.py", "is no p"): "LangGraph's message",
    ("actorgraph/superstep/begin.py", "There is no"): "the same message",
}


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


def private_words(line: int, text: str, rules: tuple[Wording, ...]) -> Iterator[Place]:
    """Find the turns of phrase of a text that begins at this line."""
    plain = without_code(text)
    for rule in rules:
        for found in re.finditer(rule.pattern, plain):
            words = " ".join(found.group().split())
            yield line + plain.count("\n", 0, found.end()), f"{words!r}: {rule.instead}"


def allowed(path: str, found: str) -> bool:
    return any(path == file and words in found for file, words in ALLOWED)


def plain_texts(source: Source) -> Iterator[Place]:
    """Every text of a file keeps every rule."""
    for line, text in texts(source):
        for place in private_words(line, text, STRICT):
            if not allowed(source.path, place[1]):
                yield place


def plain_docstrings(source: Source) -> Iterator[Place]:
    """The docstrings of a file keep the rules for every text."""
    for line, text in docstrings(source):
        yield from private_words(line, text, EVERYWHERE)


def plain_names(source: Source) -> Iterator[Place]:
    """Tests are named after their subject."""
    for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        if node.name.startswith("test_") and (found := PRIVATE_NAME.search(node.name)):
            yield node.lineno, f"{node.name}: {found.group()!r}: name the subject of the test"


@pytest.mark.parametrize("rule", STRICT, ids=lambda rule: rule.pattern)
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
        """Nobody."""
        x = 1  # told
        raise ValueError(
            f"{x} is no number"
        )
        "`nobody` and `told`"
    ''')

    assert sorted(line for line, _ in plain_texts(source)) == [1, 2, 4]


def test_the_package_has_plain_words():
    """
    Docstrings, comments and texts of actorgraph/ and the examples keep every rule.
    """
    hold(plain_texts, sources("actorgraph", "examples"))


def test_docstrings_of_tests_have_plain_words():
    """
    Docstrings of tests, and of the modules that they import, keep the rules for every text.
    """
    hold(plain_docstrings, sources("tests"))


def test_names_of_tests_are_plain():
    """
    The name of a test begins with its subject, and has none of the words that texts avoid.
    """
    made = snippet("""\
        def test_what_is_left(): ...
        async def test_a_client_is_told(): ...
        def test_nobody_waits(): ...
        def test_it_is_no_number(): ...
        def test_a_standard_value(): ...
        def what_is_left(): ...
    """)

    assert sorted(line for line, _ in plain_names(made)) == [1, 2, 3, 4]
    hold(plain_names, sources("tests"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_pages_have_plain_words(page):
    """
    The pages of the documentation keep every rule.
    """
    found = list(private_words(1, page.read_text("utf-8"), STRICT))

    assert not found, "\n".join(f"{page}:{line} {problem}" for line, problem in found)


@pytest.mark.parametrize(("path", "words"), ALLOWED)
def test_every_exception_is_used(path, words):
    """
    A place in `ALLOWED` that keeps the rules by now is taken off the list.
    """
    (source,) = (each for each in sources("actorgraph") if each.path == path)
    found = [each for line, text in texts(source) for each in private_words(line, text, STRICT)]

    assert any(words in problem for _, problem in found)
