"""The measures: their size, number and requirements. Data only.

A measure is one workload of `workloads.py`, `blocking.py` or `mailboxes.py` with its arguments. Its
figure is compared with LangGraph's, with a raw floor, with a fixed bound or with other libraries;
a comparison may carry a bar. A bar is required, or it is a goal.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

SUBJECT = "actorgraph"
RIVAL = "langgraph"
FLOOR = "floor"  # raw sqlite3, on the rows that the subject just wrote
WAITING = "waiting"  # the same rows, each superstep's handed over by a task that waits for it
RAW = "raw"  # no library at all
BARE = "bare"  # ours, over the least driver of blocking calls: `bare.py`
PEERS = ("burr", "pydantic-graph", "workflows", "dbos")  # they share one environment


class Unit(Enum):
    """The unit of a figure, and which way is better."""

    STEPS = "steps/s"
    TASKS = "tasks/s"
    TURNS = "turns/s"
    CALLS = "calls/s"
    MICROSECONDS = "us"
    MILLISECONDS = "ms"
    SECONDS = "s"
    MULTIPLE = "x state"
    SHARE = "% of a step"

    @property
    def higher_is_better(self) -> bool:
        """Whether the figure is a rate."""
        return self in {Unit.STEPS, Unit.TASKS, Unit.TURNS, Unit.CALLS}


class Against(Enum):
    """The reference of a figure, and how the comparison reads."""

    RIVAL = "times LangGraph"  # how many times better: a rate over a rate, or a cost under a cost
    COST_OVER_FLOOR = "times the floor"  # the cost, as a multiple of the raw cost
    SHARE_OF_FLOOR = "of the floor"  # the rate, as a share of the raw rate
    SHARE_OF_WAITING = "of the waiting tasks"  # the same of what tasks get that only wait
    BEST_PEER = "times the best of the others"
    NOTHING = "the figure itself"


class Group(Enum):
    """The table or picture that a measure is for; `--group` picks."""

    FIGURES = "figures"  # the table of comparisons
    OTHERS = "others"  # the table beside other libraries
    CHARTS = "charts"  # the points of a curve
    RAW = "raw"  # lower bounds of message passing


@dataclass(frozen=True)
class Comparison:
    """One line of the table; `at_least` or `at_most` is the bar, if there is one.

    `required` says whether the bar must be reached; else it is a goal.
    """

    against: Against
    at_least: float | None = None
    at_most: float | None = None
    required: bool = True


@dataclass(frozen=True)
class Measure:
    """One workload at one size.

    Attributes:
        workload: the function of `workloads.py`, or of another module as "module.function".
        arguments: its keyword arguments; `quick` overrides some of them for a smoke run.
        floor: the raw floor of `floors.py` measured after each run of it, on its database.
        disk: whether storage is part of the figure; then the fsync probe is measured beside it.
        sides: who runs it, in this order.
        peer_workload: the function of `peers.py` that the other libraries run in its place.
        server: whether it gets the address of an empty PostgreSQL database as `url`.
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
    peer_workload: str | None = None
    server: bool = False
    group: Group = Group.FIGURES


def _versus(bar: float, *, required: bool = True) -> tuple[Comparison, ...]:
    """The single comparison with LangGraph, with its bar."""
    return (Comparison(Against.RIVAL, at_least=bar, required=required),)


_LOOP = {"steps": 3000, "saver": None, "durability": None}
_SQLITE_LOOP = {"steps": 500, "saver": "sqlite"}
_SQLITE_SYNC = "blocking invoke, SQLite FULL, sync"
_PATH, _BOTH = {"plain": ["path"]}, {"plain": ["node", "path"]}
_THREADS = {"threads": 1000, "steps": 10, "durability": "sync"}
_QUICK_THREADS = {"threads": 50, "steps": 4}
_FAN_OUT = {"tasks": 1000, "saver": None, "rounds": 3}
_SENDS = {"tasks": 500, "rounds": 3, "sleep_s": 0}
_DIALOGUE = {"turns": 400, "text_chars": 400}
_PEER_LOOP = {"steps": 1000, "saver": None}


