"""Agents with `open_calls="answer"`, cancelled at each suspension or killed: `open_calls.py`."""

from collections import Counter

import pytest

from tests.faults.crashes import report, row
from tests.faults.open_calls import AGENTS, JUDGED, cancel_everywhere, kill_often
from tests.faults.test_cancelled_awaits import HOW


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("name", AGENTS)
async def test_a_message_after_a_cancelled_run_meets_a_valid_history(
    name, kind, tmp_path, request, anyio_backend
):
    """
    Cancelled at any await, an agent takes the next message: each tool call that its model sees has
    exactly one answer, right behind it, and results that were stored are kept.
    """
    seen: Counter[str] = Counter()
    for how in HOW[anyio_backend]:
        seen += await cancel_everywhere(name, kind, how, tmp_path / "store.db")

    figures = [seen[each] for each in ("awaits", "open calls met", "results kept", *JUDGED)]
    report(request.config, "open calls", row(name, kind, anyio_backend, *figures))
    assert {each: seen[each] for each in JUDGED if seen[each]} == {}
    assert seen["open calls met"] > 0


@pytest.mark.parametrize("name", AGENTS)
async def test_a_message_after_a_killed_run_meets_a_valid_history(
    name, tmp_path, request, anyio_backend
):
    """
    The same after kill -9 of a real process, on each of its threads.
    """
    seen = await kill_often(tmp_path, anyio_backend, name, 20)

    figures = [seen[each] for each in ("kills", "open calls met", "results kept", *JUDGED)]
    report(request.config, "open calls", row(f"kill -9, {name}", "sqlite", anyio_backend, *figures))
    assert {each: seen[each] for each in JUDGED if seen[each]} == {}
    assert seen["kills"] > 0
    assert seen["open calls met"] > 0
