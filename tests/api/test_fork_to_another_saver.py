"""fork_state to another saver, and of threads whose graphs inside remember something."""

from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import (
    START,
    Command,
    ConflictError,
    InMemorySaver,
    SqliteSaver,
    StateGraph,
    interrupt,
)
from tests.support.graphs import AB, ab, at, chain, count, history, writer

pytestmark = pytest.mark.every_saver


class Memory(TypedDict, total=False):
    """State of the subgraph."""

    seen: Annotated[list[str], add]


def remembering(saver: Any, *, asks: bool = False) -> Any:
    """A graph that counts the calls of its subgraph, which may ask first."""

    async def note(_: Memory) -> Any:
        return {"seen": [interrupt("what?") if asks else "call"]}

    inner = StateGraph(Memory).add_node("note", note).add_edge(START, "note")
    below = inner.compile(checkpointer=True)

    async def calls(_: AB) -> Any:
        seen = (await below.ainvoke({}))["seen"]
        return {"bar": [str(len(seen))]}

    outer = StateGraph(AB).add_node("calls", calls).add_node("end", writer("end"))
    outer.add_edge(START, "calls").add_edge("calls", "end")
    return outer.compile(checkpointer=saver)


@pytest.mark.promise("S159", "S160", "S161")
async def test_to_another_saver(saver):
    """
    A fork in another saver has one row with the same values, and goes on there; the origin stays
    as it was.
    """
    graph = chain("abc", checkpointer=saver)
    await graph.ainvoke({"foo": "x"}, at())
    old = next(s for s in await history(graph, "t") if s.next == ("b",))
    before = await history(graph, "t")
    async with SqliteSaver(":memory:") as other:
        there = chain("abc", checkpointer=other)
        config = await graph.afork_state(old.config, "t", saver=other)
        (copied,) = await history(there, "t")

        assert copied.config == config
        assert (copied.values, copied.next) == (old.values, ("b",))
        assert (await there.ainvoke(None, at()))["bar"] == ["a", "b", "c"]
        with pytest.raises(ConflictError, match="has checkpoints"):
            await graph.afork_state(old.config, "t", saver=other)
    assert await history(graph, "t") == before


@pytest.mark.promise("S160")
async def test_memories_of_graphs_inside_come_along(saver):
    """
    A stateful graph inside remembers in the fork what it did at that checkpoint, whether the run
    goes on from the head or from the fork's config.
    """
    graph = remembering(saver)
    for _ in range(3):
        await graph.ainvoke({}, at())
    second = [s for s in await history(graph, "t") if not s.next][1]
    other = InMemorySaver()

    config = await graph.afork_state(second.config, "u")
    await graph.afork_state("t", "u", saver=other)

    assert (await graph.ainvoke({}, at("u")))["bar"] == ["1", "end", "2", "end", "3", "end"]
    assert (await remembering(other).ainvoke({}, at("u")))["bar"][-2:] == ["4", "end"]
    assert (await graph.ainvoke({}, config))["bar"][-2:] == ["3", "end"]
    assert (await graph.ainvoke({}, at()))["bar"][-2:] == ["4", "end"]


@pytest.mark.promise("S160")
async def test_a_graph_inside_that_waits_begins_anew(saver):
    """
    In the fork of a waiting thread the question is asked again, and what the graph inside had
    finished before is there.
    """
    graph = remembering(saver, asks=True)
    for answer in ("one", None):
        await graph.ainvoke({}, at())
        if answer:
            await graph.ainvoke(Command(resume=answer), at())
    before = await count(graph, "t")

    await graph.afork_state("t", "u")
    asked = await graph.ainvoke(None, at("u"))
    done = await graph.ainvoke(Command(resume="two"), at("u"))

    assert len(asked["__interrupt__"]) == 1
    assert done["bar"][-2:] == ["2", "end"]
    assert await count(graph, "t") == before
    assert (await graph.ainvoke(Command(resume="mine"), at()))["bar"][-2:] == ["2", "end"]


@pytest.mark.promise("S159")
def test_blocking(tmp_path):
    """
    The blocking twin takes the saver too.
    """
    with SqliteSaver(tmp_path / "a.db") as one, SqliteSaver(tmp_path / "b.db") as other:
        ab(one).invoke({"foo": "x"}, at())
        ab(one).fork_state("t", "u", saver=other)

        assert other.list_threads() == ["u"]
        assert ab(other).get_state("u").values["bar"] == ["a", "b"]
