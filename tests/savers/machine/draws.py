"""Hypothesis's strategies for the rules."""

from hypothesis import strategies as st

from tests.savers.machine.base import GRAPH, RAW
from tests.savers.machine.model import CONTROL

raw = st.sampled_from(RAW)
graphs = st.sampled_from(GRAPH)
namespaces = st.sampled_from(["", "n"])
picks = st.integers(0, 7)
plain = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text("ab", max_size=3))
given_values = st.dictionaries(
    st.sampled_from("xyz"), st.one_of(plain, st.lists(plain, max_size=3)), max_size=2
)
given_writes = st.lists(
    st.tuples(st.sampled_from(["x", "x", "y", *CONTROL]), plain), min_size=1, max_size=3
)


failures = st.sampled_from([None, None, None, "before", "after"])
points_of_failure = st.one_of(st.none(), st.none(), st.integers(0, 9))
