"""How the time that a save waits for a lock is divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.storage.postgres.timeouts import IDLE_HOLDER_S, Timeouts


def parts_of(busy_s):
    limits, parts = Timeouts(busy_s=busy_s), []
    while sum(parts) < busy_s:
        parts.append(limits.after(sum(parts)).busy_s)
    return parts


@pytest.mark.parametrize(
    ("busy_s", "parts"),
    [
        (0.2, [0.2]),
        (1.0, [1.0]),
        (1.001, [1.001]),
        (2.5, [1.0, 1.5]),
        (5.0, [1.0, 1.0, 2.0, 1.0]),
        (30.0, [1.0, 1.0, 2.0, 4.0, 8.0, 14.0]),
    ],
)
def test_parts_grow_with_the_time_waited(busy_s, parts):
    """
    The first part is a second, and each later one as long as all before it.
    """
    assert parts_of(busy_s) == parts


@given(st.floats(0.001, 10_000))
def test_all_of_the_time_is_waited(busy_s):
    """
    The parts together are the whole time, and none is too short to see an idle session.
    """
    parts = parts_of(busy_s)

    assert sum(parts) == pytest.approx(busy_s)
    assert min(parts) >= min(busy_s, IDLE_HOLDER_S) * 0.999
    assert len(parts) < 20


def test_a_lock_that_was_just_freed_gets_one_more_part():
    """
    After the whole time there is a short part, not a wait of no time.
    """
    assert Timeouts(busy_s=5.0).after(5.0).busy_s == IDLE_HOLDER_S
