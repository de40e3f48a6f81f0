"""Looking at, and changing, the state of graphs inside of graphs from outside of a run."""

import pytest

from actorgraph import Command
from actorgraph.errors import InvalidConfigError
from tests.support.graphs import at, history
from tests.support.subgraphs import asked, child, parent


class TestViews:
    @pytest.mark.promise("S178")
    @pytest.mark.langgraph("F-G5", "F-G2")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("mode", [None, True])
    async def test_the_state_below_a_waiting_task(self, saver, mode):
        """
        With subgraphs=True a waiting task holds its graph's snapshot; without it, a config that
        leads there.
        """
        graph = parent([], child([], "q", checkpointer=mode), saver)
        await graph.ainvoke({"log": ["in"]}, at())

        pointer = (await graph.aget_state(at())).tasks[0].state
        below = (await graph.aget_state(at(), subgraphs=True)).tasks[0].state

        assert pointer["configurable"]["checkpoint_ns"].split(":")[0] == "child"
        assert below.next == ("c2",)
        assert below.values == {"log": ["in", "before", "c1"]}
        assert [i.value for i in below.interrupts] == ["q"]
        assert await graph.aget_state(pointer) == below

    @pytest.mark.langgraph("F-H3", "F-L3")
    async def test_a_graph_that_stores_nothing_has_no_state(self, saver):
        """
        A task whose graph has checkpointer=False has no state to show.
        """
        graph = parent([], child([], "q", checkpointer=False), saver)
        await graph.ainvoke({"log": []}, at())

        assert (await graph.aget_state(at(), subgraphs=True)).tasks[0].state is None
        assert list(graph.get_subgraphs()) == []

    @pytest.mark.langgraph("F-G5")
    async def test_views_reach_any_depth(self, saver):
        """
        Snapshots nest as deep as the graphs do.
        """
        graph = parent([], parent([], child([], "q"), None), saver)
        await graph.ainvoke({"log": []}, at())

        state = await graph.aget_state(at(), subgraphs=True)
        nexts = []
        while state is not None:
            nexts.append(state.next)
            state = state.tasks[0].state

        assert nexts == [("child",), ("child",), ("c2",)]

    @pytest.mark.promise("S177")
    @pytest.mark.langgraph("F-E3", "L72")
    @pytest.mark.every_saver
    async def test_the_history_of_a_child(self, saver):
        """
        The config of a child's snapshot addresses that child's own history, which names the
        checkpoints of the runs above.
        """
        graph = parent([], child([], "q"), saver)
        await graph.ainvoke({"log": []}, at())
        state = await graph.aget_state(at(), subgraphs=True)

        found = await history(graph, (await graph.aget_state(at())).tasks[0].state)

        above = state.config["configurable"]["checkpoint_id"]
        assert [s.next for s in found] == [("c2",), ("c1",), ("__start__",)]
        assert all(s.metadata["parents"] == {"": above} for s in found)
        assert found[0].config["configurable"]["checkpoint_map"][""] == above

    @pytest.mark.langgraph("F-L3")
    async def test_the_graphs_below(self, saver):
        """
        get_subgraphs names the graphs of nodes; with recurse=True those inside of them too.
        """
        inner = parent([], child([]), None)
        graph = parent([], inner, saver)

        assert [name for name, _ in graph.get_subgraphs()] == ["child"]
        assert [n for n, _ in graph.get_subgraphs(recurse=True)] == ["child", "child|child"]
        found = [n async for n, _ in graph.aget_subgraphs("child|child", recurse=True)]
        assert found == ["child|child"]


class TestChanges:
    @pytest.mark.langgraph("F-G20")
    @pytest.mark.parametrize("mode", [None, True])
    async def test_an_update_of_a_waiting_child(self, saver, mode):
        """
        update_state with a child's config changes the child, which goes on from there.
        """
        seen: list[str] = []
        graph = parent(seen, child(seen, "q", checkpointer=mode), saver)
        await graph.ainvoke({"log": []}, at())
        pointer = (await graph.aget_state(at())).tasks[0].state
        seen.clear()

        await graph.aupdate_state(pointer, {"log": ["edited"]}, as_node="c1")
        again = await graph.ainvoke(None, at())
        result = await graph.ainvoke(Command(resume="yes"), at())

        assert asked(again) == ["q"]
        assert seen == ["c2", "c2", "after"]
        assert result["log"][-4:] == ["c1", "edited", "c2:yes", "after"]

    @pytest.mark.langgraph("F-G20")
    async def test_an_unknown_child_can_not_be_changed(self, saver):
        """
        A namespace that no node leads to is refused, and nothing is written.
        """
        graph = parent([], child([]), saver)
        await graph.ainvoke({"log": []}, at())
        before = await history(graph, at())

        with pytest.raises(InvalidConfigError, match="not found"):
            await graph.aupdate_state(at(checkpoint_ns="nobody:1"), {"log": ["x"]})
        assert await history(graph, at()) == before
