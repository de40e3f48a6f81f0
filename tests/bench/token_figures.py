"""Figures of tokens that go to many clients: the cases, what is counted of each, tables and goals.

`tokens.py` measures. A document of figures is a dict, so that it can be stored as JSON:

    {"settings": {...}, "runs": {case: {side: [{figure: number}, ...]}},
     "in_process": a measure as in benchmarks.json,
     "curve": [{"name": "tokens-30", "medians": {side: number}}, ...]}
"""

import sqlite3
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.catalogue import FLOOR, RIVAL, SUBJECT, Against, Comparison, Measure, Unit
from tests.bench.goal_rows import Goal
from tests.bench.report import NOTHING, SIDES, shown_ratio, table
from tests.bench.token_load import Answer

Document = dict[str, Any]
Figures = dict[str, float]
TRIO = (FLOOR, SUBJECT, RIVAL)


@dataclass(frozen=True)
class Case:
    """One load on servers of one kind; the sides have it in turn.

    Attributes:
        kind: of the server, as `token_servers.py` names it.
        clients: how many there are, in all.
        in_turn: whether each begins when the one before has ended, else all begin at once.
        unit: what the CPU is counted of.
        dev: whether LangGraph's side is `langgraph dev`.
    """

    name: str
    title: str
    kind: str
    sides: tuple[str, ...]
    clients: int = 200
    in_turn: bool = False
    unit: str = "token"
    dev: bool = False


CASES = (
    Case("custom", "`custom`", "custom", TRIO),
    Case("custom-stored", "`custom`, resumable", "custom-stored", (SUBJECT,)),
    Case("messages", "`messages`, LangChain's model", "messages", (SUBJECT, RIVAL)),
    Case("messages-stored", "the same, resumable", "messages-stored", (SUBJECT,)),
    Case("model", "`messages`, `ChatCompletions`", "model", (SUBJECT,)),
    Case("routes", "`messages-tuple` by LangGraph's routes", "routes", (SUBJECT, RIVAL), dev=True),
    Case("protocol", "the streaming protocol", "protocol", (SUBJECT, RIVAL), dev=True),
    Case("silent", "a run without tokens", "silent", (SUBJECT, RIVAL), unit="run", dev=True),
    Case("idle", "`custom`, one client at a time", "custom", TRIO, clients=10, in_turn=True),
    Case("crowd", "`custom`, 1,000 clients", "custom", TRIO, clients=1000),
)

CURVE = (10, 30, 100, 200)
"""Clients at once of the points of the chart, in mode `messages`."""

IN_PROCESS = Measure(
    "tokens-in-process",
    "tokens of mode custom in one process",
    "custom_tokens",
    Unit.MICROSECONDS,
    {"runs": 20, "tokens": 1000},
    {"tokens": 100},
    (Comparison(Against.RIVAL), Comparison(Against.NOTHING, at_most=9, required=False)),
    repetitions=3,
)


def figures_of(
    answers: Sequence[Answer | BaseException], case: Case, *, tokens: int, cpu_s: float, memory: int
) -> Figures:
    """The figures of one load.

    Args:
        answers: what each client got.
        tokens: how many an answer has that is whole.
        cpu_s: the server's, for all of them.
        memory: bytes by which the server's peak is above what it had before.
    """
    wanted = tokens if case.unit == "token" else 0
    whole = [one for one in answers if isinstance(one, Answer) and one.tokens >= wanted]
    found: Figures = {"clients": len(answers), "finished": len(whole)}
    if not whole:
        return found
    units = len(whole) * (tokens if case.unit == "token" else 1)
    first = [one.first_s for one in whole]
    found |= {
        "cpu_us": cpu_s / units * 1e6,
        "first_p50_s": quantile(first, 0.5),
        "first_p99_s": quantile(first, 0.99),
        "wall_s": max(one.whole_s for one in whole),
        "bytes": sum(one.size for one in whole) / units,
        "memory_kb": memory / len(answers) / 1024,
    }
    delays = [delay for one in whole for delay in one.delays_s]
    if delays:
        found |= {"delay_p50_ms": quantile(delays, 0.5) * 1e3}
        found |= {"delay_p99_ms": quantile(delays, 0.99) * 1e3}
    return found


