"""The topology export: a graph's wiring as data, with what is odd about it."""

import json
from typing import Any, TypedDict

import pytest

from actorgraph.drawing.topology import topology_of
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.values.constants import END, START


class State(TypedDict):
    text: str


def node(state: State): ...


def graph(*names):
    """A builder with these nodes, the first of which is the entry."""
    builder = GraphBuilder(State)
    for name in names:
        builder.add_node(name, node)
    return builder.add_edge(START, names[0])


def report(builder) -> list[tuple[str, str]]:
    found: list[dict[str, Any]] = topology_of(make_plan(builder, name="g"))["report"]
    assert all(finding["what"] and finding["do"] for finding in found)
    return [(finding["code"], finding["node"]) for finding in found]


REPORTS = [
    (lambda: graph("a", "b").add_edge("a", "b").add_edge("b", END), []),
    (lambda: graph("a", "b", "c").add_edge("b", "c"), [("unreachable", "b"), ("unreachable", "c")]),
    (lambda: graph("a", "b").add_node("c", node, destinations=["b"]).add_edge("a", "c"), []),
    (
        lambda: graph("a", "b", "c").add_edge("a", "b").add_edge(["b", "c"], "a"),
        [("join_never_completes", "a"), ("unreachable", "c")],
    ),
    (
        lambda: graph("a", "b", "c").add_edge(["a", "b"], "c").add_edge("c", "b"),
        [("join_never_completes", "c"), ("unreachable", "b")],
    ),
    (
        lambda: (
            graph("a", "b", "c", "d")
            .add_conditional_edges("a", node, ["b", "c"])
            .add_edge(["b", "c"], "d")
        ),
        [("join_of_alternatives", "d")],
    ),
    (
        lambda: (
            graph("a", "b", "c", "d")
            .add_edge("a", "b")
            .add_conditional_edges("a", node, ["c", END])
            .add_edge(["b", "c"], "d")
        ),
        [],
    ),
    (
        lambda: graph("a", "b").add_edge("a", "b").add_edge("b", "a"),
        [("no_way_to_end", "a"), ("no_way_to_end", "b")],
    ),
    (
        lambda: graph("a", "b").add_edge("a", "b").add_conditional_edges("b", node, ["a", END]),
        [],
    ),
    (lambda: graph("a", "b").add_conditional_edges("a", node), [("open_route", "a")]),
]


@pytest.mark.parametrize(("build", "expected"), REPORTS)
def test_suspicious_wiring_is_found_before_a_run(build, expected):
    """
    Nodes that nothing reaches, joins that can't complete, circles without a way out and routers
    that don't say where they lead are named, each with its node and what to do.
    """
    assert report(build()) == expected


def test_the_export_is_the_same_each_time():
    """
    Two builds of one graph give the same data, and it is plain JSON.
    """

    def build():
        builder = graph("a", "b", "c").add_edge("a", "b").add_edge("a", "c")
        builder.add_edge(["b", "c"], "d").add_node("d", node, destinations={"a": "again"})
        return topology_of(make_plan(builder, name="g", interrupt_before=("d",)))

    data = build()

    assert json.dumps(build()) == json.dumps(data)
    assert data["joins"] == [{"from": ["b", "c"], "to": "d"}]
    assert data["nodes"][-1] == {
        "name": "d",
        "reads": ["text"],
        "async": False,
        "defer": False,
        "interrupt": ["before"],
        "destinations": ["a"],
    }
    assert {"from": "d", "to": "a", "conditional": True, "label": "again"} in data["edges"]
    assert data["channels"] == {"text": "LastValue"}