def _blocking(
    name: str, title: str, workload: str, unit: Unit, bar: float, **arguments: Any
) -> Measure:
    """A measure of blocking calls with plain functions."""
    return Measure(
        name,
        title,
        f"blocking.{workload}",
        unit,
        arguments,
        {"steps": 100} if "steps" in arguments else {},
        _versus(bar),
        disk=arguments.get("saver") == "sqlite",
        sides=(SUBJECT, BARE, RIVAL) if "saver" in arguments else (SUBJECT, RIVAL),
    )


def _loop(
    name: str, title: str, bar: float, arguments: dict[str, Any], *, required: bool = True
) -> Measure:
    """A measure of one thread, with `ainvoke`."""
    return Measure(
        name,
        title,
        "loop",
        Unit.STEPS,
        {**_LOOP, **arguments},
        {"steps": 100},
        _versus(bar, required=required),
        disk=arguments.get("saver") == "sqlite",
    )


def _threads(
    name: str, title: str, bar: float, arguments: dict[str, Any], *, required: bool = True
) -> Measure:
    """A measure of 1,000 threads at once, on SQLite unless the arguments say otherwise."""
    return Measure(
        name,
        f"1,000 threads x 10 steps, {title}",
        "threads",
        Unit.STEPS,
        {**_THREADS, **arguments},
        _QUICK_THREADS,
        _versus(bar, required=required),
        disk=arguments.get("saver", "sqlite") == "sqlite",
    )


def _peers(name: str, title: str, kind: str, saver: str | None, peers: Iterable[str]) -> Measure:
    """A loop that other libraries run too, each in its own way."""
    blocking = kind == "blocking"
    return Measure(
        name,
        title,
        "blocking.loop" if blocking else "loop",
        Unit.STEPS,
        {**_PEER_LOOP, "saver": saver, **({} if blocking else {"durability": saver and "sync"})},
        {"steps": 100},
        (Comparison(Against.BEST_PEER),),
        disk=bool(saver),
        sides=(SUBJECT, *peers),
        peer_workload=f"{kind}_loop",
        group=Group.OTHERS,
    )


_BLOCKING_CALLS = (
    _blocking("invoke", "blocking invoke, no saver", "loop", Unit.STEPS, 5, steps=1000, saver=None),
    _blocking(
        "invoke-memory",
        "blocking invoke, memory saver",
        "loop",
        Unit.STEPS,
        4,
        steps=1000,
        saver="memory",
    ),
    _blocking("invoke-sqlite", _SQLITE_SYNC, "loop", Unit.STEPS, 2.2, **_SQLITE_LOOP),
    _blocking(
        "one-step", "blocking invoke of one step", "one_step", Unit.CALLS, 3, calls=300, saver=None
    ),
    _blocking(
        "one-step-memory",
        "blocking invoke of one step, memory saver",
        "one_step",
        Unit.CALLS,
        5,
        calls=300,
        saver="memory",
    ),
    _blocking(
        "stream", "blocking stream, no saver", "stream", Unit.STEPS, 4, steps=1000, saver=None
    ),
    _blocking("sends", "blocking fan-out of 500 Sends", "fan_out", Unit.TASKS, 6, **_SENDS),
    _blocking(
        "sends-sleeping",
        "blocking fan-out of 200 Sends that sleep 10 ms",
        "fan_out",
        Unit.TASKS,
        7,
        **{**_SENDS, "tasks": 200, "sleep_s": 0.01},
    ),
)
"""Plain functions, called from a program without an event loop."""

