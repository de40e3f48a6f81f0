"""Pictures of graphs: places of nodes, frames, labels and columns, and the SVG made of them."""

import re
from itertools import combinations
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from actorgraph.api.graph.drawable import DrawableGraph
from actorgraph.drawing.layout import Box
from actorgraph.drawing.picture import label_size, picture_of
from actorgraph.drawing.shape import DrawnEdge, DrawnNode, GraphShape, with_inside
from actorgraph.drawing.svg import svg
from actorgraph.values.constants import END, START


def shape(text: str, **metadata: dict[str, Any]) -> GraphShape:
    """A drawing of edges such as "a-b a-c"; `a-b=label` has a label."""
    edges: list[DrawnEdge] = []
    names: dict[str, None] = {}
    for part in text.split():
        line, _, label = part.partition("=")
        source, _, target = line.partition("-")
        names |= dict.fromkeys(name for name in (source, target) if name)
        if target:
            edges.append(DrawnEdge(source, target, label or None, conditional=bool(label)))
    nodes = {name: DrawnNode(name, name, None, metadata.get(name)) for name in names}
    return GraphShape(nodes, edges)


def chain(length: int) -> GraphShape:
    return shape(" ".join(f"n{i}-n{i + 1}" for i in range(length)))


def apart(one: Box, other: Box) -> bool:
    across = abs(one.x - other.x) >= (one.width + other.width) / 2
    return across or abs(one.y - other.y) >= (one.height + other.height) / 2


def holds(frame: Box, box: Box) -> bool:
    across = abs(frame.x - box.x) + box.width / 2 <= frame.width / 2
    return across and abs(frame.y - box.y) + box.height / 2 <= frame.height / 2


INSIDE = shape(f"{START}-a a-b=yes a-a=again b-{END}")
SEVERAL = shape(f"{START}-a {START}-b a-c b-{END} c-{END} lost-c")
OUTER = shape(f"{START}-one one-two=next two-{END} two-one=back")


class TestFrames:
    def test_each_subgraph_has_a_frame_around_its_nodes_alone(self):
        """
        All nodes of an opened subgraph are inside its frame, and no others are.
        """
        opened = with_inside(OUTER, {"one": INSIDE, "two": SEVERAL})
        picture = picture_of(opened)

        assert list(picture.frames) == ["one", "two"]
        assert apart(*picture.frames.values())
        for path, frame in picture.frames.items():
            for name, box in picture.boxes.items():
                assert holds(frame, box) == name.startswith(f"{path}:")

    def test_frames_are_nested(self):
        """
        A subgraph of a subgraph has its frame inside of the other.
        """
        inner = with_inside(INSIDE, {"b": SEVERAL})
        picture = picture_of(with_inside(OUTER, {"one": inner}))

        assert list(picture.frames) == ["one", "one:b"]
        assert holds(picture.frames["one"], picture.frames["one:b"])

    def test_the_svg_names_them(self):
        """
        The frame has its subgraph's name, and the path to find it by.
        """
        text = svg(with_inside(OUTER, {"one": INSIDE}))

        assert 'class="ag-frame" data-node="one"' in text
        assert ">one</text>" in text


class TestStartsAndEnds:
    def test_a_subgraph_with_several_sources_is_opened(self):
        """
        Its start and end stay, and take the edges from and to the graph around it.
        """
        opened = with_inside(OUTER, {"two": SEVERAL})

        assert DrawnEdge("one", f"two:{START}", "next", conditional=True) in opened.edges
        assert DrawnEdge(f"two:{END}", END) in opened.edges

    def test_they_keep_their_shape(self):
        """
        A start is round although another node has no edge to it either.
        """
        text = svg(SEVERAL)

        assert f'class="ag-node ag-first" data-node="{START}"' in text
        assert f'class="ag-node ag-last" data-node="{END}"' in text
        assert 'class="ag-node" data-node="lost"' in text


