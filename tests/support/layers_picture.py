"""Draw `docs/architecture.svg`: the rooms of actorgraph/ in rows, by what they import.

    python -m tests.support.layers_picture

A room is a folder with Python files, or a file right below `actorgraph/`. It is drawn one row
above the highest room that it imports. A line joins two rooms where one imports the other and no
chain of imports between others joins them already.
"""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "actorgraph"
PICTURE = ROOT / "docs" / "architecture.svg"

WIDTH, ROW, BOX, GAP, MARGIN = 1180, 74, 30, 12, 20
LETTER = 7.4


def rooms() -> dict[str, set[str]]:
    """Room -> the rooms that its files import; the root package is left out."""
    names = {room_of(path) for path in PACKAGE.rglob("*.py")} - {""}
    found: dict[str, set[str]] = {name: set() for name in names}
    for path in PACKAGE.rglob("*.py"):
        room = room_of(path)
        if room:
            found[room] |= {each for each in imported(path, names) if each != room}
    return found


def room_of(path: Path) -> str:
    """`actorgraph/savers/sqlite/batch.py` -> `savers/sqlite`; `actorgraph/ports.py` -> `ports`."""
    inside = path.relative_to(PACKAGE)
    if len(inside.parts) > 1:
        return "/".join(inside.parts[:-1])
    return "" if inside.stem.startswith("__") else inside.stem


def imported(path: Path, names: set[str]) -> set[str]:
    """The rooms that a file imports from, anywhere in its text."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("actorgraph."):
            for each in node.names:
                parts = f"{node.module}.{each.name}".split(".")[1:]
                prefixes = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
                found |= {next((name for name in prefixes if name in names), "")} - {""}
    return found


def below(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Room -> everything that it reaches by imports."""
    reached: dict[str, set[str]] = {}

    def visit(name: str, path: frozenset[str]) -> set[str]:
        if name not in reached:
            others = graph[name] - path
            reached[name] = others.union(*(visit(each, path | {name}) for each in others))
        return reached[name]

    for name in sorted(graph):
        visit(name, frozenset())
    return reached


def rows(graph: dict[str, set[str]]) -> list[list[str]]:
    """The rooms by height, lowest first."""
    height: dict[str, int] = {}

    def visit(name: str, path: frozenset[str]) -> int:
        if name not in height:
            under = [visit(each, path | {name}) for each in graph[name] if each not in path]
            height[name] = 1 + max(under, default=-1)
        return height[name]

    by_height: dict[int, list[str]] = defaultdict(list)
    for name in sorted(graph):
        by_height[visit(name, frozenset())].append(name)
    return [by_height[each] for each in sorted(by_height)]


def direct(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The imports that no chain of other imports implies."""
    reached = below(graph)
    return sorted(
        (name, other)
        for name, others in graph.items()
        for other in others
        if not any(other in reached[each] for each in others if each != other)
    )


def draw(graph: dict[str, set[str]]) -> str:
    """The picture as SVG."""
    lines = rows(graph)
    height = MARGIN * 2 + ROW * len(lines)
    places: dict[str, tuple[float, float, float]] = {}
    for number, names in enumerate(lines):
        widths = [len(name) * LETTER + 20 for name in names]
        left = (WIDTH - sum(widths) - GAP * (len(names) - 1)) / 2
        for name, width in zip(names, widths, strict=True):
            places[name] = (left, height - MARGIN - ROW * number - BOX, width)
            left += width + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
    parts = [
        head + 'font-family="monospace" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        *(_line(places[name], places[other]) for name, other in direct(graph)),
        *(_box(name, *places[name]) for name in sorted(places)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _line(upper: tuple[float, float, float], lower: tuple[float, float, float]) -> str:
    x1, y1 = upper[0] + upper[2] / 2, upper[1] + BOX
    x2, y2 = lower[0] + lower[2] / 2, lower[1]
    bend = (y2 - y1) / 2
    return (
        f'<path d="M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} '
        f'{x2:.0f} {y2:.0f}" fill="none" stroke="#9aa7b5"/>'
    )


PURE = {"errors", "values", "messages", "channels", "plan", "superstep"}


def _box(name: str, left: float, top: float, width: float) -> str:
    fill = "#e3f1e5" if name.partition("/")[0] in PURE else "#eef2f7"
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{BOX}" rx="5" '
        f'fill="{fill}" stroke="#5b6b7c"/>'
        f'<text x="{left + width / 2:.0f}" y="{top + 20:.0f}" text-anchor="middle">{name}</text>'
    )


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(rooms()), encoding="utf-8")


if __name__ == "__main__":
    main()
