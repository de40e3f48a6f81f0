"""Drawings as text: plain characters (`ascii_art`) and Mermaid (`mermaid`).

Plain characters: boxes, lines of `|-` for edges, `:.` for conditional ones, `v` and `^` at their
ends. Between two rows of boxes each edge that turns has a line of text of its own.

Mermaid is line for line the text that LangGraph writes for the same graph.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from actorgraph.drawing.layout import Layout, place
from actorgraph.drawing.shape import DrawnEdge, DrawnNode, GraphShape

LOOP = 4
GAP = (4.0, 1.0)
ROWS = 3


@dataclass(slots=True)
class _Piece:
    """The part of an edge between two neighbouring rows of boxes.

    Attributes:
        top, bottom: columns at its upper and lower end.
        arrives: "v" or "^" if the edge ends here, at the lower or the upper end.
        lane: which of the lines between the rows it turns in; -1 for a straight one.
    """

    top: int
    bottom: int
    conditional: bool
    arrives: str
    lane: int = -1


def ascii_art(shape: GraphShape) -> str:
    """Draw with plain characters, one line per text line, no spaces at the ends of lines."""
    widths = _widths(shape)
    loops = {e.source: e.conditional for e in shape.edges if e.source == e.target}
    room = {name: width + 2.0 * LOOP * (name in loops) for name, width in widths.items()}
    layout = place(shape, {name: (width, ROWS) for name, width in room.items()}, gap=GAP)
    levels = sorted({box.y for box in layout.boxes.values()})
    gaps = _pieces(shape, layout, levels, widths)
    cells: dict[tuple[int, int], str] = {}
    y = 0
    for level, gap in zip(levels, [*gaps, []], strict=True):
        for name, box in layout.boxes.items():
            if box.y == level:
                label = shape.nodes[name].name
                _box(cells, round(box.x) - widths[name] // 2, y, widths[name], label)
                if name in loops:
                    _loop(
                        cells, round(box.x) + widths[name] // 2 + 1, y, "." if loops[name] else "*"
                    )
        for x, mark in _passing(shape, layout, level):
            cells.update({(x, y + row): mark for row in range(ROWS)})
        y += ROWS
        y += _draw_gap(cells, y, gap)
    return _text(cells)


def _widths(shape: GraphShape) -> dict[str, int]:
    """Odd, so that each box has a middle; wide enough for the edges on one side."""
    busy: dict[str, int] = dict.fromkeys(shape.nodes, 0)
    for edge in shape.edges:
        busy[edge.source] += 1
        busy[edge.target] += 1
    sizes = {n.id: max(len(n.name) + 4, 2 * busy[n.id] + 1) for n in shape.nodes.values()}
    return {name: size + (size + 1) % 2 for name, size in sizes.items()}


def _pieces(
    shape: GraphShape, layout: Layout, levels: Sequence[float], widths: dict[str, int]
) -> list[list[_Piece]]:
    """Collect, for each space between two rows, the pieces of edges that cross it."""
    gaps: list[list[_Piece]] = [[] for _ in levels[1:]]
    ports: dict[tuple[str, str], list[tuple[float, int, _Piece]]] = {}
    for edge, route in zip(shape.edges, layout.routes, strict=True):
        stops = [
            layout.boxes[edge.source].x,
            *(x for x, _ in route[1:-1]),
            layout.boxes[edge.target].x,
        ]
        if not route:
            continue
        first = levels.index(layout.boxes[edge.source].y)
        step = 1 if layout.boxes[edge.target].y > levels[first] else -1
        for number in range(len(stops) - 1):
            row, last = first + step * number, number == len(stops) - 2
            upper, lower = (round(stops[number]), round(stops[number + 1]))[::step]
            arrives = ("v" if step > 0 else "^") if last else ""
            piece = _Piece(upper, lower, edge.conditional, arrives)
            gaps[min(row, row + step)].append(piece)
            sides = ("bottom", "top")[::step]
            if number == 0:
                place_of = (edge.source, sides[0])
                ports.setdefault(place_of, []).append((stops[1], -step, piece))
            if last:
                place_of = (edge.target, sides[1])
                ports.setdefault(place_of, []).append((stops[-2], -step, piece))
    for (name, side), users in ports.items():
        _spread(round(layout.boxes[name].x), widths[name], side, users)
    for gap in gaps:
        _lanes(gap)
    return gaps


def _spread(middle: int, width: int, side: str, users: list[tuple[float, int, _Piece]]) -> None:
    """Give each edge on one side of a box its own column, in the order of their far ends."""
    users.sort(key=lambda user: user[:2])
    step = max(width // (len(users) + 1), 2)
    start = middle - step * (len(users) - 1) // 2
    for number, (_, _, piece) in enumerate(users):
        column = start + step * number
        if side == "bottom":  # of the box: the upper end of the piece
            piece.top = column
        else:
            piece.bottom = column


def _lanes(gap: Sequence[_Piece]) -> None:
    """Choose the lines in which pieces turn: a piece turns above those that end at its column."""
    waiting = [piece for piece in gap if piece.top != piece.bottom]
    placed: list[_Piece] = []
    while waiting:
        free = [p for p in waiting if not any(o.top == p.bottom for o in waiting)]
        piece = min(free or waiting, key=lambda p: (abs(p.top - p.bottom), p.top))
        waiting.remove(piece)
        lane = max((o.lane + 1 for o in placed if o.top == piece.bottom), default=0)
        while any(o.lane == lane and _touch(o, piece) for o in placed):
            lane += 1
        piece.lane = lane
        placed.append(piece)


def _touch(one: _Piece, other: _Piece) -> bool:
    (a, b), (c, d) = sorted((one.top, one.bottom)), sorted((other.top, other.bottom))
    return a <= d + 1 and c <= b + 1


def _draw_gap(cells: dict[tuple[int, int], str], y: int, gap: list[_Piece]) -> int:
    """Draw one space between rows; returns its height."""
    height = 2 + max((piece.lane + 1 for piece in gap), default=0)
    for piece in gap:  # lines across first, so that upright ones stay whole
        if piece.lane >= 0:
            a, b = sorted((piece.top, piece.bottom))
            mark = "." if piece.conditional else "-"
            cells.update({(x, y + 1 + piece.lane): mark for x in range(a + 1, b)})
    for piece in gap:
        mark = ":" if piece.conditional else "|"
        turn = 1 + piece.lane if piece.lane >= 0 else height
        for row in range(height):
            cells[piece.top if row < turn else piece.bottom, y + row] = mark
        if piece.lane >= 0:
            corner = "." if piece.conditional else "+"
            cells[piece.top, y + turn] = cells[piece.bottom, y + turn] = corner
    for piece in gap:
        if piece.arrives == "v":
            cells[piece.bottom, y + height - 1] = "v"
        elif piece.arrives:
            cells[piece.top, y] = "^"
    return height


def _passing(shape: GraphShape, layout: Layout, level: float) -> Iterable[tuple[int, str]]:
    """Yield (column, character) of each long edge that passes a row of boxes."""
    for edge, route in zip(shape.edges, layout.routes, strict=True):
        for x, y in route[1:-1]:
            if y == level:
                yield round(x), ":" if edge.conditional else "|"


def _box(cells: dict[tuple[int, int], str], x: int, y: int, width: int, name: str) -> None:
    rim = f"+{'-' * (width - 2)}+"
    for row, text in enumerate((rim, f"|{name.center(width - 2)}|", rim)):
        cells.update({(x + column, y + row): mark for column, mark in enumerate(text)})


def _loop(cells: dict[tuple[int, int], str], x: int, y: int, mark: str) -> None:
    for row, text in enumerate((mark * 3, f"  {mark}", f"<{mark}{mark}")):
        cells.update({(x + column, y + row): m for column, m in enumerate(text) if m != " "})


def _text(cells: dict[tuple[int, int], str]) -> str:
    left = min((x for x, _ in cells), default=0)
    rows: dict[int, dict[int, str]] = {}
    for (x, y), mark in cells.items():
        rows.setdefault(y, {})[x - left] = mark
    lines = [rows.get(y, {}) for y in range(max(rows, default=-1) + 1)]
    return "\n".join("".join(r.get(x, " ") for x in range(max(r, default=-1) + 1)) for r in lines)


STYLES = {
    "default": "fill:#f2f0ff,line-height:1.2",
    "first": "fill-opacity:0",
    "last": "fill:#bfb6fc",
}
ESCAPES = {ord(mark): f"#{ord(mark)};" for mark in "#[](){}<>|"} | {ord('"'): "#quot;"}
MARKDOWN = tuple("*_`")
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")


def mermaid(
    shape: GraphShape,
    *,
    with_styles: bool = True,
    curve: str = "linear",
    styles: Mapping[str, str] | None = None,
    wrap_label_n_words: int = 9,
    frontmatter: Mapping[str, Any] | None = None,
) -> str:
    """Make the Mermaid text of a drawing.

    Args:
        with_styles: write the settings, each node's own line, and the classes of nodes.
        curve: Mermaid's name of the curve of edges.
        styles: class ("default", "first", "last") -> CSS; missing classes keep their defaults.
        wrap_label_n_words: words of an edge's label per line.
        frontmatter: settings to write before the graph; `config` is merged with ours.
    """
    lines = ["graph TD;"]
    if with_styles:
        lines = ["---", *_yaml(_settings(frontmatter or {}, curve)), "---", *lines]
    lines += _Text(shape, with_styles=with_styles, words=wrap_label_n_words).cluster("")
    if with_styles:
        classes = STYLES | dict(styles or {})
        lines += [f"\tclassDef {name} {style}" for name, style in classes.items()]
    return "\n".join(lines) + "\n"


class _Text:
    """Makes the lines of a drawing, cluster by cluster; a cluster is an expanded subgraph."""

    def __init__(self, shape: GraphShape, *, with_styles: bool, words: int) -> None:
        self.shape = shape
        self.with_styles = with_styles
        self.words = words
        self.titles: set[str] = set()
        first, last = shape.first_node(), shape.last_node()
        self.classes = {
            **({first.id: "first"} if first else {}),
            **({last.id: "last"} if last else {}),
        }

    def cluster(self, prefix: str) -> Iterator[str]:
        if self.with_styles:
            own = [n for n in self.shape.nodes.values() if _parent(n.id) == prefix]
            yield from map(self.node, own)
        inner: dict[str, DrawnEdge | None] = {}  # in order of appearance: edge to itself, cluster
        for edge in self.shape.edges:
            home = _home(edge)
            if edge.source == edge.target and home == prefix:
                inner[edge.source] = edge
            elif home == prefix:
                yield self.edge(edge)
            elif below := _step(home, prefix):
                inner.setdefault(below, None)
        if self.with_styles:
            for node in self.shape.nodes:
                if below := _step(_parent(node), prefix):
                    inner.setdefault(below, None)
        for name, loop in inner.items():
            yield from [self.edge(loop)] if loop else self.opened(name)

    def opened(self, prefix: str) -> Iterator[str]:
        title = prefix.rsplit(":", 1)[-1]
        # Mermaid identifies clusters by title; a repeated title gets its path as its id.
        head = title if title not in self.titles else f"{safe_id(prefix)} [{_label(title)}]"
        self.titles.add(title)
        yield f"\tsubgraph {head}"
        yield from self.cluster(prefix)
        yield "\tend"

    def node(self, node: DrawnNode) -> str:
        label = _label(node.name)
        if node.name.startswith(MARKDOWN) and node.name.endswith(MARKDOWN):
            label = f"<p>{label}</p>"  # else Mermaid reads it as emphasis
        if notes := [*_notes(node.metadata or {})]:
            label = f"{label}<hr/><small><em>" + "\n".join(notes) + "</em></small>"
        kind = self.classes.get(node.id)
        text = f"([{label}]):::{kind}" if kind else f"({label})"
        return f"\t{safe_id(node.id)}{text}"

    def edge(self, edge: DrawnEdge) -> str:
        source, target = safe_id(edge.source), safe_id(edge.target)
        if edge.data is None:
            return f"\t{source} {'-.->' if edge.conditional else '-->'} {target};"
        words = edge.data.split()
        text = edge.data
        if len(words) > self.words:
            starts = range(0, len(words), self.words)
            text = "&nbsp<br>&nbsp".join(" ".join(words[i : i + self.words]) for i in starts)
        opening, closing = ("-.", ".->") if edge.conditional else ("--", "-->")
        return f"\t{source} {opening} &nbsp;{text}&nbsp; {closing} {target};"


def safe_id(name: str) -> str:
    """Make a Mermaid id of a name: characters except letters, digits and `_-` as hex codes."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "_-") else f"\\{ord(c):x}" for c in name
    )


