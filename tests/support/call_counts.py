"""Count the library's own calls in seven programs, against a stored baseline.

    python -m tests.support.call_counts            # print the counts
    python -m tests.support.call_counts --renew    # store them as the baseline (`make counts`)

A count is how many Python functions of the package are called for one more step: what a longer
run calls more than a shorter one, by the steps it has more, in all threads. Unlike seconds it is
the same on a busy machine. It differs between versions of Python, so the baseline names one.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import add
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import END, START, Send, SqliteSaver, StateGraph
from actorgraph.runtime.task import hops

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = str(ROOT / "actorgraph") + os.sep
BY_CHANCE = f"{PACKAGE}codec{os.sep}buffers.py"
"""Not counted: called for a payload with certain bytes, which a time has for 50 s in 70 minutes."""
BASELINE = Path(__file__).with_name("call_counts.json")
TOLERANCE = 0.03
MODULE = "tests.support.call_counts"
RENEW = f"python -m {MODULE} --renew"
FEW, MANY = 10, 40
ROUNDS = 3
PROCESSES_MAX = 3
SECONDS_MAX = 60


class Count(TypedDict):
    """The state of the loop."""

    count: int
    limit: int


class Fan(TypedDict):
    """The state of the fan-out."""

    width: int
    results: Annotated[list, add]


def plain_count(state: Count) -> dict:
    """The node as a plain function."""
    return {"count": state["count"] + 1}


async def async_count(state: Count) -> dict:
    """The node as an async function."""
    return {"count": state["count"] + 1}


def plain_again(state: Count) -> str:
    """The path as a plain function."""
    return "count" if state["count"] < state["limit"] else END


async def async_again(state: Count) -> str:
    """The path as an async function."""
    return plain_again(state)


def counter(node: Callable[..., Any], path: Callable[..., Any], saver: Any = None) -> Any:
    """A node that counts, with a conditional edge back to itself."""
    builder = StateGraph(Count)
    builder.add_node("count", node)
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", path, ["count", END])
    return builder.compile(checkpointer=saver)


def options(limit: int) -> dict[str, Any]:
    """The config of a run."""
    return {"configurable": {"thread_id": f"t{limit}"}, "recursion_limit": limit + 10}


def invoke() -> Iterator[Callable[[int], object]]:
    """Steps of one blocking `invoke` with plain functions."""
    graph = counter(plain_count, plain_again)
    yield lambda steps: graph.invoke({"count": 0, "limit": steps}, options(steps))


def invoke_one_step() -> Iterator[Callable[[int], object]]:
    """Blocking calls of one step each."""
    graph = counter(plain_count, plain_again)
    yield lambda calls: [graph.invoke({"count": 0, "limit": 1}) for _ in range(calls)]


def stream() -> Iterator[Callable[[int], object]]:
    """Steps of one blocking `stream` with plain functions, an item each."""
    graph = counter(plain_count, plain_again)
    given: dict[str, Any] = {"count": 0}
    yield lambda steps: [*graph.stream({**given, "limit": steps}, options(steps))]


def ainvoke_async() -> Iterator[Callable[[int], object]]:
    """Steps of `ainvoke` with async functions."""
    graph = counter(async_count, async_again)
    yield lambda steps: anyio.run(graph.ainvoke, {"count": 0, "limit": steps}, options(steps))


def ainvoke_plain() -> Iterator[Callable[[int], object]]:
    """Steps of `ainvoke` with plain functions, each a hop that the event loop awaits."""
    graph = counter(plain_count, plain_again)
    # Whether the loop's thread waits itself depends on how quick the threads are.
    hops.QUICK_S = -1.0  # type: ignore[misc]
    yield lambda steps: anyio.run(graph.ainvoke, {"count": 0, "limit": steps}, options(steps))


def sqlite_sync() -> Iterator[Callable[[int], object]]:
    """Steps of `ainvoke` with async functions on SQLite, `durability="sync"`."""

    async def run(path: str, steps: int) -> None:
        async with SqliteSaver(path) as saver:
            graph = counter(async_count, async_again, saver)
            given = {"count": 0, "limit": steps}
            await graph.ainvoke(given, options(steps), durability="sync")

    with tempfile.TemporaryDirectory() as folder:
        number = itertools.count()
        yield lambda steps: anyio.run(run, f"{folder}/{next(number)}.db", steps)


def sends() -> Iterator[Callable[[int], object]]:
    """Sends of one fan-out with `ainvoke` and async functions."""

    async def work(task: dict) -> dict:
        return {"results": [task["number"]]}

    async def spread(state: Fan) -> list:
        return [Send("work", {"number": n}) for n in range(state["width"])]

    builder = StateGraph(Fan)
    builder.add_node("work", work)
    builder.add_conditional_edges(START, spread, ["work"])
    builder.add_edge("work", END)
    graph = builder.compile()
    yield lambda width: anyio.run(graph.ainvoke, {"width": width, "results": []})


WORKLOADS = {
    "blocking invoke, a step": invoke,
    "blocking invoke of one step": invoke_one_step,
    "blocking stream, an item": stream,
    "ainvoke, async functions, a step": ainvoke_async,
    "ainvoke, plain functions, a step": ainvoke_plain,
    "ainvoke, SQLite sync, a step": sqlite_sync,
    "fan-out, a Send": sends,
}


@contextmanager
def recorded_calls() -> Iterator[list[None]]:
    """An item per call of the package's functions, in this thread and in those it starts."""
    calls: list[None] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE) and name != BY_CHANCE:
            calls.append(None)  # from several threads; a number would lose some

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def count_all() -> dict[str, float]:
    """The calls of each workload for one more step."""
    found = {}
    # One recording for all: threads that serve several workloads are in it from their start.
    with recorded_calls() as calls:
        for name, workload in WORKLOADS.items():
            with contextmanager(workload)() as run:
                run(FEW)  # what is imported or prepared at the first use
                few, many = (_least(run, steps, calls) for steps in (FEW, MANY))
            found[name] = round((many - few) / (MANY - FEW), 1)
    return found


