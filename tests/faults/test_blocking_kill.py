"""`kill -9` and SIGTERM of processes that make blocking calls: what was acknowledged is there.

`plain_worker.py` is the program. SIGTERM with the handler that every process has at first ends it
as abruptly; programs that handle it are in `test_ctrl_c.py`.
"""

import signal

import pytest

from tests.faults.blocking_kills import BLOCKING, kill_blocking
from tests.faults.crashes import report, row
from tests.faults.kills import JSON_LINES
from tests.faults.scenarios import MODES

KILLS = 70
"""In each of three modes: more than 200 of each saver."""


@pytest.mark.promise("S063", "S072", "S085", "B1", "B2", "B3")
@pytest.mark.parametrize("by", ["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["sqlite", "json lines", "postgres"])
def test_a_killed_process_loses_nothing_it_had_acknowledged(kind, mode, by, tmp_path, request):
    """
    After a kill at any moment of blocking calls each thread ends with the state of an undisturbed
    run, and no acknowledged task runs again.
    """
    url = {"sqlite": "", "json lines": JSON_LINES}.get(kind)
    url = request.getfixturevalue("postgres").url if url is None else url
    kills = KILLS if by == "SIGKILL" else KILLS // 7
    seen = kill_blocking(tmp_path, mode, kills, url, signal.Signals[by])

    figures = [seen[name] for name in ("kills", "acknowledged", "lost", "run again", "wrong")]
    report(request.config, "kill -9", row(f"{kind}, {by}", mode, BLOCKING, *figures))
    assert (seen["lost"], seen["run again"], seen["wrong"]) == (0, 0, 0)
    assert seen["acknowledged"] > 0
