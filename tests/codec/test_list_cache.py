"""The cache of decoded lists: what is decoded again, what is dropped, and copies of each type."""

import datetime as dt
from collections import deque
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr

from actorgraph.codec import Codec, list_cache
from actorgraph.codec.list_cache import ListCache, are_contiguous
from actorgraph.codec.records import frame, frames
from actorgraph.values.commits import StoredRange

KEY = ("t", "", "log", 1)


class Color(Enum):
    RED = 1


@dataclass
class Note:
    text: Any
    tags: Any = field(default_factory=list)
    more: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slotted:
    value: Any


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    text: str
    parts: Any = None
    _hidden: Any = PrivateAttr(default=None)

    def hide(self, value: Any) -> "Open":
        """Set the private attribute."""
        self._hidden = value
        return self


class Loose(msgspec.Struct, dict=True):
    value: Any


class Closed(BaseModel):
    text: Any


CODEC = Codec([Note, Slotted, Loose, Open, Closed, Color])


class Reader:
    """Reads lists of a cache, and counts the frames that had to be decoded."""

    def __init__(self) -> None:
        self.cache = ListCache()
        self.decoded = 0

    def decode(self, payload: bytes) -> Any:
        """Decode one frame."""
        self.decoded += 1
        return CODEC.decode(payload)

    def read(self, rows: list[StoredRange], count: int = 99, key: Any = KEY) -> list[Any] | None:
        """The first items of a list."""
        return self.cache.read(key, rows, count, self.decode)


def row(start: int, *parts: list[Any]) -> StoredRange:
    """A row of these frames."""
    count = sum(map(len, parts))
    return StoredRange(start, count, b"".join(frame(CODEC.encode(items)) for items in parts))


COPIED: list[list[Any]] = [
    [1, None, True, 2.5, 1j, "x", b"x", Color.RED],
    [dt.datetime(2024, 5, 6, tzinfo=dt.UTC), dt.date(2024, 5, 6), dt.time(1), dt.timedelta(1)],
    [dt.timezone(dt.timedelta(1 / 24)), ZoneInfo("UTC"), UUID(int=1), Decimal(1), Path("a")],
    [{"role": "user", "content": "x"}, {}],
    [{"a": "x"}, {"a": []}, {"a": {}}, {"a": [1]}, {"a": {"b": [Note("x")]}}],
    [[], [1], [[]], [{"a": 1}], [Note("x")]],
    [(), (1,), ([1], {"a": []})],
    [Note("x"), Note("y", [1]), Note(["z"]), Note("x", (), {"k": 1}), Note("x", "text", None)],
    [Note("x")] * 3,
    [Note("x", [Color.RED], {"a": [Note("y")]})],
    [Open(text="x"), Open(text="x", parts=[1], other=[2]), Open(text="x").hide({"a": [1]})],
    [Closed(text=1), Closed(text=["x"])],
    [Closed(text=1), Note("x"), {"a": 1}, 7],
]


@pytest.mark.parametrize("items", COPIED, ids=range(len(COPIED)))
def test_copies_are_as_a_new_decoding(items):
    """
    Each reading gives equal items of the same types that share nothing that can be changed.
    """
    reader = Reader()
    rows = [row(0, items)]
    copies = [reader.read(rows) for _ in range(3)]
    decoded = CODEC.decode(CODEC.encode(items))

    assert reader.decoded == 1
    for copy in copies:
        assert copy == decoded
        assert CODEC.encode(copy) == CODEC.encode(decoded)
        assert [*map(type, copy or [])] == [*map(type, decoded)]
    first, second, third = map(changeable, copies)
    assert first.isdisjoint(second)
    assert third.isdisjoint(first | second)


def changeable(value: Any) -> set[int]:
    """The ids of all objects in a value that a program could change."""
    if isinstance(value, (Note, BaseModel)):
        parts: list[Any] = [vars(value)]
        if isinstance(value, BaseModel):
            parts += [value.__pydantic_private__, value.__pydantic_extra__]
            parts += [value.__pydantic_fields_set__]
        return {id(value)}.union(*map(changeable, parts))
    if isinstance(value, dict):
        return {id(value)}.union(*map(changeable, value.values()))
    if isinstance(value, (list, tuple)):
        own = {id(value)} if isinstance(value, list) else set[int]()
        return own.union(*map(changeable, value))
    return {id(value)} if isinstance(value, set) else set()


@pytest.mark.parametrize(
    "item",
    [
        {1: "x"},
        {"a": {1: 2}},
        Slotted(1),
        Loose(1),
        deque([1]),
        {1, 2},
        bytearray(b"x"),
        Note(Slotted(1)),
        [[Slotted(1)]],
        (1, {2}),
        Closed(text={1: 2}),
        Open(text="x", other={1}),
        Open(text="x").hide(deque()),
    ],
)
def test_values_that_are_not_copied(item):
    """
    A list with an item whose copies may differ from a new decoding is left to its reader.
    """
    reader = Reader()

    assert reader.read([row(0, ["x"], [item])]) is None
    assert reader.read([row(0, ["x"], [1])]) == ["x", 1]
    assert reader.read([row(0, ["x"], [1]), row(2, [item])]) is None


