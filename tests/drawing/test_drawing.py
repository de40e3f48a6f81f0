"""A plan's drawing: which nodes and edges it shows, as text and as data, without running it."""

from typing import Literal, TypedDict

import pytest
from typing_extensions import TypedDict as ExtendedTypedDict

from actorgraph.drawing.ascii_art import ascii_art
from actorgraph.drawing.shape import DrawnEdge, shape_of, with_inside
from actorgraph.drawing.svg import svg
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.values.commands import Command
from actorgraph.values.constants import END, START


class State(TypedDict):
    text: str


def node(state: State): ...


def to_b_or_end(state: State) -> Literal["b", "__end__"]: ...


def to_anywhere(state: State): ...


def command_to_b(state: State) -> Command[Literal["b", "__end__"]]: ...


def graph(*names):
    """A builder with these nodes, the first of which is the entry."""
    builder = GraphBuilder(State)
    for name in names:
        builder.add_node(name, node)
    return builder.add_edge(START, names[0])


def shape(builder, **options):
    return shape_of(make_plan(builder, name="g", **options))


def edges(builder):
    """(source, target), with "?" before the label of a conditional edge."""
    ours = {START: "start", END: "end"}
    return [
        (ours.get(e.source, e.source), ours.get(e.target, e.target), *label(e))
        for e in shape(builder).edges
    ]


def label(edge):
    return (f"?{edge.data or ''}",) if edge.conditional else ()


EDGES = [
    (lambda: graph("a", "b").add_edge("a", "b"), [("start", "a"), ("a", "b"), ("b", "end")]),
    (
        lambda: (
            graph("a", "b", "c").add_edge("a", "b").add_edge("a", "c").add_edge(["b", "c"], "a")
        ),
        [("start", "a"), ("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")],
    ),
    (
        lambda: graph("a", "b").add_conditional_edges("a", node, {"go": "b", "stop": END}),
        [("start", "a"), ("a", "end", "?stop"), ("a", "b", "?go"), ("b", "end")],
    ),
    (
        lambda: graph("a", "b").add_conditional_edges("a", node, {True: "b", "a": "a"}),
        [("start", "a"), ("a", "a", "?"), ("a", "b", "?True"), ("b", "end")],
    ),
    (
        lambda: graph("a", "b").add_conditional_edges("a", to_b_or_end).add_edge("b", "a"),
        [("start", "a"), ("a", "end", "?"), ("a", "b", "?"), ("b", "a")],
    ),
    (
        lambda: graph("a", "b").add_conditional_edges("a", node, {"y": "b", "x": "b"}),
        [("start", "a"), ("a", "b", "?x"), ("b", "end")],
    ),
    (
        lambda: graph("a", "b").add_edge("a", "b").add_conditional_edges("a", node, {"x": "b"}),
        [("start", "a"), ("a", "b", "?x"), ("b", "end")],
    ),
    (
        lambda: graph("b").add_node("a", command_to_b).add_edge("b", "a"),
        [("start", "b"), ("a", "end", "?"), ("a", "b", "?"), ("b", "a")],
    ),
    (
        lambda: graph("b", "c").add_node("a", node, destinations={"b": "one", "c": "two"}),
        [("start", "b"), ("a", "b", "?one"), ("a", "c", "?two"), ("b", "end"), ("c", "end")],
    ),
    (
        lambda: graph("a", "b", "c").add_edge("b", "c"),
        [("start", "a"), ("b", "c"), ("a", "end"), ("c", "end")],
    ),
]


@pytest.mark.langgraph("F-L1")
@pytest.mark.parametrize(("build", "expected"), EDGES)
def test_edges_come_from_what_was_declared(build, expected):
    """
    Static edges, joins, routers' answers and declared destinations become edges; a node that
    leads nowhere leads to the end.
    """
    assert edges(build()) == expected


@pytest.mark.langgraph("F-L4")
def test_a_router_that_does_not_say_may_go_anywhere():
    """
    Without path_map and annotation there is an edge to every other node, and to the end.
    """
    builder = graph("a", "b", "c").add_conditional_edges("a", to_anywhere)

    assert [e for e in edges(builder) if e[0] == "a"] == [
        ("a", "end", "?"),
        ("a", "b", "?"),
        ("a", "c", "?"),
    ]


def test_a_state_may_be_a_typed_dict_of_typing_extensions():
    """
    Its TypedDict is a class of its own on Python 3.11, and LangGraph programs use it.
    """

    class Extended(ExtendedTypedDict):
        text: str

    plan = make_plan(GraphBuilder(Extended).add_node("a", node).add_edge(START, "a"), name="g")

    assert plan.state_keys == ("text",)
    assert plan.nodes["a"].coerce is None


