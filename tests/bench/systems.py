"""How an ActorSystem holds with the number of threads: `python -m tests.bench.systems`.

Each thread runs ten steps in `sync` durability on one SQLite file, all threads at once, and is
read afterwards. Each measurement is a process of its own, few threads and many in alternation:
`--few` threads at once, again and again, and `--many` at once. `--standing` has all threads
wait in their first node before one of them goes on, so that all are open at the same time.
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from operator import add
from pathlib import Path
from statistics import median
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import END, START, ActorSystem, SqliteSaver, StateGraph

STEPS = 10
WARM_UP = 20
PROBE_S = 0.001
LEAST_RUNS = 2_000
SECONDS_MAX = 600


class Log(TypedDict):
    """A list that grows by an item per step."""

    log: Annotated[list[int], add]


class Standing:
    """The gate at which runs wait in their first node until all have come."""

    def __init__(self, expected: int) -> None:
        self.left = expected
        self.gate = anyio.Event()
        self.rss = 0

    async def wait(self) -> None:
        """Wait here until the last one has come."""
        self.left -= 1
        if not self.left:
            self.rss = memory()
            self.gate.set()
        if self.left >= 0:
            await self.gate.wait()


def ten_steps(standing: Standing | None) -> Any:
    """Ten nodes in a row."""
    builder = StateGraph(Log)
    names = [f"n{number}" for number in range(STEPS)]
    for number, name in enumerate(names):

        async def node(_: Log, number: int = number) -> dict[str, list[int]]:
            if standing is not None and number == 0:
                await standing.wait()
            return {"log": [number]}

        builder.add_node(name, node)
    for before, after in zip((START, *names), (*names, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile()


def parts(seconds: list[float]) -> list[float]:
    """The median, the 99th percentile and the highest, in milliseconds."""
    seconds.sort()
    return [1000 * seconds[int((len(seconds) - 1) * part)] for part in (0.5, 0.99, 1)]


def memory() -> int:
    """Bytes of memory that the process has now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


async def probe(late: list[float], held: list[float], highest: list[int]) -> None:
    """How late a task of the loop gets its turn, each millisecond; the highest memory seen.

    `held` is the CPU time that the loop's thread had meanwhile: what it would be late on a machine
    that has nothing else to do.
    """
    looks = 0
    while True:
        due, used = time.perf_counter() + PROBE_S, time.thread_time()
        await anyio.sleep(PROBE_S)
        late.append(time.perf_counter() - due)
        held.append(time.thread_time() - used)
        looks += 1
        if looks % 50 == 0:
            highest[0] = max(highest[0], memory())


async def run_all(system: ActorSystem, names: Sequence[str]) -> None:
    """Start a run on each thread, all at once, and wait for all."""

    async def one(name: str) -> None:
        run = await system.start("g", name, {"log": []}, stream_mode=())
        await run.wait()

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(one, name)


async def lost(system: ActorSystem, names: Sequence[str]) -> int:
    """The threads that do not have all their steps."""
    graph: Any = system.graphs["g"]
    found = 0
    for name in names:
        state = await graph.aget_state({"configurable": {"thread_id": name}})
        found += state.values.get("log") != list(range(STEPS)) or bool(state.next)
    return found


