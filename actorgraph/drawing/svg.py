"""A drawing as an SVG document: text and curves, no scripts, no fonts to load."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from actorgraph.drawing.layout import Box, Layout, place
from actorgraph.drawing.shape import GraphShape

FONT = 14
"""Height of characters, in SVG units."""
CHARACTER = 8.0
NODE_HEIGHT = 36.0
MARGIN = 12.0
LOOP = 40.0
"""Room beside a node for an edge to itself."""
GAP = (36.0, 56.0)
FILL, LAST_FILL, LINE = "#f2f0ff", "#bfb6fc", "#333333"
ARROW = (
    '<defs><marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
    f'markerHeight="8" orient="auto"><path d="M0 0L10 5L0 10z" fill="{LINE}"/></marker></defs>'
)
Point = tuple[float, float]


def laid_out(shape: GraphShape) -> Layout:
    """Lay out a picture; nodes with an edge to themselves have room for it on both sides."""
    loops = {edge.source for edge in shape.edges if edge.source == edge.target}
    sizes = {
        node.id: (node_width(node.name) + (2 * LOOP if node.id in loops else 0), NODE_HEIGHT)
        for node in shape.nodes.values()
    }
    return place(shape, sizes, gap=GAP)


def node_width(name: str) -> float:
    """Compute the width of a node's box."""
    return len(name) * CHARACTER + 28


def sides(shape: GraphShape, layout: Layout) -> tuple[float, float]:
    """Compute the left and right ends of the drawing, including its labels."""
    places = [0.0, layout.width]
    for edge, route in zip(shape.edges, layout.routes, strict=True):
        if edge.data:
            points = route or loop_points(layout.boxes[edge.source], shape.nodes[edge.source].name)
            x, half = label_place(points)[0], len(edge.data) * CHARACTER / 2
            places += [x - half, x + half]
    return min(places), max(places)


def svg(shape: GraphShape) -> str:
    """Make an SVG document of a drawing: conditional edges are dashed and labelled."""
    layout = laid_out(shape)
    left, right = sides(shape, layout)
    width, height = right - left + 2 * MARGIN, layout.height + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="{left - MARGIN:g} {-MARGIN:g} {width:g} {height:g}" '
        f'font-family="sans-serif" font-size="{FONT}">'
    )
    return "\n".join([head, ARROW, *_edges(shape, layout), *_nodes(shape, layout), "</svg>", ""])


def _edges(shape: GraphShape, layout: Layout) -> Iterator[str]:
    for edge, route in zip(shape.edges, layout.routes, strict=True):
        points = route or loop_points(layout.boxes[edge.source], shape.nodes[edge.source].name)
        dash = ' stroke-dasharray="4 4"' if edge.conditional else ""
        yield (
            f'<path d="{_path(points)}" fill="none" stroke="{LINE}"{dash} marker-end="url(#end)"/>'
        )
        if edge.data:
            x, y = label_place(points)
            yield (
                f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="{LINE}" stroke="white" '
                f'stroke-width="4" paint-order="stroke">{escape(edge.data)}</text>'
            )


def _nodes(shape: GraphShape, layout: Layout) -> Iterator[str]:
    first, last = shape.first_node(), shape.last_node()
    for node in shape.nodes.values():
        box, width = layout.boxes[node.id], node_width(node.name)
        ends = node in (first, last)
        fill = LAST_FILL if node == last else "white" if ends else FILL
        yield (
            f'<rect x="{box.x - width / 2:g}" y="{box.y - box.height / 2:g}" width="{width:g}" '
            f'height="{box.height:g}" rx="{box.height / 2 if ends else 5:g}" fill="{fill}" '
            f'stroke="#9370db">{_title(node.metadata)}</rect>'
        )
        yield (
            f'<text x="{box.x:g}" y="{box.y + FONT * 0.35:g}" text-anchor="middle" '
            f'fill="{LINE}">{escape(node.name)}</text>'
        )


def _title(metadata: dict[str, object] | None) -> str:
    """The node's metadata as its tooltip."""
    notes = [f"{k} = {v}" for k, v in (metadata or {}).items() if isinstance(v, str | int | float)]
    return f"<title>{escape(', '.join(notes))}</title>" if notes else ""


def loop_points(box: Box, name: str) -> tuple[Point, ...]:
    """Compute the points of an edge from a node to itself: out at the right, down, and in."""
    right = box.x + node_width(name) / 2
    far = right + LOOP * 0.7
    high, low = box.y - box.height / 4, box.y + box.height / 4
    return ((right, high), (far, high), (far, low), (right, low))


def label_place(points: Sequence[Point]) -> Point:
    """Compute the place of an edge's label: the middle of its middle part, or its middle point."""
    middle = len(points) // 2
    if len(points) % 2:
        return points[middle]
    (ax, ay), (bx, by) = points[middle - 1], points[middle]
    return (ax + bx) / 2, (ay + by) / 2


def _path(points: Sequence[Point]) -> str:
    """Draw straight lines where possible, else curves that leave and reach points vertically."""
    text = f"M{points[0][0]:g} {points[0][1]:g}"
    for (ax, ay), (bx, by) in pairwise(points):
        if ax == bx or ay == by:
            text += f"L{bx:g} {by:g}"
        else:
            middle = (ay + by) / 2
            text += f"C{ax:g} {middle:g} {bx:g} {middle:g} {bx:g} {by:g}"
    return text
