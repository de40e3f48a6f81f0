"""A picture of a graph: places of nodes, frames, edges and labels, in SVG units.

A subgraph that is opened gets a frame with its name. Its nodes are laid out on their own, and the
frame is one box of the drawing around it, so that no other node is inside. An edge that enters or
leaves a subgraph goes on from the frame to the node inside.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from actorgraph.drawing.layout import Box, place
from actorgraph.drawing.shape import DrawnEdge, DrawnNode, GraphShape
from actorgraph.drawing.wrapping import wrapped
from actorgraph.values.constants import END, START

FONT = 14
"""Height of characters, in SVG units."""
NOTE_FONT = 11
CHARACTER = 8.0
NODE_HEIGHT = 36.0
NOTE_HEIGHT = 14.0
LABEL_HEIGHT = 20.0
MARGIN = 12.0
LOOP = 28.0
"""Room beside a node for an edge to itself, without its label."""
GAP = (36.0, 40.0)
FRAME = 16.0
"""Free space inside a frame."""
TITLE = 22.0
"""Height of a frame's title."""
NAME_MAX = 40
"""Characters of a name that are shown; the tooltip has all."""
NOTE_MAX = 44
NODES_MAX = 300
EDGES_MAX = 1500
"""Graphs with more nodes or edges than these are listed: their lines could not be followed."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Picture:
    """The places of everything that is drawn; the upper left corner is (0, 0).

    Attributes:
        boxes: node -> its place.
        frames: path of an opened subgraph -> the place of its frame, outer ones first.
        routes: the points of each edge, in the order of the drawing.
        labels: number of an edge -> the place of its label.
        width: of the picture.
        height: of the picture.
    """

    boxes: dict[str, Box] = field(default_factory=dict[str, Box])
    frames: dict[str, Box] = field(default_factory=dict[str, Box])
    routes: dict[int, tuple[Point, ...]] = field(default_factory=dict[int, tuple[Point, ...]])
    labels: dict[int, Box] = field(default_factory=dict[int, Box])
    width: float = 0.0
    height: float = 0.0


def is_too_large(shape: GraphShape) -> bool:
    """Whether a graph is listed instead of drawn."""
    return len(shape.nodes) > NODES_MAX or len(shape.edges) > EDGES_MAX


def picture_of(shape: GraphShape) -> Picture:
    """Lay out a picture."""
    return _arranged(shape, "")


def text_width(text: str, character: float = CHARACTER) -> float:
    """Estimate the width of text; characters of East Asian scripts are wide."""
    wide = sum(unicodedata.east_asian_width(mark) in "WF" for mark in text)
    return (len(text) + 0.75 * wide) * character


def cut(text: str, most: int) -> str:
    """Cut text to so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def notes_of(node: DrawnNode) -> list[str]:
    """List the lines below a node's name: that it is deferred, its breakpoints, its tools."""
    metadata = node.metadata or {}
    found: list[str] = []
    if metadata.get("defer") is True:
        found.append("deferred")
    if pauses := metadata.get("__interrupt"):
        found.append(f"pauses {str(pauses).replace(',', ' and ')}")
    tools = metadata.get("__tools")
    if isinstance(tools, list | tuple):
        found.append(f"tools: {', '.join(map(str, tools))}")
    return [cut(note, NOTE_MAX) for note in found]


def is_start(node: DrawnNode, shape: GraphShape) -> bool:
    """Whether a node has the shape of a start: the start itself, or else the only first node."""
    return node.name == START or (START not in shape.nodes and node == shape.first_node())


def is_end(node: DrawnNode, shape: GraphShape) -> bool:
    """Whether a node has the shape of an end: the end itself, or else the only last node."""
    return node.name == END or (END not in shape.nodes and node == shape.last_node())


def node_size(node: DrawnNode) -> tuple[float, float]:
    """Compute the width and height of a node's box."""
    notes = notes_of(node)
    widths = [text_width(note, CHARACTER * NOTE_FONT / FONT) for note in notes]
    width = max([text_width(cut(node.name, NAME_MAX)), *widths]) + 28
    return width, NODE_HEIGHT + NOTE_HEIGHT * len(notes)


def label_size(text: str) -> tuple[float, float]:
    """Compute the width and height of an edge's label."""
    return text_width(cut(text, NAME_MAX)) + 8, LABEL_HEIGHT


def _arranged(shape: GraphShape, prefix: str) -> Picture:
    """Lay out the nodes below a path, those of opened subgraphs inside of their frames."""
    level = _Level(shape, prefix)
    laid = place(
        GraphShape(level.nodes, level.edges),
        {name: level.size(name) for name in level.nodes},
        gap=GAP,
        labels={
            k: label_size(e.data)
            for k, e in enumerate(level.edges)
            if e.data and e.source != e.target
        },
        room=level.loops(),
    )
    laid = wrapped(replace(laid, routes=[_upright(route, laid.rows) for route in laid.routes]))
    made = Picture(width=laid.width, height=laid.height)
    for name, box in laid.boxes.items():
        if name in level.insides:
            made.frames[name] = box
            _put_inside(made, level.insides[name], box)
        else:
            made.boxes[name] = box
    for k, (number, edge) in enumerate(zip(level.numbers, level.edges, strict=True)):
        if edge.source == edge.target:
            made.routes[number] = loop_points(made.boxes[edge.source])
            if edge.data:
                made.labels[number] = _loop_label(made.boxes[edge.source], edge.data)
            continue
        made.routes[number] = tuple(_inwards(laid.routes[k], shape.edges[number], edge, made))
        if k in laid.labels:
            made.labels[number] = laid.labels[k]
    return made


