"""Removals, prunes and copies in the midst of runs: nothing comes back, nothing live is lost."""

import pytest

from tests.savers.interleavings import interleave
from tests.savers.test_removals import rows


@pytest.mark.parametrize("seed", range(0, 24, 4))
async def test_whatever_happens_in_a_run(saver, seed):
    """
    After any of them at any moment of a run every checkpoint that is left is whole and the thread
    goes on; a deleted thread stays empty. Promise: S111, S124, C2.
    """
    for number in range(seed, seed + 4):
        await interleave(saver, number, f"t{number}")


async def test_no_rows_are_left_of_a_deleted_thread(store):
    """
    A thread that is deleted in the midst of a run has no row in any table of the file. Promise:
    S111.
    """
    if store.kind != "sqlite":
        pytest.skip("reads the file")
    async with store.saver() as saver:
        for number in range(100, 112):
            await interleave(saver, number, f"t{number}")
        for thread in await saver.alist_threads():
            await saver.adelete_thread(thread)

    assert rows(store.path) == [0, 0, 0]
