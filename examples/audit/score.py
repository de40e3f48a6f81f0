"""The figures of a package's files -> its hot spots, its risk, and what to do about it.

Receives   the FileMeasures of one package, in any order
Sends      a Ranking, a Question for a reviewer, the verdict that a policy would give
Invariant  the order of the measures changes nothing, and every ratio is rounded: two runs of
           an audit agree to the last byte, whatever finished first.
"""

from typing import Literal, TypedDict

from audit.measure import (
    BRANCHES_MAX,
    LINES_MAX,
    NESTING_MAX,
    FileMeasure,
    FunctionMeasure,
    past_a_limit,
)

# From here on a package is shown to a reviewer.
RISK_THRESHOLD = 55.0

# Parts of the risk, in points of 100, and the share at which each has all its points:
# no package has every line in a hot function, so half of them is as bad as it gets.
HOT_POINTS, HOT_SHARE_FULL = 50, 0.50
BRANCH_POINTS, BRANCHES_PER_100_FULL = 25, 25.0
UNDOCUMENTED_POINTS, UNDOCUMENTED_SHARE_FULL = 25, 1.0
# A small module is read in one go, so its risk grows with its size up to here.
CODE_FULL = 500

HOT_SPOTS_KEPT = 10
HOT_SPOTS_ASKED = 3

Advice = Literal["split", "document", "watch", "accept"]
ADVICE: tuple[Advice, ...] = ("split", "document", "watch", "accept")


class HotSpot(FunctionMeasure):
    """A function past a limit. Its score adds up how far: 1.0 for each limit it just reaches."""

    file: str
    score: float


class Problem(TypedDict):
    """A file that could not be measured."""

    file: str
    problem: str


class Totals(TypedDict):
    """The figures of several files, added up."""

    files: int
    lines: int
    code: int
    classes: int
    functions: int
    branches: int
    public: int
    undocumented: int


class Ranking(TypedDict):
    """One package, weighed."""

    totals: Totals
    nesting: int
    hot_functions: int
    hot_share: float
    branches_per_100: float
    undocumented_share: float
    risk: float
    hot_spots: list[HotSpot]
    longest: list[HotSpot]
    problems: list[Problem]


class Question(TypedDict):
    """A question to the reviewer about one package."""

    package: str
    risk: float
    reasons: list[str]
    hot_spots: list[str]
    advice: Advice


class Verdict(TypedDict):
    """A reviewer's answer. `by` is the policy, or a person."""

    advice: Advice
    by: str


def rank_files(measures: list[FileMeasure]) -> Ranking:
    """Weigh one package.

    Args:
        measures: one entry per file, in any order. Not modified.
    """
    files = sorted(measures, key=lambda measure: measure["file"])
    totals = add_up(files)
    spots = [_hot_spot(file, function) for file in files for function in file["notable"]]
    hot = sorted(filter(past_a_limit, spots), key=_worst_first)
    hot_share = _share(sum(map(_hot_lines, files)), totals["lines"])
    branches_per_100 = round(100 * totals["branches"] / max(1, totals["code"]), 1)
    undocumented_share = _share(totals["undocumented"], totals["public"])
    return Ranking(
        totals=totals,
        nesting=max((file["nesting"] for file in files), default=0),
        hot_functions=len(hot),
        hot_share=hot_share,
        branches_per_100=branches_per_100,
        undocumented_share=undocumented_share,
        risk=_risk(totals["code"], hot_share, branches_per_100, undocumented_share),
        hot_spots=hot[:HOT_SPOTS_KEPT],
        longest=sorted(spots, key=_longest_first)[:HOT_SPOTS_KEPT],
        problems=[
            Problem(file=file["file"], problem=file["problem"]) for file in files if file["problem"]
        ],
    )


def add_up(files: list[FileMeasure]) -> Totals:
    """Add the figures of files."""
    return Totals(
        files=len(files),
        lines=sum(file["lines"] for file in files),
        code=sum(file["code"] for file in files),
        classes=sum(file["classes"] for file in files),
        functions=sum(file["functions"] for file in files),
        branches=sum(file["branches"] for file in files),
        public=sum(file["public"] for file in files),
        undocumented=sum(file["undocumented"] for file in files),
    )


def reasons(ranking: Ranking) -> list[str]:
    """Explain a package's risk, in sentences that a reviewer can check."""
    hot = f"{ranking['hot_functions']:,} functions are past a limit"
    return [
        f"{hot} and hold {ranking['hot_share']:.0%} of the lines",
        f"{ranking['branches_per_100']:g} branches per 100 lines of code",
        f"{ranking['undocumented_share']:.0%} of the public names have no docstring",
    ]


def suggested_advice(ranking: Ranking) -> Advice:
    """Return the advice that the figures suggest; the demo's reviewer follows it."""
    if ranking["risk"] < RISK_THRESHOLD:
        return "accept"
    if ranking["hot_share"] >= HOT_SHARE_FULL * 0.8:
        return "split"
    if ranking["undocumented_share"] >= UNDOCUMENTED_SHARE_FULL * 0.6:
        return "document"
    return "watch"


def question_about(package: str, ranking: Ranking) -> Question:
    """Make the question that a reviewer needs to give a verdict."""
    return Question(
        package=package,
        risk=ranking["risk"],
        reasons=reasons(ranking),
        hot_spots=[place_of(spot) for spot in ranking["hot_spots"][:HOT_SPOTS_ASKED]],
        advice=suggested_advice(ranking),
    )


def place_of(spot: HotSpot) -> str:
    """The place of a hot spot: "json/decoder.py:70 py_scanstring"."""
    return f"{spot['file']}:{spot['line']} {spot['name']}"


def _hot_spot(file: FileMeasure, function: FunctionMeasure) -> HotSpot:
    score = (
        function["lines"] / LINES_MAX
        + function["branches"] / BRANCHES_MAX
        + function["nesting"] / NESTING_MAX
    )
    return HotSpot(
        file=file["file"],
        name=function["name"],
        line=function["line"],
        lines=function["lines"],
        branches=function["branches"],
        nesting=function["nesting"],
        score=round(score, 1),
    )


def _worst_first(spot: HotSpot) -> tuple[float, str, int]:
    return -spot["score"], spot["file"], spot["line"]


def _longest_first(spot: HotSpot) -> tuple[int, str, int]:
    return -spot["lines"], spot["file"], spot["line"]


def _hot_lines(file: FileMeasure) -> int:
    """Lines in functions past a limit. A function inside another adds no line of its own."""
    lines, last = 0, 0
    for function in filter(past_a_limit, file["notable"]):
        if function["line"] > last:
            last = function["line"] + function["lines"] - 1
            lines += function["lines"]
    return lines


def _share(part: int, whole: int) -> float:
    return round(part / max(1, whole), 3)


def _risk(code: int, hot: float, branches_per_100: float, undocumented: float) -> float:
    points = (
        HOT_POINTS * min(1.0, hot / HOT_SHARE_FULL)
        + BRANCH_POINTS * min(1.0, branches_per_100 / BRANCHES_PER_100_FULL)
        + UNDOCUMENTED_POINTS * min(1.0, undocumented / UNDOCUMENTED_SHARE_FULL)
    )
    return round(points * min(1.0, code / CODE_FULL), 1)
