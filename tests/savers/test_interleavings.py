"""Removals, prunes and copies in the midst of runs: nothing comes back, nothing live is lost."""

import pytest

from actorgraph import SqliteSaver
from actorgraph.testing import GatedSaver
from actorgraph.values.retention import KeepLatest
from tests.savers.interleavings import PAD, check, graph_of, interleave
from tests.savers.test_removals import rows
from tests.support.graphs import at, history

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


@pytest.mark.one_loop
@pytest.mark.promise("S111", "S124", "C2")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (4, 8))]
)
async def test_removals_during_a_run_damage_nothing(saver, seed):
    """
    After any of them at any moment of a run every checkpoint that is left is whole and the thread
    goes on; a deleted thread stays empty.
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


class Removing(GatedSaver):
    """Prunes a thread when its graph inside has just been shown to a replay."""

    armed = False

    async def query(self, queries):
        answers = await super().query(queries)
        if self.armed and any(getattr(query, "namespace", "") == "inner" for query in queries):
            self.armed = False
            await self.inner.commit([KeepLatest("t")])
        return answers


@pytest.mark.promise("T15")
@pytest.mark.every_loop("sqlite-memory")
async def test_a_replay_tolerates_a_concurrent_prune(store):
    """
    A replay whose graph inside finds a checkpoint, and reads it when it has been pruned, looks
    again, and goes on from what is left.
    """

    async def pause(_: str) -> None:
        """Nodes don't wait here."""

    async with Removing(store.saver(), is_open=True) as saver:
        graph = graph_of(saver, pause)
        for _ in range(2):
            await graph.ainvoke({"plain": ["in"], "folded": ["in"], "text": PAD + "in"}, at())
        points = await history(graph, at())
        saver.armed = True

        older = next(p.config for p in points if p.next == ("inner",))
        check(await graph.ainvoke(None, older))

        assert not saver.armed
        for point in await history(graph, at(checkpoint_ns="inner")):
            check(point.values)


@pytest.mark.promise("S111")
async def test_no_rows_are_left_of_a_deleted_thread(tmp_path):
    """
    A thread that is deleted in the midst of a run has no row in any table of the file.
    """
    path = tmp_path / "runs.db"
    async with SqliteSaver(path) as saver:
        for number in range(100, 108):
            await interleave(saver, number, f"t{number}")
        for thread in await saver.alist_threads():
            await saver.adelete_thread(thread)

    assert rows(path) == [0, 0, 0]
