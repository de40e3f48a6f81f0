"""The measured programs without an event loop: plain functions, `invoke` and `stream`.

One source for both libraries, as in `workloads.py`; what these programs do is what a first
program does.
"""

import operator
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from tests.bench.libraries import Library
from tests.bench.timing import measured_blocking
from tests.bench.workloads import WARM_UP_STEPS, counter_graph

PLAIN = ("node", "path")
WARM_UP_CALLS = 20


class Fan(TypedDict):
    """The state of the fan-out: how wide, and what came back."""

    width: int
    results: Annotated[list, operator.add]


@contextmanager
def open_saver(library: Library, kind: str | None, path: Path) -> Iterator[Any]:
    """The saver of a workload: none, in memory, or a SQLite file."""
    if kind == "sqlite":
        with library.open_sqlite_blocking(path) as saver:
            yield saver
    else:
        yield library.InMemorySaver() if kind == "memory" else None


def options(thread: str, limit: int, saver: str | None) -> dict[str, Any]:
    """The keyword arguments of a call."""
    config = {"configurable": {"thread_id": thread}, "recursion_limit": limit + 10}
    return {"config": config, **({"durability": "sync"} if saver else {})}


def loop(library: Library, path: Path, *, steps: int, saver: str | None) -> dict:
    """`invoke`: one thread, a loop of `steps` supersteps."""
    builder = counter_graph(library, PLAIN)

    def run(graph: Any, limit: int) -> int:
        given = {"count": 0, "limit": limit}
        return graph.invoke(given, **options("one", limit, saver))["count"]

    with open_saver(library, saver, path.with_suffix(".warm")) as opened:
        run(builder.compile(checkpointer=opened), WARM_UP_STEPS)
    with open_saver(library, saver, path) as opened:
        graph = builder.compile(checkpointer=opened)
        counted, figures = measured_blocking(lambda: run(graph, steps))
    assert counted == steps, counted
    return {**figures, "units": steps}


def one_step(library: Library, path: Path, *, calls: int, saver: str | None) -> dict:
    """`invoke` of one step, again and again; with a saver, each time on a thread of its own."""
    with open_saver(library, saver, path) as opened:
        graph = counter_graph(library, PLAIN).compile(checkpointer=opened)

        def call(number: int) -> int:
            given = {"count": 0, "limit": 1}
            return graph.invoke(given, **options(f"t{number}", 1, saver))["count"]

        for number in range(WARM_UP_CALLS):
            call(-1 - number)
        counted, figures = measured_blocking(lambda: [call(n) for n in range(calls)])
    assert counted == [1] * calls
    return {**figures, "units": calls}


def stream(library: Library, path: Path, *, steps: int, saver: str | None) -> dict:
    """`stream`: one thread, an item per superstep."""
    with open_saver(library, saver, path) as opened:
        graph = counter_graph(library, PLAIN).compile(checkpointer=opened)

        def run(limit: int, thread: str) -> list[int]:
            given = {"count": 0, "limit": limit}
            chunks = graph.stream(given, stream_mode="updates", **options(thread, limit, saver))
            return [chunk["count"]["count"] for chunk in chunks]

        run(WARM_UP_STEPS, "warm")
        counted, figures = measured_blocking(lambda: run(steps, "one"))
    assert counted == list(range(1, steps + 1))
    return {**figures, "units": steps}


def fan_out(library: Library, path: Path, *, tasks: int, rounds: int, sleep_s: float) -> dict:
    """`invoke` of a fan-out of `tasks` Sends, whose tasks return at once or sleep before."""

    def spread(state: Fan) -> list:
        return [library.Send("work", {"number": n}) for n in range(state["width"])]

    def work(task: dict) -> dict:
        if sleep_s:
            time.sleep(sleep_s)
        return {"results": [task["number"] * 2]}

    builder = library.StateGraph(Fan)
    builder.add_node("work", work)
    builder.add_conditional_edges(library.START, spread, ["work"])
    builder.add_edge("work", library.END)
    graph = builder.compile()

    def run(width: int) -> list:
        return graph.invoke({"width": width, "results": []})["results"]

    run(WARM_UP_STEPS)
    results, figures = measured_blocking(lambda: [run(tasks) for _ in range(rounds)])
    assert results == [[n * 2 for n in range(tasks)]] * rounds
    return {**figures, "units": tasks * rounds}
