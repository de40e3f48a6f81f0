"""Layout of a drawing: nodes in rows from the start down, edges through the gaps between.

The four steps of layered drawing (Sugiyama), in their simplest form: reverse edges that lead
back, give each node a row, order each row by the positions of its neighbours, and give each node a
column. An edge over several rows passes a point in each, so that it crosses no node. Sizes and
positions are in the caller's units.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from actorgraph.drawing.shape import GraphShape

SWEEPS = 8
"""Rounds of ordering rows; in readable drawings more rounds change nothing."""


PORTS = 0.7
"""The part of a box's side at which edges may end."""
SPACE_MAX = 20.0
"""The largest distance between the ends of two edges on one side of a box."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node's place: its middle (x, y) and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of nodes and edges.

    Attributes:
        boxes: node -> its place.
        routes: for each edge of the drawing, in its order, the points that it passes from
            source to target; its ends are on the rims of the boxes. An edge from a node to itself
            has none: it is drawn as a loop at the right side.
        width: of the whole drawing.
        height: of the whole drawing.
        labels: number of an edge -> the place of its label; its route passes the middle.
        rows: the upper and lower end of each row.
    """

    boxes: dict[str, Box]
    routes: list[tuple[tuple[float, float], ...]]
    width: float
    height: float
    labels: dict[int, Box] = field(default_factory=dict[int, Box])
    rows: tuple[tuple[float, float], ...] = ()


@dataclass(slots=True)
class _Grid:
    """Rows of keys (nodes, and points of long edges), and the neighbours above and below each."""

    rows: list[list[str]]
    above: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    below: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    chains: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    labels: dict[str, int] = field(default_factory=dict[str, int])


def place(
    shape: GraphShape,
    sizes: Mapping[str, tuple[float, float]],
    *,
    gap: tuple[float, float],
    labels: Mapping[int, tuple[float, float]] = MappingProxyType({}),
    room: Mapping[str, float] = MappingProxyType({}),
) -> Layout:
    """Lay out a drawing.

    Args:
        sizes: node -> its width and height.
        gap: free space between neighbours in a row, and between rows.
        labels: number of an edge -> the width and height of its label, which gets a row.
        room: node -> width that is kept free at each side of it.
    """
    grid = _grid(shape, labels)
    _order(grid)
    sizes = {**sizes, **{key: labels[number] for key, number in grid.labels.items()}}
    widths = {
        key: sizes[key][0] + 2 * room.get(key, 0.0) if key in sizes else 0.0
        for row in grid.rows
        for key in row
    }
    xs = _columns(grid, widths, gap[0])
    left = min((xs[key] - widths[key] / 2 for key in xs), default=0.0)
    ys = list(_heights(grid, sizes, gap[1]))
    boxes: dict[str, Box] = {}
    placed: dict[int, Box] = {}
    points: dict[str, tuple[float, float]] = {}
    ends: list[tuple[float, float]] = []
    for row, y in zip(grid.rows, ys, strict=True):
        half = max((sizes[key][1] / 2 for key in row if key in sizes), default=0.0)
        ends.append((y - half, y + half))
        for key in row:
            points[key] = (xs[key] - left, y)
            if key in grid.labels:
                placed[grid.labels[key]] = Box(xs[key] - left, y, *sizes[key])
            elif key in sizes:
                boxes[key] = Box(xs[key] - left, y, *sizes[key])
    routes = _routes(grid.chains, boxes, points)
    width = max((points[key][0] + widths[key] / 2 for key in points), default=0.0)
    height = max((box.y + box.height / 2 for box in boxes.values()), default=0.0)
    return Layout(boxes, routes, width, height, placed, tuple(ends))


