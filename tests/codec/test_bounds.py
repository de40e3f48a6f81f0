"""The cost of decoding is bounded, and no value that is stored exceeds the bounds."""

import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import ormsgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actorgraph.codec import Codec
from actorgraph.codec.bounds import (
    LARGE,
    CopyBudget,
    build_set,
    check_copies,
    copies_max,
    counting_hook,
    ext,
)
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


class TestCopies:
    DEEP = (
        "a value has too many levels of types around too many bytes: decoding it would copy more "
        "than 32,000,000 bytes and 8 times its size"
    )
    ADVICE = "store large data in fewer tuples, dataclasses or models around one another"

    def test_the_most_that_may_be_copied(self):
        """
        Nested types may copy 32 MB, and 8 bytes for each byte of the value.
        """
        assert [copies_max(size) for size in (0, 1, 1_000)] == [32_000_000, 32_000_008, 32_008_000]

    def test_a_budget_counts_large_extensions(self):
        """
        Extensions above 32 KiB are counted until the budget is spent; smaller ones are free.
        """
        budget = CopyBudget(1_000)
        budget.hook = lambda code, payload: None
        for _ in range(2_000):
            assert budget.spend(LARGE) is budget.hook
        assert budget.spend(32_008_000 - LARGE - 1) is budget.hook
        assert budget.spend(LARGE + 1) is budget.hook
        assert budget.refused is None

        with pytest.raises(SerializationError) as refused:
            budget.spend(LARGE + 1)
        assert refused.value is budget.refused
        assert (refused.value.what, refused.value.do) == (self.DEEP, self.ADVICE)

    def test_the_hook_of_a_payload(self):
        """
        A payload's hook hands each extension the payload's own budget.
        """
        seen: list[Any] = []

        def extension(code: int, payload: bytes, copies: CopyBudget) -> Any:
            seen.append((code, payload, copies))
            return copies.spend(32_008_000)

        hook = counting_hook(extension, 1_000)
        assert hook(7, b"x") is hook
        with pytest.raises(SerializationError):
            hook(8, b"y")
        assert [one[:2] for one in seen] == [(7, b"x"), (8, b"y")]

    def test_packed_values_are_counted_once(self):
        """
        The bytes of large extensions count until a value is checked, and not for the next one.
        """
        plain = ormsgpack.packb(0)
        ext(1, b"")
        check_copies(plain, 10**9, "value")
        most = ormsgpack.packb(ormsgpack.Ext(1, packed_bytes(33_000_000)))
        for _ in range(3):
            check_copies(ormsgpack.packb(ext(1, packed_bytes(20_000_000))), 10**9, "value")
        check_copies(most, 10**9, "value")

    @pytest.mark.parametrize("stored", [10**9, 100])
    def test_a_value_that_reading_would_refuse(self, stored):
        """
        A value is refused with its path if its types copy more than its bytes allow, or than those
        of its shorter form do; earlier values that failed don't count.
        """
        inner = packed_bytes(1_000_000)
        for _ in range(60):
            inner = ormsgpack.packb(ormsgpack.Ext(1, inner))
            ext(1, inner)

        with pytest.raises(SerializationError) as refused:
            check_copies(inner, stored, "state['log']")
        assert refused.value.what == f"state['log'] can't be stored: {self.DEEP}"
        assert refused.value.do == self.ADVICE
        assert refused.value.__cause__ is None

        flat = ormsgpack.packb(ormsgpack.Ext(1, packed_bytes(1_000_000)))
        ext(1, bytes(60_000_000))
        check_copies(flat, 10**9, "value")

    def test_the_shorter_form_counts(self):
        """
        The bytes that may be copied depend on the stored form if that is the shorter one.
        """
        inner = packed_bytes(2_000_000)
        for _ in range(18):
            inner = ormsgpack.packb(ormsgpack.Ext(1, inner))
            ext(1, inner)
        check_copies(inner, 10**9, "value")
        for _ in range(18):
            ext(1, inner)

        with pytest.raises(SerializationError, match="too many levels"):
            check_copies(inner, 100_000, "value")

    def test_damaged_bytes_stay_an_error_of_their_own(self):
        """
        Bytes that can't be decoded at all are not called too deep.
        """
        ext(1, bytes(60_000_000))

        with pytest.raises(ValueError, match=r"^(?!.*too many levels)"):
            check_copies(b"\xd9", 10**9, "value")


def packed_bytes(size: int) -> bytes:
    """So many zeros, packed."""
    return b"\xc6" + size.to_bytes(4) + bytes(size)
