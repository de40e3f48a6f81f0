"""actorgraph.studio.changes: what a step changed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.studio.changes import ROWS_MAX, Change, changes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


class TestChanges:
    @pytest.mark.parametrize(
        ("before", "after", "rows"),
        [
            ({"a": 1}, {"a": 1}, []),
            ({"a": 1}, {"a": 2}, [Change("a", "changed", 1, 2)]),
            ({}, {"a": 1}, [Change("a", "added", None, 1)]),
            ({"a": 1}, {}, [Change("a", "removed", 1)]),
            ({"log": ["x"]}, {"log": ["x", "y"]}, [Change("log[1]", "added", None, "y")]),
            ({"log": ["x", "y"]}, {"log": ["x"]}, [Change("log[1]", "removed", "y")]),
            ({"a": {"b": [1]}}, {"a": {"b": [2]}}, [Change("a.b[0]", "changed", 1, 2)]),
            (1, "1", [Change("state", "changed", 1, "1")]),
            ({"a": True}, {"a": 1}, [Change("a", "changed", before=True, after=1)]),
        ],
    )
    def test_differences_are_named_by_their_place(self, before, after, rows):
        """
        Each difference has the path, the kind and both values; equal parts have none.
        """
        assert list(changes(before, after).rows) == rows

    def test_only_so_many_are_listed(self):
        """
        Beyond `ROWS_MAX` differences are counted.
        """
        found = changes({}, dict.fromkeys(range(ROWS_MAX + 7), 0))

        assert (len(found.rows), found.more) == (ROWS_MAX, 7)

    @given(JSON, JSON)
    def test_rows_are_there_if_and_only_if_states_differ(self, one, other):
        """
        Two states have a row if and only if their JSON differs.
        """
        same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

        assert bool(changes(one, other).rows) is not same