async def measure(at_once: int, *, standing: bool, collector: int) -> dict[str, Any]:
    """The figures of so many threads at once."""
    rounds = max(1, LEAST_RUNS // at_once)
    stand = Standing(0)
    names = [[f"t{number}-{lap}" for number in range(at_once)] for lap in range(rounds)]
    late: list[float] = []
    held: list[float] = []
    highest = [0]
    with tempfile.TemporaryDirectory() as folder:
        graph = ten_steps(stand if standing else None)
        saver = SqliteSaver(Path(folder) / "runs.db")
        async with (
            ActorSystem({"g": graph}, saver=saver, gc_threshold=collector) as system,
            anyio.create_task_group() as group,
        ):
            await run_all(system, [f"warm{number}" for number in range(WARM_UP)])
            gc.collect()
            base = memory()
            group.start_soon(probe, late, held, highest)
            cpu, own, began = time.process_time(), time.thread_time(), time.perf_counter()
            for lap in names:
                stand.left, stand.gate = at_once, anyio.Event()
                await run_all(system, lap)
            seconds = time.perf_counter() - began
            cpu, own = time.process_time() - cpu, time.thread_time() - own
            group.cancel_scope.cancel()
            after = memory()
            with anyio.CancelScope(shield=True):
                failed = sum([await lost(system, lap) for lap in names])
            statistics = system.statistics()
            writer = system._host.writer.statistics()  # noqa: SLF001 - its own figures
    steps = rounds * at_once * STEPS
    return {
        "rate": steps / seconds,
        "cpu_us": cpu / steps * 1e6,
        "loop_us": own / steps * 1e6,
        "stalls": parts(late),
        "held": parts(held),
        "lost": failed,
        "refused": statistics.refused,
        "base": base,
        "open": (stand.rss or max(highest[0], base)) - base,
        "left": after - base,
        "batch": writer.batch_size_mean,
    }


def children(at_once: int, chosen: argparse.Namespace) -> dict[str, Any]:
    """One measurement, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.systems", "--one", str(at_once)]
    command += ["--backend", chosen.backend]
    command += ["--standing"] if chosen.standing else []
    command += ["--collector", str(chosen.collector)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=SECONDS_MAX)
    return json.loads(done.stdout.splitlines()[-1])


def lines(threads: int, found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Print the figures of so many threads at once."""
    best = max(one["rate"] for one in found)
    cpu, loop = min(one["cpu_us"] for one in found), min(one["loop_us"] for one in found)
    stalls = [min(one["stalls"][at] for one in found) for at in range(3)]
    held = [median(one["held"][at] for one in found) for at in range(3)]
    each = median(one["open"] for one in found) / threads / 1024
    left = median(one["left"] for one in found) / 2**20
    total = median(one["base"] + one["open"] for one in found) / 2**20
    yield f"{threads:6} threads {best:7.0f} steps/s"
    yield f"       CPU us a step {cpu:.0f}, the loop's {loop:.0f}"
    yield "       stalls ms p50 {:.1f}  p99 {:.1f}  max {:.1f}".format(*stalls)
    yield "       the loop's CPU ms meanwhile p50 {:.1f}  p99 {:.1f}  max {:.1f}".format(*held)
    yield f"       memory {total:.0f} MB, {each:.1f} KiB a thread; {left:.0f} MB more afterwards"
    yield f"       threads lost {sum(one['lost'] for one in found)}, runs refused " + str(
        sum(one["refused"] for one in found)
    )


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--backend", default="asyncio", choices=("asyncio", "trio"))
    parser.add_argument("--standing", action="store_true")
    parser.add_argument("--collector", type=int, default=50_000, help="the gc_threshold")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    chosen = options()
    if chosen.one is not None:

        async def once() -> dict[str, Any]:
            one = chosen.one
            return await measure(one, standing=chosen.standing, collector=chosen.collector)

        print(json.dumps(anyio.run(once, backend=chosen.backend)))
        return
    found: dict[int, list[dict[str, Any]]] = {chosen.few: [], chosen.many: []}
    for _ in range(chosen.repeat):
        for threads, kept in found.items():
            kept.append(children(threads, chosen))
    for threads, kept in found.items():
        print(*lines(threads, kept), sep="\n")
    ratios = []
    for pick, key in ((max, "rate"), (min, "cpu_us")):
        few, many = (pick(one[key] for one in kept) for kept in found.values())
        ratios.append(many / few if pick is max else few / many)
    print("rate of many to few {:.0%}; by CPU time {:.0%}".format(*ratios))


if __name__ == "__main__":
    main()
