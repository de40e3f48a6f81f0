"""When a set or dict of colliding keys is refused, on a clock that the keys themselves move."""

import sys
from typing import Any

import pytest

from actorgraph.codec import Codec, bounds
from actorgraph.codec.bounds import build_dict, build_set
from actorgraph.errors import SerializationError

SLICE = 1_024


class Clock:
    """Seconds of CPU time, as the keys have used them.

    Attributes:
        tick_s: how much later it is each time that the time is read.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.tick_s = 0.0

    def __call__(self) -> float:
        """The time."""
        self.now += self.tick_s
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The clock that tables are timed with."""
    made = Clock()
    monkeypatch.setattr(bounds, "thread_time", made)
    return made


class Key:
    """A key whose hash and comparison take a time on the clock.

    Attributes:
        hashed: how often its hash was asked for.
        delays: seconds that these of its hashes take longer, counted from 1.
    """

    def __init__(self, clock: Clock, value: int, hash_s: float = 0, equal_s: float = 0) -> None:
        self.clock, self.value = clock, value
        self.hash_s, self.equal_s = hash_s, equal_s
        self.hashed = 0
        self.delays: dict[int, float] = {}

    def __hash__(self) -> int:
        self.hashed += 1
        self.clock.now += self.hash_s + self.delays.get(self.hashed, 0)
        return self.value

    def __eq__(self, other: object) -> bool:
        self.clock.now += self.equal_s
        return self is other


