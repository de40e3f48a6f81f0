"""docs/reference/langgraph.md says what the tests and the table of names say."""

import re

import pytest

from tests.support.langgraph_page import (
    PAGE,
    known,
    renewed,
    rows_in,
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
    ("docstring", "ids"),
    [
        ("It ends. LangGraph: F-C9, L43.", ["F-C9", "L43"]),
        ("LangGraph: F-F6,\n    L61.", ["F-F6", "L61"]),
        ("L43 is not claimed here", []),
        (None, []),
    ],
)
def test_claims_are_read_from_docstrings(docstring, ids):
    """
    A claim is the word and its rows.
    """
    assert rows_in(docstring) == ids


def test_a_rule_among_promises_counts_too():
    """
    The marker `promise` may have a row's number.
    """
    file = snippet(
        '''
        @pytest.mark.promise("S168", "L12")
        def test_a():
            """One. LangGraph: L13."""
        '''
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
