"""A scatter chart as SVG: each package by its size and its risk.

Receives   an Overview
Sends      one <svg> element; its colours are CSS variables of the page, so it follows the
           page from light to dark
Invariant  the same overview gives the same text: every coordinate is rounded.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from audit.score import RISK_THRESHOLD
from audit.summary import AuditedPackage, Overview

WIDTH, HEIGHT = 960, 440
LEFT, RIGHT, TOP, BOTTOM = 52, 24, 16, 48

LABELS_MAX = 40
LABEL_CHARACTER_WIDTH, LABEL_HEIGHT = 6.6, 13
# A label may cover the smallest dots: there are too many of them to keep clear.
DOT_IN_THE_WAY = 4.5


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, to keep labels apart."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        """Whether two boxes share a point."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass(frozen=True, slots=True, eq=False)
class Dot:
    """One package on the chart."""

    package: AuditedPackage
    x: float
    y: float
    radius: float

    @property
    def box(self) -> Box:
        """The square around it."""
        return Box(
            self.x - self.radius, self.y - self.radius, self.x + self.radius, self.y + self.radius
        )


def risk_chart(overview: Overview) -> str:
    """Draw every package: lines of code across (in powers of ten), risk upwards."""
    most = max((package.ranking["totals"]["code"] for package in overview.packages), default=1)
    decades = max(3, math.ceil(math.log10(max(10, most))))
    dots = [_dot(package, decades) for package in overview.packages]
    # Large dots first, so that small ones stay reachable on top of them.
    drawn = sorted(dots, key=lambda dot: (-dot.radius, dot.package.name))
    opening = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" class="chart"'
        ' aria-label="Risk of each package against its size">'
    )
    return "\n".join([opening, *_axes(decades), *map(_circle, drawn), *_labels(dots), "</svg>"])


def _x(code: int, decades: int) -> float:
    # From 10 lines on; smaller ones are at the edge.
    share = (math.log10(max(10, code)) - 1) / (decades - 1)
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _y(risk: float) -> float:
    return round(HEIGHT - BOTTOM - risk / 100 * (HEIGHT - TOP - BOTTOM), 1)


def _dot(package: AuditedPackage, decades: int) -> Dot:
    radius = 3 + 0.9 * math.sqrt(package.ranking["hot_functions"])
    return Dot(
        package,
        _x(package.ranking["totals"]["code"], decades),
        _y(package.ranking["risk"]),
        round(min(22.0, radius), 1),
    )


def _axes(decades: int) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = list[str]()
    for risk in range(0, 101, 20):
        y = _y(risk)
        parts.append(_line("grid", LEFT, y, right, y))
        parts.append(_label("tick", LEFT - 8, y + 4, "end", str(risk)))
    for power in range(1, decades + 1):
        x = _x(10**power, decades)
        parts.append(_line("grid", x, TOP, x, bottom))
        parts.append(_label("tick", x, bottom + 18, "middle", f"{10**power:,}"))
    y = _y(RISK_THRESHOLD)
    turned = f"translate(14 {(TOP + bottom) // 2}) rotate(-90)"
    return [
        *parts,
        _line("threshold", LEFT, y, right, y),
        _label("tick", LEFT + 6, y - 6, "start", f"reviewed from {RISK_THRESHOLD:g} on"),
        _label("axis", (LEFT + right) / 2, HEIGHT - 8, "middle", "lines of code"),
        f'<text class="axis" transform="{turned}" text-anchor="middle">risk</text>',
    ]


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>'


def _label(kind: str, x: float, y: float, anchor: str, text: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def _circle(dot: Dot) -> str:
    ranking = dot.package.ranking
    title = (
        f"{dot.package.name}: risk {ranking['risk']:.1f},"
        f" {ranking['totals']['code']:,} lines of code,"
        f" {ranking['hot_functions']:,} functions past a limit"
    )
    return (
        f'<circle class="{dot.package.standing}" cx="{dot.x}" cy="{dot.y}" r="{dot.radius}">'
        f"<title>{escape(title)}</title></circle>"
    )


def _labels(dots: list[Dot]) -> list[str]:
    """Name the riskiest and the largest packages, beside their dots, where there is room."""
    by_size = sorted(dots, key=lambda dot: (-dot.x, dot.package.name))
    wanted = [dot for pair in zip(dots, by_size, strict=True) for dot in pair]
    taken, parts = [dot.box for dot in dots if dot.radius > DOT_IN_THE_WAY], list[str]()
    for dot in list(dict.fromkeys(wanted))[: 2 * LABELS_MAX]:
        for anchor, box in _label_places(dot):
            others = (other for other in taken if other != dot.box)
            if len(parts) < LABELS_MAX and not any(box.overlaps(other) for other in others):
                taken.append(box)
                x = box.left if anchor == "start" else box.right
                parts.append(_label("name", x, dot.y + 4, anchor, dot.package.name))
                break
    return parts


def _label_places(dot: Dot) -> Iterator[tuple[str, Box]]:
    """Right of the dot, or left of it, as far as the chart goes."""
    width, gap = len(dot.package.name) * LABEL_CHARACTER_WIDTH, dot.radius + 4
    top, bottom = dot.y - LABEL_HEIGHT / 2, dot.y + LABEL_HEIGHT / 2
    if dot.x + gap + width < WIDTH:
        yield "start", Box(dot.x + gap, top, dot.x + gap + width, bottom)
    if dot.x - gap - width > LEFT:
        yield "end", Box(dot.x - gap - width, top, dot.x - gap, bottom)
