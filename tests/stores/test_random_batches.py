"""Random batches mean the same in LangGraph's store and in each of ours.

Intended differences are kept out of the batches, and have their tests: the filters' comparisons of
bools and of other types, `created_at`, namespaces that were only read or have lost their items,
values that JSON hasn't got, the order of a database's search.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.memory import InMemoryStore as TheirStore

from actorgraph.stores import (
    GetOp,
    InMemoryStore,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    SqliteStore,
)
from tests.stores.theirs import their_op

LABELS = st.sampled_from(["a", "b", "ab"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=2).map(tuple)
PATHS = st.lists(LABELS | st.just("*"), max_size=2).map(tuple)
KEYS = st.sampled_from(["k", "l"])
NUMBERS = st.sampled_from([0, 1, 2.0])
SCALARS = NUMBERS | st.sampled_from(["x", "y", ""])
INNER = st.fixed_dictionaries({}, optional={"p": SCALARS, "q": st.lists(NUMBERS, max_size=2)})
VALUES = st.fixed_dictionaries({"n": NUMBERS}, optional={"s": SCALARS, "in": INNER})
ORDER = st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$ne", "$eq"]), NUMBERS)
FIELDS = {
    "n": NUMBERS | ORDER.filter(bool),
    "s": SCALARS | st.fixed_dictionaries({"$ne": SCALARS}) | st.none(),
    "in": INNER,
    "gone": st.none() | st.just("x"),
}
FILTERS = st.sampled_from([*FIELDS]).flatmap(lambda f: FIELDS[f].map(lambda wanted: {f: wanted}))
PAGES = {"limit": st.integers(0, 9), "offset": st.integers(0, 2)}
CONDITIONS = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PATHS)
PUTS = st.lists(
    st.builds(PutOp, NAMESPACES, KEYS, VALUES, st.none(), st.none()), min_size=2, max_size=6
)
OPS = st.one_of(
    st.builds(PutOp, NAMESPACES, KEYS, VALUES, st.none(), st.none()),
    st.builds(PutOp, NAMESPACES, KEYS, VALUES, st.none(), st.none()),
    st.builds(PutOp, NAMESPACES, KEYS, st.none(), st.none(), st.none()),
    st.builds(GetOp, NAMESPACES, KEYS),
    st.builds(SearchOp, st.just(()) | NAMESPACES, st.none() | FILTERS, **PAGES),
    st.builds(
        ListNamespacesOp,
        st.lists(CONDITIONS, max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        **PAGES,
    ),
)
BATCHES = st.tuples(PUTS, st.lists(st.lists(OPS, min_size=1, max_size=8), max_size=4)).map(
    lambda both: [both[0], *both[1]]
)


def shown(result):
    """A result without times, which differ."""
    if isinstance(result, list):
        return [shown(part) for part in result]
    if hasattr(result, "value"):
        return result.namespace, result.key, result.value
    return result


def unordered(result):
    """A result without the order of the items found."""
    return sorted(map(repr, result)) if isinstance(result, list) else result


class Pruned(TheirStore):
    """LangGraph's store, which forgets namespaces that hold nothing."""

    def batch(self, ops):
        results = super().batch([their_op(op) for op in ops])
        self._prune()
        return results

    def _prepare_ops(self, ops):
        prepared = super()._prepare_ops(ops)
        self._prune()  # one that was only read would stand before those that are put now
        return prepared

    def _prune(self):
        for namespace in [n for n, items in self._data.items() if not items]:
            del self._data[namespace]


def whole(ops):
    """The batch with searches for everything, so that their order doesn't matter."""
    return [op._replace(limit=99, offset=0) if isinstance(op, SearchOp) else op for op in ops]


@pytest.mark.langgraph("F-I1", "F-I3", "F-I4", "F-I5", "L104")
@pytest.mark.parametrize("examples", [60, pytest.param(600, marks=pytest.mark.long)])
def test_ours_in_memory_is_theirs(examples):
    """
    The same batches give the same results, in the same order until something is deleted: in
    theirs an empty namespace keeps its place.
    """
    settings(max_examples=examples)(given(BATCHES)(compare_with_theirs))()


def compare_with_theirs(batches):
    ours, theirs, deleted = InMemoryStore(), Pruned(), False
    for ops in batches:
        # Reading makes a namespace in theirs, which a listing of the same batch would show.
        listed = [op for op in ops if isinstance(op, ListNamespacesOp)]
        others = [op for op in ops if not isinstance(op, ListNamespacesOp)]
        deleted = deleted or any(isinstance(op, PutOp) and op.value is None for op in others)
        if deleted:
            others = whole(others)
        got, wanted = shown(ours.batch(others)), shown(theirs.batch(others))

        assert shown(ours.batch(listed)) == shown(theirs.batch(listed))
        assert got == wanted or (deleted and [*map(unordered, got)] == [*map(unordered, wanted)])


@pytest.mark.parametrize("examples", [30, pytest.param(300, marks=pytest.mark.long)])
def test_a_file_is_the_memory(examples):
    """
    SQLite gives what memory gives; a search has its own order, so whole pages are compared.
    """
    settings(max_examples=examples)(given(BATCHES)(compare_with_memory))()


def compare_with_memory(batches):
    memory, file = InMemoryStore(), SqliteStore(":memory:")
    for ops in batches:
        pairs = zip(memory.batch(whole(ops)), file.batch(whole(ops)), strict=True)

        assert all(unordered(shown(a)) == unordered(shown(b)) for a, b in pairs)
