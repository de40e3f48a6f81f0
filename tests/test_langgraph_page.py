"""docs/reference/langgraph.md says what the tests and the table of names say."""

import re

import pytest

from tests.support.langgraph_page import (
    PAGE,
    known,
    renewed,
    rows_of,
    rules,
    shown,
    words,
)
from tests.support.source_files import snippet

NAMES_OF_TESTS = re.compile(r"`tests/[^`]*`(<br>`tests/[^`]*`)*")


def test_the_tables_are_fresh():
    """
    The tables are what `make promises` would write now, but for the names of the tests: renaming
    a test makes no work.
    """
    text = PAGE.read_text("utf-8")
    now, fresh = (NAMES_OF_TESTS.sub("tests", page) for page in (text, renewed(text)))

    assert now == fresh, "docs/reference/langgraph.md is stale: run `make promises`"


def test_the_catalogue_is_whole():
    """
    The rules L1 to L117 are there in order, and each row has words.
    """
    data = words()
    rows = known(data)

    assert [i for i in rows if i.startswith("L")] == [f"L{n}" for n in range(1, 118)]
    assert len(rows) == len(set(rows))
    assert all(p for kind in ("features", "rules") for s in data[kind].values() for p in s.values())
    assert {*data["better"], *data["left"], *data["different"]} <= set(rows)


def test_no_test_claims_a_row_that_does_not_exist():
    """
    A misspelt row would count for nothing, so it is an error.
    """
    stores = {i for i in shown() if i.startswith("F-I")}

    assert set(shown()) - set(known(words())) - stores == set()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('@pytest.mark.langgraph("F-C9", "L43")\ndef test_a(): ...', ["F-C9", "L43"]),
        ('@pytest.mark.langgraph("F-F6")\nclass TestA: ...', ["F-F6"]),
        ('@pytest.mark.usefixtures("L43")\ndef test_a(): ...', []),
        ('def test_a():\n    """It ends. LangGraph: F-C9, L43."""', []),
    ],
)
def test_rows_are_read_from_markers(text, rows):
    """
    A row is shown by tests marked with it, whatever a docstring mentions.
    """
    assert rows_of(snippet(text).tree.body[0]) == rows


@pytest.mark.parametrize("argument", ["43", "'l43'", "'F-C9, L43'", "'S074'", "row"])
def test_another_argument_is_refused(argument):
    """
    An argument that can't be a row is an error when the page is written.
    """
    made = snippet(f"@pytest.mark.langgraph({argument})\ndef test_a(): ...")

    with pytest.raises(ValueError, match="not a row of LangGraph's features"):
        rows_of(made.tree.body[0])


def test_a_rule_among_promises_counts_too():
    """
    The marker `promise` may have a row's number.
    """
    file = snippet(
        """
        @pytest.mark.promise("S168", "L12")
        @pytest.mark.langgraph("L13")
        def test_a(): ...
        """
    )

    assert rows_of(file.tree.body[0]) == ["L13", "L12"]


def test_a_row_without_a_test_is_a_gap():
    """
    A row without a test is shown as a gap.
    """
    data = {"rules": {"One": {"L1": "first", "L2": "second"}}, "different": {"L2": "otherwise"}}

    assert rules(data, {"L2": ["tests/a.py::test_b"]})[-3:-1] == [
        "| L1 | first | same | gap |",
        "| L2 | second | otherwise | `tests/a.py::test_b` |",
    ]
