"""Each channel's rule on one cell: what writes, idle supersteps and subscribers do to it."""

import operator
from collections.abc import Mapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.channels import (
    EMPTY,
    UNCHANGED,
    AnyValue,
    BinaryOperatorAggregate,
    Channel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from actorgraph.errors import InvalidUpdateError

ADD = BinaryOperatorAggregate(list, operator.add)
JOIN = NamedBarrierValue(str, ["a", "b"])
BOTH = frozenset({"a", "b"})
ONLY_A = frozenset({"a"})
LOG = Topic(str, accumulate=True)
ONCE = Topic(str, unique=True)
ONCE_LOG = Topic(str, accumulate=True, unique=True)


@pytest.mark.langgraph("F-B2", "F-B4", "F-B5", "F-B6", "F-B7", "F-B8", "F-B11")
@pytest.mark.parametrize(
    ("channel", "before", "writes", "after"),
    [
        (LastValue(int), 1, [2], 2),
        (LastValue(int), EMPTY, [None], None),
        (AnyValue(int), 1, [2, 3], 3),
        (EphemeralValue(int), EMPTY, [2], 2),
        (EphemeralValue(int, guard=False), EMPTY, [2, 3], 3),
        (UntrackedValue(int), EMPTY, [2], 2),
        (UntrackedValue(int, guard=False), 1, [2, 3], 3),
        (ADD, ["x"], [["y"], ["z"]], ["x", "y", "z"]),
        (ADD, [], [["y"]], ["y"]),
        (BinaryOperatorAggregate(int, operator.sub), 10, [3, 2], 5),
        (BinaryOperatorAggregate(Any, operator.add), EMPTY, [3, 2], 5),
        (Topic(str), ["old"], ["x", ["y", "z"]], ["x", "y", "z"]),
        (LOG, ["old"], ["x", ["y"]], ["old", "x", "y"]),
        (ONCE, EMPTY, ["x", ["y", "x"]], (["x", "y"], {"x", "y"})),
        (ONCE, (["x"], frozenset({"x"})), ["x", "y"], (["y"], {"x", "y"})),
        (ONCE_LOG, (["x"], frozenset({"x"})), ["x", "y"], (["x", "y"], {"x", "y"})),
        (ONCE_LOG, (["x"], frozenset({"x"})), ["x"], UNCHANGED),
        (JOIN, EMPTY, ["a"], {"a"}),
        (JOIN, ONLY_A, ["b", "b"], {"a", "b"}),
        (JOIN, ONLY_A, ["a"], UNCHANGED),
    ],
)
def test_writes_fold_into_the_cell(channel, before, writes, after):
    """
    One superstep's writes become the cell's next value, in the order given.
    """
    assert channel.fold("key", before, writes) == after


@pytest.mark.langgraph("F-B2", "F-B5", "F-B6")
@pytest.mark.parametrize(
    ("channel", "text"),
    [
        (LastValue(int), "At key 'key': can receive only one value per step, got 2"),
        (EphemeralValue(int), "EphemeralValue(guard=True) can receive only one value per step"),
        (UntrackedValue(int), "UntrackedValue(guard=True) can receive only one value per step"),
    ],
)
def test_two_writers_are_refused_where_no_order_would_be_right(channel, text):
    """
    A cell for one writer refuses two of them, names itself and says how they could be combined.
    """
    with pytest.raises(InvalidUpdateError) as refused:
        channel.fold("key", EMPTY, [1, 2])

    assert text in refused.value.what
    assert "'key'" in refused.value.what
    assert refused.value.do


@pytest.mark.langgraph("F-B11")
def test_a_barrier_refuses_a_name_it_does_not_wait_for():
    """
    A stranger at a barrier is an error that names it and the ones awaited.
    """
    with pytest.raises(InvalidUpdateError, match=r"\['c'\] not in \['a', 'b'\]"):
        JOIN.fold("join", EMPTY, ["a", "c"])


@pytest.mark.promise("L17")
@pytest.mark.langgraph("F-B5", "F-B7")
@pytest.mark.parametrize(
    ("channel", "before", "after"),
    [
        (EphemeralValue(int), 1, EMPTY),
        (EphemeralValue(int), EMPTY, UNCHANGED),
        (AnyValue(int), 1, EMPTY),
        (AnyValue(int), EMPTY, UNCHANGED),
        (Topic(str), ["x"], EMPTY),
        (Topic(str), EMPTY, UNCHANGED),
        (LOG, ["x"], UNCHANGED),
        (ONCE, (["x"], frozenset({"x"})), ([], {"x"})),
        (ONCE, ([], frozenset({"x"})), UNCHANGED),
        (ONCE_LOG, (["x"], frozenset({"x"})), UNCHANGED),
        (LastValue(int), 1, UNCHANGED),
        (UntrackedValue(int), 1, UNCHANGED),
        (ADD, [1], UNCHANGED),
        (JOIN, BOTH, UNCHANGED),
    ],
)
def test_a_superstep_without_a_write_ages_only_short_lived_cells(channel, before, after):
    """
    An idle superstep empties ephemerals and topics, and changes no other cell.
    """
    assert channel.idle(before) == after
    assert channel.clears or after is UNCHANGED, "apply() asks only channels that say they clear"


@pytest.mark.langgraph("F-B11")
@pytest.mark.parametrize(
    ("before", "readable", "consumed"),
    [(BOTH, None, EMPTY), (ONLY_A, EMPTY, UNCHANGED), (EMPTY, EMPTY, UNCHANGED)],
)
def test_a_barrier_opens_when_all_have_come_and_closes_when_consumed(before, readable, consumed):
    """
    A barrier is readable only while complete, and its subscriber's run empties it.
    """
    assert JOIN.read(before) is readable
    assert JOIN.consume(before) is consumed


@pytest.mark.parametrize("channel", [LastValue(int), ADD, LOG, EphemeralValue(int)])
def test_only_barriers_are_consumed(channel):
    """
    A subscriber's run changes no cell but a barrier.
    """
    assert channel.consume(["x"]) is UNCHANGED
    assert channel.finish(["x"]) is UNCHANGED
    assert not channel.consumable


@given(st.permutations(["a", "b", "c"]), st.integers(0, 2))
def test_a_barrier_opens_at_the_last_name_in_any_order(order, cut):
    """
    However the names are spread over supersteps, the barrier opens exactly at the last one.
    """
    barrier = NamedBarrierValue(str, {"a", "b", "c"})
    cell: Any = EMPTY
    for part in (order[:cut], order[cut:]):
        assert barrier.read(cell) is EMPTY
        cell = barrier.fold("join", cell, part) if part else cell

    assert barrier.read(cell) is None


@pytest.mark.parametrize(
    ("channel", "cell", "seen"),
    [
        (Topic(str), ["x"], ["x"]),
        (ONCE, (["x"], frozenset({"x"})), ["x"]),
        (ONCE, ([], frozenset({"x"})), EMPTY),
        (ONCE, EMPTY, EMPTY),
        (LastValue(int), None, None),
        (LastValue(int), EMPTY, EMPTY),
    ],
)
def test_a_reader_sees_values_and_never_an_empty_topic(channel, cell, seen):
    """
    A topic reads as its list, and as not available when nothing was published.
    """
    assert channel.read(cell) is seen if seen is EMPTY else channel.read(cell) == seen


@pytest.mark.parametrize("channel", [Topic(str), LOG])
@pytest.mark.parametrize("before", [EMPTY, ["old"]])
def test_publishing_nothing_makes_no_topic_available(channel, before):
    """
    An empty list written to a topic adds nothing: an empty topic stays unavailable.
    """
    after = channel.fold("log", before, [[]])
    cell = before if after is UNCHANGED else after

    assert cell is EMPTY or channel.read(cell) == ["old"]


@pytest.mark.langgraph("F-B8")
@pytest.mark.parametrize(
    ("typ", "first"),
    [
        (list, []),
        (int, 0),
        (str, ""),
        (list[int], []),
        (Sequence, []),
        (MutableSequence[int], []),
        (AbstractSet[str], set()),
        (Mapping[str, int], {}),
        (int | None, EMPTY),
        (Any, EMPTY),
    ],
)
def test_a_reducer_begins_with_its_types_own_zero(typ, first):
    """
    The first value is `typ()`, an abstract type counts as its concrete one, else it is missing.
    """
    made = BinaryOperatorAggregate(typ, operator.add).initial()

    assert made == first
    assert type(made) is type(first)


def test_a_first_value_is_made_anew_for_each_run():
    """
    Two runs never share one list as their first value.
    """
    assert ADD.initial() is not ADD.initial()


@given(st.lists(st.lists(st.integers())), st.integers(0, 10))
def test_folding_in_one_superstep_or_in_several_is_the_same(writes, cut):
    """
    A reducer sees each write once and in order, however supersteps group them.
    """
    cell = ADD.initial()
    for part in (writes[:cut], writes[cut:]):
        cell = ADD.fold("log", cell, part) if part else cell

    assert cell == [item for write in writes for item in write]


CELLS: list[tuple[Channel[Any], list[Any]]] = [
    (LastValue(int), [3]),
    (AnyValue(int), [3]),
    (EphemeralValue(int), [3]),
    (ADD, [["x"], ["y"]]),
    (Topic(str), ["x", "y"]),
    (LOG, ["x", "y"]),
    (ONCE, ["x", "x"]),
    (ONCE_LOG, ["x", "y"]),
    (JOIN, ["a", "b"]),
    (LastValueAfterFinish(int), [3]),
    (NamedBarrierValueAfterFinish(str, ["a", "b"]), ["a", "b"]),
]


@pytest.mark.promise("S049")
@pytest.mark.parametrize(("channel", "writes"), CELLS)
def test_a_stored_cell_comes_back(channel, writes):
    """
    A channel can load what it dumps, and it reads as before; also once the rest of the graph has
    nothing to do.
    """
    cell = channel.fold("key", channel.initial(), writes)
    ended = channel.finish(cell)
    cells = [cell] if ended is UNCHANGED else [cell, ended]
    loaded = [channel.load(channel.dump(one)) for one in cells]

    assert channel.stored
    assert loaded == cells
    assert [channel.read(one) for one in loaded] == [channel.read(one) for one in cells]
    assert channel.read(loaded[-1]) is not EMPTY


@pytest.mark.promise("S051")
def test_a_last_value_is_stored_as_it_is():
    """
    A LastValue stores the value itself.
    """
    value = {"a": [1]}

    assert LastValue(dict).dump(LastValue(dict).fold("key", EMPTY, [value])) is value


@pytest.mark.langgraph("F-B6", "F-E31")
def test_an_untracked_value_is_never_stored():
    """
    A checkpoint holds nothing of an UntrackedValue.
    """
    assert UntrackedValue(object).dump("secret") is EMPTY
    assert not UntrackedValue.stored


@pytest.mark.promise("S052")
@pytest.mark.parametrize("channel", [ONCE, ONCE_LOG])
def test_a_unique_topic_remembers_across_a_restart(channel):
    """
    A value published before a save and load is dropped after it, and stays dropped when the
    topic has been cleared in between.
    """
    cell = channel.fold("log", EMPTY, ["x", "y"])
    aged = channel.idle(cell)
    cell = channel.load(channel.dump(cell if aged is UNCHANGED else aged))

    after = channel.fold("log", cell, ["y", "z"])

    assert channel.read(after)[-1:] == ["z"]
    assert channel.read(after).count("y") == (1 if channel.accumulate else 0)


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4), max_size=6))
def test_a_unique_topic_publishes_each_value_once(supersteps):
    """
    Over any number of supersteps a unique topic delivers each value once, in first-seen order.
    """
    cell: Any = EMPTY
    delivered: list[str] = []
    for writes in supersteps:
        folded = ONCE.fold("log", cell, writes)
        cell = cell if folded is UNCHANGED else folded
        seen = ONCE.read(cell)
        delivered += [] if seen is EMPTY else seen

    assert delivered == list(dict.fromkeys(w for writes in supersteps for w in writes))


def test_folding_leaves_the_old_cell_alone():
    """
    Topics and barriers make new cells: an older checkpoint's value doesn't change.
    """
    values, seen = ["x"], frozenset({"x"})
    LOG.fold("log", values, ["y"])
    ONCE_LOG.fold("log", (values, seen), ["y"])
    JOIN.fold("join", ONLY_A, ["b"])

    assert (values, seen, ONLY_A) == (["x"], {"x"}, {"a"})
