"""What alarms cost and how late they are: `python -m tests.bench.alarms`.

Over one SQLite file in which many threads wait for a time that is far away: the memory and CPU time
of an idle system, how late sleeps of random length end while nothing else goes on, and how long a
system takes to begin all runs of many sleeps that end within one second. Each is a process of its
own over the same file.
"""

import argparse
import gc
import json
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import anyio

from actorgraph import START, ActorSystem, SqliteSaver, StateGraph, sleep_until
from actorgraph.testing.conformance.builders import RUN, Ids
from actorgraph.values.alarms import Alarm
from tests.bench.systems import memory, parts

FAR_US = 10**6 * 86_400 * 365
BATCH = 500
SECONDS_MAX = 1_800
SPREAD_S = (1.0, 20.0)
"""Lengths of the sleeps while nothing else goes on."""


class Nap(TypedDict, total=False):
    """When a thread sleeps until, in seconds since 1970-01-01 UTC."""

    until: float


class Woken:
    """By how many seconds each thread woke after its time."""

    def __init__(self) -> None:
        self.late: list[float] = []

    def graph(self) -> Any:
        """A graph of one node that sleeps."""

        async def node(state: Nap) -> None:
            until = state.get("until", 0.0)
            await sleep_until(datetime.fromtimestamp(until, UTC))
            self.late.append(time.time() - until)

        return StateGraph(Nap).add_node("n", node).add_edge(START, "n").compile(name="g")


async def fill(path: Path, alarms: int) -> None:
    """Store threads whose alarms are far away."""
    ids, far = Ids(), time.time_ns() // 1000 + FAR_US
    async with SqliteSaver(path) as saver:
        for first in range(0, alarms, BATCH):
            await saver.commit(
                [
                    ids.claim(
                        RUN,
                        None,
                        ids.point(number + 1),
                        thread_id=f"far{number}",
                        alarm=Alarm(far + number, "g"),
                    )
                    for number in range(first, min(first + BATCH, alarms))
                ]
            )


async def idle(path: Path, seconds: float) -> dict[str, Any]:
    """An idle system: its memory, that of the process before it, CPU time in a second."""
    gc.collect()
    before = memory()
    async with ActorSystem({"g": Woken().graph()}, saver=SqliteSaver(path)):
        await anyio.sleep(1)
        cpu = time.process_time()
        await anyio.sleep(seconds)
        return {
            "cpu_ms": (time.process_time() - cpu) / seconds * 1000,
            "rss": memory(),
            "more": memory() - before,
        }


async def sleeps(path: Path, threads: int, *, together: bool) -> dict[str, Any]:
    """Let threads sleep: until times of their own, or all of them until one second.

    Returns: how late they woke in milliseconds; seconds from the first one's time until all have
        begun; how many began early; CPU time of each.
    """
    woken, chance = Woken(), random.Random(threads)
    graphs, saver = {"g": woken.graph()}, SqliteSaver(path)
    async with ActorSystem(graphs, saver=saver, gc_threshold=50_000) as system:
        starts = time.perf_counter()
        await start(system, [(f"warm{number}", time.time() + 86_400) for number in range(200)])
        each_s = (time.perf_counter() - starts) / 200
        first = time.time() + (1.5 * each_s * threads + 5 if together else 1)
        spread = (0.0, 1.0) if together else SPREAD_S
        times = [first + chance.uniform(*spread) for _ in range(threads)]
        prefix = "together" if together else "alone"
        await start(system, [(f"{prefix}{number}", at) for number, at in enumerate(times)])
        missed = time.time() - first
        cpu = time.process_time()
        while len(woken.late) < threads:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        return {
            "late_ms": parts([*woken.late]),
            "all_s": time.time() - min(times),
            "early": sum(late < 0 for late in woken.late),
            "cpu_us": (time.process_time() - cpu) / threads * 1e6,
            "missed_s": max(missed, 0.0) if together else 0.0,
            "start_ms": each_s * 1000,
        }


async def start(system: ActorSystem, times: list[tuple[str, float]]) -> None:
    """Start threads that sleep until some times, and wait until they do."""
    for first in range(0, len(times), BATCH):
        runs = [
            await system.start("g", name, {"until": until}, stream_mode=())
            for name, until in times[first : first + BATCH]
        ]
        for run in runs:
            await run.wait()


def child(path: Path, job: str, number: float) -> dict[str, Any]:
    """One measurement, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.alarms", "--one", job, str(path), str(number)]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS_MAX, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode()[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alarms", type=int, default=100_000)
    parser.add_argument("--idle-s", type=float, default=10.0)
    parser.add_argument("--alone", type=int, default=200)
    parser.add_argument("--together", type=int, default=10_000)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


async def measure(job: str, path: str, number: str) -> dict[str, Any]:
    """What a child does."""
    place = Path(path)
    if job == "fill":
        await fill(place, int(float(number)))
        return {}
    if job == "idle":
        return await idle(place, float(number))
    return await sleeps(place, int(float(number)), together=job == "together")


def main() -> None:
    """Measure and print."""
    chosen = options()
    if chosen.one is not None:
        print(json.dumps(anyio.run(measure, *chosen.one)))
        return
    with tempfile.TemporaryDirectory() as folder:
        empty, full = Path(folder) / "empty.db", Path(folder) / "full.db"
        child(full, "fill", chosen.alarms)
        for name, path in (("no", empty), (f"{chosen.alarms}", full)):
            found = child(path, "idle", chosen.idle_s)
            print(
                f"idle, {name} alarms: CPU {found['cpu_ms']:.2f} ms a second, memory "
                f"{found['rss'] / 2**20:.0f} MB, the system's {found['more'] / 2**20:.1f} MB"
            )
        for job, threads in (("alone", chosen.alone), ("together", chosen.together)):
            found = child(full, job, threads)
            print(
                f"{threads} sleeps, {job}: late ms p50 {{:.0f}}, p99 {{:.0f}}, max {{:.0f}}; "
                f"early {found['early']}; all have begun {found['all_s']:.1f} s after the first "
                f"one's time; CPU {found['cpu_us']:.0f} us each; a start {found['start_ms']:.1f} "
                f"ms".format(*found["late_ms"])
            )
            if found["missed_s"]:
                print(f"  they were asked {found['missed_s']:.1f} s too late")


if __name__ == "__main__":
    main()
