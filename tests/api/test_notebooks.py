"""Blocking methods in the cells of a notebook, which run inside an event loop."""

import sys
from contextvars import ContextVar
from types import ModuleType

import pytest

from actorgraph import InMemorySaver, SqliteSaver
from actorgraph.errors import RunningLoopError
from tests.support.graphs import ab, at, in_a_row

WHO: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    """Marks of a notebook's kernel, put into this process."""
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))


class TestInACell:
    async def test_blocking_methods_work(self, store):
        """
        Each runs in the background thread, where `with` has opened the saver.
        """
        with store.saver() as saver:
            graph = ab(saver)
            result = graph.invoke({}, at())
            chunks = list(graph.stream({}, at("s"), stream_mode="updates"))
            graph.update_state(at(), {"foo": "edited"})
            state = graph.get_state(at())
            rows = list(graph.get_state_history(at(), limit=2))

        assert result["bar"] == ["a", "b"]
        assert [next(iter(c)) for c in chunks] == ["a", "b"]
        assert state.values["foo"] == "edited"
        assert [s.metadata["step"] for s in rows] == [3, 2]

    async def test_an_unopened_saver_works(self, tmp_path):
        """
        It is hosted by the background thread, as everywhere.
        """
        saver = SqliteSaver(tmp_path / "runs.db")
        result = ab(saver).invoke({}, at())
        saver.close_blocking()

        assert result["bar"] == ["a", "b"]

    async def test_nodes_see_the_cells_context(self):
        """
        A contextvar that the cell has set is set in the nodes.
        """
        seen: list[str] = []

        async def look(state):
            seen.append(WHO.get())

        WHO.set("cell")
        in_a_row({"look": look}).invoke({})

        assert seen == ["cell"]

    async def test_a_saver_that_the_cell_has_opened_in_its_loop_is_refused(self, tmp_path):
        """
        A call that would wait for its own loop raises an error, and the async method works.
        """
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = ab(saver)
            calls = [
                lambda: graph.invoke({}, at()),
                lambda: list(graph.stream({}, at())),
                lambda: graph.get_state(at()),
                lambda: saver.get_tuple(at()),
            ]
            for call in calls:
                with pytest.raises(RunningLoopError, match="would wait forever") as refused:
                    call()
                assert "begins with `a`" in refused.value.do
            result = await graph.ainvoke({}, at())

        assert result["bar"] == ["a", "b"]

    async def test_a_memory_saver_needs_no_loop(self):
        """
        It answers where it is asked, so `async with` still works.
        """
        async with InMemorySaver() as saver:
            assert ab(saver).invoke({}, at())["bar"] == ["a", "b"]

    @pytest.mark.parametrize("outer", ["invoke", "ainvoke"])
    async def test_an_async_node_may_not_block(self, outer):
        """
        Inside of a run it is refused as everywhere, in the cell's loop and in the background one.
        """
        inner = ab(None)

        async def calls(state):
            return inner.invoke({})

        graph = in_a_row({"calls": calls})

        async def call():
            return graph.invoke({}) if outer == "invoke" else await graph.ainvoke({})

        with pytest.raises(RunningLoopError, match="ainvoke"):
            await call()

    async def test_a_sync_node_may(self):
        """
        A sync node has a thread of its own, and calls other graphs from there.
        """
        inner = ab(None)

        def calls(state):
            return {"bar": inner.invoke({})["bar"]}

        assert in_a_row({"calls": calls}).invoke({})["bar"] == ["a", "b"]
