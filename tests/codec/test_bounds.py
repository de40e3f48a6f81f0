"""The cost of decoding is bounded, and no value that is stored exceeds the bounds."""

import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actorgraph.codec import Codec
from actorgraph.codec.bounds import build_set
from actorgraph.errors import SerializationError
from tests.codec import shapes
from tests.codec.shapes import CODEC, TYPES, same

HONEST: list[Any] = [
    dict.fromkeys(range(100000)),
    {2**power for power in range(5_000)},
    {2.0**power for power in range(-1_000, 1_000)},
    {(x, y): x for x in range(100) for y in range(100)},
    frozenset(Decimal(number) / 7 for number in range(20_000)),
    {-1: 1, -2: 2},
]


@pytest.mark.parametrize("form", ["msgpack", "json"])
@pytest.mark.parametrize("value", HONEST, ids=range(len(HONEST)))
def test_large_sets_and_dicts_of_common_keys_are_stored(value, form):
    """
    No bound on the cost of decoding refuses keys as programs have them: counters, powers of two,
    which have few hashes, grids.
    """
    codec = Codec(form=form)

    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("form", ["msgpack", "json"])
@given(
    st.lists(st.sampled_from([tuple, list, shapes.Frozen]), max_size=60),
    st.sampled_from([1, 30_000, 40_000, 3_000_000]),
)
@example([tuple] * 60, 3_000_000)
@example([tuple] * 7, 3_000_000)
@settings(max_examples=20)
def test_large_stored_data_can_be_read(form, around, size):
    """
    Large data inside many types is refused when it is stored, or else comes back.
    """
    value: Any = b"x" * size
    for kind in around:
        value = kind([value]) if kind in (tuple, list) else kind(value)
    codec = Codec(TYPES, form=form)
    if len([kind for kind in around if kind is not list]) * size > 8 * size + 32_000_000:
        with pytest.raises(SerializationError, match=r"^state\['log'\] .* too many levels"):
            codec.encode(value, "state['log']")
        return

    assert same(codec.decode(codec.encode(value)), value)


def test_a_refused_value_does_not_count_for_the_next():
    """
    The copies of a refused value don't count against those that are stored later.
    """
    deep: Any = b"x" * 3_000_000
    for _ in range(60):
        deep = (deep,)
    for _ in range(3):
        for value in ((deep, object()), deep):
            with pytest.raises(SerializationError):
                CODEC.encode(value)
        fine = (bytes(3_000_000),)
        assert CODEC.decode(CODEC.encode(fine)) == fine


def test_keys_that_were_chosen_to_collide_are_refused_with_their_place():
    """
    A set that could not be read in time is not stored.
    """
    prime = sys.hash_info.modulus
    keys = {prime * number for number in range(1, 5_000)}

    for value in (keys, frozenset(keys), dict.fromkeys(keys)):
        with pytest.raises(SerializationError, match=r"state\['log'\] .*too many keys"):
            CODEC.encode({"k": value}["k"], "state['log']")


@dataclass(frozen=True)
class Weak:
    """A key whose hash is one of a few."""

    number: int
    hashes: int

    def __hash__(self) -> int:
        return self.number % self.hashes


def test_stored_keys_that_collide_can_be_read():
    """
    Keys that collide more and more: where storing takes them, reading does, however its times vary.
    """
    codec = Codec([Weak])
    taken = 0
    for hashes in (60, 70, 75, 80, 85, 90, 100, 4000):
        keys = {Weak(number, hashes) for number in range(4000)}
        try:
            payload = codec.encode(keys)
        except SerializationError:
            continue
        taken += 1
        assert [codec.decode(payload) == keys for _ in range(3)] == [True] * 3
    assert taken >= 1


@dataclass(frozen=True)
class Slow:
    """A key that takes long to hash, and whose hash is that of all others."""

    number: int

    def __hash__(self) -> int:
        return sum(range(5_000)) % 7


def test_equal_hashes_are_counted_and_not_timed():
    """
    Keys with one hash are refused when hashing takes longer than all of their collisions.
    """
    with pytest.raises(ValueError, match="too many keys"):
        build_set([Slow(number) for number in range(1_500)])


class Taken(list[Any]):
    """Keys that remember how many of them were asked for."""

    end = 0

    def __getitem__(self, part: Any) -> Any:
        self.end = max(self.end, part.stop)
        return super().__getitem__(part)


def test_keys_that_begin_to_collide_late_are_refused():
    """
    A set whose first keys are slow but honest and whose later keys collide is refused long before
    all of them are in it.
    """
    prime = sys.hash_info.modulus
    honest = [Weak(number, 200) for number in range(3_000)]
    keys = Taken([*honest, *(prime * number for number in range(1, 40_000))])

    with pytest.raises(ValueError, match="too many keys"):
        build_set(keys)
    assert keys.end < 12_000
