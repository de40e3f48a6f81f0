"""How an ActorSystem's rate holds with the number of threads: `python -m tests.bench.systems`.

Each thread runs ten steps in `sync` durability, all at once, on one SQLite file. Prints the steps
per second, the event loop's stalls, the memory, and whether each thread has all its steps.
"""

import resource
import sys
import tempfile
import time
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import END, START, ActorSystem, SqliteSaver, StateGraph

STEPS = 10
GC_THRESHOLD = 50_000


class Log(TypedDict):
    """A list that grows by an item per step."""

    log: Annotated[list[int], add]


def ten_steps() -> Any:
    """Ten nodes in a row."""
    builder = StateGraph(Log)
    names = [f"n{number}" for number in range(STEPS)]
    for number, name in enumerate(names):

        async def node(_: Log, number: int = number) -> dict[str, list[int]]:
            return {"log": [number]}

        builder.add_node(name, node)
    for before, after in zip((START, *names), (*names, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile()


async def stalls(found: list[float]) -> None:
    """How late a task of the loop gets its turn, every 5 ms."""
    while True:
        due = time.perf_counter() + 0.005
        await anyio.sleep(0.005)
        found.append(time.perf_counter() - due)


async def measure(threads: int) -> None:
    """Run so many threads at once, and read each of them afterwards."""
    late: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        options = {"gc_threshold": GC_THRESHOLD, "max_runs": threads, "keep_ended": threads}
        async with (
            ActorSystem({"g": ten_steps()}, saver=SqliteSaver(path), **options) as system,
            anyio.create_task_group() as group,
        ):
            group.start_soon(stalls, late)
            began = time.perf_counter()
            runs: list[Any] = []

            async def one(number: int) -> None:
                runs.append(await system.start("g", f"t{number}", {"log": []}, stream_mode=()))

            async with anyio.create_task_group() as starting:
                for number in range(threads):
                    starting.start_soon(one, number)
            for run in runs:
                await run.wait()
            seconds = time.perf_counter() - began
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                lost = 0
                for run in runs:
                    config = {"configurable": {"thread_id": run.thread_id}}
                    graph: Any = system.graphs["g"]
                    state = await graph.aget_state(config)
                    lost += state.values["log"] != list(range(STEPS))
    late.sort()
    p99 = late[int(len(late) * 0.99)] * 1000
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    rate = threads * STEPS / seconds
    text = f"{threads:6} threads {rate:8.0f} steps/s  stall p99 {p99:6.1f} ms  {memory} MB"
    sys.stdout.write(f"{text}  lost {lost}\n")


if __name__ == "__main__":
    for count in [int(word) for word in sys.argv[1:]] or [100, 1000, 10_000]:
        anyio.run(measure, count)
