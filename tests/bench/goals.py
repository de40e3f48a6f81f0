"""The goals of the two drivers, and of tokens: each figure before, its goal, and today's.

    python -m tests.bench.goals               # `make goals`: all but `make test`; half an hour
    python -m tests.bench.goals --counts      # without the speeds; seconds
    python -m tests.bench.goals --speeds FILE # those that `make bench ARGS='--json FILE'` wrote
    python -m tests.bench.goals --tests       # and `make test`, for its CPU time
    python -m tests.bench.goals --tokens FILE # those of tokens to clients instead, from
                                              # `make bench ARGS='--only tokens --json FILE'`

Nothing is measured here. Speeds are rows of `tests.bench`, calls are counted by
`tests.support.house` and `tests.support.post_path`, lines by `tests.support.rings`. What was before
was counted once, by other means: the calls by another profiler, the nucleus by a list of packages;
nearest to it is what a program of graphs over SQLite imports.
"""

import argparse
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.bench import goal_rows, pages, report, rival, token_figures
from tests.bench.catalogue import BARE, RIVAL, SUBJECT, Against, Comparison
from tests.bench.goal_rows import Figures, Goal
from tests.bench.runner import Outcome
from tests.support import post_path, rings

STORED = rival.ROOT / ".bench" / "goals.json"
ROUTERS = {
    "router-none": ("threads-plain-path-none", "threads-none"),
    "router-memory": ("threads-plain-path-memory", "threads-memory"),
    "router-sqlite": ("threads-plain-path-sync", "threads-sync"),
}
"""A measure with a plain router, and the same one with an async router."""

WAYS = {
    "actorgraph.runtime.task.calling.call_user": "in the thread of a blocking call, or a helper's",
    "actorgraph.runtime.task.hops.hop": "in a worker thread",
    "actorgraph.runtime.task.router_threads.RouterThreads": "a router, in one thread for all",
    "actorgraph.runtime.task.calling.call_inline": "a router, on the loop, by declaration",
}
"""The ways in which a node or router that is a plain function is called, kept by hand."""


def _times(name: str, title: str, before: str, bar: float) -> Goal:
    return Goal(name, f"{title}: times LangGraph", before, (bar,), at_least=True)


_CALLS = "calls / functions / files"
GOALS = (
    _times("invoke", "blocking `invoke`, no saver", "3.9-4.2", 7),
    _times("invoke-memory", "blocking `invoke`, memory saver", "6.4-7.0", 8),
    _times("invoke-sqlite", "blocking `invoke`, SQLite, sync", "2.5-2.7", 2.8),
    _times("one-step", "blocking call of one step, no saver", "3.0-3.4", 6),
    _times("one-step-memory", "blocking call of one step, memory saver", "6.4-6.9", 8),
    _times("stream", "blocking `stream`", "3.0-3.1", 6),
    _times("sends", "blocking fan-out of plain Sends", "8.3-8.9", 8),
    _times("threads-none", "1,000 threads, async, no saver", "14.9", 14.9),
    _times("threads-memory", "1,000 threads, async, memory saver", "8.3", 8.3),
    _times("threads-sync", "1,000 threads, async, SQLite, sync", "16.5", 16.5),
    Goal("router-none", "CPU with a plain router, no saver: times an async one", "-", (1.15,)),
    Goal("router-memory", "the same, memory saver", "-", (1.15,)),
    Goal("router-sqlite", "the same, SQLite, sync", "-", (1.15,)),
    Goal(
        "invoke, one step", f"blocking call of one step: {_CALLS}", "210 / 160 / 38", (120, 90, 28)
    ),
    Goal(
        "ainvoke + SQLite, one step",
        f"`ainvoke` of one step, SQLite: {_CALLS}",
        "378 / 195 / 43",
        (330, 170, 34),
    ),
    Goal("post", f"POST to its node, memory: {_CALLS}", "548 / 324 / 73", (350, 220, 45)),
    Goal("nucleus", "nucleus: files / lines of code", "267 / 33,900", (235, 29_500)),
    Goal("product", "product: lines of code", "71,700", (67_500,)),
    Goal("ways", "ways to call a plain function, without the portal", "6", (2,)),
    Goal("inheritance", "depth of inheritance of a compiled graph", "7", (3,)),
    Goal("dependencies", "core dependencies", "8", (7,)),
    Goal("tests", "`make test`: seconds of CPU", "856", (520,)),
)


