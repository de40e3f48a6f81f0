"""Wrap a tall drawing into columns, as a newspaper does; few edges may cross a cut."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from actorgraph.drawing.layout import Box, Layout

HEIGHT_MAX = 1000.0
"""A drawing that is not higher stays whole."""
TALL = 2.0
"""Height by width from which on a drawing is wrapped."""
GUTTER = 72.0
LANE = 7.0
"""Distance of edges that run beside each other between two columns."""
CROSSING_MAX = 4
"""Edges that may cross a cut: with more of them the lines between columns are hard to follow."""
Point = tuple[float, float]


def wrapped(layout: Layout) -> Layout:
    """Return the layout in columns if it is tall, else the layout itself."""
    if layout.height <= HEIGHT_MAX or layout.height < TALL * (layout.width + GUTTER):
        return layout
    columns = round((layout.height / (layout.width + GUTTER)) ** 0.5)
    cuts = list(_cuts(layout, max(columns, 2)))
    return _Columns(layout, cuts).layout() if cuts else layout


def _cuts(layout: Layout, columns: int) -> Iterator[float]:
    """Yield heights between two rows, near those that make equal columns."""
    rows = layout.rows
    height = layout.height / columns
    spaces = [(below[0] + above[1]) / 2 for above, below in pairwise(rows)]
    for number in range(1, columns):
        ideal = height * number
        near = [y for y in spaces if abs(y - ideal) < height / 3]
        best = min(near, key=lambda y: (_crossing(layout, y), abs(y - ideal)), default=None)
        if best is not None and _crossing(layout, best) <= CROSSING_MAX:
            yield best


def _crossing(layout: Layout, y: float) -> int:
    return sum(
        1
        for route in layout.routes
        for (_, a), (_, b) in pairwise(route)
        if min(a, b) < y < max(a, b)
    )


@dataclass(slots=True)
class _Columns:
    """The columns of a drawing: each begins below a cut of the one before."""

    source: Layout
    cuts: Sequence[float]

    def layout(self) -> Layout:
        whole = self.source
        boxes = {name: self._moved(box) for name, box in whole.boxes.items()}
        labels = {number: self._moved(box) for number, box in whole.labels.items()}
        lanes = [0] * len(self.cuts)
        routes = [tuple(self._route(route, lanes)) for route in whole.routes]
        ends = [y for route in routes for _, y in route]
        ends += [box.y + box.height / 2 for box in boxes.values()]
        width = (whole.width + GUTTER) * len(self.cuts) + whole.width
        return replace(
            whole, boxes=boxes, labels=labels, routes=routes, width=width, height=max(ends), rows=()
        )

    def _column(self, y: float) -> int:
        return sum(cut < y for cut in self.cuts)

    @property
    def _head(self) -> float:
        """Room above the columns, for the edges that come from the column before."""
        return LANE * (CROSSING_MAX + 2)

    def _shift(self, column: int) -> Point:
        whole = self.source
        top = min(row[0] for row in whole.rows if self._column(row[0]) == column)
        return (whole.width + GUTTER) * column, self._head - top

    def _moved(self, box: Box) -> Box:
        dx, dy = self._shift(self._column(box.y))
        return replace(box, x=box.x + dx, y=box.y + dy)

    def _point(self, point: Point) -> Point:
        dx, dy = self._shift(self._column(point[1]))
        return point[0] + dx, point[1] + dy

    def _route(self, route: Sequence[Point], lanes: list[int]) -> Iterator[Point]:
        """Yield the points of an edge; from column to column it runs around their ends."""
        if not route:
            return
        yield self._point(route[0])
        for here, there in pairwise(route):
            left, right = sorted((self._column(here[1]), self._column(there[1])))
            if left != right:
                lane = LANE * (lanes[left] + 1)
                lanes[left] += 1
                yield from self._around(here, there, left, lane)
            yield self._point(there)

    def _around(self, here: Point, there: Point, left: int, lane: float) -> Iterator[Point]:
        whole = self.source
        bottom = max(row[1] for row in whole.rows if self._column(row[1]) == left)
        low = bottom + self._shift(left)[1] + 8 + lane
        high = self._head - 8 - lane
        x = (whole.width + GUTTER) * left + whole.width + GUTTER / 4 + lane
        down = self._column(there[1]) > left
        first, last = (low, high) if down else (high, low)
        yield self._point(here)[0], first
        yield x, first
        yield x, last
        yield self._point(there)[0], last
