"""Drawings of a compiled graph: subgraphs opened, pictures, what a notebook shows."""

import sys
from operator import add
from typing import Annotated, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda, RunnableParallel

from actorgraph import END, START, StateGraph
from actorgraph.errors import MissingExtraError
from tests.support.graphs import ab, in_a_row, writer


class Words(TypedDict):
    bar: Annotated[list[str], add]


def nested(levels):
    """A graph `n0` in a graph `n1` in a graph ..., each with a node beside it."""
    graph = in_a_row({"x": writer("x"), "y": writer("y")})
    for level in range(levels):
        graph = in_a_row({"before": writer("before"), f"n{level}": graph})
    return graph


class TestXray:
    @pytest.mark.langgraph("F-L1")
    @pytest.mark.parametrize(
        ("xray", "nodes"),
        [
            (False, {"before", "n1"}),
            (1, {"before", "n1:before", "n1:n0"}),
            (2, {"before", "n1:before", "n1:n0:x", "n1:n0:y"}),
            (True, {"before", "n1:before", "n1:n0:x", "n1:n0:y"}),
        ],
    )
    async def test_subgraphs_are_opened_as_deep_as_wanted(self, xray, nodes):
        """
        A node that is a compiled graph is drawn from inside, to any depth or to a given one.
        """
        graph = nested(2)

        drawn = graph.get_graph(xray=xray)

        assert drawn.nodes.keys() - {START, END} == nodes
        assert await graph.aget_graph(xray=xray) == drawn

    @pytest.mark.langgraph("F-L1")
    def test_a_graph_that_a_function_calls_is_opened(self):
        """
        A node's function that knows a graph by name is drawn as that graph.
        """
        inner = ab()

        async def call(state: Words):
            return await inner.ainvoke(state)

        graph = StateGraph(Words).add_node("call", call).add_edge(START, "call").compile()

        assert graph.get_graph(xray=True).nodes.keys() == {START, "call:a", "call:b", END}


class TestPictures:
    @pytest.mark.langgraph("F-L2")
    def test_a_png_needs_no_network_and_no_system_package(self, tmp_path):
        """
        Both methods draw a PNG on this machine, and write it to the given path.
        """
        pytest.importorskip("PIL", reason="the extra `drawing` is not installed")
        drawn = ab().get_graph()

        picture = drawn.draw_mermaid_png(output_file_path=tmp_path / "a.png")

        assert picture.startswith(b"\x89PNG\r\n")
        assert (tmp_path / "a.png").read_bytes() == picture
        assert drawn.draw_png() == drawn.draw_png(str(tmp_path / "b.png"))

    def test_a_picture_can_be_transparent(self):
        """
        Without a background the corner has no colour, and padding makes the picture larger.
        """
        images = pytest.importorskip("PIL.Image", reason="the extra `drawing` is not installed")
        from io import BytesIO

        drawn = StateGraph(Words).add_node("a", writer("a")).add_edge(START, "a")
        drawn.add_conditional_edges("a", writer("r"), {"again": "a", "done": END})
        graph = drawn.compile().get_graph()
        clear = images.open(BytesIO(graph.draw_mermaid_png(background_color=None)))
        white = images.open(BytesIO(graph.draw_mermaid_png(padding=30)))

        assert clear.getpixel((0, 0))[3] == 0
        assert white.getpixel((0, 0)) == (255, 255, 255, 255)
        assert white.size == (clear.width + 40, clear.height + 40)

    def test_a_missing_package_is_named(self, monkeypatch):
        """
        Without Pillow the error says what to install, and which picture needs nothing.
        """
        monkeypatch.setitem(sys.modules, "PIL.Image", None)

        with pytest.raises(MissingExtraError, match=r"actorgraph\[drawing\].*draw_svg"):
            ab().get_graph().draw_png()

    @pytest.mark.langgraph("F-L2")
    def test_a_notebook_shows_the_graph(self):
        """
        A drawing is shown as SVG; a compiled graph as SVG, Mermaid or text.
        """
        graph = ab()
        drawn = graph.get_graph()

        assert drawn._repr_svg_() == drawn.draw_svg()
        assert graph._repr_mimebundle_() == {
            "text/plain": repr(graph),
            "text/vnd.mermaid": drawn.draw_mermaid(),
            "image/svg+xml": drawn.draw_svg(),
        }

    def test_a_terminal_shows_the_graph(self, capsys):
        """
        print_ascii prints what draw_ascii returns.
        """
        drawn = ab().get_graph()

        drawn.print_ascii()

        assert capsys.readouterr().out == drawn.draw_ascii() + "\n"


def test_settings_may_be_langchains_objects():
    """
    Curve styles may be an enum's members, and colours an object's attributes.
    """

    class Curve:
        value = "basis"

    class Colors:
        default, first, last = "fill:red", "fill:green", "fill:blue"

    text = ab().get_graph().draw_mermaid(curve_style=Curve, node_colors=Colors())

    assert "    curve: basis\n" in text
    assert "\tclassDef default fill:red\n\tclassDef first fill:green\n" in text


def test_the_topology_is_exported_from_the_compiled_graph():
    """
    A program can snapshot the wiring of its graph, and fail on an odd one, without running it.
    """
    topology = ab().topology()

    assert [n["name"] for n in topology["nodes"]] == [START, "a", "b"]
    assert topology["report"] == []


class TestChains:
    def test_a_chain_that_contains_a_graph(self):
        """
        LangChain draws the graph as a part: its start or end makes way for the steps beside it.
        """
        graph, step = ab(), RunnableLambda(lambda state: state, name="step")

        after, before = (step | graph).get_graph(), (graph | step).get_graph()

        assert [node.name for node in after.nodes.values()] == ["step_input", "step", "a", "b", END]
        assert "a" in after.draw_mermaid()
        names = [node.name for node in before.nodes.values()]
        assert names == [START, "a", "b", "step", "step_output"]
        ids = {node.name: node.id for node in before.nodes.values()}
        assert ("b", ids["step"]) in [(edge.source, edge.target) for edge in before.edges]

    def test_a_graph_beside_another_step(self):
        """
        In a parallel step the graph is between the input and the output; prompts are searched.
        """
        parallel = RunnableParallel(one=ab(), other=RunnableLambda(lambda state: state))

        drawn = parallel.get_graph()

        first, last = drawn.first_node(), drawn.last_node()
        assert first
        assert last
        edges = [(edge.source, edge.target) for edge in drawn.edges]
        assert (first.id, "a") in edges
        assert ("b", last.id) in edges
        assert (ab() | RunnableLambda(lambda state: state)).get_prompts() == []

    def test_a_drawing_keeps_its_only_node(self):
        """
        A first or last node that no other can take the place of stays.
        """
        drawn = ab().get_graph()
        for _ in range(5):
            drawn.trim_first_node()
            drawn.trim_last_node()

        assert len(drawn.nodes) == 1
        assert drawn.edges == []
