"""Every iterator of the public API, left two hundred times in each way: nothing adds up."""

import gc
import threading

import pytest

from tests.faults.crashes import report, row
from tests.leaving import SCENES, WAYS, ours, tasks

TIMES = 200
FREE = 20
"""Objects that caches may keep, of one class."""
# Cancelled readers wait until nothing else happens, which takes most of the time.
PATIENT = {"by_cancelling": 20}


@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_left_iterators_do_not_add_up(scene, leave, tmp_path, request, anyio_backend):
    """
    While what they read goes on, left iterators leave no object, no task and no thread.
    """
    if "run." in scene.name or scene.name in {"all events of a run", "interleave", "atee"}:
        pytest.skip("a projection has one reader")
    times = PATIENT.get(leave.__name__, TIMES)
    async with scene.opened(tmp_path) as (make, finish):
        await leave(make)
        before, threads, running = ours(), threading.active_count(), tasks()
        for _ in range(times):
            await leave(make)
        gc.collect()
        grown = {kind: count for kind, count in (ours() - before).items() if count > FREE}
        figures = (tasks() - running, threading.active_count() - threads)
        await finish()

    report(
        request.config,
        "left iterators",
        row(scene.name, leave.__name__, anyio_backend, times, sum(grown.values()), *figures),
    )
    assert grown == {}
    assert max(figures) <= 2