def _grid(shape: GraphShape, labels: Mapping[int, tuple[float, float]]) -> _Grid:
    forward = _turned(shape)
    ranks = _ranks(list(shape.nodes), forward, labels)
    grid = _Grid([[] for _ in range(max(ranks.values(), default=-1) + 1)])
    for name in shape.nodes:
        grid.rows[ranks[name]].append(name)
    for number, (edge, turned) in enumerate(zip(shape.edges, forward, strict=True)):
        if turned is None:
            grid.chains.append(())
            continue
        top, bottom = turned
        between = [f"{number}\0{rank}" for rank in range(ranks[top] + 1, ranks[bottom])]
        for rank, key in enumerate(between, ranks[top] + 1):
            grid.rows[rank].append(key)
        if number in labels:
            grid.labels[between[len(between) // 2]] = number
        chain = [top, *between, bottom]
        for one, other in pairwise(chain):
            grid.below.setdefault(one, []).append(other)
            grid.above.setdefault(other, []).append(one)
        grid.chains.append(tuple(chain if edge.source == top else reversed(chain)))
    return grid


def _turned(shape: GraphShape) -> list[tuple[str, str] | None]:
    """Make each edge (upper, lower): those that lead back are reversed; None for loops."""
    targets: dict[str, list[str]] = {}
    for edge in shape.edges:
        targets.setdefault(edge.source, []).append(edge.target)
    back: set[tuple[str, str]] = set()
    done: set[str] = set()
    for root in shape.nodes:
        path = [(root, iter(targets.get(root, ())))] if root not in done else []
        open_nodes = {root}
        while path:
            node, rest = path[-1]
            target = next(rest, None)
            if target is None:
                path.pop()
                open_nodes.discard(node)
                done.add(node)
            elif target in open_nodes:
                back.add((node, target))
            elif target not in done:
                open_nodes.add(target)
                path.append((target, iter(targets.get(target, ()))))
    pairs = [(edge.source, edge.target) for edge in shape.edges]
    return [None if a == b else (b, a) if (a, b) in back else (a, b) for a, b in pairs]


def _ranks(
    names: Sequence[str],
    edges: Sequence[tuple[str, str] | None],
    labels: Container[int],
) -> dict[str, int]:
    """Compute the row of each node: below the lowest of those above it.

    An edge with a label has a row between its ends. Of the nodes to which no edge leads only the
    first is in the top row: the others can't be reached, and belong near the nodes below them.
    """
    below: dict[str, list[tuple[str, int]]] = {}
    waiting = dict.fromkeys(names, 0)
    for number, edge in enumerate(edges):
        if edge is not None:
            below.setdefault(edge[0], []).append((edge[1], 2 if number in labels else 1))
            waiting[edge[1]] += 1
    roots = [name for name in names if not waiting[name]]
    ranks = {name: int(name in roots[1:]) for name in names}
    ready = list(roots)
    while ready:
        name = ready.pop()
        for target, length in below.get(name, ()):
            ranks[target] = max(ranks[target], ranks[name] + length)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for name in roots[1:]:
        nearest = min((ranks[t] - length for t, length in below.get(name, ())), default=1)
        ranks[name] = max(ranks[name], nearest)
    return ranks


def _order(grid: _Grid) -> None:
    """Order rows by the positions of neighbours: down and up, a few times."""
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = grid.above if down else grid.below
        for row in grid.rows if down else reversed(grid.rows):
            place_of = {key: number for other in grid.rows for number, key in enumerate(other)}
            row.sort(key=lambda key: _mean(key, neighbours, place_of))


def _mean(key: str, neighbours: Mapping[str, Sequence[str]], places: Mapping[str, float]) -> float:
    near = [places[other] for other in neighbours.get(key, ())]
    return sum(near) / len(near) if near else places[key]


def _columns(grid: _Grid, widths: Mapping[str, float], gap: float) -> dict[str, float]:
    """Compute the middle of each key: as near to its neighbours as its row allows."""
    xs: dict[str, float] = {}
    for row in grid.rows:
        x = 0.0
        for key in row:
            xs[key] = x + widths[key] / 2
            x += widths[key] + gap
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = grid.above if down else grid.below
        for row in grid.rows if down else reversed(grid.rows):
            wanted = [_mean(key, neighbours, xs) for key in row]
            xs.update(zip(row, _apart(row, wanted, widths, gap), strict=True))
    return xs


def _apart(
    row: Sequence[str], wanted: Sequence[float], widths: Mapping[str, float], gap: float
) -> list[float]:
    """Move keys apart in this order: the mean of pushing right and pushing left."""
    need = [(widths[a] + widths[b]) / 2 + gap for a, b in pairwise(row)]
    right = list(wanted)
    for i, space in enumerate(need, 1):
        right[i] = max(right[i], right[i - 1] + space)
    left = list(wanted)
    for i in range(len(need) - 1, -1, -1):
        left[i] = min(left[i], left[i + 1] - need[i])
    return [(a + b) / 2 for a, b in zip(left, right, strict=True)]


def _heights(grid: _Grid, sizes: Mapping[str, tuple[float, float]], gap: float) -> Iterator[float]:
    y = 0.0
    for row in grid.rows:
        height = max((sizes[key][1] for key in row if key in sizes), default=0.0)
        yield y + height / 2
        y += height + gap


def _routes(
    chains: Sequence[tuple[str, ...]],
    boxes: Mapping[str, Box],
    points: Mapping[str, tuple[float, float]],
) -> list[tuple[tuple[float, float], ...]]:
    """Compute the points of each edge; edges at one side of a box are side by side."""
    routes = [[points[key] for key in chain] for chain in chains]
    sides: dict[tuple[str, int], list[tuple[float, int, int, int]]] = {}
    for number, chain in enumerate(chains):
        if chain:
            down = 1 if boxes[chain[-1]].y > boxes[chain[0]].y else -1
            for end, near, side in ((0, 1, down), (-1, -2, -down)):
                user = (points[chain[near]][0], -down, number, end)
                sides.setdefault((chain[end], side), []).append(user)
    for (name, side), users in sides.items():
        box = boxes[name]
        space = min(box.width * PORTS / len(users), SPACE_MAX)
        for place, (*_, number, end) in enumerate(sorted(users)):
            x = box.x + (place - (len(users) - 1) / 2) * space
            routes[number][end] = (x, box.y + side * box.height / 2)
    return [tuple(route) for route in routes]
