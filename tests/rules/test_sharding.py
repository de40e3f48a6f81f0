"""Which database has a bucket, how it moves, and what is left of a move that was given up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorgraph.rules.system.sharding import (
    ChangeBucket,
    ShardMap,
    balancing,
    holder_of_bucket,
    look_order,
    map_of,
    mending,
)
from actorgraph.values.shards import BUCKETS, BucketRow

NAMES = ("a", "b", "c")


def rows(**given_rows: str) -> dict[str, BucketRow]:
    """Database -> its row, written as "state other"."""
    return {name: BucketRow(*text.split()) for name, text in given_rows.items()}


class TestMending:
    @pytest.mark.parametrize(
        ("found", "holder", "changes"),
        [
            (rows(a="here", b="away"), "a", ()),
            (rows(a="away b", b="here a"), "b", ()),
            (
                rows(a="here", b="arriving a"),
                "a",
                (ChangeBucket("b", "away", "a", clear=True),),
            ),
            (
                rows(a="leaving b", b="arriving a", c="away"),
                "a",
                (ChangeBucket("b", "away", "a", clear=True), ChangeBucket("a", "here")),
            ),
            (rows(a="leaving b", b="away a"), "a", (ChangeBucket("a", "here"),)),
            (rows(a="away b", b="arriving a"), None, (ChangeBucket("b", "here", "a"),)),
            (
                rows(a="away b", b="arriving a", c="away d", d="arriving c"),
                None,
                (ChangeBucket("b", "here", "a"),),
            ),
            (rows(a="away c", b="arriving a"), None, ()),
            (rows(a="away", b="away"), None, ()),
            (rows(a="here", b="here"), None, ()),
        ],
        ids=str,
    )
    def test_a_move_is_undone_or_completed(self, found, holder, changes):
        """
        It is undone as long as its source has the bucket, and completed after that.
        """
        assert (holder_of_bucket(found), mending(found)) == (holder, changes)


class Databases:
    """One bucket in three databases, with a value that is its threads' rows."""

    def __init__(self) -> None:
        self.rows = {name: BucketRow("away") for name in NAMES}
        self.rows["a"] = BucketRow("here")
        self.data: dict[str, int | None] = {"a": 0, "b": None, "c": None}

    def change(self, change: ChangeBucket) -> None:
        self.rows[change.shard] = BucketRow(change.state, change.other)
        if change.clear:
            self.data[change.shard] = None

    def move(self, source: str, target: str, transactions: int) -> None:
        """Carry out the first transactions of a move; four for all."""
        steps = [
            lambda: self.change(ChangeBucket(target, "arriving", source, clear=True)),
            lambda: self.change(ChangeBucket(source, "leaving", target)),
            lambda: self.data.update({target: self.data[source]}),
            lambda: self.change(ChangeBucket(source, "away", target, clear=True)),
            lambda: self.change(ChangeBucket(target, "here", source)),
        ]
        for step in steps[:transactions]:
            step()
            self.check()

    def mend(self, transactions: int) -> bool:
        """Carry out the first transactions of the mending; return whether these were all."""
        changes = mending(self.rows)
        for change in changes[:transactions]:
            self.change(change)
            self.check()
        return transactions >= len(changes)

    def check(self) -> None:
        """At most one database takes new runs, and one has the data, complete."""
        assert [row.state for row in self.rows.values()].count("here") <= 1
        assert len([row for row in self.rows.values() if row.state in ("here", "leaving")]) <= 1

    def write(self, value: int) -> None:
        """Store a value where the bucket is open."""
        for name, row in self.rows.items():
            if row.state == "here":
                self.data[name] = value


class TestMoves:
    @settings(max_examples=50)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(NAMES),
                st.integers(0, 5),
                st.lists(st.integers(0, 2), max_size=2),
            ),
            max_size=12,
        )
    )
    def test_no_write_is_lost_however_moves_and_mendings_end(self, moves):
        """
        After moves that die after any transaction, and mendings that die too, one database
        has the bucket, with the value that was stored last.
        """
        databases = Databases()
        for value, (target, transactions, mendings) in enumerate(moves, 1):
            source = holder_of_bucket(databases.rows)
            assert source is not None
            databases.write(value)
            if source == target:
                continue
            databases.move(source, target, transactions)
            for some in mendings:
                databases.mend(some)
            assert databases.mend(9)
            holder = holder_of_bucket(databases.rows)
            assert holder == (target if transactions >= 4 else source)
            assert databases.rows[holder].state == "here"
            assert databases.data == {**dict.fromkeys(NAMES), holder: value}


class TestMap:
    def test_buckets_of_no_database_are_named(self):
        """
        The map has each bucket's database; one that none has is reported.
        """
        here, away = BucketRow("here"), BucketRow("away")
        first = [here] * 2048 + [away] * 2048
        second = [away] * 2049 + [here] * 2047
        known, unclear = map_of({"a": first, "b": second})

        assert known.counts() == {"a": 2048, "b": 2047}
        assert unclear == (2048,)
        assert known.holders[2047:2050] == ("a", "", "b")

    @settings(max_examples=20)
    @given(st.integers(1, 9), st.data())
    def test_a_balance_moves_no_more_than_it_must(self, count, data):
        """
        All databases have the same number of buckets afterwards, give or take one, and
        a bucket moves only from one that has too many to one that has too few.
        """
        names = tuple(f"d{n}" for n in range(count))
        some = data.draw(st.lists(st.sampled_from(names), min_size=8, max_size=8))
        known = ShardMap(names, tuple(some[n % 8] for n in range(BUCKETS)))
        holders = list(known.holders)
        moves = balancing(known)
        for (source, target), buckets in moves.items():
            for bucket in buckets:
                assert holders[bucket] == source
                holders[bucket] = target

        after = ShardMap(names, tuple(holders)).counts()
        assert max(after.values()) - min(after.values()) <= 1
        assert not {source for source, _ in moves} & {target for _, target in moves}

    def test_a_run_is_looked_for_in_the_database_of_its_bucket_first(self):
        """
        Then in the others, since ids that were made elsewhere have no bucket in them.
        """
        known = ShardMap(NAMES, ("b",) * BUCKETS)

        assert list(look_order(known, 7)) == ["b", "a", "c"]
        assert list(look_order(ShardMap(NAMES, ("",) * BUCKETS), 7)) == ["a", "b", "c"]

    @pytest.mark.parametrize("largest", NAMES)
    def test_the_database_with_one_more_keeps_it(self, largest):
        """
        Where the shares can't be equal nothing moves just to give the odd bucket to another.
        """
        size, odd = divmod(BUCKETS, len(NAMES))
        assert odd == 1

        assert balancing(ShardMap(NAMES, (*NAMES * size, largest))) == {}
