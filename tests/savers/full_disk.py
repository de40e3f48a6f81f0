"""A program whose files may not grow beyond a size: RLIMIT_FSIZE, as on a full disk.

python -m tests.savers.full_disk DB BYTES
"""

import json
import resource
import signal
import sqlite3
import sys
from operator import add
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import START, SqliteSaver, StateGraph
from actorgraph.errors import StorageError

SIZES = [*range(80_000, 280_000, 4_000)]
NODES = 30


class State(TypedDict, total=False):
    log: Annotated[list[str], add]
    text: str


async def until_it_fails(graph: Any, config: Any, started: list[str]) -> tuple[str, int]:
    """The error's name, and how many nodes started after it."""
    error = "none"
    try:
        await graph.ainvoke({"log": []}, config)
    except StorageError as failed:
        error = type(failed).__name__
    before = len(started)
    for _ in range(50):
        await anyio.lowlevel.checkpoint()
    return error, len(started) - before


async def main(path: str, size: int) -> dict[str, Any]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    started: list[str] = []

    def node(name: str) -> Any:
        async def run(state: State) -> State:
            started.append(name)
            await anyio.lowlevel.checkpoint()
            return {"log": [name], "text": name * 2_000}

        return run

    builder = StateGraph(State)
    builder.add_sequence([(f"n{n}", node(f"n{n}")) for n in range(NODES)])
    builder.add_edge(START, "n0")
    config = {"configurable": {"thread_id": "t"}}
    async with SqliteSaver(path) as saver:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        error, after = await until_it_fails(builder.compile(checkpointer=saver), config, started)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    async with SqliteSaver(path) as saver:
        graph = builder.compile(checkpointer=saver)
        given: Any = None if await saver.aget_tuple(config) else {"log": []}
        log = (await graph.ainvoke(given, config))["log"]
    database = sqlite3.connect(path)
    (integrity,) = database.execute("PRAGMA integrity_check").fetchone()
    database.close()
    return {"error": error, "started after": after, "log": log, "integrity": integrity}


if __name__ == "__main__":
    print(json.dumps(anyio.run(main, sys.argv[1], int(sys.argv[2]))))
