"""Small line charts of a system's history, as SVG with classes instead of styles. Pure."""

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, PAD = 300, 64, 4


def chart(title: str, values: Sequence[float], unit: str = "") -> str:
    """Draw a line through equally spaced values, oldest first.

    Returns: an `<svg>` element with its newest value and its maximum as text.
    """
    newest, most = (values[-1], max(values)) if values else (0.0, 0.0)
    text = f"{_short(newest)}{unit}"
    label = f"{title}: now {text}, at most {_short(most)}{unit}"
    top = most or 1.0
    step = (WIDTH - 2 * PAD) / max(len(values) - 1, 1)
    points = " ".join(
        f"{PAD + at * step:.1f},{HEIGHT - PAD - value / top * (HEIGHT - 24):.1f}"
        for at, value in enumerate(values)
    )
    line = f'<polyline class="line" points="{points}"/>' if len(values) > 1 else ""
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">'
        f'<text class="label" x="{PAD}" y="13">{escape(title)}</text>'
        f'<text class="value" x="{WIDTH - PAD}" y="13" text-anchor="end">{escape(text)}</text>'
        f"{line}</svg>"
    )


def _short(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if suffix == 'k' else size):.3g}{suffix}"
    return f"{value:.3g}"
