"""Every crash point of blocking calls: fail at the k-th storage operation, reopen, resume."""

from collections import Counter

import pytest

from tests.faults.blocking_crashes import crash_everywhere
from tests.faults.blocking_kills import BLOCKING
from tests.faults.crashes import check, report, row
from tests.faults.plain_scenarios import plain_scenarios_of
from tests.faults.scenarios import MODES
from tests.faults.stores import STORES


@pytest.mark.promise("S063", "S072", "S078", "B1", "B2", "B3", "B5")
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("mode", MODES)
def test_no_crash_point_loses_or_repeats_what_was_acknowledged(mode, kind, tmp_path, request):
    """
    Whichever storage operation fails under a blocking call, the caller gets an error and a resume
    ends right; acknowledged tasks never run again.
    """
    seen: Counter[str] = Counter()
    for scenario in plain_scenarios_of(mode):
        seen += crash_everywhere(scenario, kind, mode, tmp_path / "store.db")

    figures = (seen["points"], seen["wrong"], f"{seen['lost']}, {seen['re-run']}")
    rest = (seen["unreported"], seen["acknowledged"], seen["unacknowledged run again"])
    report(request.config, "crash points", row(mode, kind, BLOCKING, *figures, *rest))
    check(seen)