def _parent(name: str) -> str:
    return name.rpartition(":")[0]


def _home(edge: DrawnEdge) -> str:
    """Find the innermost cluster that holds both ends."""
    shared: list[str] = []
    for one, other in zip(
        _parent(edge.source).split(":"), _parent(edge.target).split(":"), strict=False
    ):
        if one != other:
            break
        shared.append(one)
    return ":".join(shared)


def _step(home: str, prefix: str) -> str | None:
    """Find the cluster one level below `prefix` on the way to `home`."""
    start = f"{prefix}:" if prefix else ""
    if home == prefix or not home.startswith(start):
        return None
    return start + home[len(start) :].split(":", 1)[0]


def _label(text: str) -> str:
    return text.translate(ESCAPES)


def _notes(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line per value that is a scalar, or a list of scalars."""
    scalar = (str, int, float, bool)
    for key, value in metadata.items():
        if isinstance(value, scalar):
            yield _label(f"{key} = {value}")
        elif isinstance(value, list | tuple | set | frozenset):
            items = cast("Sequence[Any]", value)
            if all(isinstance(item, scalar) for item in items):
                texts = [str(item) for item in items]
                many = isinstance(value, set | frozenset)
                yield _label(f"{key} = {', '.join(sorted(texts) if many else texts)}")


def _settings(given: Mapping[str, Any], curve: str) -> dict[str, Any]:
    config = dict(given.get("config", {}))
    return {
        **given,
        "config": config | {"flowchart": {**config.get("flowchart", {}), "curve": curve}},
    }


def _yaml(settings: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield nested settings as lines of YAML; every JSON value is valid YAML."""
    for key in sorted(settings):
        value = settings[key]
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _yaml(cast("Mapping[str, Any]", value), indent + "  ")
        else:
            plain = isinstance(value, str) and PLAIN.fullmatch(value)
            yield f"{indent}{key}: {value if plain else json.dumps(value)}"