def keys(clock: Clock, count: int, *, alike: int = 1, **costs: float) -> list[Key]:
    """Keys of which so many have the same hash."""
    return [Key(clock, number // alike, **costs) for number in range(count)]


def build(kind: str, given: list[Key], *, storing: bool = False) -> Any:
    """Make a set or a dict of the keys."""
    if kind == "set":
        return build_set(given, storing=storing)
    return build_dict([(key, None) for key in given], storing=storing)


both = pytest.mark.parametrize("kind", ["set", "dict"])


@both
@pytest.mark.parametrize(("count", "looked_at"), [(256, False), (257, True)])
def test_small_tables_are_not_examined(clock, kind, count, looked_at):
    """
    A table of up to 256 keys is built however long it takes.
    """
    given = keys(clock, count, hash_s=1.0)

    assert len(build(kind, given)) == count
    assert (given[0].hashed > 1) is looked_at


@both
@pytest.mark.parametrize(
    ("storing", "hash_s", "looked_at"),
    [(False, 2.97e-6, False), (False, 2.99e-6, True), (True, 0.98e-6, False), (True, 1e-6, True)],
)
def test_a_table_is_examined_when_it_took_long(clock, kind, storing, hash_s, looked_at):
    """
    Reading examines a table above a millisecond and two microseconds per key; storing above a
    third of it.
    """
    given = keys(clock, SLICE, hash_s=hash_s)

    assert len(build(kind, given, storing=storing)) == SLICE
    assert (given[0].hashed > 1) is looked_at


@both
@pytest.mark.parametrize(("storing", "hashes"), [(False, 1 + 1 + 4), (True, 1 + 1 + 3 * 4)])
def test_slow_hashes_do_not_count_as_collisions(clock, kind, storing, hashes):
    """
    Keys that only take long to hash are taken: one comparison shows it to a reader, and none of
    three may differ for storing.
    """
    given = keys(clock, SLICE, hash_s=1e-3)

    assert len(build(kind, given, storing=storing)) == SLICE
    assert given[0].hashed == hashes


@both
def test_a_slow_table_is_refused(clock, kind):
    """
    Keys whose comparisons take long are refused, with the number of keys that there are.
    """
    given = keys(clock, 3 * SLICE, alike=16, equal_s=1e-4)

    with pytest.raises(ValueError, match=r"^too many keys of a set or dict of 3,072 collide$"):
        build(kind, given)
    assert given[SLICE].hashed == 0


@pytest.mark.parametrize(
    ("alike", "storing", "refused"),
    [(256, False, False), (257, False, True), (85, True, False), (86, True, True)],
)
def test_equal_hashes_are_counted(clock, alike, storing, refused):
    """
    A table that took long is refused for more than 256 equal hashes per key, and on storing for
    more than a third of that, however cheap its comparisons are.
    """
    given = keys(clock, 12 * alike, alike=alike, hash_s=5e-6)

    if refused:
        with pytest.raises(ValueError, match="collide"):
            build_set(given, storing=storing)
    else:
        assert len(build_set(given, storing=storing)) == len(given)


@pytest.mark.parametrize(
    ("storing", "equal_s", "refused"),
    [(False, 39.6e-6, False), (False, 42e-6, True), (True, 11.9e-6, False), (True, 12.7e-6, True)],
)
def test_how_slow_a_table_may_be(clock, storing, equal_s, refused):
    """
    A table may take a millisecond and twenty times as long as hashing its keys and a table of as
    many others; on storing a third of it.
    """
    # Hashing takes 0.64 ms, so 13.8 ms are allowed; each second key is compared with
    # the one before it.
    given = keys(clock, 640, alike=2, hash_s=1e-6, equal_s=equal_s)

    if refused:
        with pytest.raises(ValueError, match="collide"):
            build_set(given, storing=storing)
    else:
        assert len(build_set(given, storing=storing)) == 640


@pytest.mark.parametrize(
    ("storing", "delays", "refused"),
    [
        (False, [3], False),
        (False, [4], False),
        (False, [3, 4], False),
        (False, [3, 4, 7, 8, 11, 12], True),
        (True, [3], False),
        (True, [3, 4], True),
        (True, [7, 8], True),
        (True, [11, 12], True),
    ],
)
def test_a_busy_machine(clock, storing, delays, refused):
    """
    The shorter of two times counts. All of three comparisons must find a table slow to refuse
    reading it, and one to refuse storing it.
    """
    given = keys(clock, SLICE, hash_s=5e-6)
    given[0].delays = dict.fromkeys(delays, 9.0)

    if refused:
        with pytest.raises(ValueError, match="collide"):
            build_set(given, storing=storing)
    else:
        assert len(build_set(given, storing=storing)) == SLICE


@pytest.mark.parametrize("delay", [5, 6])
def test_a_delay_excuses_no_table(clock, delay):
    """
    A time that was stretched while the keys were hashed alone doesn't hide a slow table.
    """
    given = keys(clock, SLICE, alike=16, hash_s=1e-9, equal_s=1e-4)
    given[0].delays = {delay: 9.0, delay + 4: 9.0, delay + 8: 9.0}

    with pytest.raises(ValueError, match="collide"):
        build_set(given)


def test_examinations_take_a_fifth_of_the_time(clock):
    """
    After an examination the table is filled for four times as long before the next one, and what
    examining took doesn't count as filling.
    """
    given = keys(clock, 25 * SLICE, hash_s=1e-5)
    build_set(given)

    # An examination hashes each key five times: after the first slice for as long as five slices
    # take, so the next one is twenty slices later.
    assert [(key.hashed - 1) // 5 for key in given[::SLICE]] == [2] + [1] * 20 + [0] * 4


def test_honest_keys_behind_slow_ones_are_not_examined(clock):
    """
    The time of an examination doesn't count as the table's own time later on.
    """
    given = keys(clock, 34 * SLICE, hash_s=1.95e-6)
    given[0].delays = {1: 0.0012}
    build_set(given)

    assert (given[0].hashed - 1) // 5 == 1


def test_a_table_of_others_takes_its_time_too(clock):
    """
    Keys may take as long as hashing them and a table of others together.
    """
    given = keys(clock, 640, alike=2, equal_s=1e-4)
    clock.tick_s = 0.001

    assert len(build_set(given)) == 640


@both
def test_a_table_is_read_unless_it_is_to_be_stored(clock, kind):
    """
    A table is judged as one that is read by default.
    """
    given = keys(clock, SLICE, hash_s=2e-6)
    build_set(given) if kind == "set" else build_dict([(key, None) for key in given])

    assert given[0].hashed == 1


@pytest.mark.parametrize("kind", [set, frozenset, dict.fromkeys])
def test_a_value_is_judged_as_one_that_is_stored(clock, kind):
    """
    Encoding refuses keys that decoding would still take.
    """
    clock.tick_s = 1.0
    prime = sys.hash_info.modulus
    numbers = [group + prime * number for group in range(5) for number in range(100)]

    assert build_set(numbers) == set(numbers)
    with pytest.raises(SerializationError, match="too many keys"):
        Codec().encode(kind(numbers))


@pytest.mark.parametrize("storing", [False, True])
def test_a_stored_table_is_examined_whole(clock, storing):
    """
    On storing the last keys are examined too, even shortly after an examination.
    """
    given = keys(clock, 2 * SLICE, hash_s=1e-5)
    build_set(given, storing=storing)

    assert (given[-1].hashed > 1) is storing


def test_a_dict_keeps_its_values(clock):
    """
    A large dict has each key's own value.
    """
    pairs = [[number, str(number)] for number in range(1_500)]

    assert build_dict(pairs) == {number: str(number) for number in range(1_500)}
    assert build_dict(pairs[:3], storing=True) == {0: "0", 1: "1", 2: "2"}
