"""docs/reference/promises.md says what the tests say."""

import pytest

from tests.promises import PAGE, catalogue, collect, current, ids_in, page, unknown
from tests.source import snippet, sources

KNOWN = [i for phrases in catalogue().values() for i in phrases]


def test_the_page_is_fresh():
    """
    The page is what `make promises` would write now.
    """
    fresh = PAGE.exists() and PAGE.read_text("utf-8") == current()

    assert fresh, "docs/reference/promises.md is stale: run `make promises`"


def test_the_catalogue_is_whole():
    """
    S001 to S231 are there once each, in order, and none is without words.
    """
    assert [f"S{number:03}" for number in range(1, 232)] == KNOWN
    assert all(phrase for phrases in catalogue().values() for phrase in phrases.values())


def test_no_test_claims_a_promise_that_does_not_exist():
    """
    A misspelt id would count for nothing, so it is an error.
    """
    assert unknown(collect(sources("tests")), KNOWN) == {}


@pytest.mark.parametrize(
    ("docstring", "ids"),
    [
        ("It ends. Promise: S074.", ["S074"]),
        ("Promise: S074, S079, C4.", ["S074", "S079", "C4"]),
        ("Promises: D3,\n    L12.", ["D3", "L12"]),
        ("S074 is not claimed here", []),
        (None, []),
    ],
)
def test_claims_are_read_from_docstrings(docstring, ids):
    """
    A claim is the word and its ids; an id alone claims nothing.
    """
    assert ids_in(docstring) == ids


def test_functions_classes_and_files_can_claim():
    """
    Each claim is listed under the name that pytest takes.
    """
    mention = "Prom" + "ise"
    file = snippet(
        f'''
        """A file. {mention}: S001."""
        class TestA:
            """A class. {mention}: S002."""
            async def test_b(self):
                """A test. {mention}: S002, C4, C32."""
        ''',
        "tests/test_made_up.py",
    )
    found = collect([file])

    a = "tests/test_made_up.py::TestA"
    assert found["S001"] == ["tests/test_made_up.py"]
    assert found["S002"] == [a, f"{a}::test_b"]
    assert "| S003 | third | gap |" in page({"One": {"S003": "third"}}, found)
    assert "| C4 |" in page({}, found).split("| C32 |")[0]
