"""Two hundred interleavings of removals, prunes and copies with runs, on each kind of store."""

from collections import Counter

import pytest

from actorgraph import InMemorySaver, SqliteSaver
from tests.faults.crashes import FIGURES
from tests.savers.interleavings import interleave
from tests.savers.test_removals import rows

INTERLEAVINGS = 200


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_two_hundred_interleavings(kind, tmp_path, request):
    """
    After each of them every checkpoint that is left can be read, the thread goes on, and a deleted
    thread has no row. Promise: S111, S124, C2.
    """
    path, ends = tmp_path / "runs.db", Counter[str]()
    async with InMemorySaver() if kind == "memory" else SqliteSaver(path) as saver:
        for seed in range(1000, 1000 + INTERLEAVINGS):
            thread = f"t{seed}"
            ends[await interleave(saver, seed, thread)] += 1
            for left in await saver.alist_threads():
                await saver.adelete_thread(left)
            if kind == "sqlite":
                assert rows(path) == [0, 0, 0]

    assert ends["done"] > 10 < ends["refused"]
    line = f"| {kind} | {INTERLEAVINGS} | {ends['done']} | {ends['refused']} | 0 | 0 |"
    tables = request.config.stash.setdefault(FIGURES, {})
    tables.setdefault("removals during runs", []).append(line)
