"""Tests are marked with promises that exist; the page of promises is written from the markers."""

import pytest

from tests.support.promises import catalogue, collect, defects, numbers_of, page, unknown
from tests.support.source_files import snippet, sources

KNOWN = [i for phrases in catalogue().values() for i in phrases]


def test_the_catalogue_is_whole():
    """
    S001 to S231 are there once each, in order, and none is without words.
    """
    assert [f"S{number:03}" for number in range(1, 232)] == KNOWN
    assert all(phrase for phrases in catalogue().values() for phrase in phrases.values())


def test_no_test_claims_a_promise_that_does_not_exist():
    """
    A misspelt number would count for nothing, so it is an error.
    """
    assert unknown(collect(sources("tests")), [*KNOWN, *defects()]) == {}
    assert unknown({"S999": ["a"], "D999": ["b"], "C999": []}, KNOWN) == {
        "S999": ["a"],
        "D999": ["b"],
    }


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('@pytest.mark.promise("S074")\ndef test_a(): ...', ["S074"]),
        ('@pytest.mark.promise("S074", "R16b")\nclass TestA: ...', ["S074", "R16b"]),
        ('@pytest.mark.promise("D3")\n@pytest.mark.promise("C4")\ndef a(): ...', ["D3", "C4"]),
        ('@pytest.mark.usefixtures("S074")\ndef test_a(): ...', []),
        ('def test_a():\n    """Promise: S074."""', []),
    ],
)
def test_numbers_are_read_from_markers(text, numbers):
    """
    A promise is shown by what is marked with its number, whatever a docstring mentions.
    """
    assert numbers_of(snippet(text).tree.body[0]) == numbers


@pytest.mark.parametrize("argument", ["74", "'s074'", "'S074, S079'", "number"])
def test_an_argument_that_is_not_a_number_is_refused(argument):
    """
    An argument that no promise can have is an error when the page is written.
    """
    made = snippet(f"@pytest.mark.promise({argument})\ndef test_a(): ...")

    with pytest.raises(ValueError, match="not the number of a promise"):
        numbers_of(made.tree.body[0])


def test_functions_classes_and_files_can_claim():
    """
    Each promise is listed under the name that pytest takes.
    """
    file = snippet(
        """
        pytestmark = [pytest.mark.promise("S001"), pytest.mark.every_saver]
        @pytest.mark.promise("S002")
        class TestA:
            @pytest.mark.promise("S002", "C4", "C32")
            async def test_b(self): ...
        """,
        "tests/test_made_up.py",
    )
    found = collect([file])

    a = "tests/test_made_up.py::TestA"
    assert found["S001"] == ["tests/test_made_up.py"]
    assert found["S002"] == [a, f"{a}::test_b"]
    assert "| S003 | third | gap |" in page({"One": {"S003": "third"}}, found)
    assert "| C4 |" in page({}, found).split("| C32 |")[0]
