"""Several newer versions of a graph go on with one superstep, one after the other."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, Command, Send, StateGraph, interrupt
from actorgraph.types import Migration
from tests.support.graphs import at


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


MOVES = [Migration(nodes={"one": "two"}), Migration(nodes={"two": "three"})]


def asks(_: Any) -> State:
    """Three questions."""
    return {"log": [interrupt(f"{place}?") for place in range(3)]}


def beside(node: str) -> StateGraph[Any]:
    """The node is due with another one that waits, and one that has ended."""
    builder = StateGraph(State).add_node("ends", lambda _: {"log": ["ended"]}).add_node(node, asks)
    builder.add_node("waits", lambda _: {"log": [interrupt("else?")]})
    return builder.add_edge(START, "ends").add_edge(START, "waits").add_edge(START, node)


def joined(node: str) -> StateGraph[Any]:
    """The node follows two others."""
    builder = StateGraph(State).add_node("a", lambda _: {}).add_node("b", lambda _: {})
    builder.add_node(node, asks).add_edge(START, "a").add_edge(START, "b")
    return builder.add_edge(["a", "b"], node)


def below(node: str) -> StateGraph[Any]:
    """The node is a subgraph, whose first node has ended."""
    inner = StateGraph(State).add_node("ends", lambda _: {"log": ["ended"]}).add_node(asks)
    inner.add_edge(START, "ends").add_edge("ends", "asks")
    return StateGraph(State).add_node(node, inner.compile()).add_edge(START, node)


def sent(node: str) -> StateGraph[Any]:
    """The node is sent its argument."""

    def plans(_: Any) -> Command[Any]:
        return Command(goto=[Send(node, {})])

    builder = StateGraph(State).add_node(plans, destinations=(node,)).add_node(node, asks)
    return builder.add_edge(START, "plans")


@pytest.mark.parametrize("built", [beside, joined, below, sent], ids=lambda made: made.__name__)
async def test_each_version_has_the_answers_that_came_before(built, saver):
    """
    A node that has another name in each version gets all answers, whichever version took them.
    """
    await built("one").compile(saver).ainvoke({"log": []}, at())
    result: Any = {}
    for place, node in enumerate(["one", "two", "three"]):
        graph = built(node).compile(saver, migrations=MOVES[:place])
        waiting = (await graph.aget_state(at())).interrupts
        (question,) = [one for one in waiting if one.value == f"{place}?"]
        result = await graph.ainvoke(Command(resume={question.id: place}), at())
    if "__interrupt__" in result:
        graph = built("three").compile(saver, migrations=MOVES)
        result = await graph.ainvoke(Command(resume="else"), at())

    assert [item for item in result["log"] if item not in ("ended", "else")] == [0, 1, 2]


async def test_a_node_that_ended_under_a_later_name_is_not_replaced(saver):
    """
    Nothing runs in place of a removed node which has ended, under whatever name that was.
    """
    fails = True

    def works(_: Any) -> State:
        if fails:
            raise ValueError("not yet")
        return {"log": ["worked"]}

    def graph(node: str, run: Any, *moves: Migration) -> Any:
        builder = StateGraph(State).add_node("waits", lambda _: {"log": [interrupt("else?")]})
        builder.add_node(node, run).add_edge(START, "waits").add_edge(START, node)
        return builder.compile(saver, migrations=moves)

    with pytest.raises(ValueError, match="not yet"):
        await graph("one", works).ainvoke({"log": []}, at())
    fails = False
    await graph("two", works, MOVES[0]).ainvoke(None, at())
    instead = graph(
        "three", lambda _: {"log": ["again"]}, MOVES[0], Migration(goto={"two": "three"})
    )

    result = await instead.ainvoke(Command(resume="else"), at())

    assert sorted(result["log"]) == ["else", "worked"]
