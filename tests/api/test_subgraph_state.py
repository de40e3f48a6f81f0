"""State of nested graphs: their savers, threads and namespaces."""

from typing import Any

import pytest

from actorgraph import Command, InMemorySaver
from actorgraph.errors import InvalidConfigError
from tests.support.graphs import AB, at, chain, in_a_row, writer
from tests.support.subgraphs import Log, asked, child, namespaces, parent

pytestmark = pytest.mark.every_saver


def chain_of(saver: Any, nodes: dict[str, Any]):
    return in_a_row(nodes, schema=Log, checkpointer=saver)


class TestState:
    @pytest.mark.promise("S176")
    @pytest.mark.langgraph("F-H2", "F-H6")
    async def test_a_stateful_child_remembers(self, saver):
        """
        checkpointer=True keeps the child's state from one task to the next; None starts anew.
        """
        counts: dict[Any, list[int]] = {}
        for mode in (None, True):
            found = counts.setdefault(mode, [])

            async def bump(state: Log, found: list[int] = found) -> dict[str, Any]:
                found.append(state.get("n", 0) + 1)
                return {"n": found[-1]}

            inner = in_a_row({"bump": bump}, schema=Log, checkpointer=mode)

            async def node(state: Log, inner: Any = inner) -> dict[str, Any]:
                return {"log": [str((await inner.ainvoke({"log": []}))["n"])]}

            graph = in_a_row({"node": node}, schema=Log, checkpointer=saver)
            for _ in range(3):
                await graph.ainvoke({"log": []}, at(str(mode)))

        assert counts == {None: [1, 1, 1], True: [1, 2, 3]}

    @pytest.mark.langgraph("F-H5")
    async def test_wrappers_keep_separate_histories(self, saver):
        """
        One stateful graph under two nodes has two histories.
        """

        async def bump(state: Log) -> dict[str, Any]:
            return {"n": state.get("n", 0) + 1}

        inner = in_a_row({"bump": bump}, schema=Log, checkpointer=True)

        def wrapper(name: str):
            async def node(state: Log) -> dict[str, Any]:
                return {"log": [f"{name}{(await inner.ainvoke({'log': []}))['n']}"]}

            return node

        graph = chain_of(saver, {"x": wrapper("x"), "y": wrapper("y")})
        await graph.ainvoke({"log": []}, at())
        result = await graph.ainvoke({"log": []}, at())

        assert result["log"] == ["x1", "y1", "x2", "y2"]
        assert await namespaces(saver) == {"", "x", "y"}

    @pytest.mark.langgraph("F-H2")
    async def test_a_root_graph_needs_a_saver_of_its_own(self):
        """
        checkpointer=True makes no sense outside of a node, and is refused there.
        """
        graph = in_a_row({"a": writer("a")}, checkpointer=True)

        with pytest.raises(InvalidConfigError, match="cannot be used for root graphs"):
            await graph.ainvoke({}, at())

    @pytest.mark.langgraph("F-H4")
    async def test_another_thread_is_a_run_of_its_own(self, saver):
        """
        A config with another thread's id starts a run that has nothing to do with this one.
        """
        other = chain("xy", checkpointer=saver)

        async def node(state: AB) -> dict[str, Any]:
            return await other.ainvoke({"bar": []}, at("other"))

        graph = in_a_row({"node": node}, checkpointer=saver)
        await graph.ainvoke({"bar": []}, at())

        assert (await other.aget_state(at("other"))).next == ()
        assert await namespaces(saver) == {""}

    @pytest.mark.promise("S176")
    @pytest.mark.langgraph("F-H4")
    async def test_a_saver_of_its_own(self, saver):
        """
        A child with its own saver is stored there, under the parent's thread, and resumes from it.
        """
        own = InMemorySaver()
        seen: list[str] = []
        graph = parent(seen, child(seen, "q", checkpointer=own), saver)

        first = await graph.ainvoke({"log": []}, at())
        seen.clear()
        result = await graph.ainvoke(Command(resume="yes"), at())

        assert asked(first) == ["q"]
        assert seen == ["c2", "after"]
        assert "c2:yes" in result["log"]
        assert await namespaces(saver) == {""}
        assert await namespaces(own) == {"child"}
