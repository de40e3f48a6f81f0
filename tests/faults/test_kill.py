"""`kill -9` of real processes at seeded moments: what was acknowledged is there afterwards.

`worker.py` is the program. Its oracle file says what had happened when it died: in `sync` a
delivered chunk and in every mode a commit that returned is an acknowledgement.
"""

import pytest

from tests.faults.crashes import report, row
from tests.faults.kills import JSON_LINES, kill_often
from tests.faults.scenarios import MODES


@pytest.mark.promise("S063", "S072", "S085", "B1", "B2", "B3")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["sqlite", "json lines", "postgres"])
async def test_a_killed_process_loses_nothing_it_had_acknowledged(
    kind, mode, tmp_path, request, anyio_backend
):
    """
    After kill -9 at any moment each thread ends with the state of an undisturbed run, and no
    acknowledged task runs again.
    """
    url = {"sqlite": "", "json lines": JSON_LINES}.get(kind)
    url = request.getfixturevalue("postgres").url if url is None else url
    seen = await kill_often(tmp_path, anyio_backend, mode, 20, url)

    figures = [seen[name] for name in ("kills", "acknowledged", "lost", "run again", "wrong")]
    report(request.config, "kill -9", row(kind, mode, anyio_backend, *figures))
    assert (seen["lost"], seen["run again"], seen["wrong"]) == (0, 0, 0)
    assert seen["acknowledged"] > 0