_ONE_THREAD = (
    _loop("loop", "one thread, no saver", 15, {}, required=False),
    _loop(
        "loop-memory",
        "one thread, memory saver, sync",
        6,
        {"saver": "memory", "durability": "sync"},
    ),
    _loop("loop-plain-path", "one thread, plain path, no saver", 10, _PATH),
    _loop(
        "loop-plain-path-memory",
        "one thread, plain path, memory saver, sync",
        6,
        {"saver": "memory", "durability": "sync", **_PATH},
    ),
    _loop(
        "loop-plain-path-async",
        "one thread, plain path, SQLite FULL, async",
        10,
        {**_SQLITE_LOOP, "durability": "async", **_PATH},
    ),
    _loop(
        "loop-plain-path-exit",
        "one thread, plain path, SQLite FULL, exit",
        6,
        {**_SQLITE_LOOP, "durability": "exit", **_PATH},
    ),
    _loop("loop-plain", "one thread, plain node and path, no saver", 4, _BOTH),
    _loop(
        "loop-plain-memory",
        "one thread, plain node and path, memory saver, sync",
        4,
        {"saver": "memory", "durability": "sync", **_BOTH},
    ),
)

_MANY_THREADS = (
    Measure(
        "threads-sync",
        "1,000 threads x 10 steps, SQLite FULL, sync",
        "threads",
        Unit.STEPS,
        _THREADS,
        _QUICK_THREADS,
        (
            *_versus(15),
            Comparison(Against.SHARE_OF_FLOOR),
            Comparison(Against.SHARE_OF_WAITING, at_least=0.45, required=False),
        ),
        floor="group_commit",
        disk=True,
    ),
    _threads("threads-async", "SQLite FULL, async", 16, {"durability": "async"}),
    _threads("threads-exit", "SQLite FULL, exit", 9, {"durability": "exit"}),
    _threads("threads-plain-path-sync", "plain path, SQLite FULL, sync", 14, _PATH),
    _threads(
        "threads-plain-path-async",
        "plain path, SQLite FULL, async",
        12,
        {"durability": "async", **_PATH},
    ),
    _threads(
        "threads-plain-path-exit",
        "plain path, SQLite FULL, exit",
        7,
        {"durability": "exit", **_PATH},
    ),
    _threads("threads-plain-sync", "plain node and path, SQLite FULL, sync", 8, _BOTH),
    _threads(
        "threads-plain-async",
        "plain node and path, SQLite FULL, async",
        8,
        {"durability": "async", **_BOTH},
    ),
    _threads(
        "threads-plain-exit",
        "plain node and path, SQLite FULL, exit",
        3,
        {"durability": "exit", **_BOTH},
    ),
    _threads("threads-none", "no saver", 14, {"saver": None, "durability": None}, required=False),
    _threads("threads-memory", "memory saver, sync", 8, {"saver": "memory"}, required=False),
    _threads(
        "threads-plain-path-none",
        "plain path, no saver",
        9,
        {"saver": None, "durability": None, **_PATH},
        required=False,
    ),
    _threads(
        "threads-plain-path-memory",
        "plain path, memory saver, sync",
        8,
        {"saver": "memory", **_PATH},
        required=False,
    ),
    Measure(
        "postgres",
        "1,000 threads x 10 steps, PostgreSQL, sync",
        "threads",
        Unit.STEPS,
        {**_THREADS, "saver": "postgres"},
        _QUICK_THREADS,
        _versus(4, required=False),
        disk=True,
        server=True,
    ),
    Measure(
        "threads-normal",
        "1,000 threads x 10 steps, sync, with LangGraph at synchronous=NORMAL",
        "threads",
        Unit.STEPS,
        {**_THREADS, "synchronous": "NORMAL"},
        _QUICK_THREADS,
        (),
        repetitions=1,
        disk=True,
        sides=(RIVAL,),
    ),
)

