"""Every crash point of every scenario: fail at the k-th storage operation, reopen, resume.

`crashes.py` says how. An `async` run on asyncio or trio may batch its saves differently from
run to run, so its number of points differs a little too.
"""

from collections import Counter

import pytest

from tests.faults.crashes import check, crash_everywhere, fill_everywhere, report, row
from tests.faults.scenarios import MODES, scenarios_of
from tests.faults.stores import STORES


@pytest.mark.promise("S063", "S072", "S078", "B1", "B2", "B3", "B5")
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("mode", MODES)
async def test_no_crash_point_loses_or_repeats_what_was_acknowledged(
    mode, kind, tmp_path, request, anyio_backend
):
    """
    Whichever storage operation fails, before or after its effect, the caller gets an error and
    a resume ends right; acknowledged tasks never run again.
    """
    seen: Counter[str] = Counter()
    for scenario in scenarios_of(mode):
        seen += await crash_everywhere(scenario, kind, mode, tmp_path / "store.db")

    figures = (seen["points"], seen["wrong"], f"{seen['lost']}, {seen['re-run']}")
    rest = (seen["unreported"], seen["acknowledged"], seen["unacknowledged run again"])
    line = row(mode, kind, anyio_backend, *figures, *rest)
    report(request.config, "crash points", line)
    check(seen)


@pytest.mark.promise("B2", "B3", "B5")
@pytest.mark.parametrize("mode", MODES)
async def test_a_full_disk_stops_the_run_and_leaves_the_saver_usable(
    mode, tmp_path, request, anyio_backend
):
    """
    Without space at any SQL statement the run ends with StorageFullError, and once there is
    space again the same saver finishes it.
    """
    seen: Counter[str] = Counter()
    for scenario in scenarios_of(mode):
        seen += await fill_everywhere(scenario, mode, tmp_path / "store.db")

    rest = (f"-, {seen['re-run']}", seen["unreported"], "-", "-")
    line = row(mode, "sqlite, no space", anyio_backend, seen["points"], seen["wrong"], *rest)
    report(request.config, "crash points", line)
    check(seen)
