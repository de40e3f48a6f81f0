"""Draw `docs/architecture.svg`: the packages of actorgraph/ in rows, by what they may import.

    python -m tests.support.layers_picture

Rows, rooms and what is pure are those that `tests/test_layers.py` holds imports to; the sentences
are the first of each package's docstring. It has no lines between the boxes: who imports whom
follows from the rows, and fifty lines through boxes could not be followed.
"""

import ast
import textwrap
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from tests.support.source_files import ROOT
from tests.test_layers import ORDER, PURE, ROOMS

PACKAGE = ROOT / "actorgraph"
PICTURE = ROOT / "docs" / "architecture.svg"
LEGEND = (
    "A row imports only from rows below it; in a box, a line of rooms only from lines below it. "
    "Green is pure: no I/O, no clock, no event loop."
)

# All in pixels; a letter's width is that of the widest fonts that a browser may choose.
WIDTH, MARGIN, GAP, PAD = 1000, 16, 8, 10
LINE, ROOM, ROOM_GAP = 16, 22, 5
LETTER, BOLD_LETTER, ROOM_LETTER = 6.9, 8.4, 7.0
NAME_COLUMN = 120
STYLE = (
    "<style>text{font:12px Verdana,'DejaVu Sans',sans-serif;fill:#1f2933}"
    "text.s{font-size:11px;fill:#52606d}text.n{font-weight:bold}"
    "text.r{font-size:11px;text-anchor:middle}</style>"
)


@dataclass(frozen=True)
class Box:
    """One package: its name, the lines of its sentence, its rooms from the highest line down."""

    name: str
    sentence: str
    rooms: tuple[tuple[str, ...], ...]

    @property
    def inner_width(self) -> float:
        """The width that the name and the longest line of rooms need."""
        lines = [sum(map(room_width, line)) + ROOM_GAP * (len(line) - 1) for line in self.rooms]
        return max([len(self.name) * BOLD_LETTER, *lines])

    def text(self, width: float, *, alone: bool) -> list[str]:
        """The sentence in lines: beside the name of a box with its own row, else below it."""
        free = width - 2 * PAD - (NAME_COLUMN if alone else 0)
        return textwrap.wrap(self.sentence, int(free / LETTER))

    def height(self, width: float, *, alone: bool) -> int:
        """The height of the name, the sentence and the rooms."""
        lines = len(self.text(width, alone=alone)) + (0 if alone else 1)
        return 2 * PAD - 4 + LINE * lines + (ROOM + ROOM_GAP) * len(self.rooms)


def room_width(name: str) -> float:
    """The width of a room's box."""
    return len(name) * ROOM_LETTER + 16


def first_sentence(path: Path) -> str:
    """The first sentence of a file's docstring, without backticks."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".").replace("`", "")


def box_of(package: str) -> Box:
    """A package, with the rooms of `ROOMS`, or else its folders, in one line."""
    folder = PACKAGE / package
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    folders = sorted(each.parent.name for each in folder.glob("*/__init__.py"))
    lines = ROOMS.get(package, [set(folders)] if folders else [])
    rooms = [tuple(sorted(line - {""})) for line in reversed(lines) if line - {""}]
    return Box(package, first_sentence(path), tuple(rooms))


def rows() -> list[list[Box]]:
    """The packages, highest row first; the root package is left out."""
    named = [sorted(row) for row in reversed(ORDER) if not any(name[0] == "_" for name in row)]
    return [[box_of(name) for name in row] for row in named]


def widths(row: list[Box]) -> list[float]:
    """Share the row's width: what each box needs, and the rest evenly."""
    needed = [box.inner_width + 2 * PAD for box in row]
    rest = WIDTH - 2 * MARGIN - GAP * (len(row) - 1) - sum(needed)
    return [width + rest / len(row) for width in needed]


def draw() -> str:
    """The picture as SVG."""
    parts = [_text(MARGIN, MARGIN + 8, LEGEND, "s")]
    top: float = MARGIN + 22
    for row in rows():
        alone = len(row) == 1
        shares = widths(row)
        height = max(b.height(w, alone=alone) for b, w in zip(row, shares, strict=True))
        left: float = MARGIN
        for box, width in zip(row, shares, strict=True):
            parts += _box(box, left, top, width, height)
            left += width + GAP
        top += height + GAP
    bottom = top - GAP + MARGIN
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom:.0f}">',
        STYLE,
        f'<rect width="{WIDTH}" height="{bottom:.0f}" fill="#fff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _box(box: Box, left: float, top: float, width: float, height: float) -> list[str]:
    alone = abs(width - (WIDTH - 2 * MARGIN)) < 1
    fill = "#e3f1e5" if box.name in PURE else "#eef2f7"
    parts = [_rect(left, top, width, height, fill), _text(left + PAD, top + 20, box.name, "n")]
    beside, y = (NAME_COLUMN, top + 20) if alone else (0, top + 20 + LINE)
    for line in box.text(width, alone=alone):
        parts.append(_text(left + PAD + beside, y, line, "s"))
        y += LINE
    # The rooms fill the bottom of the box, so that those of neighbours are in line.
    y = top + height - PAD + 4 - (ROOM + ROOM_GAP) * len(box.rooms)
    for rooms in box.rooms:
        x = left + PAD + beside
        for name in rooms:
            parts.append(_rect(x, y, room_width(name), ROOM, "#fff"))
            parts.append(_text(x + room_width(name) / 2, y + 15, name, "r"))
            x += room_width(name) + ROOM_GAP
        y += ROOM + ROOM_GAP
    return parts


def _rect(left: float, top: float, width: float, height: float, fill: str) -> str:
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}" rx="4" '
        f'fill="{fill}" stroke="#9aa7b5"/>'
    )


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{style}">{escape(text)}</text>'


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
