"""Runs that pause without a checkpointer: nothing can resume them, and a warning says so."""

from pathlib import Path
from typing import TypedDict

import pytest

from actorgraph.checkpoints import InMemorySaver
from actorgraph.errors import LostPauseWarning
from actorgraph.functional import entrypoint
from actorgraph.graph import START, StateGraph
from actorgraph.types import interrupt
from tests.support.graphs import at


class State(TypedDict, total=False):
    text: str


def ask(state):
    """A plain node with a question."""
    return {"text": interrupt("ok?")}


async def aask(state):
    """The same, async."""
    return {"text": interrupt("ok?")}


def graph_of(node, name="refunds", **compiled):
    """A graph of one node."""
    return (
        StateGraph(State)
        .add_node("ask", node)
        .add_edge(START, "ask")
        .compile(name=name, **compiled)
    )


SAID = r"graph 'refunds' asks 'ok\?', and has no checkpointer[\s\S]*compile\(checkpointer="
NODES = {
    "plain": ask,
    "async": aask,
    "subgraph": graph_of(aask, "below"),
    "subgraph-own": graph_of(ask, "below", checkpointer=True),
}
node = pytest.mark.parametrize("node", NODES)


def named(heard):
    """The file that the one warning names."""
    (one,) = heard
    return Path(one.filename).name


@node
def test_blocking_calls(node):
    """
    Each blocking way to run a graph warns, at the program's line, and gives the question.
    """
    graph = graph_of(NODES[node])
    for call in (
        lambda: graph.invoke({"text": ""})["__interrupt__"],
        lambda: [chunk for chunk in graph.stream({"text": ""}) if "__interrupt__" in chunk],
        lambda: graph.batch([{"text": ""}])[0]["__interrupt__"],
    ):
        with pytest.warns(LostPauseWarning, match=SAID) as heard:
            assert call()
        assert named(heard) == Path(__file__).name


@node
async def test_async_calls(node):
    """
    So does each async one.
    """
    graph = graph_of(NODES[node])

    async def streamed():
        return [chunk async for chunk in graph.astream({"text": ""}) if "__interrupt__" in chunk]

    for call in (
        lambda: graph.ainvoke({"text": ""}),
        streamed,
        lambda: graph.abatch([{"text": ""}]),
    ):
        with pytest.warns(LostPauseWarning, match=SAID):
            assert await call()


async def test_an_entrypoint():
    """
    A workflow of the functional API warns as a graph does.
    """

    @entrypoint()
    async def refunds(given):
        return interrupt("ok?")

    with pytest.warns(LostPauseWarning, match=SAID):
        left = await refunds.ainvoke("x")

    assert [question.value for question in left["__interrupt__"]] == ["ok?"]


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
async def test_a_breakpoint(when):
    """
    A breakpoint without a checkpointer is named as one.
    """
    builder = StateGraph(State).add_node("a", lambda s: None).add_node("b", lambda s: None)
    builder.add_edge(START, "a").add_edge("a", "b")
    graph = builder.compile(name="refunds", **{when: ["a"]})
    with pytest.warns(LostPauseWarning, match="graph 'refunds' stopped at a breakpoint"):
        await graph.ainvoke({"text": ""})


@node
async def test_a_checkpointer(node):
    """
    A graph with a checkpointer asks without a warning.
    """
    graph = graph_of(NODES[node], checkpointer=InMemorySaver())
    assert (await graph.ainvoke({"text": ""}, at("t")))["__interrupt__"]
