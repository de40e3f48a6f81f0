"""A process with an ActorSystem, to be killed or stopped: `python -m tests.system_worker FILE`.

It starts runs of `steps` and writes a line per thing that happened to standard output: "ran T N"
when node N of thread T begins, "ack T N" when its update was delivered, "left T STATUS" at the
end of each run.
"""

import sys
from operator import add
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import END, START, ActorSystem, SqliteSaver, StateGraph

NODES = "abcdef"


class Log(TypedDict, total=False):
    """`bar` appends; `name` is the thread's."""

    name: str
    bar: Annotated[list[str], add]


def say(*words: str) -> None:
    """One line, at once."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def steps(pause_s: float) -> Any:
    """Nodes in a row; each waits a little and adds its name."""
    builder = StateGraph(Log)
    for name in NODES:

        async def node(state: Log, name: str = name) -> dict[str, Any]:
            say("ran", state["name"], name)
            await anyio.sleep(pause_s)
            return {"bar": [name]}

        builder.add_node(name, node)
    for before, after in zip((START, *NODES), (*NODES, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile()


async def watch(run: Any) -> None:
    """Say what was acknowledged."""
    async for event in run.events():
        if event.kind == "updates":
            say("ack", run.thread_id, *event.data)
    say("left", run.thread_id, await run.wait())


async def main(path: str, count: int, pause_s: float, lease_s: float) -> None:
    """Start the runs and wait for all of them."""
    graph = steps(pause_s)
    async with (
        ActorSystem({"g": graph}, saver=SqliteSaver(path), lease_s=lease_s) as system,
        anyio.create_task_group() as group,
    ):
        for number in range(count):
            thread = f"t{number}"
            run = await system.start("g", thread, {"name": thread, "bar": []}, resumable=True)
            group.start_soon(watch, run)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
