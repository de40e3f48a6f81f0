"""Lists in saves: rows of items, lineages, and values that migrations made."""

from typing import Any

import pytest

from actorgraph.codec import Codec
from actorgraph.codec.records import Placement, frame
from actorgraph.values.commits import (
    BlobRow,
    MergeRow,
    RangeRow,
)
from actorgraph.values.ids import version_apart
from tests.codec.threads import (
    KEYS,
    A,
    B,
    C,
    Thread,
    hand_off,
    point,
    record_of,
    save,
)

CODEC = Codec()
KEYED = Codec(keys=KEYS)
LONG = "x" * 5_000


class TestLists:
    def test_only_new_items_are_stored(self):
        """
        A reducer's list that has grown adds its new items to its row.
        """
        thread = Thread()
        items: list[Any] = ["a", {"b": 1}, "c"]
        thread.save(point(1, {"log": items[:2]}))
        made = thread.save(point(2, {"log": items}))
        same = thread.save(point(3, {"log": [*items]}))

        assert made.checkpoints[0].ranges == (
            RangeRow("log", 1, 0, 2, 1, frame(CODEC.encode(["c"]))),
        )
        assert made.size == 400 + len(CODEC.encode(["c"]))
        assert same.checkpoints[0].ranges == ()
        assert record_of(same).lists == {"log": [(1, 3)]}

    def test_a_changed_list_begins_anew(self):
        """
        A list that lost or changed an item is stored whole, on a lineage of its own.
        """
        thread = Thread()
        thread.save(point(1, {"log": ["a", "b"]}))
        made = thread.save(point(2, {"log": ["b", "c"]}))

        assert record_of(made).lists == {"log": [(2, 2)]}
        assert thread.values(B) == {"log": ["b", "c"]}

    def test_a_list_that_grew_elsewhere_branches(self):
        """
        A list of which another branch has added items goes on with a lineage of its own.
        """
        thread = Thread()
        items = ["a"]
        thread.save(point(1, {"log": items}))
        _, placed = thread.restored(A)
        thread.save(point(2, {"log": [*items, "b"]}))
        placed.outgrown.add("log")
        thread.hand = hand_off(placed=placed)
        held = placed.growths["log"].items
        made = thread.save(point(3, {"log": [*held, "c"]}))
        again = thread.save(point(4, {"log": [*held, "d"]}))

        assert record_of(made).lists == {"log": [(1, 1), (3, 2)]}
        assert made.checkpoints[0].ranges == (
            RangeRow("log", 3, 1, 0, 1, frame(CODEC.encode(["c"]))),
        )
        assert record_of(again).lists == {"log": [(1, 1), (3, 3)]}

    def test_rows_are_merged(self):
        """
        After sixteen full rows those at the end are merged, and the list reads the same.
        """
        thread = Thread()
        items: list[int] = []
        merges: list[MergeRow] = []
        for number in range(1, 17):
            items = [*items, *range(40)]
            merges += thread.save(point(number, {"log": items})).checkpoints[0].merges

        assert merges == [MergeRow("log", 1, 0, 640)]
        last = thread.hand.commit(save(point(17, {"n": 1})))
        assert record_of(last).lists == {"log": [(1, 640)]}

    @pytest.mark.parametrize(("length", "grows"), [(8, False), (9, True)])
    def test_a_plain_list_grows_after_it_has_once(self, length, grows):
        """
        A list without a reducer is one value until it has grown beyond eight items by appending.
        """
        hand = hand_off()
        items: list[Any] = [[i] for i in range(length)]
        hand.commit(save(point(1, {"items": items})))
        more = [*items, "new"]
        made = hand.commit(save(point(2, {"items": more})))
        cut = hand_off()
        cut.commit(save(point(1, {"items": items})))
        other = cut.commit(save(point(2, {"items": ["other", *items]})))

        assert record_of(made).blobs == ([] if grows else ["items"])
        assert record_of(made).lists == ({"items": [(2, length + 1)]} if grows else {})
        assert record_of(other).blobs == ["items"]

    def test_the_last_value_is_compared(self):
        """
        A list that was replaced grows if the next one extends its replacement.
        """
        hand = hand_off()
        items: list[Any] = [[i] for i in range(9)]
        hand.commit(save(point(1, {"items": [[i] for i in range(9)]})))
        hand.commit(save(point(2, {"items": items})))
        made = hand.commit(save(point(3, {"items": [*items, 1]})))

        assert record_of(made).lists == {"items": [(3, 10)]}

    def test_a_list_of_an_unknown_graph(self):
        """
        Lists of keys that the graph doesn't have are treated as those without a reducer.
        """
        hand = hand_off()
        items: list[Any] = [[i] for i in range(9)]
        first = hand.commit(save(point(1, {"other": items})))
        then = hand.commit(save(point(2, {"other": [*items, 1]})))

        assert record_of(first).blobs == ["other"]
        assert record_of(then).lists == {"other": [(2, 10)]}

    def test_a_snapshot_is_one_value(self):
        """
        A list that is stored without a write is one row, because its version is not new.
        """
        hand = hand_off()
        made = hand.commit(save(point(1, {"facts": [1]}, unwritten=frozenset({"facts"}))))

        assert record_of(made).blobs == ["facts"]
        assert made.checkpoints[0].ranges == ()

    def test_encrypted_items_are_bound_to_their_position(self):
        """
        With a key each frame of a list is read at the position that it was written for.
        """
        thread = Thread(KEYED)
        items = ["a", "b"]
        thread.save(point(1, {"log": items}))
        thread.save(point(2, {"log": [*items, "c"]}))
        thread.save(point(3, {"log": list(range(4_100))}))

        assert thread.values(B) == {"log": ["a", "b", "c"]}
        assert thread.values(C) == {"log": list(range(4_100))}


class TestMigrated:
    def test_a_migrated_value_is_stored_with_the_next_checkpoint(self):
        """
        A migrated value is stored once, apart from the row of older checkpoints, unless a task has
        written it or it has no place.
        """
        moved = {"n": LONG, "text": "old", "gone": 1, "facts": [1]}
        hand = hand_off(placed=Placement(moved=dict(moved)))
        versions = {"n": 1, "text": 2, "facts": 1}
        made = hand.commit(
            save(point(2, {"text": "new"}, versions=versions, deltas={"facts": (1, 1)}))
        )

        assert made.checkpoints[0].blobs == (
            BlobRow("n", version_apart(CODEC.encode(LONG)), CODEC.encode(LONG)),
            BlobRow("text", 2, CODEC.encode("new")),
        )
        assert hand.commit(save(point(3))).checkpoints[0].blobs == ()

    def test_a_migrated_list_is_one_value_until_it_grows(self):
        """
        A migrated list is stored whole; its next change begins a lineage.
        """
        hand = hand_off(placed=Placement(moved={"log": [1]}))
        first = hand.commit(save(point(2, {"n": 1}, versions={"log": 1, "n": 2})))
        then = hand.commit(save(point(3, {"log": [1, 2]})))

        assert record_of(first).blobs == ["log"]
        assert record_of(then).lists == {"log": [(3, 2)]}

    def test_a_migrated_list_that_a_task_wrote_grows(self):
        """
        A migrated list that a task has written since begins a lineage at once.
        """
        hand = hand_off(placed=Placement(moved={"log": [1]}))
        made = hand.commit(save(point(2, {"log": [1, 2]})))

        assert record_of(made).lists == {"log": [(2, 2)]}
