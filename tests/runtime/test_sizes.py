"""`runtime.sizes`: estimates of sizes in memory."""

import msgspec
import pytest

from actorgraph.messages import AIMessage
from actorgraph.runtime.sizes import LOOKS_MAX, MB, Held, approximate_bytes, parts_of


class Note(msgspec.Struct):
    text: str


class Slotted:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Hostile:
    @property
    def nbytes(self) -> int:
        raise RuntimeError("not now")


TEXT = "x" * MB


class TestEstimates:
    """`approximate_bytes`."""

    @pytest.mark.parametrize(
        "value",
        [
            TEXT,
            TEXT.encode(),
            bytearray(MB),
            memoryview(bytes(MB)),
            {"a": {"b": [{"c": TEXT}]}},
            (TEXT, None),
            {"y", TEXT},
            AIMessage(TEXT),
            [AIMessage(TEXT)],
            Note(TEXT),
            Slotted(TEXT),
            ["x" * 1024] * 1024,
            dict.fromkeys(range(1024), "x" * 1024),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_a_megabyte_is_seen_in_every_kind_of_value(self, value):
        """
        A megabyte counts as one to two, wherever a value has it.
        """
        assert MB <= approximate_bytes(value) < 2 * MB

    @pytest.mark.parametrize("value", [None, 1, True, [], {}, Hostile(), object()])
    def test_small_values_count_little(self, value):
        """
        A value without text counts a few bytes, and one that raises does no harm.
        """
        assert approximate_bytes(value) < 100

    def test_a_large_nested_value_is_not_walked_as_a_whole(self):
        """
        The work has a bound: of a thousand lists in a list only a few are looked at.
        """
        looks: list[int] = []

        class Watched(dict):
            def values(self):
                looks.append(1)
                return super().values()

        approximate_bytes([[Watched(a=Watched())] for _ in range(1000)])

        assert len(looks) <= LOOKS_MAX

    def test_a_value_that_contains_itself_has_a_size(self):
        """
        A list that contains itself is estimated, and the estimate ends.
        """
        value: list[object] = ["x"]
        value.append(value)

        assert approximate_bytes(value) > 0


class TestHeld:
    """`Held`: what a buffer holds."""

    def test_a_shared_part_counts_once_until_the_last_holder_is_gone(self):
        """
        States that share a document of a megabyte hold one megabyte, not one each.
        """
        held = Held()
        states = [parts_of({"doc": TEXT, "step": n}, 1024) for n in range(3)]
        for parts in states:
            held.add(parts)

        assert MB <= held.bytes < 2 * MB
        held.remove(states[0])
        held.remove(states[1])
        assert held.bytes >= MB
        held.remove(states[2])
        assert held.bytes == 0

    def test_light_values_have_no_parts(self):
        """
        A value below the limit isn't counted at all.
        """
        assert parts_of({"a": "b"}, 1024) == ()
