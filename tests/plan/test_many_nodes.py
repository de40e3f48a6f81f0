"""The cost of a graph of many nodes: in proportion to its nodes, and nothing at each superstep.

Counted in bytecode instructions at n and at 4n nodes, so that no other program's load matters.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypedDict

import pytest

from actorgraph import END, START, InMemorySaver, StateGraph
from tests.support.instruction_counts import instructions

FEW, MANY = 24, 96
LINEAR_MAX = 5.0
"""How many times the instructions of four times the nodes; a square would be 16."""


class State(TypedDict, total=False):
    n: int


def node(state: dict[str, Any]) -> Any:
    return {}


def annotated(state: State) -> Any:
    return {}


def chain(count: int, action: Any = annotated, **options: Any) -> StateGraph:
    builder = StateGraph(State)
    for i in range(count):
        builder.add_node(f"n{i}", action, **options)
        if i:
            builder.add_edge(f"n{i - 1}", f"n{i}")
    return builder


def nested(count: int) -> StateGraph:
    """Each node is a graph."""
    return chain(count, INNER)


def handled(count: int) -> StateGraph:
    """Each node has an error handler and a destination."""
    return chain(count, node, error_handler=annotated, destinations=["n0"])


def sequence(count: int) -> StateGraph:
    return StateGraph(State).add_sequence([(f"n{i}", annotated) for i in range(count)])


def fan(count: int) -> StateGraph:
    """One node with an edge to each of the others, which all lead to one."""
    builder = StateGraph(State).add_node("a", node).add_node("z", node).add_edge("n0", "a")
    for i in range(count):
        builder.add_node(f"n{i}", node).add_edge("a", f"n{i}").add_edge(f"n{i}", "z")
    return builder


def barrier(count: int) -> StateGraph:
    """A node that waits for all others."""
    builder = StateGraph(State).add_node("z", node)
    names = [f"n{i}" for i in range(count)]
    for name in names:
        builder.add_node(name, node).add_edge("n0", name)
    return builder.add_edge(names, "z")


def barriers(count: int) -> StateGraph:
    """Each node waits for two others."""
    builder = chain(count)
    for i in range(count - 2):
        builder.add_edge([f"n{i}", f"n{i + 1}"], f"n{i + 2}")
    return builder


def routers(count: int) -> StateGraph:
    builder = chain(count)
    for i in range(count):
        builder.add_conditional_edges(f"n{i}", annotated, [f"n{(i + 1) % count}", END])
    return builder


def alternatives(count: int) -> StateGraph:
    """Joins of what routers choose from."""
    builder = chain(count)
    for i in range(0, count - 3, 3):
        builder.add_conditional_edges(f"n{i}", node, [f"n{i + 1}", f"n{i + 2}"])
        builder.add_edge([f"n{i + 1}", f"n{i + 2}"], f"n{i + 3}")
    return builder


def own_keys(count: int) -> StateGraph:
    """Each node sees keys of its own."""
    builder = StateGraph(State)
    for i in range(count):
        own: Any = TypedDict("own", {"n": int, f"k{i}": int})  # type: ignore[misc]
        builder.add_node(f"n{i}", node, input_schema=own).add_edge("n0", f"n{i}")
    return builder


def open_routers(count: int) -> StateGraph:
    """Routers that may go anywhere."""
    builder = chain(count)
    for i in range(count):
        builder.add_conditional_edges(f"n{i}", node)
    return builder


INNER = chain(2).add_edge(START, "n0").compile()

FURTHER = [handled, routers, sequence, barrier, barriers, alternatives, own_keys]
GRAPHS = [
    *(chain, nested, fan),
    *(pytest.param(make, marks=pytest.mark.long) for make in FURTHER),
]


def growth(work: Callable[[int], Callable[[], object]]) -> float:
    """How many times as many instructions the same work takes on four times the nodes."""
    work(FEW)()  # what is imported or remembered at first use
    few, many = (instructions(work(count)) for count in (FEW, MANY))
    return many / few


@pytest.mark.parametrize("make", GRAPHS)
def test_a_graph_takes_time_in_proportion_to_its_nodes(make):
    """
    Adding nodes and edges, compiling, drawing, exporting: each linear in the number of nodes.
    """

    def compiled(count: int) -> Any:
        return make(count).add_edge(START, "n0").compile()

    works: dict[str, Callable[[int], Callable[[], object]]] = {
        "build": lambda count: lambda: make(count),
        "compile": lambda count: make(count).add_edge(START, "n0").compile,
        "drawing": lambda count: compiled(count).get_graph,
        "insides": lambda count: partial(compiled(count).get_graph, xray=True),
        "mermaid": lambda count: compiled(count).get_graph().draw_mermaid,
        "json": lambda count: compiled(count).get_graph().to_json,
        "topology": lambda count: compiled(count).topology,
        "schema": lambda count: compiled(count).get_input_jsonschema,
    }
    grown = {name: growth(work) for name, work in works.items()}
    assert {name: times for name, times in grown.items() if times > LINEAR_MAX} == {}


def test_routers_that_may_go_anywhere_share_their_table():
    """
    Compiling is linear also where each node has a router to every other one.
    """
    assert growth(lambda count: open_routers(count).add_edge(START, "n0").compile) < LINEAR_MAX


@pytest.mark.parametrize("saver", [None, InMemorySaver()])
def test_a_superstep_does_not_look_at_every_node(saver):
    """
    A superstep of one node takes as many instructions in a large graph as in a small one.
    """

    async def more(state: State) -> State:
        return {"n": state["n"] + 1}

    def per_step(count: int) -> float:
        builder = chain(count).add_node("more", more).add_edge(START, "more")
        builder.add_conditional_edges("more", on, ["more", "n0", END])
        graph = builder.compile(checkpointer=saver)

        def run(start: int) -> Callable[[], object]:
            config: Any = {"configurable": {"thread_id": f"{count} {start}"}}
            return lambda: asyncio.run(graph.ainvoke({"n": start}, config))

        run(18)()
        return (instructions(run(0)) - instructions(run(19))) / 19

    assert per_step(MANY) < 1.05 * per_step(FEW)


def on(state: dict[str, Any]) -> str:
    return "more" if state["n"] % 20 else END
