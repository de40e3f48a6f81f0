"""Waterfall: the tasks of a thread's steps as bars over time, one line a task, as HTML. Pure.

Time in which no task worked is folded: a night in which a question waited would leave the work
beside it too narrow to see. A folded stretch has a fixed width, and its length is said.

Lines are HTML with a small SVG each, so that names keep their size on a phone. The markup has
classes instead of styles, because the pages' policy allows no inline style.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Literal

import msgspec

TICKS_MAX = 4
FOLD_SHARE = 4
"""Time without work is folded if it is longer than this part (1/4) of the time with work."""
FOLD_MIN_US = 20_000
FOLDS_WIDTH = 40.0
"""Percent of the width that all folds together take at most."""
FOLD_WIDTH = 8.0
"""Percent of the width that one fold takes at most."""
BAR_MIN = 0.4
"""Percent of the width of the shortest bar."""
NAME_MAX = 200

State = Literal["done", "failed", "running", "waiting", "cached"]
Why = Literal["for a person", "for the next run", "for a retry", "for a worker"]


class TaskBar(msgspec.Struct, frozen=True):
    """One task, or one attempt of it.

    Attributes:
        name: with what tells it from others of its step, such as "search [2]".
        step: the number of its superstep.
        start: microseconds since 1970-01-01 UTC; None if it wasn't recorded.
        end: the same; None while it runs or waits.
        attempt: counts from 1.
        run: the id of the run that its checkpoint was made by; "" if unknown.
        asks: whether it waits for a person since `start`.
    """

    name: str
    step: int
    state: State
    start: int | None = None
    end: int | None = None
    attempt: int = 1
    error: str = ""
    run: str = ""
    asks: bool = False


class Fold(msgspec.Struct, frozen=True):
    """A stretch of time without work, and what it waited for."""

    start: int
    end: int
    why: Why


class Scale(msgspec.Struct, frozen=True):
    """Time as a place in percent of the width: even where tasks work, a fixed width for folds.

    Attributes:
        working: microseconds that are not folded.
    """

    start: int
    folds: tuple[Fold, ...]
    working: int

    @property
    def fold_width(self) -> float:
        """Percent of the width of each fold."""
        return min(FOLD_WIDTH, FOLDS_WIDTH / len(self.folds)) if self.folds else 0.0

    def worked(self, at: int) -> int:
        """Return the microseconds before a moment that are not folded."""
        folded = sum(min(at, fold.end) - fold.start for fold in self.folds if fold.start < at)
        return at - self.start - folded

    def place(self, at: int) -> float:
        """Return the place of a moment, in percent."""
        passed = sum(
            min(at - fold.start, fold.end - fold.start) / (fold.end - fold.start)
            for fold in self.folds
            if fold.start < at
        )
        room = 100.0 - self.fold_width * len(self.folds)
        return passed * self.fold_width + self.worked(at) / max(self.working, 1) * room


def waterfall(bars: Sequence[TaskBar], now: int) -> str:
    """Draw bars from the first start to the last end.

    Args:
        bars: in the order of the lines. If none has times, they are listed without a drawing, which
            says so; those without times beside others are counted.
        now: microseconds since 1970-01-01 UTC: the end of bars that have none.
    Returns: HTML; "" without bars.
    """
    if not bars:
        return ""
    timed = [bar for bar in bars if bar.start is not None]
    if not timed:
        lines = "".join(f"<li>{_name(bar)}<span>{bar.state}</span></li>" for bar in bars)
        note = "Times of these tasks are not known: they are listed in their order."
        label = f"{len(bars)} tasks in their order"
        return (
            f'<p class="soft small">{note}</p><ol class="waterfall untimed" '
            f'aria-label="{label}">{lines}</ol>'
        )
    scale = scale_of(timed, now)
    whole = scale.working + sum(fold.end - fold.start for fold in scale.folds)
    label = f"{len(timed)} tasks over {duration(whole)}, of which {duration(scale.working)} at work"
    return "".join(
        [
            f'<div class="axis" aria-hidden="true"><span></span>{_axis(scale)}<span></span></div>',
            f'<ol class="waterfall" aria-label="{label}">',
            *(_line(bar, scale, now) for bar in timed),
            "</ol>",
            *_notes(scale, len(bars) - len(timed)),
        ]
    )


def scale_of(bars: Sequence[TaskBar], now: int) -> Scale:
    """Return the scale of bars with times: its folds are the long stretches without work."""
    waits = [bar for bar in bars if _only_waits(bar)]
    works = sorted(
        (bar for bar in bars if not _only_waits(bar)),
        key=lambda bar: (bar.start or 0, _end(bar, now)),
    )
    first = last = min(bar.start or 0 for bar in bars)
    gaps: list[Fold] = []
    behind: TaskBar | None = None
    busy = 0
    for bar in works:
        start, end = bar.start or 0, _end(bar, now)
        if start > last:
            gaps.append(Fold(last, start, _why(behind, bar)))
        busy += max(0, end - max(start, last))
        if end >= last:
            last, behind = end, bar
    if waits and now > last:
        asked = any(bar.asks for bar in waits)
        gaps.append(Fold(last, now, "for a person" if asked else "for the next run"))
        last = now
    least = max(busy // FOLD_SHARE, FOLD_MIN_US)
    folds = tuple([gap for gap in gaps if gap.end - gap.start > least])
    folded = sum(fold.end - fold.start for fold in folds)
    return Scale(first, folds, max(last - first - folded, 1))


def _why(behind: TaskBar | None, then: TaskBar) -> Why:
    """What a stretch without work waited for, between the task before and the one after."""
    if behind is None:
        return "for a worker"
    if behind.state == "waiting":
        return "for a person"
    if then.attempt > 1 and behind.state == "failed":
        return "for a retry"
    return "for a worker" if behind.run == then.run else "for the next run"


def _only_waits(bar: TaskBar) -> bool:
    """Whether a bar is a task that has not begun, or asks: nothing works while it is open."""
    return bar.state == "waiting" and bar.end is None


def _end(bar: TaskBar, now: int) -> int:
    return max(now if bar.end is None else bar.end, bar.start or 0)


def _axis(scale: Scale) -> str:
    """Draw the ticks, in time of work, above them the lengths of the folds."""
    parts = ['<svg class="lane" height="28">']
    for fold in scale.folds if scale.fold_width >= FOLD_WIDTH else ():
        at = (scale.place(fold.start) + scale.place(fold.end)) / 2
        text = duration(fold.end - fold.start)
        anchor = "end" if at > 90 else "start" if at < 10 else "middle"
        at = 100.0 if anchor == "end" else at
        parts.append(_mark(at, 10, anchor, text))
    for at, text in _ticks(scale):
        anchor = "end" if at > 90 else "start" if at < 5 else "middle"
        parts.append(_mark(at, 24, anchor, text))
    return "".join([*parts, "</svg>"])


def _mark(at: float, y: int, anchor: str, text: str) -> str:
    return f'<text class="axis" x="{at:.1f}%" y="{y}" text-anchor="{anchor}">{text}</text>'


def _ticks(scale: Scale) -> Iterator[tuple[float, str]]:
    """Yield the places of round lengths of work, far enough from each other to be read."""
    least, power = scale.working / TICKS_MAX, 1
    while power * 10 <= least:
        power *= 10
    step = next((power * n for n in (1, 2, 5, 10) if power * n >= least), power * 10)
    taken = -100.0
    for worked in range(0, scale.working + 1, step):
        at = scale.place(_moment(scale, worked))
        if at - taken >= 14:
            taken = at
            yield at, duration(worked) if worked else "0"


def _moment(scale: Scale, worked: int) -> int:
    """Return the moment by which so much work was done."""
    at = scale.start + worked
    for fold in scale.folds:
        if fold.start < at:
            at += fold.end - fold.start
    return at


def _line(bar: TaskBar, scale: Scale, now: int) -> str:
    start = bar.start or 0
    end = _end(bar, now)
    x = scale.place(start)
    width = max(scale.place(end) - x, BAR_MIN)
    x = min(x, 100.0 - width)
    lasts = duration(end - start)
    title = _title(bar, lasts)
    folds = "".join(
        f'<rect class="fold" x="{scale.place(fold.start):.2f}%" y="0" '
        f'width="{scale.fold_width:.2f}%" height="18"></rect>'
        for fold in scale.folds
    )
    place = f'x="{x:.2f}%" y="3" width="{width:.2f}%" height="12" rx="2"'
    return (
        f'<li>{_name(bar)}<svg class="lane" height="18" role="img" aria-label="{escape(title)}">'
        f'{folds}<rect class="bar {bar.state}" {place}><title>{escape(title)}</title></rect></svg>'
        f'<span class="lasts">{lasts}</span></li>'
    )


def _name(bar: TaskBar) -> str:
    attempt = f" · attempt {bar.attempt}" if bar.attempt > 1 else ""
    text = escape(f"{bar.name}{attempt}"[:NAME_MAX])
    return f'<span class="label" title="{text}"><span class="soft">{bar.step}</span> {text}</span>'


def _title(bar: TaskBar, lasts: str) -> str:
    attempt = f", attempt {bar.attempt}" if bar.attempt > 1 else ""
    error = f": {bar.error[:200]}" if bar.error else ""
    return f"{bar.name}, step {bar.step}{attempt}, {bar.state}, {lasts}{error}"


def _notes(scale: Scale, untimed: int) -> Iterator[str]:
    """Say how long was waited for what, and how many tasks are left out."""
    by_reason: dict[str, int] = {}
    for fold in scale.folds:
        by_reason[fold.why] = by_reason.get(fold.why, 0) + fold.end - fold.start
    if by_reason:
        text = ", ".join(f"{duration(lasts)} {why}" for why, lasts in by_reason.items())
        yield f'<p class="soft small">Waiting is folded: {text}.</p>'
    if untimed:
        count = "1 task whose times are" if untimed == 1 else f"{untimed} tasks whose times are"
        yield f'<p class="soft small">Without {count} not known.</p>'


def duration(microseconds: int) -> str:
    """Return a length of time with three digits and its unit."""
    if microseconds < 1000:
        return f"{microseconds} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.3g} ms"
    seconds = microseconds / 1_000_000
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h" if seconds < 172_800 else f"{seconds / 86_400:.3g} days"