class TestPlaces:
    def test_only_the_start_is_in_the_top_row(self):
        """
        A node that can't be reached is beside the nodes above those that it leads to.
        """
        boxes = picture_of(shape(f"{START}-a a-b b-c c-{END} lost-c alone")).boxes

        assert boxes["lost"].y == boxes["b"].y
        assert boxes["alone"].y == boxes["a"].y

    @pytest.mark.parametrize("drawn", [INSIDE, SEVERAL, OUTER, chain(30)])
    def test_nothing_is_drawn_over_another_thing(self, drawn):
        """
        Nodes and labels have places of their own, inside of the picture.
        """
        picture = picture_of(drawn)
        boxes = [*picture.boxes.values(), *picture.labels.values()]

        assert all(apart(one, other) for one, other in combinations(boxes, 2))
        assert all(box.x - box.width / 2 >= -0.01 for box in boxes)
        assert max(box.x + box.width / 2 for box in boxes) <= picture.width + 0.01

    def test_no_other_edge_passes_a_label(self):
        """
        The points of other edges are outside of a label's place.
        """
        drawn = shape("s-a=left s-b=right s-t a-t b-t=done t-s=again")
        picture = picture_of(drawn)

        for number, label in picture.labels.items():
            for other, route in picture.routes.items():
                points = [Box(x, y, 0, 0) for x, y in route]
                assert other == number or not any(holds(label, point) for point in points)

    def test_the_label_of_a_loop_is_inside(self):
        """
        A loop's long label has room at the right of its node.
        """
        text = "again, because the answer was not good"
        nodes = {"a": DrawnNode("a", "a")}
        picture = picture_of(GraphShape(nodes, [DrawnEdge("a", "a", text, conditional=True)]))
        label = picture.labels[0]

        assert label.width == label_size(text)[0]
        assert label.x - label.width / 2 > picture.boxes["a"].x + picture.boxes["a"].width / 2
        assert label.x + label.width / 2 <= picture.width


class TestColumns:
    def test_a_long_chain_is_wrapped(self):
        """
        A hundred nodes in a row are columns, each edge still ends at its node's rim.
        """
        drawn = chain(100)
        picture = picture_of(drawn)

        assert picture.height < 2 * picture.width
        for number, edge in enumerate(drawn.edges):
            target = picture.boxes[edge.target]
            assert picture.routes[number][-1] == (target.x, target.y - target.height / 2)

    def test_a_short_one_is_not(self):
        """
        Ten nodes stay one column.
        """
        assert len({box.x for box in picture_of(chain(9)).boxes.values()}) == 1


class TestNotes:
    def test_defer_breakpoints_and_tools_are_shown(self):
        """
        They are lines below the node's name, for which the box is higher.
        """
        notes = {"defer": True, "__interrupt": "before,after", "__tools": ["search", "read"]}
        drawn = shape("a-b", a=notes)
        boxes = picture_of(drawn).boxes
        text = svg(drawn)

        assert boxes["a"].height > boxes["b"].height
        for note in ("deferred", "pauses before and after", "tools: search, read"):
            assert f">{note}</text>" in text
        assert DrawableGraph(drawn.nodes, drawn.edges).draw_png().startswith(b"\x89PNG")


class TestDocument:
    def test_pages_find_nodes_and_edges(self):
        """
        Nodes can be focused and found by their ids, edges by those of their ends, all escaped.
        """
        root = ET.fromstring(svg(shape('a"<-b')))  # noqa: S314 - made here
        groups = [g.attrib for g in root.iter("{http://www.w3.org/2000/svg}g")]

        assert {g["data-node"]: g["tabindex"] for g in groups if "data-node" in g} == {
            'a"<': "0",
            "b": "0",
        }
        assert [(g["data-source"], g["data-target"]) for g in groups if "data-source" in g] == [
            ('a"<', "b")
        ]

    def test_dark_pages_get_dark_colours(self):
        """
        The style sheet sets variables for both; without it colours are attributes alone.
        """
        drawn = shape("a-b b-c")

        assert "@media (prefers-color-scheme:dark)" in svg(drawn)
        assert "<style" not in svg(drawn, style=False)
        assert 'fill="#f2f0ff"' in svg(drawn, style=False)

    def test_large_graphs_are_listed(self):
        """
        Past 300 nodes a document has a line for each node with its targets, and no drawing.
        """
        drawn = chain(301)
        text = svg(drawn)

        assert len(re.findall('class="ag-row"', text)) == 302
        assert "n0 \u2192 n1" in text
        assert "<path" not in text.partition("</defs>")[2]
        assert DrawableGraph(drawn.nodes, drawn.edges).draw_png().startswith(b"\x89PNG")
