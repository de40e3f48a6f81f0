"""A program that runs, and starts, runs of now and of later; tests start it twice and kill it.

Each of its nodes writes a line to a file of all processes when it begins and when it ends: "begin
THREAD RUN NODE". A run is written as "accepted" when `start` has returned.
"""

import os
import random
import sys
from operator import add
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import START, ActorSystem, PostgresSaver, SqliteSaver, StateGraph

NODES = "abc"
LEASE_S = 3.0
LATER_S = 1.5


class Log(TypedDict, total=False):
    """`run` is the newest input's; `bar` appends what each node of each run did."""

    run: str
    bar: Annotated[list[str], add]


def graph_writing(file: int) -> Any:
    """Three nodes that say when they are in."""
    builder = StateGraph(Log)
    for name in NODES:

        async def node(state: Log, name: str = name) -> dict[str, Any]:
            thread, run = state["run"].split("/")
            os.write(file, f"begin {thread} {run} {name}\n".encode())
            await anyio.sleep(0.03)
            os.write(file, f"end {thread} {run} {name}\n".encode())
            return {"bar": [f"{run}{name}"]}

        builder.add_node(name, node)
    for before, after in zip((START, *NODES), NODES, strict=False):
        builder.add_edge(before, after)
    return builder.compile()


def system_over(place: str, file: int) -> ActorSystem:
    """A system over a file, or over URL#SCHEMA."""
    url, _, schema = place.partition("#")
    saver = PostgresSaver(url, schema=schema) if schema else SqliteSaver(place)
    return ActorSystem({"g": graph_writing(file)}, saver=saver, lease_s=LEASE_S, attempts_max=1000)


async def start_some(system: ActorSystem, file: int, name: str, threads: int, runs: int) -> None:
    """Start runs of now and of later on the same threads, in any order."""
    chance = random.Random(name)
    for number in range(runs):
        for at in range(threads):
            run = f"{name}.{number}"
            later_s = chance.choice((0, chance.uniform(0.05, LATER_S)))
            given = {"run": f"t{at}/{run}"}
            options: Any = {"if_busy": "enqueue", "delay_s": later_s}
            await system.start("g", f"t{at}", given, **options)
            os.write(file, f"accepted t{at} {run}\n".encode())
        await anyio.sleep(0.05)


async def recover(system: ActorSystem) -> None:
    """Take up what is left, until no run is open."""
    while await system.runs(statuses=["pending", "running"]):
        await system.recover()
        await anyio.sleep(0.1)


async def main(place: str, file: int, name: str, threads: int, runs: int) -> None:
    """Start runs, and take up those that others have left."""
    async with system_over(place, file) as system:
        await start_some(system, file, name, threads, runs)
        os.write(file, f"started {name}\n".encode())
        await recover(system)


if __name__ == "__main__":
    loop, database, said, me, *counts = sys.argv[1:]
    log = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    anyio.run(main, database, log, me, *map(int, counts), backend=loop)
