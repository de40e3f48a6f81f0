"""The condition that PostgresStore gives the database, of a filter that it applies itself."""

from hypothesis import given
from hypothesis import strategies as st

from actorgraph.stores.filters import matches
from actorgraph.stores.postgres.items import necessary

TEXTS = st.sampled_from(["a", "b", "a.b", "\0", "\ud800", "☺", "'"])
PARTS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([1.0, 0.5, 2**60]) | TEXTS
VALUES = st.dictionaries(
    TEXTS,
    st.recursive(
        PARTS,
        lambda i: st.lists(i, max_size=2) | st.dictionaries(TEXTS, i, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)
FILTERS = st.dictionaries(
    TEXTS,
    VALUES | PARTS | st.fixed_dictionaries({"$eq": PARTS}) | st.fixed_dictionaries({"$ne": PARTS}),
    max_size=2,
)


def contains(value, wanted):
    """The result of jsonb's `@>` for the parts that `necessary` uses."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            name in value and contains(value[name], part) for name, part in wanted.items()
        )
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


@given(VALUES, FILTERS)
def test_the_condition_excludes_no_match(value, wanted):
    """
    A value that fits a filter contains what the database is asked for.
    """
    assert not matches(value, wanted) or contains(value, necessary(wanted))
