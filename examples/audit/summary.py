"""All audited packages, added up: what the reports and the summary line say.

Receives   the packages that got as far as a ranking, in any order
Sends      an Overview
Invariant  nothing in it depends on time, place, or the order in which packages finished.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from audit.measure import FileMeasure
from audit.score import HotSpot, Problem, Ranking, Totals, Verdict, add_up

HOT_SPOTS_SHOWN = 25

# States of a package. The three in the middle are a reviewer's verdicts to act on.
STANDINGS = ("waiting", "split", "document", "watch", "accept", "below")


@dataclass(frozen=True, slots=True)
class AuditedPackage:
    """One package, measured and ranked.

    Args:
        report: its own report, relative to the folder of the reports.
        verdict: None if it was not asked for, or not given yet.
        waits: whether a reviewer has yet to answer.
    """

    name: str
    report: str
    measures: list[FileMeasure]
    ranking: Ranking
    verdict: Verdict | None
    waits: bool = False

    @property
    def standing(self) -> str:
        """One of STANDINGS."""
        if self.waits:
            return "waiting"
        return self.verdict["advice"] if self.verdict else "below"


@dataclass(frozen=True, slots=True)
class Overview:
    """The content of the main report."""

    title: str
    packages: list[AuditedPackage]  # the riskiest first
    totals: Totals
    standings: dict[str, int]
    hot_functions: int
    hot_spots: list[HotSpot]  # the worst of all packages
    problems: list[Problem]

    @property
    def reviewed(self) -> list[AuditedPackage]:
        """The packages that a reviewer was asked about, the riskiest first."""
        return [package for package in self.packages if package.standing != "below"]


def overview_of(title: str, packages: Iterable[AuditedPackage]) -> Overview:
    """Add packages up."""
    ordered = sorted(packages, key=lambda p: (-p.ranking["risk"], p.name))
    standings = Counter(package.standing for package in ordered)
    spots = [spot for package in ordered for spot in package.ranking["hot_spots"]]
    return Overview(
        title=title,
        packages=ordered,
        totals=add_up([file for package in ordered for file in package.measures]),
        standings={standing: standings[standing] for standing in STANDINGS},
        hot_functions=sum(package.ranking["hot_functions"] for package in ordered),
        hot_spots=sorted(spots, key=lambda s: (-s["score"], s["file"], s["line"]))[
            :HOT_SPOTS_SHOWN
        ],
        problems=[
            problem
            for package in sorted(ordered, key=lambda p: p.name)
            for problem in package.ranking["problems"]
        ],
    )


def undocumented_share(totals: Totals) -> float:
    """The share of public names without a docstring."""
    return totals["undocumented"] / max(1, totals["public"])
