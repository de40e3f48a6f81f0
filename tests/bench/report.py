"""Outcomes as text: the facts and the tables, as Markdown.

A table of comparisons with LangGraph and with floors, one beside other libraries, and one of
single figures. Wall clock first, CPU time beside it.
"""

from typing import Any

from tests.bench.catalogue import (
    BARE,
    FLOOR,
    PEERS,
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
    BARE: "the bare driver",
    "burr": "Burr",
    "pydantic-graph": "pydantic-graph",
    "workflows": "LlamaIndex workflows",
    "dbos": "DBOS",
}
GOAL = " (goal)"
OF_THE_MACHINE = {"gc", "versions"}
"""Keys of a run that are among the facts."""
OTHERS = {Against.RIVAL: RIVAL, Against.SHARE_OF_WAITING: WAITING}
"""The side with which a figure is compared: the raw floor, unless it is listed here."""


def ratio(outcome: Outcome, comparison: Comparison) -> float | None:
    """The number that a comparison is about; None if a side was not measured."""
    ours = outcome.figure(SUBJECT)
    if comparison.against is Against.NOTHING:
        return ours
    theirs = outcome.figure(other_side(outcome, comparison))
    if ours is None or theirs is None:
        return None
    inverted = comparison.against is Against.RIVAL and not outcome.measure.unit.higher_is_better
    return theirs / ours if inverted else ours / theirs


def cpu_ratio(outcome: Outcome, comparison: Comparison) -> float | None:
    """The same of CPU time: how many times ours theirs is, or ours over a floor's cost.

    None if one of them was not measured.
    """
    if comparison.against is Against.NOTHING:
        return None
    ours, theirs = outcome.cpu_us(SUBJECT), outcome.cpu_us(other_side(outcome, comparison))
    if not ours or not theirs:
        return None
    return ours / theirs if comparison.against is Against.COST_OVER_FLOOR else theirs / ours


def other_side(outcome: Outcome, comparison: Comparison) -> str:
    """The side with which a figure is compared; of several other libraries the fastest."""
    if comparison.against is Against.BEST_PEER:
        return max(PEERS, key=lambda side: outcome.figure(side) or 0)
    return OTHERS.get(comparison.against, FLOOR)


def verdict(number: float | None, comparison: Comparison) -> str:
    """Whether the bar was reached; loud if it was a required one."""
    if comparison.at_least is None and comparison.at_most is None:
        return NOTHING
    if number is None:
        return "not measured"
    reached = (comparison.at_least is None or number >= comparison.at_least) and (
        comparison.at_most is None or number <= comparison.at_most
    )
    if reached:
        return "reached"
    return "NOT REACHED" if comparison.required else "not reached"


def render(facts: dict[str, Any], outcomes: list[Outcome], *, quick: bool) -> str:
    """The whole report."""
    lines = [f"- {name}: {flat(value)}" for name, value in facts.items()]
    if quick:
        lines += ["", "**Quick: sizes too small to judge by. The verdicts mean little.**"]
    for found in (comparison_table(outcomes), others_table(outcomes), single_table(outcomes)):
        lines += ["", *found] if found else []
    lines += ["", *(note for outcome in outcomes for note in notes(outcome))]
    return "\n".join(lines)


def comparison_table(outcomes: list[Outcome]) -> list[str]:
    """A line per comparison with LangGraph, a floor or a bound."""
    rows = [
        _comparison_row(outcome, comparison)
        for outcome in outcomes
        for comparison in outcome.measure.comparisons
        if comparison.against is not Against.BEST_PEER
    ]
    header = ["measure", "actorgraph", "against", "ratio", "required", "reached", "n"]
    header += ["CPU us each: ours, theirs", "CPU ratio", "fsync us: ours, theirs"]
    return table(header, rows) if rows else []


def others_table(outcomes: list[Outcome]) -> list[str]:
    """A line per loop that other libraries run too."""
    rows = [
        _others_row(outcome, comparison)
        for outcome in outcomes
        for comparison in outcome.measure.comparisons
        if comparison.against is Against.BEST_PEER
    ]
    names = [SIDES[side] for side in PEERS]
    header = ["a loop, steps/s (CPU us a step)", "actorgraph", *names, "ratio to the best", "n"]
    return table(header, rows) if rows else []


