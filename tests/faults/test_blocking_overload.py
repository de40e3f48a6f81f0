"""32 threads of a program make blocking calls on 1,000 threads of checkpoints in one file."""

import time

import pytest

from tests.faults.blocking_crowds import CALLS, overload
from tests.faults.blocking_kills import BLOCKING
from tests.faults.crashes import report, row
from tests.faults.scenarios import MODES

CALLERS, THREADS = 32, 1_000


@pytest.mark.promise("S005", "S010", "B2", "B4")
@pytest.mark.parametrize("mode", MODES)
def test_blocking_calls_of_many_threads_lose_nothing(mode, tmp_path, request):
    """
    Of two calls on one thread at once one runs; each that ran is there once, and the others get
    a ConflictError before their first node.
    """
    began = time.monotonic()
    seen = overload(mode, tmp_path / "store.db", CALLERS, THREADS)

    what = f"{CALLERS} callers, {THREADS} threads, {mode}, {time.monotonic() - began:.1f} s"
    report(request.config, "many at once", row(what, BLOCKING, dict(seen)))
    assert (seen["errors"], seen["node runs of refused"], seen["right"]) == (0, 0, THREADS)
    assert seen["won"] + seen["refused"] == CALLS * THREADS
    assert seen["node runs of winners"] == 5 * seen["won"]
