"""Every iterator of the public API, left two hundred times in each way: nothing adds up."""

import gc
import threading

import anyio
import pytest

from tests.faults.crashes import report, row
from tests.support.abandoned_iterators import SCENES, WAYS, ours, tasks
from tests.support.gates import PATIENCE_S

TIMES = {"by_cancelling": 20, "by_garbage": 50}
"""Default 200; to wait until nothing else happens takes time, and so does to collect garbage."""
FREE = 20
"""Objects of one class that caches may keep."""
STORED = "actorgraph.savers."
"""The thread's data in a saver in memory stays, of course."""
# A projection of a run has one reader.
REPEATED = [scene for scene in SCENES if scene.repeats]


@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("scene", REPEATED, ids=lambda scene: scene.name)
async def test_left_iterators_do_not_add_up(scene, leave, tmp_path, request, anyio_backend):
    """
    While what they read goes on, left iterators leave no object, no task and no thread.
    """
    times = TIMES.get(leave.__name__, 200)
    async with scene.opened(tmp_path) as (make, finish):
        await leave(make)
        for _ in range(2):  # what adds up does so again; the process may hold others' objects
            before, threads, running = ours(), threading.active_count(), tasks()
            for _ in range(times):
                await leave(make)
            gc.collect()
            with anyio.move_on_after(PATIENCE_S):  # runs of left streams store what they did
                while tasks() > running:
                    await anyio.lowlevel.checkpoint()
            grown = {
                kind: count
                for kind, count in (ours() - before).items()
                if count > FREE and not kind.startswith(STORED)
            }
            figures = (tasks() - running, threading.active_count() - threads)
            if not grown and max(figures) <= 2:
                break
        await finish()

    line = row(scene.name, leave.__name__, anyio_backend, times, sum(grown.values()), *figures)
    report(request.config, "left iterators", line)
    assert grown == {}
    assert max(figures) <= 2
