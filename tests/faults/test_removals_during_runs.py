"""Two hundred interleavings of removals, prunes and copies with runs, on each kind of store."""

import os
from collections import Counter

import pytest

from tests.faults.crashes import FIGURES
from tests.savers.interleavings import interleave
from tests.support.every_saver import KINDS, store
from tests.support.stored_bytes import left_of

pytestmark = pytest.mark.every_saver

__all__ = ["store"]
INTERLEAVINGS = int(os.environ.get("ACTORGRAPH_INTERLEAVINGS", "200"))


@pytest.mark.promise("S111", "S124", "C2", "T15")
@pytest.mark.every_loop("jsonl", "postgres")
@pytest.mark.parametrize("store", KINDS, indirect=True)
async def test_two_hundred_interleavings(store, request, anyio_backend):
    """
    After each of them every checkpoint that is left can be read, the thread goes on, and a deleted
    thread has no row.
    """
    ends = Counter[str]()
    async with store.saver() as saver:
        for seed in range(1000, 1000 + INTERLEAVINGS):
            thread = f"t{seed}"
            ends[await interleave(saver, seed, thread)] += 1
            for left in await saver.alist_threads():
                await saver.adelete_thread(left)
            assert left_of(store) == 0

    assert INTERLEAVINGS < 200 or ends["done"] > 10 < ends["refused"]
    cells = [store.kind, anyio_backend, INTERLEAVINGS, ends["done"], ends["refused"], 0, 0]
    tables = request.config.stash.setdefault(FIGURES, {})
    line = f"| {' | '.join(map(str, cells))} |"
    tables.setdefault("removals during runs", []).append(line)
