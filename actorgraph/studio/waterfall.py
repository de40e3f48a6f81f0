"""Waterfall: the tasks of a thread's steps as bars over time, one line a task, as SVG. Pure.

The markup has classes instead of styles, because the pages' policy allows no inline style.
"""

from collections.abc import Sequence
from html import escape
from typing import Literal

import msgspec

WIDTH = 720
"""Of the drawing, in pixels; the page scales it."""
LABEL, LINE, BAR, PAD = 190, 24, 12, 8
TICKS = 4
NAME_MAX = 24

State = Literal["done", "failed", "running", "waiting", "cached"]


class TaskBar(msgspec.Struct, frozen=True):
    """One task, or one attempt of it.

    Attributes:
        step: the number of its superstep.
        start: microseconds since 1970-01-01 UTC; None if it wasn't recorded.
        end: the same; None while it runs.
        attempt: counts from 1.
    """

    name: str
    step: int
    state: State
    start: int | None = None
    end: int | None = None
    attempt: int = 1
    error: str = ""


def waterfall(bars: Sequence[TaskBar], now: int) -> str:
    """Draw bars from the first start to the last end.

    Args:
        bars: in the order of the lines. If one has no times, each step is a unit wide, and the
            drawing has no axis of time.
        now: microseconds since 1970-01-01 UTC: the end of bars that have none.
    Returns: an `<svg>` element; "" without bars.
    """
    if not bars:
        return ""
    is_timed = all(bar.start is not None for bar in bars)
    timed = _times(bars, now) if is_timed else _places(bars)
    first = min(start for start, _ in timed)
    span = max(max(end for _, end in timed) - first, 1)
    room = WIDTH - LABEL - PAD
    height = LINE * (len(bars) + 1) + PAD
    label = f"{len(bars)} tasks {f'over {_duration(span)}' if is_timed else 'in their order'}"
    head = f'<svg class="waterfall" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
    parts = [head, *(_axis(span, room, height) if is_timed else ())]
    for row, (bar, (start, end)) in enumerate(zip(bars, timed, strict=True)):
        x = LABEL + (start - first) / span * room
        width = max((end - start) / span * room, 2)
        parts += _line(bar, LINE * (row + 1), x, width, end - start)
    return "".join([*parts, "</svg>"])


def _times(bars: Sequence[TaskBar], now: int) -> list[tuple[int, int]]:
    """Start and end of each bar."""
    found = [(bar.start or 0, now if bar.end is None else bar.end) for bar in bars]
    return [(start, max(end, start)) for start, end in found]


def _places(bars: Sequence[TaskBar]) -> list[tuple[int, int]]:
    """Start and end of each bar where times weren't recorded: one unit for each step."""
    first = min(bar.step for bar in bars)
    return [(bar.step - first, bar.step - first + 1) for bar in bars]


def _axis(span: int, room: int, height: int) -> list[str]:
    parts: list[str] = []
    for tick in range(TICKS + 1):
        x = LABEL + room * tick / TICKS
        anchor = "end" if tick == TICKS else "start" if tick == 0 else "middle"
        parts.append(
            f'<line class="tick" x1="{x:.1f}" y1="{LINE - 4}" x2="{x:.1f}" y2="{height}"/>'
        )
        label = _duration(span * tick // TICKS)
        parts.append(f'<text class="axis" x="{x:.1f}" y="12" text-anchor="{anchor}">{label}</text>')
    return parts


def _line(bar: TaskBar, y: int, x: float, width: float, lasts: int) -> list[str]:
    name = bar.name if len(bar.name) <= NAME_MAX else bar.name[: NAME_MAX - 1] + "…"
    attempt = f", attempt {bar.attempt}" if bar.attempt > 1 else ""
    time = f", {_duration(lasts)}" if bar.start is not None else ""
    error = f": {bar.error[:200]}" if bar.error else ""
    title = f"{bar.name}, step {bar.step}{attempt}, {bar.state}{time}{error}"
    place = f'x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{BAR}" rx="2"'
    return [
        f'<text class="label" x="0" y="{y + BAR}">{bar.step} {escape(name)}</text>',
        f'<rect class="bar {bar.state}" {place}><title>{escape(title)}</title></rect>',
    ]


def _duration(microseconds: int) -> str:
    if microseconds < 1000:
        return f"{microseconds} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.3g} ms"
    seconds = microseconds / 1_000_000
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
