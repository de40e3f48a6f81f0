"""The measures: their size, number and requirements. Data only.

A measure is one workload of `workloads.py` with its arguments. Its figure is compared with
LangGraph's, with a raw floor, or with a fixed bound; a comparison may carry a required bar.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

SUBJECT = "actorgraph"
RIVAL = "langgraph"
FLOOR = "floor"  # raw sqlite3, on the rows that the subject just wrote
WAITING = "waiting"  # the same rows, each superstep's handed over by a task that waits for it
RAW = "raw"  # no library at all


class Unit(Enum):
    """The unit of a figure, and which way is better."""

    STEPS = "steps/s"
    TASKS = "tasks/s"
    TURNS = "turns/s"
    MICROSECONDS = "us"
    MILLISECONDS = "ms"
    SECONDS = "s"
    MULTIPLE = "x state"
    SHARE = "% of a step"

    @property
    def higher_is_better(self) -> bool:
        """Whether the figure is a rate."""
        return self in {Unit.STEPS, Unit.TASKS, Unit.TURNS}


class Against(Enum):
    """The reference of a figure, and how the comparison reads."""

    RIVAL = "times LangGraph"  # how many times better: a rate over a rate, or a cost under a cost
    COST_OVER_FLOOR = "times the floor"  # the cost, as a multiple of the raw cost
    SHARE_OF_FLOOR = "of the floor"  # the rate, as a share of the raw rate
    SHARE_OF_WAITING = "of the waiting tasks"  # the same of what tasks get that only wait
    NOTHING = "the figure itself"


@dataclass(frozen=True)
class Comparison:
    """One line of the table; `at_least` or `at_most` is the required bar, if there is one."""

    against: Against
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True)
class Measure:
    """One workload at one size.

    Attributes:
        workload: the function of `workloads.py`, by name.
        arguments: its keyword arguments; `quick` overrides some of them for a smoke run.
        floor: the raw floor of `floors.py` measured after each run of it, on its database.
        disk: whether storage is part of the figure; then the fsync probe is measured beside it.
        sides: who runs it, in this order.
    """

    name: str
    title: str
    workload: str
    unit: Unit
    arguments: dict[str, Any]
    quick: dict[str, Any]
    comparisons: tuple[Comparison, ...] = (Comparison(Against.RIVAL),)
    repetitions: int = 5
    floor: str | None = None
    disk: bool = False
    sides: tuple[str, ...] = (SUBJECT, RIVAL)
    asyncio_only: bool = False


def _versus(bar: float) -> tuple[Comparison, ...]:
    """The single comparison with LangGraph, with its bar."""
    return (Comparison(Against.RIVAL, at_least=bar),)


_LOOP = {"steps": 3000, "saver": None, "durability": None}
_THREADS = {"threads": 1000, "steps": 10, "durability": "sync", "synchronous": "FULL"}
_QUICK_THREADS = {"threads": 50, "steps": 4}
_FAN_OUT = {"tasks": 1000, "saver": None, "rounds": 3}
_DIALOGUE = {"turns": 400, "text_chars": 400}
_ONE = {"steps": 500, "saver": "sqlite", "durability": "sync"}

MEASURES: tuple[Measure, ...] = (
    Measure("loop", "one thread, no saver", "loop", Unit.STEPS, _LOOP, {"steps": 300}, _versus(8)),
    Measure(
        "loop-memory",
        "one thread, memory saver, sync",
        "loop",
        Unit.STEPS,
        {**_LOOP, "saver": "memory", "durability": "sync"},
        {"steps": 300},
        _versus(6),
    ),
    Measure(
        "threads-sync",
        "1,000 threads x 10 steps, SQLite FULL, sync",
        "threads",
        Unit.STEPS,
        _THREADS,
        _QUICK_THREADS,
        (
            *_versus(10),
            Comparison(Against.SHARE_OF_FLOOR, at_least=0.40),
            Comparison(Against.SHARE_OF_WAITING),
        ),
        floor="group_commit",
        disk=True,
    ),
    Measure(
        "fan-out",
        "fan-out of 1,000 Sends, no saver",
        "fan_out",
        Unit.TASKS,
        _FAN_OUT,
        {"tasks": 200, "rounds": 1},
        _versus(4),
    ),
    Measure(
        "fan-out-memory",
        "fan-out of 1,000 Sends, memory saver, sync",
        "fan_out",
        Unit.TASKS,
        {**_FAN_OUT, "saver": "memory"},
        {"tasks": 200, "rounds": 1},
        repetitions=3,
    ),
    Measure(
        "import",
        "import of the library in a fresh process",
        "import_time",
        Unit.SECONDS,
        {},
        {},
        (Comparison(Against.NOTHING, at_most=0.25), Comparison(Against.RIVAL)),
        repetitions=9,
    ),
    Measure(
        "sqlite-one",
        "one thread, SQLite FULL, sync, per superstep",
        "loop",
        Unit.MICROSECONDS,
        _ONE,
        {"steps": 100},
        (Comparison(Against.COST_OVER_FLOOR, at_most=3), Comparison(Against.RIVAL)),
        floor="single_commits",
        disk=True,
    ),
    Measure(
        "checksums",
        "checksums of rows, 100 threads x 10 steps, SQLite",
        "checksums",
        Unit.SHARE,
        {**_THREADS, "threads": 100},
        _QUICK_THREADS,
        (Comparison(Against.NOTHING, at_most=3),),
        sides=(SUBJECT,),
    ),
    Measure(
        "chat-bytes",
        "bytes on disk after a chat of 400 turns",
        "chat",
        Unit.MULTIPLE,
        {"turns": 400, "text_chars": 400},
        {"turns": 20},
        (Comparison(Against.NOTHING, at_most=8), Comparison(Against.RIVAL)),
        # Seeded texts: the bytes are nearly the same at each run.
        repetitions=1,
        disk=True,
    ),
    Measure(
        "chat-turns",
        "a chat of 400 turns, SQLite FULL, sync",
        "dialogue",
        Unit.TURNS,
        _DIALOGUE,
        {"turns": 20},
        _versus(5),
        repetitions=3,
        disk=True,
    ),
    Measure(
        "history-10",
        "the newest 10 snapshots of that chat",
        "history",
        Unit.MILLISECONDS,
        {**_DIALOGUE, "limit": 10},
        {"turns": 20},
        repetitions=3,
    ),
    Measure(
        "history-all",
        "all 1,200 snapshots of that chat",
        "history",
        Unit.MILLISECONDS,
        {**_DIALOGUE, "limit": None},
        {"turns": 20},
        repetitions=3,
    ),
    Measure(
        "loop-plain-path",
        "one thread, no saver, the path a plain function",
        "loop",
        Unit.STEPS,
        {**_LOOP, "plain": ["path"]},
        {"steps": 300},
        repetitions=3,
    ),
    Measure(
        "loop-plain",
        "one thread, no saver, node and path plain functions",
        "loop",
        Unit.STEPS,
        {**_LOOP, "plain": ["node", "path"]},
        {"steps": 300},
        repetitions=3,
    ),
    Measure(
        "threads-async",
        "1,000 threads x 10 steps, SQLite FULL, async",
        "threads",
        Unit.STEPS,
        {**_THREADS, "durability": "async"},
        _QUICK_THREADS,
        repetitions=3,
        disk=True,
    ),
    Measure(
        "threads-exit",
        "1,000 threads x 10 steps, SQLite FULL, exit",
        "threads",
        Unit.STEPS,
        {**_THREADS, "durability": "exit"},
        _QUICK_THREADS,
        repetitions=3,
        disk=True,
    ),
    Measure(
        "threads-normal",
        "the same, sync, with LangGraph at synchronous=NORMAL",
        "threads",
        Unit.STEPS,
        {**_THREADS, "synchronous": "NORMAL"},
        _QUICK_THREADS,
        (),
        repetitions=1,
        disk=True,
        sides=(RIVAL,),
    ),
    Measure(
        "mailbox-stream",
        "round trip, two anyio memory streams, send and receive awaited",
        "mailbox_streams",
        Unit.MICROSECONDS,
        {"round_trips": 20_000, "nowait": False},
        {"round_trips": 2_000},
        (),
        sides=(RAW,),
    ),
    Measure(
        "mailbox-nowait",
        "the same with send_nowait",
        "mailbox_streams",
        Unit.MICROSECONDS,
        {"round_trips": 20_000, "nowait": True},
        {"round_trips": 2_000},
        (),
        sides=(RAW,),
    ),
    Measure(
        "mailbox-deque",
        "round trip, a deque and one parked future each way (asyncio)",
        "mailbox_deque",
        Unit.MICROSECONDS,
        {"round_trips": 20_000},
        {"round_trips": 2_000},
        (),
        sides=(RAW,),
        asyncio_only=True,
    ),
)


def select(names: list[str] | None, *, quick: bool) -> list[Measure]:
    """The measures with these names (all if None), at full or at quick size.

    Raises: SystemExit, if a name is unknown.
    """
    unknown = set(names or ()) - {measure.name for measure in MEASURES}
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; --list prints the names")
    chosen = [measure for measure in MEASURES if names is None or measure.name in names]
    return [_at_quick_size(measure) for measure in chosen] if quick else chosen


def _at_quick_size(measure: Measure) -> Measure:
    """The same measure, small and once."""
    return replace(measure, arguments={**measure.arguments, **measure.quick}, repetitions=1)