class _Level:
    """The nodes and edges directly below a path; an opened subgraph is one node.

    Attributes:
        nodes: by id, subgraphs by path.
        insides: subgraph -> its picture.
        edges: between these nodes.
        numbers: their numbers among the edges of the whole drawing.
    """

    def __init__(self, shape: GraphShape, prefix: str) -> None:
        self._shape = shape
        self.nodes: dict[str, DrawnNode] = {}
        self.insides: dict[str, Picture] = {}
        self.numbers: list[int] = []
        self.edges: list[DrawnEdge] = []
        for node in shape.nodes.values():
            name = _at(node.id, prefix)
            if name is not None:
                self.nodes[name] = DrawnNode(name, name.rpartition(":")[2])
                if name != node.id and name not in self.insides:
                    self.insides[name] = _arranged(shape, name)
        for number, edge in enumerate(shape.edges):
            source, target = _at(edge.source, prefix), _at(edge.target, prefix)
            inside = source == target and source in self.insides
            if source is not None and target is not None and not inside:
                self.numbers.append(number)
                self.edges.append(edge._replace(source=source, target=target))

    def loops(self) -> dict[str, float]:
        """Compute the room that nodes need beside them, for edges to themselves."""
        room: dict[str, float] = {}
        for edge in self.edges:
            if edge.source == edge.target:
                label = label_size(edge.data)[0] if edge.data else 0.0
                room[edge.source] = max(room.get(edge.source, 0.0), LOOP + label)
        return room

    def size(self, name: str) -> tuple[float, float]:
        """Compute the size of a node or frame."""
        inside = self.insides.get(name)
        return node_size(self._shape.nodes[name]) if inside is None else _frame_size(inside, name)


def _upright(route: tuple[Point, ...], rows: Sequence[tuple[float, float]]) -> tuple[Point, ...]:
    """Lead an edge straight through the rows that it passes, so that it bends between rows only."""
    points = list(route[:1])
    down = bool(route) and route[0][1] < route[-1][1]
    for x, y in route[1:-1]:
        ends = next((row for row in rows if row[0] <= y <= row[1]), (y, y))
        points += [(x, end) for end in (ends if down else ends[::-1])]
    return (*points, *route[1:][-1:])


def _at(name: str, prefix: str) -> str | None:
    """Find the node, or the subgraph directly below `prefix`, that a node belongs to."""
    start = f"{prefix}:" if prefix else ""
    if not name.startswith(start):
        return None
    return start + name[len(start) :].split(":", 1)[0]


def _frame_size(inside: Picture, name: str) -> tuple[float, float]:
    title = text_width(cut(name.rpartition(":")[2], NAME_MAX)) + 2 * FRAME
    return max(inside.width + 2 * FRAME, title), inside.height + 2 * FRAME + TITLE


def _put_inside(made: Picture, inside: Picture, frame: Box) -> None:
    """Add a subgraph's picture to that of the graph around it."""
    dx = frame.x - inside.width / 2
    dy = frame.y - frame.height / 2 + TITLE + FRAME
    for mine, theirs in ((made.boxes, inside.boxes), (made.frames, inside.frames)):
        mine.update({n: replace(b, x=b.x + dx, y=b.y + dy) for n, b in theirs.items()})
    made.labels.update({n: replace(b, x=b.x + dx, y=b.y + dy) for n, b in inside.labels.items()})
    made.routes.update(
        {n: tuple((x + dx, y + dy) for x, y in route) for n, route in inside.routes.items()}
    )


def _inwards(
    route: tuple[Point, ...], edge: DrawnEdge, outside: DrawnEdge, made: Picture
) -> Iterator[Point]:
    """Yield the points of an edge, from and to the nodes inside of frames.

    An edge that leads upwards ends at the frame: the node is at the other end of the subgraph.
    """
    down = route[0][1] < route[-1][1]
    if down and edge.source != outside.source:
        yield _rim(made.boxes[edge.source], route[0][0], 1)
    yield from route
    if down and edge.target != outside.target:
        yield _rim(made.boxes[edge.target], route[-1][0], -1)


def _rim(box: Box, x: float, side: int) -> Point:
    """Find the point of a box's upper (-1) or lower (1) side that is nearest to a column."""
    reach = box.width * 0.35
    return min(max(x, box.x - reach), box.x + reach), box.y + side * box.height / 2


def loop_points(box: Box) -> tuple[Point, ...]:
    """Compute the points of an edge from a node to itself: out at the right, down, and in."""
    right = box.x + box.width / 2
    far = right + LOOP * 0.7
    high, low = box.y - box.height / 4, box.y + box.height / 4
    return ((right, high), (far, high), (far, low), (right, low))


def _loop_label(box: Box, text: str) -> Box:
    """Place the label of a loop at its right."""
    width, height = label_size(text)
    return Box(box.x + box.width / 2 + LOOP * 0.7 + 2 + width / 2, box.y, width, height)


def list_lines(shape: GraphShape) -> list[tuple[str, str]]:
    """List a large graph: a node, and the nodes to which edges lead from it."""
    targets: Mapping[str, list[str]] = {name: [] for name in shape.nodes}
    for edge in shape.edges:
        targets[edge.source].append(edge.target)
    lines: list[tuple[str, str]] = []
    for name, found in targets.items():
        shown = ", ".join(found[:8])
        more = f" and {len(found) - 8} more" if len(found) > 8 else ""
        arrow = f" \u2192 {shown}{more}" if found else ""
        lines.append((name, cut(f"{name}{arrow}", 160)))
    return lines