def quantile(values: Iterable[float], share: float) -> float:
    """The value that a share of the others isn't above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(document: Document, case: str, side: str, figure: str) -> float | None:
    """The median of a figure over all repetitions that have it."""
    runs = document["runs"].get(case, {}).get(side, [])
    found = [run[figure] for run in runs if figure in run]
    return statistics.median(found) if found else None


def ratio(
    document: Document, figure: str, over: tuple[str, str], under: tuple[str, str]
) -> float | None:
    """One figure of two cases, each of a side, as a ratio of their medians."""
    above, below = median(document, *over, figure), median(document, *under, figure)
    return above / below if above is not None and below else None


def lost(document: Document) -> int:
    """The answers that weren't whole, of actorgraph's."""
    return sum(
        int(run["clients"] - run["finished"])
        for sides in document["runs"].values()
        for run in sides.get(SUBJECT, [])
    )


def figures_table(document: Document) -> list[str]:
    """A line for each case and side, in the order of `CASES`."""
    header = ["", "server", "CPU us each", "of the floor's", "LangGraph's of it"]
    header += ["first token p50 / p99 s", "bytes each", "memory kB a client", "finished", "n"]
    rows = [
        _row(document, case, side)
        for case in CASES
        for side in case.sides
        if document["runs"].get(case.name, {}).get(side)
    ]
    rows += _in_process_rows(document, len(header))
    return table(header, rows) if rows else []


def _in_process_rows(document: Document, width: int) -> Iterator[list[str]]:
    """A line for each side of the tokens that don't leave their process."""
    found = document.get("in_process", {}).get("cpu_us", {})
    ours = found.get(SUBJECT)
    for side, number in found.items():
        theirs = found.get(RIVAL)
        ahead = theirs / ours if side == SUBJECT and ours and theirs else None
        cells = ["`custom` in one process", SIDES[side], f"{number:,.1f}", NOTHING]
        cells.append(shown_ratio(ahead, Against.RIVAL))
        count = str(len(document["in_process"]["runs"][side]))
        yield [*cells, *[NOTHING] * (width - len(cells) - 1), count]


def _row(document: Document, case: Case, side: str) -> list[str]:
    def of(figure: str, digits: int) -> str:
        number = median(document, case.name, side, figure)
        return NOTHING if number is None else f"{number:,.{digits}f}"

    runs = document["runs"][case.name][side]
    mine = (case.name, side)
    floor = (case.name if FLOOR in case.sides else "custom", FLOOR)
    of_tokens = case.unit == "token"
    floors = ratio(document, "cpu_us", mine, floor) if of_tokens else None
    theirs = ratio(document, "cpu_us", (case.name.partition("-")[0], RIVAL), mine)
    finished = min(run["finished"] / run["clients"] for run in runs)
    return [
        case.title,
        _server(case, side),
        of("cpu_us", 0),
        shown_ratio(floors, Against.COST_OVER_FLOOR),
        shown_ratio(theirs, Against.RIVAL) if side == SUBJECT else NOTHING,
        f"{of('first_p50_s', 2)} / {of('first_p99_s', 2)}" if of_tokens else NOTHING,
        of("bytes", 0),
        of("memory_kb", 0),
        f"{finished:.0%}",
        str(len(runs)),
    ]


def _server(case: Case, side: str) -> str:
    if side == FLOOR:
        return "bare generator"
    return "`langgraph dev`" if case.dev and side == RIVAL else SIDES[side]


def _goal(name: str, title: str, before: str, bar: float, *, at_least: bool = False) -> Goal:
    return Goal(name, title, before, (bar,), at_least=at_least)


