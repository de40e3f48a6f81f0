"""A drawing as an SVG document: text and curves, no scripts, no fonts to load.

Each node is a `<g class="ag-node" data-node="...">` that can be focused, each edge a
`<g class="ag-edge" data-source="..." data-target="...">`, each opened subgraph a
`<g class="ag-frame" data-node="...">`.
Colours are attributes, which any renderer reads. A style sheet in the document sets them from the
CSS variables `--ag-...`, with dark values for dark pages; a page may set its own.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from actorgraph.drawing.layout import Box
from actorgraph.drawing.picture import (
    FONT,
    FRAME,
    MARGIN,
    NAME_MAX,
    NOTE_FONT,
    NOTE_HEIGHT,
    TITLE,
    Picture,
    Point,
    cut,
    is_end,
    is_start,
    is_too_large,
    list_lines,
    notes_of,
    picture_of,
)
from actorgraph.drawing.shape import DrawnNode, GraphShape

FILL, LAST_FILL, FIRST_FILL, LINE = "#f2f0ff", "#bfb6fc", "#ffffff", "#333333"
BORDER, FRAME_FILL, NOTE, BACKGROUND = "#9370db", "#faf9ff", "#66606f", "#ffffff"
LIGHT = {
    "fill": FILL,
    "last": LAST_FILL,
    "first": FIRST_FILL,
    "line": LINE,
    "text": LINE,
    "note": NOTE,
    "border": BORDER,
    "frame": FRAME_FILL,
    "background": BACKGROUND,
}
DARK = {
    "fill": "#2b2640",
    "last": "#4b3f86",
    "first": "#1b1a20",
    "line": "#b9b4c7",
    "text": "#ece9f5",
    "note": "#a9a3b8",
    "border": "#8f7ad6",
    "frame": "#211f2b",
    "background": "#1b1a20",
}
_RULES = """
.ag-back{fill:var(--ag-background)}
.ag-node>rect{fill:var(--ag-fill);stroke:var(--ag-border)}
.ag-node.ag-first>rect{fill:var(--ag-first)}
.ag-node.ag-last>rect{fill:var(--ag-last)}
.ag-frame>rect{fill:var(--ag-frame);stroke:var(--ag-border)}
.ag-edge>path{stroke:var(--ag-line)}
.ag-edge>rect{fill:var(--ag-background)}
.ag-edge>rect.ag-inside{fill:var(--ag-frame)}
.ag-graph text{fill:var(--ag-text)}
.ag-graph .ag-note{fill:var(--ag-note)}
.ag-arrow{fill:var(--ag-line)}
.ag-node:focus>rect{stroke-width:3}
"""
LINE_HEIGHT = 20


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--ag-{name}:{colour}" for name, colour in colours.items())


STYLE = (
    # `:where` weighs nothing: a page's own values of the variables win.
    f"<style>:where(.ag-graph){{{_variables(LIGHT)}}}\n"
    f"@media (prefers-color-scheme:dark){{:where(.ag-graph){{{_variables(DARK)}}}}}"
    f"{_RULES}</style>"
)
ARROW = (
    '<defs><marker id="ag-end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
    'markerHeight="8" orient="auto"><path class="ag-arrow" d="M0 0L10 5L0 10z" '
    f'fill="{LINE}"/></marker></defs>'
)


def svg(shape: GraphShape, *, style: bool = True) -> str:
    """Make an SVG document of a drawing: conditional edges are dashed and labelled.

    Args:
        style: whether it has a style sheet of its own; a page with a strict Content-Security-Policy
            has one with the same rules instead.
    """
    if is_too_large(shape):
        return _listed(shape, style=style)
    picture = picture_of(shape)
    parts = [*_frames(picture), *_edges(shape, picture), *_nodes(shape, picture)]
    return _document(parts, picture.width, picture.height, style=style)


def _document(parts: Sequence[str], width: float, height: float, *, style: bool) -> str:
    across, down = width + 2 * MARGIN, height + 2 * MARGIN
    place = f'x="{-MARGIN:g}" y="{-MARGIN:g}" width="{across:g}" height="{down:g}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ag-graph" width="{across:g}" '
        f'height="{down:g}" viewBox="{-MARGIN:g} {-MARGIN:g} {across:g} {down:g}" role="group" '
        f'font-family="sans-serif" font-size="{FONT}">'
    )
    back = f'<rect class="ag-back" {place} fill="{BACKGROUND}"/>'
    return "\n".join([head, *([STYLE] if style else []), ARROW, back, *parts, "</svg>", ""])


def _frames(picture: Picture) -> Iterator[str]:
    for name, box in picture.frames.items():
        x, y = box.x - box.width / 2, box.y - box.height / 2
        title = cut(name.rpartition(":")[2], NAME_MAX)
        yield (
            f'<g class="ag-frame" data-node="{escape(name)}"><rect x="{x:g}" y="{y:g}" '
            f'width="{box.width:g}" height="{box.height:g}" rx="8" fill="{FRAME_FILL}" '
            f'stroke="{BORDER}" stroke-dasharray="2 3"/><text class="ag-note" '
            f'x="{x + FRAME:g}" y="{y + TITLE - 4:g}" fill="{NOTE}" font-size="{NOTE_FONT + 1}" '
            f'font-weight="bold">{escape(title)}</text></g>'
        )


def _edges(shape: GraphShape, picture: Picture) -> Iterator[str]:
    for number, edge in enumerate(shape.edges):
        dash = ' stroke-dasharray="4 4"' if edge.conditional else ""
        text = (
            f'<g class="ag-edge{" ag-conditional" if edge.conditional else ""}" '
            f'data-source="{escape(edge.source)}" data-target="{escape(edge.target)}">'
            f'<path d="{_path(picture.routes[number])}" fill="none" stroke="{LINE}"{dash} '
            'marker-end="url(#ag-end)"/>'
        )
        if edge.data:
            text += _label(edge.data, picture.labels[number], picture)
        yield f"{text}</g>"


def _label(words: str, box: Box, picture: Picture) -> str:
    """Draw an edge's label over its line, on the background of the frame that it is in."""
    inside = any(_holds(frame, box) for frame in picture.frames.values())
    colour = f'class="ag-inside" fill="{FRAME_FILL}"' if inside else f'fill="{BACKGROUND}"'
    shown = cut(words, NAME_MAX)
    full = f"<title>{escape(words)}</title>" if shown != words else ""
    width = box.width * 0.85
    return (
        f'<rect {colour} x="{box.x - width / 2:g}" y="{box.y - box.height / 2:g}" '
        f'width="{width:g}" height="{box.height:g}"/>'
        f'<text x="{box.x:g}" y="{box.y + FONT * 0.35:g}" text-anchor="middle" '
        f'fill="{LINE}">{full}{escape(shown)}</text>'
    )


