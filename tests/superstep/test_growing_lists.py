"""Growing lists: few rows, few bytes, and always the list itself, whatever is appended when."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.superstep.list_rows import (
    MERGED_BYTES_MAX,
    ListRow,
    StoredList,
    add_items,
    branched_list,
    new_list,
)


class Rows:
    """The rows of a channel's lineages as a saver keeps them."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[int, list[Any]]] = {}
        self.sizes: dict[tuple[int, int], int] = {}
        self.written = 0

    def append(self, growth: StoredList, items: list[Any], size: int) -> StoredList:
        """Store new items where `place` says."""
        placed = add_items(growth, items, size)
        lineage = growth.chain[-1][0]
        rows = self.rows.setdefault(lineage, {})
        row = rows.setdefault(placed.start, [])
        assert len(row) == placed.before
        row.extend(items)
        self.sizes[lineage, placed.start] = self.sizes.get((lineage, placed.start), 0) + size
        self.written += size
        for start, end in placed.merges:
            inside = sorted(s for s in rows if start <= s < end)
            assert inside[0] == start
            rows[start] = [item for s in inside for item in rows.pop(s)]
            total = sum(self.sizes.pop((lineage, s)) for s in inside)
            self.sizes[lineage, start] = total
            self.written += total
            assert len(rows[start]) == end - start
        return growth

    def read(self, chain: list[tuple[int, int]]) -> list[Any]:
        """The list that a checkpoint with this chain names, from the rows in order."""
        items: list[Any] = []
        for lineage, end in chain:
            rows = self.rows.get(lineage, {})
            for start in sorted(rows):
                assert start == len(items), "rows stand one behind the other"
                items.extend(rows[start])
            del items[end:]
        return items

    def reload(self, growth: StoredList) -> StoredList:
        """The lists of a new run after reading the rows back."""
        lineage, _ = growth.chain[-1]
        rows = [
            ListRow(s, len(i), self.sizes[lineage, s])
            for s, i in sorted(self.rows.get(lineage, {}).items())
        ]
        return StoredList(list(growth.chain), self.read(growth.chain), rows)


PARTS = st.lists(
    st.tuples(st.integers(1, 150), st.sampled_from([1, 30, 2_000, 60_000]), st.booleans()),
    max_size=40,
)


@given(PARTS)
def test_reading_the_rows_in_order_gives_the_list(parts):
    """
    After any appends, in any portions and over any restarts, the rows read in
    order are the list, and what the run knows of them is what is stored.
    """
    store, growth, expected = Rows(), new_list(1), list[Any]()
    for number, (count, size, restart) in enumerate(parts):
        items = [(number, n) for n in range(count)]
        expected += items
        growth = store.append(growth, items, size * count)
        assert store.read(growth.chain) == expected
        assert [(r.start, r.count) for r in growth.rows] == [
            (s, len(i)) for s, i in sorted(store.rows[1].items())
        ]
        if restart:
            growth = store.reload(growth)

    assert growth.chain == [(1, len(expected))]
    assert growth.items == expected


@given(PARTS)
def test_a_restart_changes_no_decision(parts):
    """
    The rows to merge follow from the rows alone, so runs that reload after each
    append lay out the list as one long run does.
    """
    one, many = Rows(), Rows()
    growth, reloaded = new_list(1), new_list(1)
    for number, (count, size, _) in enumerate(parts):
        items = [(number, n) for n in range(count)]
        one.append(growth, items, size * count)
        reloaded = many.reload(many.append(reloaded, items, size * count))

    assert one.rows == many.rows


