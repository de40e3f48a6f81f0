"""Outcomes as text: the facts, one table of comparisons, one of single figures. Markdown."""

import statistics
from typing import Any

from tests.bench.catalogue import (
    FLOOR,
    RAW,
    RIVAL,
    SUBJECT,
    WAITING,
    Against,
    Comparison,
    Unit,
)
from tests.bench.runner import Outcome

NOTHING = "-"
SIDES = {
    SUBJECT: "actorgraph",
    RIVAL: "LangGraph",
    FLOOR: "raw floor",
    WAITING: "tasks that only wait",
    RAW: "raw",
}
OTHERS = {Against.RIVAL: RIVAL, Against.SHARE_OF_WAITING: WAITING}
"""The side with which a figure is compared: the raw floor, unless it is listed here."""


def ratio(outcome: Outcome, comparison: Comparison) -> float | None:
    """The number that a comparison is about; None if a side was not measured."""
    ours = outcome.figure(SUBJECT)
    if comparison.against is Against.NOTHING:
        return ours
    theirs = outcome.figure(OTHERS.get(comparison.against, FLOOR))
    if ours is None or theirs is None:
        return None
    inverted = comparison.against is Against.RIVAL and not outcome.measure.unit.higher_is_better
    return theirs / ours if inverted else ours / theirs


def verdict(number: float | None, comparison: Comparison) -> str:
    """Whether the bar was reached."""
    if comparison.at_least is None and comparison.at_most is None:
        return NOTHING
    if number is None:
        return "not measured"
    reached = (comparison.at_least is None or number >= comparison.at_least) and (
        comparison.at_most is None or number <= comparison.at_most
    )
    return "pass" if reached else "FAIL"


def render(facts: dict[str, Any], outcomes: list[Outcome], *, quick: bool) -> str:
    """The whole report."""
    lines = [f"- {name}: {_flat(value)}" for name, value in facts.items()]
    if quick:
        lines += ["", "**Quick: sizes too small to judge by. The verdicts mean little.**"]
    compared = [row for outcome in outcomes for row in _comparison_rows(outcome)]
    header = ["measure", "actorgraph", "against", "ratio", "required", "verdict", "n"]
    lines += ["", *table([*header, "fsync us: ours, theirs"], compared)] if compared else []
    single = [_single_row(outcome) for outcome in outcomes if not outcome.measure.comparisons]
    header = ["for comparison", "figure", "n", "fsync us"]
    lines += ["", *table(header, single)] if single else []
    lines += ["", *(note for outcome in outcomes for note in notes(outcome))]
    return "\n".join(lines)


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [header, rule, *rows]
    ]


def notes(outcome: Outcome) -> list[str]:
    """Figures without a column in the tables: failures, batches, what the floor did, bytes."""
    name = outcome.measure.name
    lines = [f"- {name}, {SIDES[side]} failed: {why}" for side, why in outcome.failures.items()]
    lines += _cpu_note(outcome)
    for side, runs in outcome.runs.items():
        last, who = runs[-1], SIDES[side]
        if last.get("batches"):
            messages, commits = last["batches"]["messages"], max(1, last["batches"]["commits"])
            lines.append(
                f"- {name}, {who}: {messages:,} messages in {commits:,} commits, "
                f"{messages / commits:.1f} each"
            )
        if "transactions" in last:
            lines.append(
                f"- {name}, {who}: {last['rows']:,} rows and {last['head_updates']:,} head "
                f"updates in {last['transactions']:,} transactions (per {last['per']})"
            )
        if "disk_bytes" in last:
            per_turn = last["checkpoints"] / last["units"]
            lines.append(
                f"- {name}, {who}: {last['disk_bytes']:,} bytes on disk, "
                f"{last['state_bytes']:,} of final state, {per_turn:g} checkpoints a turn, "
                f"{last['seconds']:.1f} s"
            )
    return lines


