"""Ctrl-C, and SIGTERM of programs that handle it, at every moment of a blocking call.

`ctrl_c.py` says what the moments are.
"""

import signal
from collections import Counter

import pytest

from tests.faults.crashes import report, row
from tests.faults.ctrl_c import JUDGED, MOMENTS, interrupt_everywhere
from tests.faults.plain_scenarios import PLAIN
from tests.faults.scenarios import MODES

SCENARIOS = (*PLAIN,)


@pytest.mark.promise("B3", "B6")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["memory", "memory, by actor", "sqlite port"])
@pytest.mark.parametrize("moments", MOMENTS)
def test_ctrl_c_at_any_moment_loses_nothing(moments, kind, mode, tmp_path, request):
    """
    After Ctrl-C a call ends within half a second with KeyboardInterrupt; nothing acknowledged is
    lost, nothing is left behind, and the thread goes on.
    """
    seen = interrupted(moments, kind, mode, tmp_path, signal.SIGINT)

    figures = [seen[name] for name in ("points", *JUDGED, "longest, ms")]
    report(request.config, "Ctrl-C", row(f"SIGINT, {moments}", kind, mode, *figures))
    assert {name: seen[name] for name in JUDGED if seen[name]} == {}
    assert seen["points"] > 0


@pytest.mark.promise("B3", "B6")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["memory, by actor", "sqlite port"])
@pytest.mark.parametrize("moments", MOMENTS)
def test_a_handler_of_sigterm_that_exits_loses_nothing(moments, kind, mode, tmp_path, request):
    """
    SystemExit of a signal's handler ends a call as Ctrl-C does, and nothing acknowledged is lost.
    """
    seen = interrupted(moments, kind, mode, tmp_path, signal.SIGTERM)

    figures = [seen[name] for name in ("points", *JUDGED, "longest, ms")]
    report(request.config, "Ctrl-C", row(f"SIGTERM, {moments}", kind, mode, *figures))
    assert {name: seen[name] for name in JUDGED if seen[name]} == {}


def interrupted(moments, kind, mode, folder, number) -> Counter[str]:
    """All scenarios, one after the other."""
    seen: Counter[str] = Counter()
    longest = 0
    for name in SCENARIOS:
        path = folder / "store.db"
        found = interrupt_everywhere(PLAIN[name], kind, mode, path, moments, number)
        longest = max(longest, found.pop("longest, ms", 0))
        seen += found
    seen["longest, ms"] = longest
    return seen