GOALS = (
    _goal("custom: floor", "`custom`, CPU a token: of the floor's", "2.9", 1.5),
    _goal("custom: ahead", "`custom`: LangGraph's CPU of ours", "1.4", 2.6, at_least=True),
    _goal("stored: floor", "`custom`, resumable: of the floor's", "3.0", 1.7),
    _goal("messages", "`messages`, LangChain's model: CPU us a token", "487", 200),
    _goal("messages: ahead", "`messages`: LangGraph's CPU of ours", "1.17", 2.8, at_least=True),
    _goal("model", "`messages`, `ChatCompletions`: CPU us a token", "-", 140),
    _goal("routes", "`messages` by LangGraph's routes: CPU us a token", "-", 280),
    _goal("protocol", "the streaming protocol: CPU us a token", "-", 280),
    _goal("bytes", "`messages`: bytes a token on the wire", "718", 90),
    _goal("disk", "`messages`: bytes stored of an answer", "19,000", 2500),
    Goal("first", "`custom`, first token p50 / p99: of the floor's", "2.8 / 5.3", (1.6, 1.6)),
    Goal("first: messages", "the same of `messages`", "4.7 / 8.3", (2, 2)),
    _goal("crowd", "1,000 clients: share that has all", "-", 1, at_least=True),
    _goal("memory", "the same: memory kB a client", "-", 60),
    _goal("delay", "a token on an idle server: ms p99", "-", 3),
    _goal("in process", "`custom` in one process: CPU us a token", "13-30", 9),
    _goal("silent", "a run without tokens: CPU us", "6,200-9,000", 4000),
)
"""The bars of these figures; "before" is as measured on 2026-11-27, on two cores."""


def numbers(document: Document) -> dict[str, tuple[float, ...]]:
    """The numbers of the goals that the document has figures for."""
    floor, ours = ("custom", FLOOR), ("custom", SUBJECT)
    messages = ("messages", SUBJECT)

    def of(case: str, figure: str) -> float | None:
        return median(document, case, SUBJECT, figure)

    def firsts(case: tuple[str, str]) -> tuple[float | None, ...]:
        return tuple(ratio(document, f"first_{p}_s", case, floor) for p in ("p50", "p99"))

    crowd = document["runs"].get("crowd", {}).get(SUBJECT, [])
    found: dict[str, tuple[float | None, ...]] = {
        "custom: floor": (ratio(document, "cpu_us", ours, floor),),
        "custom: ahead": (ratio(document, "cpu_us", ("custom", RIVAL), ours),),
        "stored: floor": (ratio(document, "cpu_us", ("custom-stored", SUBJECT), floor),),
        "messages": (of("messages", "cpu_us"),),
        "messages: ahead": (ratio(document, "cpu_us", ("messages", RIVAL), messages),),
        "model": (of("model", "cpu_us"),),
        "routes": (of("routes", "cpu_us"),),
        "protocol": (of("protocol", "cpu_us"),),
        "bytes": (of("messages", "bytes"),),
        "disk": (stored_bytes(document),),
        "first": firsts(ours),
        "first: messages": firsts(messages),
        "crowd": (min((run["finished"] / run["clients"] for run in crowd), default=None),),
        "memory": (of("crowd", "memory_kb"),),
        "delay": (of("idle", "delay_p99_ms"),),
        "in process": (document.get("in_process", {}).get("cpu_us", {}).get(SUBJECT),),
        "silent": (of("silent", "cpu_us"),),
    }
    return {
        name: tuple(number for number in each if number is not None)
        for name, each in found.items()
        if all(number is not None for number in each)
    }


def stored_bytes(document: Document) -> float | None:
    """Bytes on disk of an answer's events: what a database has more whose runs are resumable."""
    more = median(document, "messages-stored", SUBJECT, "disk_bytes")
    less = median(document, "messages", SUBJECT, "disk_bytes")
    return None if more is None or less is None else more - less


def used_bytes(database: Path) -> int:
    """Bytes of the pages that a closed database uses; 0 if there is none.

    Free pages, which later rows take, aren't counted: a file never shrinks by itself.
    """
    if not database.exists():
        return 0
    with closing(sqlite3.connect(database)) as connection:
        names = ("page_count", "freelist_count", "page_size")
        pages, free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return (pages - free) * size
