"""Where values are stored: moves between places, and large input values with rows of their own."""

from dataclasses import dataclass
from typing import Any

import pytest

from actorgraph.codec import Codec
from actorgraph.codec.records import (
    SHARED_BYTES_MIN,
    Placement,
    Record,
    SharedInput,
    SharedRow,
)
from actorgraph.superstep.list_rows import StoredList
from actorgraph.values.commits import Shared
from actorgraph.values.constants import START
from tests.codec.threads import A, B, hand_off, point, save

MIN = SHARED_BYTES_MIN
LONG = "x" * MIN


@dataclass
class Note:
    text: str
    more: Any = None


class Bare:
    __slots__ = ()


def shared(given: Any) -> SharedInput:
    """The large values of this input, which checkpoint A holds at version 3."""
    made = SharedInput()
    made.collect(point(1, {START: given}, versions={START: 3}))
    return made


class TestSize:
    @pytest.mark.parametrize(
        ("value", "large"),
        [
            (LONG, True),
            (LONG[1:], False),
            (LONG.encode(), True),
            ([LONG], True),
            ((LONG,), True),
            ({"k": LONG}, True),
            ({LONG: 1}, False),
            ([LONG[:2_048]] * 2, True),
            ([LONG[:2_048], LONG[:2_047]], False),
            ([LONG[:4_080], None, 1], True),
            ([LONG[:4_080], None], False),
            ([LONG[:4_080], 1], False),
            ([LONG[:2_000], [LONG[:2_000], [LONG[:96]]]], True),
            ([LONG[:2_000], [LONG[:2_000], [LONG[:95]]]], False),
            ([LONG[:1_000]] * 4 + [[LONG[:96]], LONG], True),
            ([None] * 512, True),
            ([None] * 511, False),
            (Note(LONG), True),
            (Note(LONG[:4_088]), True),
            (Note(LONG[:4_087]), False),
            ([Bare()] * 512, True),
            ([Bare()] * 511, False),
            ([7] * 511, False),
            ({LONG}, False),
        ],
    )
    def test_values_of_four_kilobytes_are_large(self, value, large):
        """
        Text and bytes have their length, other parts 8 bytes each; containers and objects have
        those of their parts. 4,096 bytes are large.
        """
        rows = shared({"k": value}).rows

        assert list(rows.values()) == ([SharedRow(f"{START}:k", 3, value)] if large else [])

    def test_a_huge_value_is_not_walked(self):
        """
        Counting ends where a value is large enough.
        """
        seen: list[int] = []

        class Part:
            __slots__ = ("number",)

            def __init__(self, number: int) -> None:
                self.number = number

            def __getattr__(self, name: str) -> Any:
                seen.append(self.number)
                raise AttributeError

        shared({"k": [Part(number) for number in range(2_000)]})
        assert len(seen) == MIN // 8
        shared({"k": [[Part(number) for number in range(count)] for count in (500, 2_000)]})
        assert len(seen) == 2 * MIN // 8

    @pytest.mark.parametrize("given", [LONG, [LONG], None, Note(LONG), {1: LONG}])
    def test_only_the_keys_of_a_dict_are_shared(self, given):
        """
        An input that isn't a dict, or whose keys aren't text, shares nothing.
        """
        assert shared(given).rows == {}

    def test_only_the_library_s_own_codec_shares(self):
        """
        A codec of another class can't encode references.
        """

        class Own(Codec):
            def encode(self, value: Any, path: str = "value", place: Any = ()) -> bytes:
                return super().encode(value, path, place)

        given = point(1, {START: {"text": LONG}})

        ours = hand_off(Codec()).commit(save(given))
        theirs = hand_off(Own()).commit(save(given))

        assert [row.channel for row in ours.checkpoints[0].blobs] == [f"{START}:text", START]
        assert [row.channel for row in theirs.checkpoints[0].blobs] == [START]


GIVEN: dict[str, Any] = {"text": LONG, "items": [LONG], "data": LONG.encode(), "n": 1}


class TestReferences:
    def test_references_take_the_place_of_large_values(self):
        """
        In the input and in the writes beside its checkpoint large values are references.
        """
        made, given = shared(GIVEN), GIVEN
        names = {key: Shared(f"{START}:{key}") for key in ("text", "items", "data")}
        writes = [("text", given["text"]), ("other", [LONG]), ("n", 1)]

        assert made.with_references(given) == {**names, "n": 1}
        assert made.writes(A, writes) == [["text", names["text"]], ["other", [LONG]], ["n", 1]]
        assert made.writes(B, writes) == [list(write) for write in writes]

    def test_the_rows_are_stored_with_the_input(self):
        """
        The rows belong to the input's checkpoint and to no other.
        """
        made = shared(GIVEN)

        assert [row.name for row in made.new_with(point(1))] == [
            f"{START}:text",
            f"{START}:items",
            f"{START}:data",
        ]
        assert made.new_with(point(2)) == ()
        assert SharedInput().new_with(point(1)) == ()

    def test_only_text_and_bytes_stay_shared(self):
        """
        Values that a node could change are forgotten; an equal object is another value.
        """
        made, given = shared(GIVEN), GIVEN
        assert made.row_of(given["items"]) == SharedRow(f"{START}:items", 3, given["items"])
        made.forget_mutable()

        assert [row.name for row in made.rows.values()] == [f"{START}:text", f"{START}:data"]
        assert made.row_of(given["items"]) is None
        assert made.row_of("".join(["x"] * MIN)) is None


class TestPlaces:
    def full(self) -> Placement:
        """A placement with channel c at every kind of place, and d beside it."""
        return Placement(
            values={"c": 1, "d": 1},
            blobs={"c", "d"},
            stands={"c": 1, "d": 1},
            lists={"c": StoredList([], [], []), "d": StoredList([], [], [])},
            shared={"c": ["s"], "d": ["s"]},
            shared_versions={"s": 1},
        )

    def test_a_changed_value_has_left_its_place(self):
        """
        Forgetting a channel takes it from wherever it was, and leaves the others.
        """
        placed = self.full()
        for _ in range(2):  # a channel without a place may be forgotten, too
            placed.forget("c")

        assert placed == Placement(
            values={"d": 1},
            blobs={"d"},
            stands={"d": 1},
            lists={"d": StoredList([], [], [])},
            shared={"d": ["s"]},
            shared_versions={"s": 1},
        )
        Placement().forget("c")

    def test_an_inline_value_replaces_any_other(self):
        """
        A channel that becomes inline leaves its old place; one that is inline gets the new value.
        """
        placed = Placement(blobs={"c"}, stands={"c": 4}, shared={"c": ["s"]})
        placed.inline("c", 1)
        placed.inline("c", 2)

        assert placed == Placement(values={"c": 2})

    def test_a_record_lists_shared_rows(self):
        """
        Shared rows are blobs of the record at their own versions, and make it one of format 5.
        """
        placed = Placement()
        placed.share("c", [SharedRow("s", 3, 0), SharedRow("r", 4, 0)])
        placed.share("d", [SharedRow("r", 4, 0)])
        record = Record(blobs=["t"], stands={"t": 9})
        placed.write_shared(record)

        assert record == Record(
            v=5,
            blobs=["r", "s", "t"],
            stands={"t": 9, "s": 3, "r": 4},
            shared={"c": ["s", "r"], "d": ["r"]},
        )
        assert record.shared is not placed.shared
