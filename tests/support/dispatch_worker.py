"""A worker of dispatched runs, to be killed or stopped; tests start it as a process.

It runs "steps": `count` times the same node, which appends a line to a log before it waits:
"owner pid name step time". It prints "ready" when it takes runs, and drains at SIGTERM.
"""

import os
import sys
import time
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import msgspec

from actorgraph import END, START, ActorSystem, PostgresSaver, StateGraph
from actorgraph.dispatch import PGQueuerDispatcher

GRAPH = "steps"


class Steps(TypedDict, total=False):
    """`done` appends; the run ends when it has `count` entries."""

    name: str
    count: int
    done: Annotated[list[int], add]


class WorkerOptions(msgspec.Struct, frozen=True):
    """The part of a worker that a test chooses; all but `pause_s` as for `ActorSystem`.

    Attributes:
        pause_s: of each call of the node.
    """

    pause_s: float = 0.0
    lease_s: float = 4.0
    max_runs: int = 500
    reserve: int = 0
    build: str = ""
    builds: tuple[str, ...] = ()
    drain_timeout_s: float = 30.0
    attempts_max: int = 10


def steps(log: int | None = None, owner: Any = None, pause_s: float = 0.0) -> Any:
    """A loop of one node.

    Args:
        log: a file descriptor; None where nothing runs.
        owner: returns the id of the system's owner.
        pause_s: of each call of the node.
    """

    async def step(state: Steps) -> dict[str, Any]:
        number = len(state["done"])
        if log is not None:
            line = f"{owner().hex()} {os.getpid()} {state['name']} {number} {time.time()}\n"
            os.write(log, line.encode())
        await anyio.sleep(pause_s)
        return {"done": [number]}

    def more(state: Steps) -> str:
        return END if len(state["done"]) >= state["count"] else "step"

    builder = StateGraph(Steps)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", more)
    return builder.compile()


def system_of(url: str, schema: str, role: Any, graph: Any, **options: Any) -> ActorSystem:
    """A system over one schema, with PGQueuer."""
    lease_s = options.get("lease_s", 15.0)
    dispatcher = PGQueuerDispatcher(again_s=lease_s, poll_s=0.5)
    saver = PostgresSaver(url, schema=schema)
    return ActorSystem({GRAPH: graph}, saver=saver, dispatcher=dispatcher, role=role, **options)


async def main(url: str, schema: str, path: str, given: WorkerOptions) -> None:
    """Work until SIGTERM."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    made: list[ActorSystem] = []
    graph = steps(log, lambda: made[0]._actor.owner, given.pause_s)  # noqa: SLF001 - ids of leases
    options = msgspec.structs.asdict(given)
    del options["pause_s"]
    system = system_of(url, schema, "work", graph, **options)
    made.append(system)
    async with system:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await system.drain_at_signal()


if __name__ == "__main__":
    loop, url, schema, path, options = sys.argv[1:]
    decoded = msgspec.json.decode(options, type=WorkerOptions)
    anyio.run(main, url, schema, path, decoded, backend=loop)