class TestRows:
    def test_as_many_items_as_are_wanted(self):
        """
        A reader gets the first items that it asks for, or as many as there are.
        """
        reader = Reader()
        rows = [row(0, ["a", "b"], ["c"]), row(3, ["d"])]

        for _ in range(2):
            assert [reader.read(rows, count) for count in (0, 1, 4, 5)] == [
                *([], ["a"], ["a", "b", "c", "d"], ["a", "b", "c", "d"])
            ]
            assert reader.read(rows[:1], 9) == ["a", "b", "c"]
            assert reader.read(rows[:1], 2) == ["a", "b"]
            assert reader.read([], 3) == []
        assert reader.decoded == 3

    def test_only_new_frames_are_decoded(self):
        """
        Decoded items stay known while rows are added and the last one grows.
        """
        reader = Reader()
        steps = [
            ([row(0, ["a"])], 1),
            ([row(0, ["a"], ["b"])], 2),
            ([row(0, ["a"], ["b"]), row(2, ["c"])], 3),
            ([row(0, ["a"], ["b"]), row(2, ["c"], [{"k": 1}]), row(4, ["e"])], 5),
            ([row(0, ["a"], ["b"])], 5),
            ([row(0, ["a"], ["b"]), row(2, ["c"], [{"k": 1}]), row(4, ["e"]), row(5, ["f"])], 6),
        ]
        for rows, decoded in steps:
            count = sum(each.count for each in rows)
            assert reader.read(rows) == ["a", "b", "c", {"k": 1}, "e", "f"][:count]
            assert reader.decoded == decoded

    @pytest.mark.parametrize(
        "other",
        [
            [row(0, ["a"], ["x"]), row(2, ["c"])],
            [row(0, ["x"], ["b"]), row(2, ["c"])],
            [row(0, ["a"], ["b"]), row(2, ["x"])],
            [row(0, ["a"]), row(1, ["b"], ["c"])],
            [row(0, ["a"], ["b"], ["c"])],
            [row(1, ["a"], ["b"]), row(3, ["c"])],
            [row(0, ["a"], ["b"]), row(3, ["c"])],
        ],
    )
    def test_other_rows_are_decoded(self, other):
        """
        Rows with other bytes or another place give their own items, before and after.
        """
        reader = Reader()
        rows = [row(0, ["a"], ["b"]), row(2, ["c"])]
        expected = [item for each in other for item in items_of(each)]

        for given, items in ((rows, ["a", "b", "c"]), (other, expected)) * 2:
            assert reader.read(given) == items

    def test_lists_of_other_keys(self):
        """
        Each lineage of each channel, namespace and thread is a list of its own.
        """
        reader = Reader()
        keys = [("t", "", "c", 1), ("u", "", "c", 1), ("t", "n", "c", 1), ("t", "", "d", 1)]
        keys.append(("t", "", "c", 2))
        for _ in range(2):
            for number, key in enumerate(keys):
                assert reader.read([row(0, [number])], key=key) == [number]
        assert reader.decoded == len(keys)


def items_of(given: StoredRange) -> list[Any]:
    """The items of a row."""
    return [item for part in frames(given.payload) for item in CODEC.decode(part)]


class TestBound:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        """A cache of a thousand bytes."""
        monkeypatch.setattr(list_cache, "BYTES_MAX", 1_000)

    def of(self, size: int, start: int = 0) -> StoredRange:
        """A row of so many bytes."""
        return row(start, ["x" * (size - 9)])

    def test_a_list_that_is_too_long(self):
        """
        A list whose rows have more bytes than the bound is left to its reader.
        """
        reader = Reader()
        sizes = {len(self.of(size).payload): self.of(size) for size in range(990, 1_010)}
        assert reader.read([sizes[1_000]]) is not None
        assert reader.read([sizes[1_001]]) is None
        assert reader.read([self.of(600), self.of(600, 1)]) is None
        assert reader.decoded == 1

    def test_the_lists_read_last_are_kept(self):
        """
        When the lists together have too many bytes the one that was stored longest ago goes.
        """
        reader = Reader()
        rows = {name: [self.of(300)] for name in "abcd"}

        def read(name: str) -> int:
            before = reader.decoded
            reader.read(rows[name], key=("t", "", name, 1))
            return reader.decoded - before

        assert [read(name) for name in "abcabc"] == [1, 1, 1, 0, 0, 0]
        assert [read(name) for name in "dbcd"] == [1, 0, 0, 0]
        assert [read(name) for name in "acdb"] == [1, 0, 0, 1]

    def test_a_list_that_grows_counts_once(self):
        """
        A list takes the bytes that its rows have now, not those of its earlier states too.
        """
        reader = Reader()
        reader.read([self.of(300)], key=("t", "", "other", 1))
        parts = [["x" * 40] for _ in range(12)]
        for end in range(1, 13):
            reader.read([row(0, *parts[:end])])
        assert reader.decoded == 13
        reader.read([self.of(300)], key=("t", "", "other", 1))
        assert reader.decoded == 13

    def test_rows_that_are_read_anew_keep_a_list(self):
        """
        A list that is read with rows of another reading counts as stored again.
        """
        reader = Reader()
        for name in "abc":
            reader.read([self.of(300)], key=("t", "", name, 1))
        reader.read([self.of(300)], key=("t", "", "a", 1))
        reader.read([self.of(300)], key=("t", "", "d", 1))
        assert reader.decoded == 4
        reader.read([self.of(300)], key=("t", "", "a", 1))
        assert reader.decoded == 4
        reader.read([self.of(300)], key=("t", "", "b", 1))
        assert reader.decoded == 5


@pytest.mark.parametrize(
    ("rows", "start", "whole"),
    [
        ([], 5, True),
        ([(5, 2)], 5, True),
        ([(5, 2)], 4, False),
        ([(0, 2), (2, 3), (5, 1)], 0, True),
        ([(0, 2), (3, 1)], 0, False),
        ([(0, 2), (1, 1)], 0, False),
        ([(0, 0), (0, 1)], 0, True),
    ],
)
def test_contiguous_rows(rows, start, whole):
    """
    Rows are contiguous if each begins where the one before it ends.
    """
    assert are_contiguous([StoredRange(at, count, b"") for at, count in rows], start) is whole
