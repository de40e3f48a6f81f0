"""Goals as a table: each figure before, its bar, and today's."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.bench import report
from tests.bench.catalogue import Against, Comparison

HEADER = ["figure", "before", "goal", "today", "reached"]


@dataclass(frozen=True)
class Goal:
    """One line of the table.

    Attributes:
        name: of the measure or count.
        bars: a bar for each of its numbers.
        at_least: whether the numbers must be as large as the bars, else at most as large.
    """

    name: str
    title: str
    before: str
    bars: tuple[float, ...]
    at_least: bool = False


Figures = Mapping[str, tuple[float, ...]]
"""The numbers of each goal, by its name; those of its floor by `floor_of` its name."""


def floor_of(name: str) -> str:
    """The name under which a goal's floor is among the figures."""
    return f"{name}, floor"


def rows(goals: Iterable[Goal], figures: Figures) -> Iterator[list[str]]:
    """A row for each goal; a speed is judged by the clock, its CPU time and floor are beside it."""
    for goal in goals:
        found = figures.get(goal.name, ())
        numbers, more = found[: len(goal.bars)], found[len(goal.bars) :]
        today = " / ".join(map(_shown, numbers)) + "".join(f" (CPU {_shown(n)})" for n in more)
        if floor := figures.get(floor_of(goal.name)):
            today += f", floor {_shown(floor[0])} (CPU {_shown(floor[1])})"
        bars = " / ".join(map(_shown, goal.bars))
        sign = ">=" if goal.at_least else "<="
        yield [goal.title, goal.before, f"{sign} {bars}", today or "-", verdict(goal, numbers)]


def verdict(goal: Goal, numbers: tuple[float, ...]) -> str:
    """Whether each number reaches its bar."""
    said = {
        report.verdict(
            number,
            Comparison(
                Against.NOTHING,
                at_least=bar if goal.at_least else None,
                at_most=None if goal.at_least else bar,
                required=False,
            ),
        )
        for number, bar in zip(numbers or [None] * len(goal.bars), goal.bars, strict=True)
    }
    return max(said, key=["reached", "not reached", "not measured"].index)


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) or number >= 100 else f"{number:.3g}"
