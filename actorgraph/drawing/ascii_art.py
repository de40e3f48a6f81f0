"""A graph as plain characters: boxes, and lines between them.

Edges are lines of `|-`, conditional ones of `:.`, with `v` and `^` at their ends. Between two rows
of boxes each edge that turns has a line of text of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actorgraph.drawing.layout import Layout, place
from actorgraph.drawing.shape import GraphShape

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
