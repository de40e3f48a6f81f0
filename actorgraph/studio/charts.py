"""Line charts of a system's history, with units and scales on their axes. Pure.

HTML with a small SVG, so that texts keep their size on a phone; classes instead of styles, because
the pages' policy allows no inline style.
"""

from collections.abc import Sequence
from html import escape

ROOM = 18.0
"""Percent of the width for the scale at the left."""
HEIGHT, TOP, BOTTOM = 96, 8, 78
"""Pixels: of the drawing, of the highest value and of zero."""
SIZES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def chart(title: str, values: Sequence[float], unit: str = "", *, span_s: float = 0.0) -> str:
    """Draw a line through equally spaced values, oldest first.

    Args:
        unit: behind each number, such as " ms".
        span_s: seconds from the first value to the last; 0 if that is not known.
    Returns: the title with the newest value; with values, a drawing with its scales.
    """
    newest, most = (values[-1], max(values)) if values else (0.0, 0.0)
    text = f"{number(newest)}{unit}"
    head = f'<strong>{escape(title)}</strong> <span class="now">{escape(text)}</span>'
    if len(values) < 2:
        return f'<div class="chart">{head}<p class="soft small">No history yet.</p></div>'
    top = nice_top(most)
    label = f"{title}: now {text}, at most {number(most)}{unit}"
    step = 100 / (len(values) - 1)
    points = " ".join(
        f"{at * step:.2f},{100 - value / top * 100:.2f}" for at, value in enumerate(values)
    )
    lines = "".join(
        f'<line class="tick" x1="{ROOM}%" y1="{y}" x2="100%" y2="{y}"></line>'
        f'<text class="axis" x="{ROOM - 2}%" y="{y + 4}" text-anchor="end">{escape(mark)}</text>'
        for y, mark in (
            (TOP, f"{number(top)}{unit}"),
            ((TOP + BOTTOM) // 2, f"{number(top / 2)}"),
            (BOTTOM, "0"),
        )
    )
    since = f"{span_s / 60:.0f} min ago" if span_s >= 60 else f"{span_s:.0f} s ago"
    times = (
        f'<text class="axis" x="{ROOM}%" y="93">{since if span_s else ""}</text>'
        '<text class="axis" x="100%" y="93" text-anchor="end">now</text>'
    )
    return (
        f'<div class="chart">{head}<svg height="{HEIGHT}" role="img" aria-label="{escape(label)}">'
        f'{lines}<svg x="{ROOM}%" y="{TOP}" width="{100 - ROOM}%" height="{BOTTOM - TOP}" '
        'viewBox="0 0 100 100" preserveAspectRatio="none">'
        f'<polyline class="line" vector-effect="non-scaling-stroke" points="{points}"></polyline>'
        f"</svg>{times}</svg></div>"
    )


def nice_top(most: float) -> float:
    """Return the end of a scale: the least of 1, 2, 5, 10, 20 ... that holds a value."""
    top = 1.0
    if most <= 0:
        return top
    while top > most:
        top /= 10
    while True:
        for factor in (1, 2, 5):
            if top * factor >= most:
                return top * factor
        top *= 10


def number(value: float) -> str:
    """Return a number with three digits, large ones with k, M or G."""
    for size, suffix in SIZES:
        if abs(value) >= size * (10 if suffix == "k" else 1):
            return f"{value / size:.3g}{suffix}"
    return f"{value:.4g}" if abs(value) >= 1000 else f"{value:.3g}"