def single_table(outcomes: list[Outcome]) -> list[str]:
    """A line per figure that is compared with nothing."""
    rows = [_single_row(outcome) for outcome in outcomes if not outcome.measure.comparisons]
    return table(["for comparison", "figure", "n", "CPU us each", "fsync us"], rows) if rows else []


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


def as_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome with every repetition, for a machine."""
    measure = outcome.measure
    compared = [
        {
            "against": each.against.value,
            "ratio": ratio(outcome, each),
            "cpu_ratio": cpu_ratio(outcome, each),
            "required": each.required,
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
        "cpu_us": {side: outcome.cpu_us(side) for side in outcome.runs},
        "fsync_us": {side: outcome.fsync_us(side) for side in outcome.runs},
        "comparisons": compared,
        "failures": outcome.failures,
        "runs": {
            side: [{key: run[key] for key in run if key not in OF_THE_MACHINE} for run in runs]
            for side, runs in outcome.runs.items()
        },
    }


def _comparison_row(outcome: Outcome, comparison: Comparison) -> list[str]:
    """A comparison as cells."""
    measure, against = outcome.measure, comparison.against
    other = other_side(outcome, comparison)
    alone = against is Against.NOTHING
    number, cpu = ratio(outcome, comparison), cpu_ratio(outcome, comparison)
    sides = [SUBJECT] if alone else [SUBJECT, other]
    theirs = f"{SIDES[other]}: {shown(outcome.figure(other), measure.unit)}"
    return [
        measure.title,
        shown(outcome.figure(SUBJECT), measure.unit),
        NOTHING if alone else theirs,
        NOTHING if alone else shown_ratio(number, against),
        required(comparison, measure.unit),
        verdict(number, comparison),
        str(len(outcome.runs.get(SUBJECT, []))),
        ", ".join(_cpu(outcome, side) for side in sides),
        NOTHING if cpu is None else f"{cpu:.3g}x",
        ", ".join(_probe(outcome, side) for side in sides) if measure.disk else NOTHING,
    ]


def _others_row(outcome: Outcome, comparison: Comparison) -> list[str]:
    """A loop of several libraries as cells."""
    cells = [
        NOTHING
        if outcome.figure(side) is None
        else f"{outcome.figure(side):,.0f} ({_cpu(outcome, side)})"
        for side in (SUBJECT, *PEERS)
    ]
    number = shown_ratio(ratio(outcome, comparison), comparison.against)
    return [outcome.measure.title, *cells, number, str(len(outcome.runs.get(SUBJECT, [])))]


def _single_row(outcome: Outcome) -> list[str]:
    """A measure of one side that is compared with nothing, as cells."""
    measure = outcome.measure
    (side,) = measure.sides
    figure = f"{SIDES[side]}: {shown(outcome.figure(side), measure.unit)}"
    probed = _probe(outcome, side) if measure.disk else NOTHING
    count = str(len(outcome.runs.get(side, [])))
    return [measure.title, figure, count, _cpu(outcome, side), probed]


def required(comparison: Comparison, unit: Unit) -> str:
    """A bar in words."""
    goal = "" if comparison.required else GOAL
    if comparison.at_least is not None:
        return f">= {shown_ratio(comparison.at_least, comparison.against)}{goal}"
    if comparison.at_most is None:
        return NOTHING
    if comparison.against is Against.NOTHING:
        return f"<= {shown(comparison.at_most, unit)}{goal}"
    return f"<= {shown_ratio(comparison.at_most, comparison.against)}{goal}"


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
    digits = 0 if unit.higher_is_better else 3 if unit is Unit.SECONDS else 1
    return f"{figure:,.{digits}f} {unit.value}"


def _cpu(outcome: Outcome, side: str) -> str:
    """A side's CPU time for one step, task or call."""
    number = outcome.cpu_us(side)
    return NOTHING if number is None else f"{number:,.1f}"


def _probe(outcome: Outcome, side: str) -> str:
    """The probe beside a side's figure."""
    number = outcome.fsync_us(side)
    return NOTHING if number is None else f"{number:.0f}"


def flat(value: Any) -> str:
    """A fact on one line."""
    return ", ".join(value) if isinstance(value, list) else str(value)
