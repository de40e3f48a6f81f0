"""Names of graphs in a system: one that has none itself is called as the system calls it."""

from typing import TypedDict

import pytest

from actorgraph import ActorSystem, InMemorySaver, StateGraph
from actorgraph.errors import GraphRecursionError, OtherGraphWarning, SchemaMismatchError
from actorgraph.graph import START
from tests.support.graphs import at


class State(TypedDict, total=False):
    text: str


def graph_of(*names, **compiled):
    """A graph of nodes in a row, without a name unless it is given."""
    builder = StateGraph(State)
    builder.add_sequence([(name, lambda state: {"text": "x"}) for name in names])
    return builder.add_edge(START, names[0]).compile(**compiled)


async def test_errors():
    """
    The error of a run has the system's name; a graph with a name of its own keeps that.
    """
    graphs = {"support": graph_of("a", "b"), "sales": graph_of("a", "b", name="own")}
    async with ActorSystem(graphs) as system:
        for name, expected in (("support", "support"), ("sales", "own")):
            assert system.graphs[name].name == expected
            run = await system.start(name, name, {"text": ""}, config={"recursion_limit": 1})
            with pytest.raises(GraphRecursionError, match=f"(?i){expected}") as caught:
                await run.result()
            assert "LangGraph" not in str(caught.value)
    assert graphs["support"].name == "LangGraph"


async def test_the_stored_id_stays():
    """
    A thread goes on without the system and in it, because the stored id of the graph stays.
    """
    saver = InMemorySaver()
    graph = graph_of("a", checkpointer=saver)
    await graph.ainvoke({"text": ""}, at("t"))
    async with ActorSystem({"support": graph}, saver=saver) as system:
        assert system.graphs["support"].graph_id == graph.graph_id
        await (await system.start("support", "t", {"text": ""})).result()
    await graph.ainvoke({"text": ""}, at("t"))


async def test_a_thread_of_another_graph():
    """
    The warning about a thread of another graph names the one that goes on as the system does.
    """
    saver = InMemorySaver()
    await graph_of("x", name="old", checkpointer=saver).ainvoke({"text": ""}, at("t"))
    with pytest.warns(OtherGraphWarning, match=r"graph 'support:[0-9a-f]+' goes on"):
        async with ActorSystem({"support": graph_of("a")}, saver=saver) as system:
            await (await system.start("support", "t", {"text": ""})).result()


async def test_a_thread_that_does_not_fit():
    """
    So does the refusal of a thread that waits for a node which is gone, and no choice is START.
    """
    saver = InMemorySaver()
    before = graph_of("a", "b", name="old", checkpointer=saver, interrupt_before=["b"])
    await before.ainvoke({"text": ""}, at("t"))
    async with ActorSystem({"support": graph_of("a", "zz")}, saver=saver) as system:
        with pytest.raises(SchemaMismatchError, match=r"graph 'support:[0-9a-f]+'") as caught:
            await (await system.start("support", "t", None)).result()
    assert "__start__" not in str(caught.value)
    assert "LangGraph" not in str(caught.value)
