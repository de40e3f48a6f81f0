"""How often a call asks its saver, and sets its run up."""

from typing import Any, TypedDict

import pytest

from actorgraph import END, START, StateGraph
from actorgraph.api.graph.setup import CompiledBase

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


class State(TypedDict, total=False):
    text: str


async def node(state: State) -> State:
    return {"text": "written"}


def graph(saver: Any) -> Any:
    builder = StateGraph(State).add_node("node", node)
    return builder.add_edge(START, "node").add_edge("node", END).compile(checkpointer=saver)


CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Counted:
    """The queries that a saver has answered, one entry for each."""

    def __init__(self, saver: Any, monkeypatch: Any) -> None:
        self.asked: list[Any] = []
        for name in ("query", "query_now"):
            if hasattr(saver, name):
                monkeypatch.setattr(saver, name, self.counting(getattr(saver, name)))

    def counting(self, query: Any) -> Any:
        def counted(queries: Any) -> Any:
            self.asked.extend(queries)
            return query(queries)

        return counted


async def test_a_state_is_read_with_one_query(saver, monkeypatch):
    """
    The state of a thread, and that of one checkpoint, take one query each, with all they show.
    """
    compiled = graph(saver)
    await compiled.ainvoke({"text": "given"}, CONFIG)
    counted = Counted(saver, monkeypatch)

    newest = await compiled.aget_state(CONFIG)
    assert (len(counted.asked), newest.metadata["writes"]) == (1, {"node": {"text": "written"}})

    again = await compiled.aget_state(newest.config)
    first = await compiled.aget_state(newest.parent_config)
    assert len(counted.asked) == 3
    assert (again, first.tasks[0].result) == (newest, {"text": "written"})


async def test_a_stream_sets_its_run_up_once(saver, monkeypatch):
    """
    `astream` checks its arguments and makes its run in one go.
    """
    launched: list[object] = []
    launch = CompiledBase.make_launch

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        launched.append(self)
        return launch(self, *args, **options)

    monkeypatch.setattr(CompiledBase, "make_launch", counted)
    chunks = [c async for c in graph(saver).astream({"text": "given"}, CONFIG)]

    assert (len(launched), chunks) == (1, [{"node": {"text": "written"}}])
