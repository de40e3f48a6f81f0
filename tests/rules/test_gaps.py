"""Which numbers a gap in the events of a run has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.rules.system.gaps import missing_events


@pytest.mark.parametrize(
    ("after", "following", "missed"),
    [
        (1, 5, {"from": 2, "to": 4}),
        (1, 3, {"from": 2, "to": 2}),
        (0, 9, {"from": 1, "to": 8}),
        (1, 2, {"from": 2, "to": None}),  # the next event follows: others were missed
        (7, 3, {"from": 8, "to": None}),  # the reader counts events of another life
        (7, None, {"from": 8, "to": None}),  # the run ended without storing an event
    ],
)
def test_a_gap_has_the_numbers_of_events_or_none(after, following, missed):
    """The last missed event is the one before the next, or unknown."""
    assert missing_events(after, following) == missed


@given(st.integers(0, 20), st.none() | st.integers(1, 20))
def test_no_gap_ends_before_it_begins(after, following):
    """The bounds are in order, whatever number a reader comes with."""
    missed = missing_events(after, following)

    assert missed["to"] is None or after < missed["from"] <= missed["to"] < (following or 0)
