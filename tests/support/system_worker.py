"""A program with an ActorSystem, to be killed or stopped; tests start it as a process.

It starts runs of "g", or takes up those that are left, and writes a line per thing that happened to
standard output: "started" when all are accepted, "ran T N" when node N of thread T begins,
"ack T N" when its update was delivered, "left T STATUS" at the end of each run. "deadly" is a graph
whose node kills the process.
"""

import os
import signal
import sys
from operator import add
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import END, START, ActorSystem, JsonlSaver, PostgresSaver, SqliteSaver, StateGraph

NODES = "abcdef"
RENAMED = "abzdef"
"""The nodes of another version of the program: one has another name."""
ATTEMPTS_MAX = 2


class Log(TypedDict, total=False):
    """`bar` appends; `name` is the thread's."""

    name: str
    bar: Annotated[list[str], add]


def say(*words: str) -> None:
    """One line, at once."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def steps(pause_s: float, nodes: str = NODES) -> Any:
    """Nodes in a row; each waits a little and adds its name."""
    builder = StateGraph(Log)
    for name in nodes:

        async def node(state: Log, name: str = name) -> dict[str, Any]:
            say("ran", state["name"], name)
            await anyio.sleep(pause_s)
            return {"bar": [name]}

        builder.add_node(name, node)
    for before, after in zip((START, *nodes), (*nodes, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile()


def deadly() -> Any:
    """A node that ends its process, as a fault of an extension module would."""

    async def node(state: Log) -> dict[str, Any]:
        say("ran", state["name"], "node")
        os.kill(os.getpid(), signal.SIGKILL)
        await anyio.sleep_forever()
        return {}

    builder = StateGraph(Log)
    builder.add_node("node", node)
    return builder.add_edge(START, "node").compile()


def saver_of(place: str) -> Any:
    """The saver of a database: a file's path, a folder's with "/" behind, or URL#SCHEMA."""
    url, _, schema = place.partition("#")
    if schema:
        return PostgresSaver(url, schema=schema, busy_timeout_s=1.0)
    return JsonlSaver(place) if place.endswith("/") else SqliteSaver(place)


def system_over(
    place: str, pause_s: float, lease_s: float, attempts_max: int, nodes: str = NODES
) -> ActorSystem:
    """A system over a database; see `saver_of`."""
    saver = saver_of(place)
    graphs = {"g": steps(pause_s, nodes), "deadly": deadly()}
    return ActorSystem(graphs, saver=saver, lease_s=lease_s, attempts_max=attempts_max)


async def watch(run: Any) -> None:
    """Say what was acknowledged."""
    async for event in run.events():
        if event.kind == "updates":
            say("ack", run.thread_id, *event.data)
    status = await run.wait()
    if status == "error":  # a failing test shows it
        print(run.thread_id, run.reason, file=sys.stderr, flush=True)
    say("left", run.thread_id, status)


async def recover(system: ActorSystem, pause_s: float = 0.05) -> None:
    """Take up what is left, until no run is open."""
    async with anyio.create_task_group() as group:
        while await system.runs(statuses=["pending", "running"]):
            for run in await system.recover():
                group.start_soon(watch, run)
            await anyio.sleep(pause_s)


async def main(job: str, place: str, count: int, pause_s: float, lease_s: float) -> None:
    """Start so many runs, of "g" or of "deadly", or "recover"; wait for all of them."""
    attempts_max = ATTEMPTS_MAX if job.endswith("deadly") else 1000
    async with system_over(place, pause_s, lease_s, attempts_max) as system:
        if job.startswith("recover"):
            await recover(system)
            return
        async with anyio.create_task_group() as group:
            for number in range(count):
                thread = f"t{number}"
                given = {"name": thread, "bar": []}
                run = await system.start(job, thread, given, resumable=True)
                group.start_soon(watch, run)
            say("started")


if __name__ == "__main__":
    loop, job, place, *rest = sys.argv[1:]
    anyio.run(main, job, place, int(rest[0]), float(rest[1]), float(rest[2]), backend=loop)
