"""Which rows updates and replays leave in a thread's history."""

import pytest

from actorgraph import InMemorySaver, interrupt
from tests.support.graphs import ab, at, count, history, in_a_row, writer


@pytest.mark.promise("S077")
@pytest.mark.langgraph("F-E13", "L69", "L84")
async def test_a_replay_in_exit_mode_adds_one_row():
    """
    In exit mode the fork itself is not stored: the run's one checkpoint hangs on the one that was
    addressed.
    """
    graph = ab(InMemorySaver())
    await graph.ainvoke({"bar": []}, at())
    before = await history(graph, at())
    after_a = before[1]

    await graph.ainvoke(None, after_a.config, durability="exit")

    newest, *rest = await history(graph, at())
    assert rest == before
    assert newest.parent_config == after_a.config
    assert (newest.metadata["source"], newest.metadata["step"]) == ("loop", 3)
    assert newest.values == before[0].values


@pytest.mark.langgraph("F-G7", "L66", "L69")
@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_replay_in_the_other_modes_marks_its_fork(durability):
    """
    A fork row with the addressed checkpoint as parent comes first, then the run's own.
    """
    graph = ab(InMemorySaver())
    await graph.ainvoke({"bar": []}, at())
    after_a = (await history(graph, at()))[1]

    await graph.ainvoke(None, after_a.config, durability=durability)

    newest, fork, *_ = await history(graph, at())
    assert (fork.metadata["source"], fork.metadata["step"]) == ("fork", 2)
    assert fork.parent_config == after_a.config
    assert newest.parent_config == fork.config


class TestUpdatesOfATask:
    @pytest.fixture
    def waiting(self):
        """a, then a node that asks."""

        async def ask(state):
            return {"foo": interrupt("foo?")}

        return in_a_row({"a": writer("a"), "ask": ask}, checkpointer=InMemorySaver())

    @pytest.mark.langgraph("F-G12", "L77", "L78")
    async def test_an_update_is_the_result_of_the_task_that_it_replaces(self, waiting):
        """
        Updating as a node that was due shows in history as what that node's task wrote.
        """
        await waiting.ainvoke({"bar": []}, at())
        await waiting.aupdate_state(at(), {"foo": "mine"}, as_node="ask")

        update, base, *_ = await history(waiting, at())
        (task,) = base.tasks
        assert (task.name, task.result) == ("ask", {"foo": "mine"})
        assert (update.values["foo"], update.next) == ("mine", ())
        assert update.metadata["writes"] == {"ask": {"foo": "mine"}}

    @pytest.mark.langgraph("F-G11", "L78")
    async def test_an_older_base_keeps_its_rows(self, waiting):
        """
        An update of an older checkpoint makes a child of it and leaves its tasks' rows alone.
        """
        await waiting.ainvoke({"bar": []}, at())
        before = await history(waiting, at())
        old = before[-2]

        await waiting.aupdate_state(old.config, {"bar": ["new"]}, as_node="a")

        assert (await history(waiting, at()))[1:] == before
        assert await count(waiting, at()) == len(before) + 1
