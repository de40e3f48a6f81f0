"""Curves as SVG, from the measured figures: both axes logarithmic, a label at each curve's end.

The pictures have no background, and each colour can be read on white and on nearly black, so
that one file serves pages in light and in dark.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from tests.bench.catalogue import FLOOR, RIVAL, SUBJECT

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 44, 52
TEXT, GRID = "#6e7781", "#8b949e"
COLOURS = {SUBJECT: "#2f81f7", RIVAL: "#d4661f", FLOOR: TEXT}
NAMES = {SUBJECT: "actorgraph", RIVAL: "LangGraph", FLOOR: "bare generator"}

Point = tuple[float, float]


@dataclass(frozen=True)
class Chart:
    """Curves by side, each a list of points in order; all values are positive.

    The title names what the vertical axis counts.
    """

    title: str
    x_label: str
    curves: dict[str, list[Point]]


def threads_chart(measures: list[dict[str, Any]]) -> Chart:
    """Steps per second against the number of threads that run at once."""
    return Chart(
        "Steps per second: SQLite, synchronous=FULL, durability sync",
        "threads at once, ten steps each",
        curves(measures, r"threads-(\d+)", lambda measure, side: measure["medians"][side]),
    )


def bytes_chart(measures: list[dict[str, Any]]) -> Chart:
    """Bytes on disk against the turns of a chat."""
    return Chart(
        "Bytes on disk of a chat: SQLite, 800 characters a turn, three checkpoints a turn",
        "turns",
        curves(
            measures,
            r"chat-bytes-(\d+)",
            lambda measure, side: measure["runs"][side][0]["disk_bytes"],
        ),
    )


def tokens_chart(measures: list[dict[str, Any]]) -> Chart:
    """The server's CPU of a token against the clients that read at once."""
    return Chart(
        "CPU of a token, us: a LangChain model, mode messages, FastAPI, SQLite",
        "clients at once, 40 tokens each, 20 ms apart",
        curves(measures, r"tokens-(\d+)", lambda measure, side: measure["medians"][side]),
    )


def curves(
    measures: list[dict[str, Any]], name: str, value: Callable[[dict[str, Any], str], float]
) -> dict[str, list[Point]]:
    """The points of each side: the number in a measure's name, and its figure."""
    found: dict[str, list[Point]] = {}
    for measure in measures:
        match = re.fullmatch(name, measure["name"])
        for side in measure["medians"] if match else ():
            found.setdefault(side, []).append((float(match[1]), value(measure, side)))
    return {side: sorted(points) for side, points in found.items() if side in COLOURS}


def draw(chart: Chart) -> str:
    """The chart as SVG."""
    points = [point for curve in chart.curves.values() for point in curve]
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low_y, high_y = decades([y for _, y in points])

    def place(point: Point) -> Point:
        right, up = share(point[0], low_x, high_x), share(point[1], low_y, high_y)
        return LEFT + right * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [_text(LEFT, 24, chart.title, weight="bold")]
    for y in powers(low_y, high_y):
        _, down = place((low_x, y))
        parts.append(_line([(LEFT, down), (WIDTH - RIGHT, down)], GRID, 0.5))
        parts.append(_text(LEFT - 8, down + 4, short(y), anchor="end"))
    for x in sorted({x for x, _ in points}):
        across, _ = place((x, low_y))
        parts.append(_text(across, HEIGHT - BOTTOM + 18, short(x), anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, HEIGHT - 12, chart.x_label, anchor="middle"))
    for side, curve in chart.curves.items():
        parts += _curve(side, [place(point) for point in curve])
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    font = 'font-family="Verdana,\'DejaVu Sans\',sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img">'
    return "\n".join([head, f"<title>{escape(chart.title)}</title>", *parts, "</svg>"]) + "\n"


def decades(values: list[float]) -> tuple[float, float]:
    """The powers of ten around some values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def powers(low: float, high: float) -> list[float]:
    """The powers of ten from one to another, both included."""
    return [10.0**n for n in range(round(math.log10(low)), round(math.log10(high)) + 1)]


def share(value: float, low: float, high: float) -> float:
    """Where a value lies between two others, on a logarithmic scale."""
    return math.log(value / low) / math.log(high / low) if high > low else 0.5


def short(number: float) -> str:
    """A number for an axis: 3,000, 100k, 10M, 1G."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= max(size, 1e5):
            return f"{number / size:,.0f}{unit}"
    return f"{number:,.0f}"


def _curve(side: str, places: list[Point]) -> list[str]:
    colour = COLOURS[side]
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
    x, y = places[-1]
    name = _text(x + 10, y + 4, NAMES[side], colour=colour, weight="bold")
    return [_line(places, colour, 2), *dots, name]


def _line(places: list[Point], colour: str, width: float) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = TEXT,
    weight: str = "normal",
) -> str:
    style = f'fill="{colour}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
