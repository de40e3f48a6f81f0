"""DrawableGraph: the result of `get_graph()`, with LangGraph's drawing methods.

Every picture is drawn on this machine; nothing is sent to a service. PNG pictures are drawn by
Pillow (the extra `drawing`), with the same layout as the SVG.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from actorgraph.drawing import svg
from actorgraph.drawing.ascii_art import ascii_art
from actorgraph.drawing.layout import Box
from actorgraph.drawing.mermaid import mermaid
from actorgraph.drawing.picture import (
    CHARACTER,
    Picture,
    cut,
    is_end,
    is_start,
    is_too_large,
    list_lines,
    notes_of,
    picture_of,
)
from actorgraph.drawing.shape import DrawnNode, GraphShape, trimmed
from actorgraph.errors import MissingExtraError

SCALE = 2
SMOOTH = 2
"""Drawn this many times larger, then scaled down: Pillow itself does not anti-alias lines."""
DASH = 5.0
Point = tuple[float, float]


def png_of(
    shape: GraphShape,
    *,
    fontname: str | None = None,
    background: str | None = "white",
    padding: int = 10,
) -> bytes:
    """Draw a PNG picture.

    Args:
        fontname: the file of a TrueType font; default Pillow's own.
        background: a colour; None for a transparent picture.
        padding: free space around the drawing, in pixels.
    Raises:
        MissingExtraError: Pillow isn't installed.
    """
    return _PngPicture(shape, padding).drawn(fontname, background)


class _PngPicture:
    """One picture being drawn. Pixels are lengths of the layout times `zoom`."""

    def __init__(self, shape: GraphShape, padding: int) -> None:
        self.shape = shape
        self.lines = list_lines(shape) if is_too_large(shape) else None
        self.picture = Picture() if self.lines is not None else picture_of(shape)
        self.zoom = SMOOTH if self.lines is not None else SCALE * SMOOTH
        self.margin = padding / SCALE

    def drawn(self, fontname: str | None, background: str | None) -> bytes:
        try:
            image, draw = import_module("PIL.Image"), import_module("PIL.ImageDraw")
            font = import_module("PIL.ImageFont")
        except ImportError as error:
            raise MissingExtraError(
                "draw_png() needs Pillow, which isn't installed",
                do="pip install 'actorgraph[drawing]', or use draw_svg(), which needs nothing",
            ) from error
        self.font, self.small = (
            font.truetype(fontname, size) if fontname else font.load_default(size)
            for size in (svg.FONT * self.zoom, svg.NOTE_FONT * self.zoom)
        )
        sides = (self.picture.width, self.picture.height)
        if self.lines is not None:
            wide = max((len(line) for _, line in self.lines), default=0) * CHARACTER
            sides = (wide, svg.LINE_HEIGHT * len(self.lines))
        width, height = (round((side + 2 * self.margin) * self.zoom) for side in sides)
        picture = image.new("RGBA", (width, height), background or (255, 255, 255, 0))
        self.draw = draw.Draw(picture)
        if self.lines is not None:
            for row, (_, line) in enumerate(self.lines):
                self._text((0, svg.LINE_HEIGHT * (row + 0.5)), line, "lm")
        else:
            self._frames()
            self._edges(background)
            self._nodes()
        small = picture.resize((width // SMOOTH, height // SMOOTH), image.Resampling.LANCZOS)
        file = BytesIO()
        small.save(file, "PNG", optimize=True)
        return file.getvalue()

    def _at(self, point: Point) -> Point:
        return (point[0] + self.margin) * self.zoom, (point[1] + self.margin) * self.zoom

    def _corners(self, box: Box) -> list[float]:
        half = (box.width / 2, box.height / 2)
        return [
            *self._at((box.x - half[0], box.y - half[1])),
            *self._at((box.x + half[0], box.y + half[1])),
        ]

    def _text(self, place: Point, text: str, anchor: str = "mm") -> None:
        self.draw.text(self._at(place), text, svg.LINE, self.font, anchor=anchor)

    def _note(self, place: Point, text: str, anchor: str = "mm") -> None:
        self.draw.text(self._at(place), text, svg.NOTE, self.small, anchor=anchor)

    def _frames(self) -> None:
        for name, box in self.picture.frames.items():
            rounded = (8 * self.zoom, svg.FRAME_FILL, svg.BORDER, self.zoom)
            self.draw.rounded_rectangle(self._corners(box), *rounded)
            corner = (box.x - box.width / 2 + svg.FRAME, box.y - box.height / 2 + svg.TITLE / 2)
            self._note(corner, cut(name.rpartition(":")[2], svg.NAME_MAX), "lm")

    def _edges(self, background: str | None) -> None:
        for number, edge in enumerate(self.shape.edges):
            points = self.picture.routes[number]
            line = [*_curve(points)]
            for part in _dashes(line) if edge.conditional else [line]:
                self.draw.line([*map(self._at, part)], svg.LINE, self.zoom, joint="curve")
            self._arrow(points[-2], points[-1])
            if edge.data:
                box = self.picture.labels[number]
                if background:
                    colour = svg.FRAME_FILL if svg.is_inside(self.picture, box) else background
                    narrow = Box(box.x, box.y, box.width * 0.85, box.height)
                    self.draw.rectangle(self._corners(narrow), colour)
                self._text((box.x, box.y), cut(edge.data, svg.NAME_MAX))

    def _arrow(self, before: Point, tip: Point) -> None:
        """Draw an arrow head: edges end vertically, loops horizontally."""
        x, y = tip
        if y == before[1]:
            corners = [tip, (x + 8, y - 4), (x + 8, y + 4)]
        else:
            back = y - 8 if y > before[1] else y + 8
            corners = [tip, (x - 4, back), (x + 4, back)]
        self.draw.polygon([*map(self._at, corners)], svg.LINE)

    def _nodes(self) -> None:
        for node in self.shape.nodes.values():
            box, notes = self.picture.boxes[node.id], notes_of(node)
            first, last = is_start(node, self.shape), is_end(node, self.shape)
            fill = svg.LAST_FILL if last else svg.FIRST_FILL if first else svg.FILL
            radius = (box.height / 2 if first or last else 5) * self.zoom
            self.draw.rounded_rectangle(self._corners(box), radius, fill, svg.BORDER, self.zoom)
            y = box.y - svg.NOTE_HEIGHT * len(notes) / 2
            self._text((box.x, y), cut(node.name, svg.NAME_MAX))
            for place, note in enumerate(notes, 1):
                self._note((box.x, y + svg.NOTE_HEIGHT * place + 2), note)


def _curve(points: Sequence[Point], steps: int = 24) -> Iterator[Point]:
    """Yield points along the Bezier curves of the SVG, which start and end vertically."""
    for (ax, ay), (bx, by) in pairwise(points):
        middle = (ay + by) / 2
        for step in range(steps + 1):
            t = step / steps
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
            straight = ax == bx or ay == by
            x = ax + (bx - ax) * t if straight else a * ax + b * ax + c * bx + d * bx
            y = ay + (by - ay) * t if straight else a * ay + b * middle + c * middle + d * by
            yield x, y


def _dashes(line: Sequence[Point]) -> Iterator[list[Point]]:
    """Yield the drawn parts of a dashed line."""
    gone, part = 0.0, list[Point]()
    for (ax, ay), (bx, by) in pairwise(line):
        length = ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5
        pieces = max(round(length), 1)
        for piece in range(pieces):
            if (gone // DASH) % 2 == 0:
                t = piece / pieces
                part.append((ax + (bx - ax) * t, ay + (by - ay) * t))
            elif part:
                yield part
                part = []
            gone += length / pieces
    if len(part) > 1:
        yield part


class DrawableGraph(GraphShape):
    """A graph as a drawing, which a notebook shows as a picture.

    LangChain can take it as a part of its own drawings, of chains with the graph.

    Attributes:
        nodes: by id.
        edges: a list.
    """

    def draw_mermaid(
        self,
        *,
        with_styles: bool = True,
        curve_style: Any = "linear",
        node_colors: Any = None,
        wrap_label_n_words: int = 9,
        frontmatter_config: Mapping[str, Any] | None = None,
    ) -> str:
        """Return Mermaid text, for Markdown pages and Mermaid's own tools.

        Args:
            with_styles: include settings, one line per node, and style classes; default True.
            curve_style: Mermaid's curve of edges: "linear", "basis", ..., or an enum of these.
            node_colors: CSS per class, as a mapping or an object with the keys "default",
                "first" and "last".
            wrap_label_n_words: words per line of an edge's label.
            frontmatter_config: Mermaid settings, merged over the built-in ones.
        """
        return mermaid(
            self,
            with_styles=with_styles,
            curve=str(getattr(curve_style, "value", curve_style)),
            styles=_styles(node_colors),
            wrap_label_n_words=wrap_label_n_words,
            frontmatter=frontmatter_config,
        )

    def draw_ascii(self) -> str:
        """Return the drawing as text, for terminals and tests."""
        return ascii_art(self)

    def print_ascii(self) -> None:
        """Print `draw_ascii()`."""
        print(self.draw_ascii())  # noqa: T201 - its purpose

    def draw_svg(self, *, style: bool = True) -> str:
        """Return the drawing as an SVG document; it needs no other package.

        Nodes have `data-node` and can be focused, edges have `data-source` and `data-target`.
        Graphs with more than 300 nodes or 1,500 edges are listed instead.

        Args:
            style: whether the document has a style sheet, by which dark pages get a dark drawing;
                False for pages whose Content-Security-Policy allows none.
        """
        return svg.svg(self, style=style)

    def draw_png(
        self, output_file_path: str | Path | None = None, fontname: str | None = None
    ) -> bytes:
        """Return the drawing as a PNG picture, two pixels per unit of `draw_svg()`.

        Needs the extra `drawing` (Pillow).

        Args:
            output_file_path: a file to write the picture to as well.
            fontname: the file of a TrueType font, for scripts that Pillow's own font lacks.
        Raises:
            MissingExtraError: Pillow isn't installed.
        """
        return _written(png_of(self, fontname=fontname), output_file_path)

    def draw_mermaid_png(
        self,
        *,
        output_file_path: str | Path | None = None,
        background_color: str | None = "white",
        padding: int = 10,
        **options: object,
    ) -> bytes:
        """Return the drawing as a PNG picture, with the name and arguments of LangGraph.

        Args:
            output_file_path: a file to write the picture to as well.
            background_color: a colour's name or "#rrggbb"; None for a transparent picture.
            padding: free space around the drawing, in pixels.
            options: ignored; LangGraph's settings of its web service.
        Raises:
            MissingExtraError: Pillow isn't installed.
        """
        picture = png_of(self, background=background_color, padding=padding)
        return _written(picture, output_file_path)

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def trim_first_node(self) -> None:
        """Remove the first node if one edge leaves it and another node takes its place."""
        self._trim(self.first_node(), ends=False)

    def trim_last_node(self) -> None:
        """Remove the last node if one edge leads to it and another node takes its place."""
        self._trim(self.last_node(), ends=True)

    def _trim(self, node: DrawnNode | None, *, ends: bool) -> None:
        if node is not None and (left := trimmed(self, node.id, ends=ends)) is not self:
            del self.nodes[node.id]
            self.edges[:] = left.edges

    def _repr_svg_(self) -> str:
        return self.draw_svg()


def _written(picture: bytes, path: str | Path | None) -> bytes:
    if path is not None:
        Path(path).write_bytes(picture)
    return picture


def _styles(colors: Any) -> dict[str, str]:
    if colors is None or isinstance(colors, Mapping):
        return dict(colors or {})
    return {key: getattr(colors, key) for key in ("default", "first", "last")}