def speeds(document: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    """The ratios of a measurement: to LangGraph by the clock, then by CPU; routers by CPU."""
    outcomes = {each.measure.name: each for each in pages.outcomes_of(document)}
    against = Comparison(Against.RIVAL)
    found: dict[str, tuple[float, ...]] = {}
    for name, outcome in outcomes.items():
        clock, cpu = report.ratio(outcome, against), report.cpu_ratio(outcome, against)
        if clock is not None and cpu is not None:
            found[name] = (clock, cpu)
        if BARE in outcome.measure.sides and (lower := floor(outcome)):
            found[goal_rows.floor_of(name)] = lower
    for name, sides in ROUTERS.items():
        plain, other = (outcomes[one].cpu_us(SUBJECT) if one in outcomes else None for one in sides)
        if plain and other:
            found[name] = (plain / other,)
    return found


def floor(outcome: Outcome) -> tuple[float, float] | None:
    """How many times LangGraph the bare driver is, by the clock and by CPU; None if unknown."""
    rate, rivals = outcome.figure(BARE), outcome.figure(RIVAL)
    cost, rivals_cost = outcome.cpu_us(BARE), outcome.cpu_us(RIVAL)
    if not rate or not rivals or not cost or not rivals_cost:
        return None
    return rate / rivals, rivals_cost / cost


def speed_names() -> list[str]:
    """The measures of `tests.bench` that the goals need."""
    names = [goal.name for goal in GOALS if goal.title.endswith("times LangGraph")]
    return list(dict.fromkeys([*names, *(name for pair in ROUTERS.values() for name in pair)]))


def measure_speeds() -> None:
    """Measure what the goals need, into `STORED`."""
    command = [sys.executable, "-m", "tests.bench", "--json", str(STORED)]
    subprocess.run(
        [*command, "--only", *speed_names()],
        check=True,
        cwd=rival.ROOT,
        stdout=subprocess.DEVNULL,
    )


def counts() -> dict[str, tuple[float, ...]]:
    """Everything that is counted, and not timed."""
    package = rival.ROOT / "actorgraph"
    post = post_path.figures_in_new_process()["memory", "/wait"]
    return {
        **journeys(),
        "post": (post.calls, post.functions, post.files),
        "nucleus": rings.needed(package),
        "product": (sum(size.lines for size in rings.sizes(package).values()),),
        "ways": (len([_named(name) for name in WAYS]),),
        "inheritance": (depth(_named("actorgraph.CompiledStateGraph")),),
        "dependencies": (dependencies(),),
    }


def journeys() -> dict[str, tuple[float, ...]]:
    """The calls of `python -m tests.support.house --calls`; others have a line of one number."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.house", "--calls"],
        check=True,
        cwd=rival.ROOT,
        text=True,
        capture_output=True,
    )
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
    return {
        name: tuple(int(n.replace(",", "")) for n in found.split(" / ")) for name, found in rows
    }


def _named(path: str) -> Any:
    """What a dotted name names; an error if it is gone."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def depth(cls: type) -> int:
    """The longest chain of our classes from this one up, without the one of type parameters."""
    above = [
        base
        for base in cls.__bases__
        if base.__module__.startswith("actorgraph.") and base.__name__ != "GraphTypes"
    ]
    return 1 + max(map(depth, above), default=0)


def dependencies() -> int:
    """The packages that the library can't do without."""
    text = (rival.ROOT / "pyproject.toml").read_text("utf-8")
    return len(tomllib.loads(text)["project"]["dependencies"])


def tests() -> dict[str, tuple[float, ...]]:
    """Run `make test`; nothing if it fails, because it has ended early then."""
    before = _cpu_of_children()
    command = ["make", "test"]
    failed = subprocess.run(command, check=False, cwd=rival.ROOT).returncode
    return {} if failed else {"tests": (_cpu_of_children() - before,)}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows(figures: Figures) -> Iterator[list[str]]:
    """A row for each goal of the two drivers."""
    return goal_rows.rows(GOALS, figures)


def main() -> int:
    """Print the table that the command line asks for; ends with 0 whatever it says."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.goals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--counts", action="store_true", help="without the speeds")
    parser.add_argument("--speeds", type=Path, metavar="FILE", help="read them from there")
    parser.add_argument("--tests", action="store_true", help="run `make test` too")
    parser.add_argument("--tokens", type=Path, metavar="FILE", help="the goals of tokens instead")
    options = parser.parse_args()
    if options.tokens is not None:
        return _print_tokens(options.tokens)
    figures = counts()
    if not options.counts:
        if options.speeds is None:
            measure_speeds()
        try:
            figures |= speeds(pages.load(options.speeds or STORED))
        except pages.NoFigures as reason:
            print(reason, file=sys.stderr)
            return 1
    if options.tests:
        figures |= tests()
    print("\n".join(report.table(goal_rows.HEADER, list(rows(figures)))))
    return 0


def _print_tokens(path: Path) -> int:
    try:
        document = pages.load_tokens(path)
    except pages.NoFigures as reason:
        print(reason, file=sys.stderr)
        return 1
    found = goal_rows.rows(token_figures.GOALS, token_figures.numbers(document))
    print("\n".join(report.table(goal_rows.HEADER, list(found))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
