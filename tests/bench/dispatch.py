"""The cost of the dispatch of a run: `python -m tests.bench.dispatch`.

The same runs of three steps twice, in alternation: started by a system that runs them itself, and
accepted by one process and run by another, with hints of PGQueuer. Both start `--at-once` runs at a
time and wait for their ends; the first and the last event of each are stored. The difference by run
is the cost of the dispatch, of the server's CPU time and of Python's, in both processes.
"""

import argparse
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, contextmanager
from statistics import median
from typing import Any, TypedDict

import anyio
import anyio.to_thread

from actorgraph import END, START, ActorSystem, PostgresSaver, StateGraph
from actorgraph.dispatch import PGQueuerDispatcher
from tests.support import cpu_times
from tests.support.postgres_server import PostgresServer, started

STEPS = 3
WARM_UP = 50


class Count(TypedDict):
    """A number that grows by one per step."""

    count: int


def few_steps() -> Any:
    """`STEPS` nodes in a row."""
    builder = StateGraph(Count)
    names = [f"n{number}" for number in range(STEPS)]
    for name in names:

        async def node(state: Count) -> dict[str, int]:
            return {"count": state["count"] + 1}

        builder.add_node(name, node)
    for before, after in zip((START, *names), (*names, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile()


@asynccontextmanager
async def opened(role: str, url: str, schema: str) -> AsyncGenerator[ActorSystem]:
    """The system of a child: "alone", "accept" or "work"."""
    saver = PostgresSaver(url, schema=schema)
    options: dict[str, Any] = {}
    if role != "alone":
        options = {"dispatcher": PGQueuerDispatcher(), "role": role}
    async with ActorSystem({"g": few_steps()}, saver=saver, **options) as system:
        yield system


async def run_all(system: ActorSystem, name: str, count: int, at_once: int) -> None:
    """Start runs, each on a thread of its own, and wait for all."""
    limiter = anyio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with limiter:
            given = {"count": 0}
            run = await system.start("g", f"{name}{number}", given, stream_mode=(), resumable=True)
            assert await run.wait() == "success"

    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(one, number)


async def child(role: str, url: str, schema: str, runs: int, at_once: int) -> None:
    """Work until the parent closes stdin; with a role that starts runs, twice per line of it."""
    async with opened(role, url, schema) as system:
        print("ready", flush=True)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            await run_all(system, line.strip(), WARM_UP if line == "warm\n" else runs, at_once)
            print("done", flush=True)


class Child:
    """A process of one role."""

    def __init__(self, role: str, url: str, schema: str, chosen: argparse.Namespace) -> None:
        sizes = [str(chosen.runs), str(chosen.at_once)]
        command = [sys.executable, "-m", "tests.bench.dispatch", "--child", role, url, schema]
        self._process = subprocess.Popen(
            [*command, *sizes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._expect("ready")

    @property
    def cpu(self) -> float:
        """Its CPU time in seconds."""
        return cpu_times.of_process(self._process.pid)

    def run(self, name: str) -> None:
        """Let it start runs and wait for them."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        self._expect("done")

    def end(self) -> None:
        """End it."""
        self._process.communicate()
        assert self._process.returncode == 0

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == f"{word}\n", line


@contextmanager
def children(server: PostgresServer, roles: list[str], chosen: argparse.Namespace) -> Any:
    """Processes over a schema of their own; the first one starts the runs."""
    schema = server.new_schema("bench")
    made = [Child(role, server.url, schema, chosen) for role in roles]
    try:
        yield made
    finally:
        for one in reversed(made):
            one.end()
        server.drop(schema)


def measure(server: PostgresServer, roles: list[str], chosen: argparse.Namespace) -> dict[str, Any]:
    """CPU microseconds of a run: the server's, and that of all the processes."""
    with children(server, roles, chosen) as made:
        made[0].run("warm")
        before = cpu_times.of_server(server), sum(one.cpu for one in made)
        made[0].run("t")
        after = cpu_times.of_server(server), sum(one.cpu for one in made)
    used = [(late - early) / chosen.runs * 1e6 for early, late in zip(before, after, strict=True)]
    return dict(zip(("server", "python"), used, strict=True))


def compare(chosen: argparse.Namespace) -> dict[str, float]:
    """CPU microseconds that the dispatch adds to a run: medians over the repetitions."""
    server = started()
    try:
        alone, shared = list[dict[str, Any]](), list[dict[str, Any]]()
        for _ in range(chosen.repeat):
            alone.append(measure(server, ["alone"], chosen))
            shared.append(measure(server, ["accept", "work"], chosen))
            print("us of CPU a run, alone", alone[-1], "dispatched", shared[-1], flush=True)
    finally:
        server.end()
    return {
        key: median(b[key] - a[key] for a, b in zip(alone, shared, strict=True))
        for key in ("server", "python")
    }


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    return parser.parse_args(arguments)


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--child"]:
        role, url, schema, runs, at_once = sys.argv[2:]
        anyio.run(child, role, url, schema, int(runs), int(at_once))
        return
    found = compare(options())
    text = "the dispatch costs {server:.0f} us of the server, {python:.0f} us of Python a run"
    print(text.format(**found))


if __name__ == "__main__":
    main()
