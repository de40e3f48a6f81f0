"""A sample of the power cuts and failing calls of tests/faults, small enough for every change."""

from collections import Counter

import pytest

from tests.faults.test_failing_calls import fail_everywhere, fail_openings
from tests.faults.test_power_cuts import SEED, cut_everywhere

STATES = 100
POINTS = 12

pytestmark = [
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.parametrize("kind", ["sqlite", "jsonl"]),
    pytest.mark.filterwarnings("ignore"),
]


async def test_a_power_cut_loses_nothing(kind, tmp_path):
    """
    States that a power cut may leave open with all that was acknowledged, once, and go on; without
    the syncs that isn't so.
    """
    seen, without = await cut_everywhere(kind, STATES, 3, tmp_path)

    assert seen == Counter(states=STATES), SEED
    assert without["lost"] > 0


async def test_no_failing_call_loses_acknowledged_steps(kind, tmp_path):
    """
    After a failing call of the saver's files each acknowledged step is there, once, and all threads
    go on.
    """
    seen = await fail_everywhere(kind, POINTS, tmp_path)

    assert seen["points"] >= POINTS
    assert set(seen) <= {"points", "ours", "went on"}


async def test_a_failed_opening_leaves_nothing_locked(kind, tmp_path):
    """
    After an opening that failed at any of its first calls the same program opens the saver.
    """
    assert await fail_openings(kind, POINTS, tmp_path)