def _cpu_note(outcome: Outcome) -> list[str]:
    """CPU time per step or task, by side: the part of a figure that a busy machine leaves alone."""
    spent = {
        side: statistics.median(run["cpu_seconds"] / run["units"] * 1e6 for run in runs)
        for side, runs in outcome.runs.items()
        if "cpu_seconds" in runs[0]
    }
    if not spent or outcome.measure.unit in {Unit.MULTIPLE, Unit.SHARE}:
        return []
    told = ", ".join(f"{SIDES[side]} {number:,.1f}" for side, number in spent.items())
    return [f"- {outcome.measure.name}, CPU us each: {told}"]


def as_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome with every repetition, for a machine."""
    measure = outcome.measure
    compared = [
        {
            "against": each.against.value,
            "ratio": ratio(outcome, each),
            "at_least": each.at_least,
            "at_most": each.at_most,
            "verdict": verdict(ratio(outcome, each), each),
        }
        for each in measure.comparisons
    ]
    return {
        "name": measure.name,
        "title": measure.title,
        "arguments": measure.arguments,
        "unit": measure.unit.value,
        "medians": {side: outcome.figure(side) for side in outcome.runs},
        "fsync_us": {side: outcome.fsync_us(side) for side in outcome.runs},
        "comparisons": compared,
        "failures": outcome.failures,
        "runs": dict(outcome.runs),
    }


def _comparison_rows(outcome: Outcome) -> list[list[str]]:
    """One line of the first table per comparison."""
    return [_comparison_row(outcome, comparison) for comparison in outcome.measure.comparisons]


def _comparison_row(outcome: Outcome, comparison: Comparison) -> list[str]:
    """A comparison as cells."""
    measure, against = outcome.measure, comparison.against
    other = OTHERS.get(against, FLOOR)
    theirs = NOTHING
    if against is not Against.NOTHING:
        theirs = f"{SIDES[other]}: {shown(outcome.figure(other), measure.unit)}"
    number = ratio(outcome, comparison)
    probes = [SUBJECT, *([other] if against is not Against.NOTHING else [])]
    return [
        measure.title,
        shown(outcome.figure(SUBJECT), measure.unit),
        theirs,
        NOTHING if against is Against.NOTHING else shown_ratio(number, against),
        required(comparison, measure.unit),
        verdict(number, comparison),
        str(len(outcome.runs.get(SUBJECT, []))),
        ", ".join(_probe(outcome, side) for side in probes) if measure.disk else NOTHING,
    ]


def _single_row(outcome: Outcome) -> list[str]:
    """A measure of one side that is compared with nothing, as cells."""
    measure = outcome.measure
    (side,) = measure.sides
    figure = f"{SIDES[side]}: {shown(outcome.figure(side), measure.unit)}"
    probed = _probe(outcome, side) if measure.disk else NOTHING
    return [measure.title, figure, str(len(outcome.runs.get(side, []))), probed]


def required(comparison: Comparison, unit: Unit) -> str:
    """A bar in words."""
    if comparison.at_least is not None:
        return f">= {shown_ratio(comparison.at_least, comparison.against)}"
    if comparison.at_most is None:
        return NOTHING
    if comparison.against is Against.NOTHING:
        return f"<= {shown(comparison.at_most, unit)}"
    return f"<= {shown_ratio(comparison.at_most, comparison.against)}"


def shown_ratio(number: float | None, against: Against) -> str:
    """A ratio for a reader: a share in percent, anything else as a factor."""
    if number is None:
        return NOTHING
    shares = (Against.SHARE_OF_FLOOR, Against.SHARE_OF_WAITING)
    return f"{number:.0%}" if against in shares else f"{number:.3g}x"


def shown(figure: float | None, unit: Unit) -> str:
    """A figure with its unit."""
    if figure is None:
        return NOTHING
    digits = {Unit.STEPS: 0, Unit.TASKS: 0, Unit.TURNS: 0, Unit.SECONDS: 3}.get(unit, 1)
    return f"{figure:,.{digits}f} {unit.value}"


def _probe(outcome: Outcome, side: str) -> str:
    """The probe beside a side's figure."""
    number = outcome.fsync_us(side)
    return NOTHING if number is None else f"{number:.0f}"


def _flat(value: Any) -> str:
    """A fact on one line."""
    return ", ".join(value) if isinstance(value, list) else str(value)
