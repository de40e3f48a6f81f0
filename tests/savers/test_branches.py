"""Branches of one thread never write over each other's values."""

from typing import Any

import pytest

from tests.graphs import AB, at, history, in_a_row


async def test_a_branch_that_fails_at_once_hides_no_version(saver):
    """
    A branch that has stored nothing but its beginning is the head; what the next run writes
    leaves every value of the older branch as it was. LangGraph: L7.
    """
    fails: list[str] = []

    async def a(state: AB) -> dict[str, Any]:
        return {"foo": "a" * len(state.get("bar", [])), "bar": [f"a{len(state.get('bar', []))}"]}

    async def b(state: AB) -> dict[str, Any]:
        if fails:
            raise OSError(fails.pop())
        return {"foo": "b" * len(state["bar"]), "bar": [f"b{len(state['bar'])}"]}

    graph = in_a_row({"a": a, "b": b}, checkpointer=saver)
    for _ in range(3):
        await graph.ainvoke({"bar": ["in"]}, at())
    before = {s.config["configurable"]["checkpoint_id"]: s for s in await history(graph, at())}
    old = next(s for s in reversed(list(before.values())) if s.next == ("b",))

    fails.append("at once")
    with pytest.raises(OSError, match="at once"):
        await graph.ainvoke(None, old.config)
    for _ in range(3):
        await graph.ainvoke({"bar": ["again"]}, at())

    after = {s.config["configurable"]["checkpoint_id"]: s for s in await history(graph, at())}
    assert len(after) > len(before) + 3
    assert {i: after[i].values for i in before} == {i: s.values for i, s in before.items()}