LOADS: dict[str, Callable[[int], tuple[int, int]]] = {
    "one item": lambda turn: (1, 40),
    "a chat message": lambda turn: (1, 420),
    "a hundred items": lambda turn: (100, 2_000),
    "one large item": lambda turn: (1, 40_000) if turn % 100 == 0 else (1, 40),
    "now few, now many": lambda turn: (100, 3_000) if turn % 33 == 0 else (1, 40),
    "ever more": lambda turn: (1 + turn // 100, 40 * (1 + turn // 100)),
}


@pytest.mark.promise("S066", "C1")
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_list_has_few_rows_and_is_written_few_times(load, restarts):
    """
    Two thousand appends leave at most 20 rows at any time, even if each is a run of its own,
    and each byte is written at most six times.
    """
    store, growth, most, total = Rows(), new_list(1), 0, 0
    for turn in range(2_000):
        count, size = LOADS[load](turn)
        total += size
        place_ = store.append(growth, [turn] * count, size)
        growth = store.reload(place_) if restarts and turn % 10 == 0 else place_
        most = max(most, len(growth.rows))

    assert most <= 20
    assert store.written <= 6 * total


@pytest.mark.promise("S066", "C1", "C26")
def test_ten_thousand_single_appends_make_at_most_twenty_rows():
    """
    The number of rows grows with the logarithm of the list.
    """
    growth, most = new_list(1), 0
    for number in range(10_000):
        add_items(growth, [number], 100)
        most = max(most, len(growth.rows))

    assert most <= 20
    assert growth.items == list(range(10_000))


def test_rows_are_not_merged_beyond_a_size_that_fits_a_read():
    """
    Merging stops at MERGED_BYTES_MAX, whatever the number of rows.
    """
    store, growth = Rows(), new_list(1)
    for _ in range(60):
        store.append(growth, [0], MERGED_BYTES_MAX // 5)

    assert max(store.sizes.values()) <= MERGED_BYTES_MAX
    assert len(store.sizes) > 10


@pytest.mark.promise("C1")
@given(st.integers(0, 80), st.integers(0, 80), st.integers(1, 80))
def test_a_branch_shares_its_beginning_and_nothing_after(common, left, right):
    """
    Two branches of one list read back as themselves: the second has a lineage of its own that
    begins where the first one's was.
    """
    store, growth = Rows(), new_list(1)
    for number in range(common):
        store.append(growth, [number], 50)
    at_fork = StoredList(list(growth.chain), list(growth.items), [])
    for number in range(left):
        store.append(growth, [("left", number)], 50)
    other = branched_list(at_fork, 2)
    assert store.read(other.chain) == list(range(common))
    for number in range(right):
        store.append(other, [("right", number)], 50)

    begin = list(range(common))
    assert store.read(growth.chain) == begin + [("left", n) for n in range(left)]
    assert other.chain == [(1, common), (2, common + right)]
    assert store.read(other.chain) == begin + [("right", n) for n in range(right)]


@pytest.mark.parametrize(
    ("value", "new"),
    [
        (lambda a, b: [a, b], []),
        (lambda a, b: [a, b, a], "a"),
        (lambda a, b: [a], None),
        (lambda a, b: [b, a], None),
        (lambda a, b: [], None),
        (lambda a, b: [a, list(b), 3], None),
    ],
)
def test_an_append_is_an_identical_prefix(value, new):
    """
    A list extends the stored one if it begins with the very same objects; equal ones don't count.
    """
    a, b = ["a"], ["b"]
    growth = StoredList([(1, 2)], [a, b], [])
    found = growth.appended(value(a, b))

    assert found == ([a] if new == "a" else new)


FULL, HALF = (32, 3200), (16, 1600)
"""Items and bytes of rows."""
BYTES = MERGED_BYTES_MAX - 3200


@pytest.mark.parametrize(
    ("rows", "new", "merged"),
    [
        ([FULL] * 14, FULL, []),
        ([FULL] * 15, FULL, [(0, 512)]),
        ([FULL] * 15, HALF, []),
        ([*[FULL] * 15, HALF], HALF, [(0, 512)]),
        ([*[FULL] * 15, HALF], (1, 100), []),
        ([(480, 48_000), *[FULL] * 14], FULL, [(0, 960)]),
        ([(481, 48_000), *[FULL] * 14], FULL, [(481, 961)]),
        ([(64, 6400), (96, 9600), *[FULL] * 12, (80, 8000)], FULL, [(0, 656)]),
        ([*[(320, 32_000)] * 14, (32, 3200)], FULL, [(4480, 4544)]),
        ([*[(320, 32_000)] * 14, (320, BYTES)], FULL, [(4480, 4832)]),
        ([*[(320, 32_000)] * 14, (320, BYTES + 1)], FULL, []),
    ],
)
def test_the_last_rows_are_merged_until_the_row_before_is_heavier(rows, new, merged):
    """
    With sixteen rows, the last one full, those at the end become one that is lighter than the
    row before it and not larger than a read takes; at least two.
    """
    growth, start = new_list(1), 0
    assert growth.chain == [(1, 0)]
    for count, size in rows:
        growth.rows.append(ListRow(start, count, size))
        start += count
    growth.items.extend([0] * start)
    placed = add_items(growth, [1] * new[0], new[1])

    assert list(placed.merges) == merged
    for first, end in merged:
        (row,) = [row for row in growth.rows if row.start == first]
        assert row.count == end - first
    sizes = sum(size for _, size in rows) + new[1]
    assert sum(row.size for row in growth.rows) == sizes
    assert sum(row.count for row in growth.rows) == len(growth.items) == start + new[0]