_STATE = (
    Measure(
        "fan-out",
        "fan-out of 1,000 Sends, no saver",
        "fan_out",
        Unit.TASKS,
        _FAN_OUT,
        {"tasks": 200, "rounds": 1},
        _versus(8, required=False),
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
        (Comparison(Against.NOTHING, at_most=0.12, required=False), Comparison(Against.RIVAL)),
        repetitions=9,
    ),
    Measure(
        "sqlite-one",
        "one thread, SQLite FULL, sync, per superstep",
        "loop",
        Unit.MICROSECONDS,
        {**_SQLITE_LOOP, "durability": "sync"},
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
        "large-value",
        "50 steps that carry 1 MB, SQLite FULL, sync",
        "large_value",
        Unit.STEPS,
        {"steps": 50, "value_bytes": 1_000_000, "saver": "sqlite"},
        {"steps": 10},
        _versus(8, required=False),
        disk=True,
    ),
    Measure(
        "large-state",
        "the newest state with 10 MB, which each step changed, SQLite",
        "large_reads",
        Unit.MILLISECONDS,
        {"steps": 3, "value_bytes": 10_000_000, "history": False},
        {"value_bytes": 100_000},
        repetitions=3,
        disk=True,
    ),
    Measure(
        "large-history",
        "3 snapshots of such a thread",
        "large_reads",
        Unit.MILLISECONDS,
        {"steps": 3, "value_bytes": 10_000_000, "history": True},
        {"value_bytes": 100_000},
        repetitions=3,
        disk=True,
    ),
    Measure(
        "chat-bytes",
        "bytes on disk after a chat of 400 turns",
        "chat",
        Unit.MULTIPLE,
        _DIALOGUE,
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
        _versus(5, required=False),
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
)

_MAILBOXES = (
    Measure(
        "mailbox-stream",
        "round trip, two anyio memory streams, send and receive awaited",
        "mailbox_streams",
        Unit.MICROSECONDS,
        {"round_trips": 20_000, "nowait": False},
        {"round_trips": 2_000},
        (),
        sides=(RAW,),
        group=Group.RAW,
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
        group=Group.RAW,
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
        group=Group.RAW,
    ),
)

_OTHERS = (
    _peers(
        "others-blocking",
        "plain functions, blocking, no saver",
        "blocking",
        None,
        ("burr", "pydantic-graph"),
    ),
    _peers(
        "others-async",
        "async functions, no saver",
        "async",
        None,
        ("burr", "pydantic-graph", "workflows"),
    ),
    _peers(
        "others-blocking-sqlite",
        "plain functions, blocking, SQLite",
        "blocking",
        "sqlite",
        ("burr", "dbos"),
    ),
    _peers("others-async-sqlite", "async functions, SQLite", "async", "sqlite", ("burr", "dbos")),
)

_CURVE_OF_THREADS = tuple(
    Measure(
        f"threads-{count}",
        f"{count:,} {'threads' if count > 1 else 'thread'} x 10 steps, SQLite FULL, sync",
        "threads",
        Unit.STEPS,
        {**_THREADS, "threads": count},
        {"steps": 2, "threads": min(count, 100)},
        repetitions=3,
        disk=True,
        group=Group.CHARTS,
    )
    for count in (1, 3, 10, 30, 100, 300, 1000, 3000)
)

_CURVE_OF_TURNS = tuple(
    Measure(
        f"chat-bytes-{turns}",
        f"bytes on disk after a chat of {turns} turns",
        "chat",
        Unit.MULTIPLE,
        {**_DIALOGUE, "turns": turns},
        {"text_chars": 40},
        repetitions=1,
        group=Group.CHARTS,
    )
    for turns in (25, 50, 100, 200, 300, 400)
)

MEASURES: tuple[Measure, ...] = (
    *_BLOCKING_CALLS,
    *_ONE_THREAD,
    *_MANY_THREADS,
    *_STATE,
    *_MAILBOXES,
    *_OTHERS,
    *_CURVE_OF_THREADS,
    *_CURVE_OF_TURNS,
)


def select(
    names: list[str] | None, *, quick: bool, groups: list[str] | None = None
) -> list[Measure]:
    """The measures with these names, of these groups (all if None), at full or at quick size.

    Raises: SystemExit, if a name is unknown.
    """
    unknown = set(names or ()) - {measure.name for measure in MEASURES}
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; --list prints the names")
    chosen = [
        measure
        for measure in MEASURES
        if (names is None or measure.name in names)
        and (groups is None or measure.group.value in groups)
    ]
    return [at_quick_size(measure) for measure in chosen] if quick else chosen


def at_quick_size(measure: Measure) -> Measure:
    """The same measure, small and once."""
    return replace(measure, arguments={**measure.arguments, **measure.quick}, repetitions=1)
