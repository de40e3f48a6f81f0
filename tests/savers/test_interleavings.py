"""Removals, prunes and copies in the midst of runs: nothing comes back, nothing live is lost."""

import pytest

from actorgraph import SqliteSaver
from tests.graphs import at, history
from tests.savers.interleavings import PAD, check, graph_of, interleave
from tests.savers.test_removals import rows


@pytest.mark.parametrize("seed", range(0, 12, 4))
async def test_whatever_happens_in_a_run(saver, seed):
    """
    After any of them at any moment of a run every checkpoint that is left is whole and the thread
    goes on; a deleted thread stays empty. Promise: S111, S124, C2.
    """
    for number in range(seed, seed + 4):
        await interleave(saver, number, f"t{number}")


async def test_a_replay_from_before_a_graph_insides_memory(saver):
    """
    A stateful graph inside of which only later checkpoints are left begins anew in a replay from
    before them, and its checkpoints say so.
    """

    async def pause(_: str) -> None:
        """Nodes don't wait here."""

    graph = graph_of(saver, pause)
    for _ in range(2):
        await graph.ainvoke({"plain": ["in"], "folded": ["in"], "text": PAD + "in"}, at())
    inside = await saver.alist_metadata("t", checkpoint_ns="inner")
    older = [point.checkpoint_id for point in inside[:-1]]
    assert await saver.adelete_checkpoints("t", older, checkpoint_ns="inner") == 7

    await graph.ainvoke(None, (await history(graph, at()))[-1].config)

    newest, *others = await history(graph, at(checkpoint_ns="inner"))
    for point in (newest, *others):
        check(point.values)
    assert newest.values["inner_plain"] == ["one0", "two1"]


async def test_no_rows_are_left_of_a_deleted_thread(tmp_path):
    """
    A thread that is deleted in the midst of a run has no row in any table of the file. Promise:
    S111.
    """
    path = tmp_path / "runs.db"
    async with SqliteSaver(path) as saver:
        for number in range(100, 108):
            await interleave(saver, number, f"t{number}")
        for thread in await saver.alist_threads():
            await saver.adelete_thread(thread)

    assert rows(path) == [0, 0, 0]