@pytest.mark.langgraph("F-L1")
def test_metadata_says_where_a_run_pauses():
    """
    A node shows its own metadata, breakpoints, and the tools of the object that it is.
    """

    class Tools:
        def __init__(self):
            self.tools_by_name = {"search": node}

        def __call__(self, state: State): ...

    builder = graph("a", "b").add_edge("a", "b").add_node("c", Tools()).add_edge("b", "c")
    builder.add_node("d", node, metadata={"cost": 3}).add_edge("c", "d")
    drawn = shape(builder, interrupt_before=("a", "b"), interrupt_after=("b",)).nodes

    assert {name: n.metadata for name, n in drawn.items()} == {
        START: None,
        "a": {"__interrupt": "before"},
        "b": {"__interrupt": "before,after"},
        "c": {"__tools": ["search"]},
        "d": {"cost": 3},
        END: None,
    }
    late = shape(graph("a").add_node("z", node, defer=True).add_edge("a", "z")).nodes
    assert late["z"].metadata == {"defer": True}
    every = shape(builder, interrupt_before=("*",)).nodes
    assert [every[n].metadata for n in (START, "a")] == [None, {"__interrupt": "before"}]


def agent():
    builder = graph("agent", "tools")
    builder.add_node("tidy", node, metadata={"cost": 3, "tags": ["x", "y"], "odd": object()})
    builder.add_conditional_edges("agent", node, {"tools": "tools", "done": "tidy"})
    return builder.add_edge("tools", "agent").add_edge("tidy", END)


class TestInside:
    @pytest.mark.langgraph("F-L1")
    def test_one_way_in_and_out_joins_the_nodes(self):
        """
        A subgraph's own start and end vanish where one node takes their place.
        """
        inner = shape(graph("i", "j").add_edge("i", "j"))
        outer = shape(graph("a", "sub", "z").add_edge("a", "sub").add_edge("sub", "z"))

        whole = with_inside(outer, {"sub": inner})

        assert [*whole.nodes] == [START, "a", "z", END, "sub:i", "sub:j"]
        assert whole.edges[1:3] == [DrawnEdge("a", "sub:i"), DrawnEdge("sub:j", "z")]
        assert whole.edges[-1] == DrawnEdge("sub:i", "sub:j")

    def test_several_ways_keep_start_and_end(self):
        """
        With two entries or two ends, the subgraph's start and end represent them.
        """
        inner = shape(graph("i", "j").add_edge(START, "j"))
        outer = shape(graph("sub"))

        whole = with_inside(outer, {"sub": inner})

        assert DrawnEdge(START, "sub:__start__") in whole.edges
        assert DrawnEdge("sub:__end__", END) in whole.edges

    def test_a_graph_without_a_clear_way_stays_a_node(self):
        """
        A circle has no end to join to, so it is not opened.
        """
        circle = shape(graph("i", "j").add_edge("i", "j").add_edge("j", "i"))
        outer = shape(graph("sub"))

        assert with_inside(outer, {"sub": circle}) == outer


class TestPictures:
    @pytest.mark.langgraph("F-L2")
    def test_a_drawing_in_characters(self):
        """
        Boxes are in rows, edges lead down, and one that leads back arrives from below.
        """
        art = ascii_art(shape(graph("a", "b").add_edge("a", "b").add_edge("b", "a")))

        assert art.splitlines() == [
            "+-----------+",
            "| __start__ |",
            "+-----------+",
            "      |",
            "      v",
            "   +-----+",
            "   |  a  |",
            "   +-----+",
            "     | ^",
            "     v |",
            "    +---+",
            "    | b |",
            "    +---+",
        ]

    def test_conditional_edges_are_dotted(self):
        """
        Routers' edges have other characters, and an edge to the node itself is a loop.
        """
        art = ascii_art(shape(graph("a").add_conditional_edges("a", node, {"more": "a", "x": END})))

        assert art.splitlines()[5:10] == [
            "  +-------+...",
            "  |   a   |  .",
            "  +-------+<..",
            "      :",
            "      v",
        ]

    @pytest.mark.parametrize("draw", [ascii_art, svg])
    @pytest.mark.parametrize("build", [build for build, _ in EDGES])
    def test_every_shape_can_be_drawn(self, draw, build):
        """
        Joins, circles, loops and nodes without edges all have a place, the same each time.
        """
        drawn = shape(build())
        text = draw(drawn)

        assert all(name in text for name in drawn.nodes)
        assert draw(drawn) == text

    def test_an_svg_shows_labels_and_escapes_names(self):
        """
        Conditional edges are dashed and labelled, and a name is text, never markup.
        """
        builder = graph("<a>", "b").add_conditional_edges("<a>", node, {"1 < 2": "b"})
        text = svg(shape(builder))

        assert text.count("stroke-dasharray") == 1
        assert ">1 &lt; 2</text>" in text
        assert ">&lt;a&gt;</text>" in text


@pytest.mark.langgraph("F-L2")
def test_the_drawing_as_data():
    """
    Nodes and edges as JSON, with labels, conditions and metadata where there are some.
    """
    data = shape(agent()).to_json()

    assert data["nodes"][1] == {
        "id": "agent",
        "type": "runnable",
        "data": {"id": ["actorgraph", "node"], "name": "agent"},
    }
    assert data["nodes"][-1] == {"id": END}
    assert data["edges"][1] == {
        "source": "agent",
        "target": "tidy",
        "data": "done",
        "conditional": True,
    }
