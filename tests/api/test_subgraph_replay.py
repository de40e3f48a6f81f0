"""Time travel through graphs inside of graphs."""

from typing import Any

import pytest

from actorgraph.errors import InvalidConfigError
from tests.support.graphs import at, history, in_a_row
from tests.support.subgraphs import Log, says


def counting(seen: list[str], mode: Any):
    """`c1` counts up, `c2` says what it counts."""

    async def c1(state: Log) -> dict[str, Any]:
        seen.append("c1")
        return {"n": state.get("n", 0) + 1}

    async def c2(state: Log) -> dict[str, Any]:
        seen.append("c2")
        return {"log": [f"c2:{state['n']}"]}

    return in_a_row({"c1": c1, "c2": c2}, schema=Log, checkpointer=mode)


def turns(seen: list[str], saver: Any, mode: Any = True):
    inner = counting(seen, mode)

    async def node(state: Log) -> dict[str, Any]:
        return {"log": [str((await inner.ainvoke({"log": []}))["n"])]}

    return in_a_row({"node": node, "after": says("after", seen)}, schema=Log, checkpointer=saver)


async def three_turns(seen: list[str], saver: Any, mode: Any = True):
    graph = turns(seen, saver, mode)
    for _ in range(3):
        await graph.ainvoke({"log": []}, at())
    seen.clear()
    old = [s for s in await history(graph, at()) if s.next == ("node",)]
    return graph, old[::-1]


class TestReplay:
    @pytest.mark.langgraph("F-G19", "L70")
    async def test_a_stateful_child_is_taken_back_too(self, saver):
        """
        When a parent replays, a stateful child starts from what it was at that time.
        """
        graph, old = await three_turns([], saver)

        replayed = [(await graph.ainvoke(None, s.config))["log"] for s in reversed(old)]

        assert [log[::2] for log in replayed] == [["1", "2", "3"], ["1", "2"], ["1"]]

    @pytest.mark.langgraph("F-G19")
    async def test_the_next_turn_goes_on_from_the_branch(self, saver):
        """
        After a replay a stateful child is at the point that the replay reached.
        """
        graph, old = await three_turns([], saver)
        await graph.ainvoke(None, old[1].config)

        result = await graph.ainvoke({"log": []}, at())

        assert result["log"][::2] == ["1", "2", "3"]

    @pytest.mark.langgraph("L71")
    async def test_an_update_of_an_old_checkpoint_counts_as_old(self, saver):
        """
        Behind an update made on an old checkpoint the child's state is that of its parent's time.
        """
        graph, old = await three_turns([], saver)
        branch = await graph.aupdate_state(old[0].config, {"log": ["edited"]}, as_node="__start__")

        result = await graph.ainvoke(None, branch)

        assert result["log"] == ["edited", "1", "after"]

    @pytest.mark.langgraph("F-G18", "L72")
    @pytest.mark.parametrize("mode", [None, True])
    async def test_a_child_is_replayed_from_its_own_checkpoint(self, saver, mode):
        """
        A config of a child's old checkpoint replays from there, and what comes out flows into the
        parent.
        """
        seen: list[str] = []
        graph, old = await three_turns(seen, saver, mode)
        below = [s for s in await self.below(graph, old[1]) if s.next == ("c2",)]

        result = await graph.ainvoke(None, below[0].config)

        assert seen == ["c2", "after"]
        assert result["log"] == ["1", "after", "2" if mode else "1", "after"]

    @staticmethod
    async def below(graph: Any, snapshot: Any) -> list[Any]:
        """The child's checkpoints that were made under a parent's checkpoint."""
        parent = snapshot.config["configurable"]["checkpoint_id"]
        found = await history(graph, snapshot.tasks[0].state)
        return [s for s in found if s.metadata["parents"] == {"": parent}]

    async def test_a_child_needs_its_parents_checkpoints(self, saver):
        """
        A config that names only a child's checkpoint is refused: no run begins there.
        """
        graph, old = await three_turns([], saver)
        (newest, *_) = await history(graph, old[0].tasks[0].state)
        place = dict(newest.config["configurable"])
        del place["checkpoint_map"]

        with pytest.raises(InvalidConfigError, match="addresses the subgraph"):
            await graph.ainvoke(None, {"configurable": place})