def _least(run: Callable[[int], object], steps: int, calls: list[None]) -> int:
    """The least calls of some rounds: a slow machine adds wake-ups, and never takes calls away."""
    counts = []
    for _ in range(ROUNDS):
        before = len(calls)
        run(steps)
        counts.append(len(calls) - before)
    return min(counts)


def count_in_new_process() -> dict[str, float]:
    """The same, without what other tests left behind: idle threads, caches, hash seeds."""
    done = subprocess.run(
        [sys.executable, "-m", MODULE],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        text=True,
        timeout=SECONDS_MAX,
    )
    return json.loads(done.stdout)


def least_counts(
    baseline: dict[str, float], count: Callable[[], dict[str, float]]
) -> dict[str, float]:
    """The least counts of some processes: of one, or of `PROCESSES_MAX` while there are complaints.

    A starved machine wakes threads more often, in all rounds of a process at times; code that
    makes more calls makes them in every process.
    """
    least = count()
    for _ in range(PROCESSES_MAX - 1):
        if not complaints(least, baseline):
            break
        again = count()
        least = {name: min(calls, again.get(name, calls)) for name, calls in least.items()}
    return least


def version() -> str:
    """The version of Python that a baseline is of."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def complaints(counts: dict[str, float], baseline: dict[str, float]) -> list[str]:
    """A sentence per workload that makes more calls than the tolerance allows, or isn't in both."""
    return [
        f"{name!r} makes {counts.get(name, 0):g} calls, baseline {expected:g}"
        for name, expected in {**dict.fromkeys(counts, 0.0), **baseline}.items()
        if name not in counts or counts[name] > (1 + TOLERANCE) * expected
    ]


def fallen(counts: dict[str, float], baseline: dict[str, float]) -> list[str]:
    """A sentence per workload that makes fewer calls: its baseline is too high."""
    return [
        f"{name!r} makes {calls:g} calls, baseline {baseline[name]:g}: `{RENEW}` keeps the gain"
        for name, calls in counts.items()
        if calls < (1 - TOLERANCE) * baseline.get(name, 0.0)
    ]


if __name__ == "__main__":
    if "--renew" in sys.argv:
        stored = json.loads(BASELINE.read_text("utf-8")) if BASELINE.exists() else {}
        stored[version()] = count_in_new_process()
        BASELINE.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
        print(f"{BASELINE.relative_to(ROOT)} is of this version now")
    else:
        print(json.dumps(count_all(), indent=2))