def _holds(frame: Box, box: Box) -> bool:
    return abs(frame.x - box.x) < frame.width / 2 and abs(frame.y - box.y) < frame.height / 2


def _nodes(shape: GraphShape, picture: Picture) -> Iterator[str]:
    for node in shape.nodes.values():
        box = picture.boxes[node.id]
        first, last = is_start(node, shape), is_end(node, shape)
        kind = " ag-last" if last else " ag-first" if first else ""
        fill = LAST_FILL if last else FIRST_FILL if first else FILL
        radius = box.height / 2 if first or last else 5
        notes = notes_of(node)
        y = box.y - NOTE_HEIGHT * len(notes) / 2 + FONT * 0.35
        text = (
            f'<g class="ag-node{kind}" data-node="{escape(node.id)}" tabindex="0" role="img" '
            f'aria-label="{escape(", ".join([node.name, *notes]))}">{_title(node)}'
            f'<rect x="{box.x - box.width / 2:g}" y="{box.y - box.height / 2:g}" '
            f'width="{box.width:g}" height="{box.height:g}" rx="{radius:g}" fill="{fill}" '
            f'stroke="{BORDER}"/><text x="{box.x:g}" y="{y:g}" text-anchor="middle" '
            f'fill="{LINE}">{escape(cut(node.name, NAME_MAX))}</text>'
        )
        for place, note in enumerate(notes, 1):
            text += (
                f'<text class="ag-note" x="{box.x:g}" y="{y + NOTE_HEIGHT * place + 1:g}" '
                f'text-anchor="middle" font-size="{NOTE_FONT}" fill="{NOTE}">{escape(note)}</text>'
            )
        yield f"{text}</g>"


def _title(node: DrawnNode) -> str:
    """The node's tooltip: its whole name if that is cut, and its metadata."""
    named = [node.name] if len(node.name) > NAME_MAX else []
    metadata = (node.metadata or {}).items()
    notes = [f"{k} = {v}" for k, v in metadata if isinstance(v, str | int | float)]
    return f"<title>{escape(', '.join([*named, *notes]))}</title>" if named or notes else ""


def _listed(shape: GraphShape, *, style: bool) -> str:
    """Make a document that lists the nodes of a large graph, each with its targets."""
    head = f"{len(shape.nodes)} nodes and {len(shape.edges)} edges: listed, not drawn"
    parts = [f'<text x="0" y="{FONT}" fill="{LINE}" font-weight="bold">{head}</text>']
    lines = list_lines(shape)
    for place, (name, line) in enumerate(lines, 1):
        parts.append(
            f'<text class="ag-row" data-node="{escape(name)}" x="0" '
            f'y="{FONT + LINE_HEIGHT * place}" fill="{LINE}">{escape(line)}</text>'
        )
    width = max([len(head), *(len(line) for _, line in lines)]) * 7.5
    return _document(parts, width, LINE_HEIGHT * (len(lines) + 1), style=style)


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
