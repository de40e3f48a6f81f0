"""A program whose files may not grow beyond a size: RLIMIT_FSIZE, as on a full disk.

python -m tests.savers.full_disk sqlite|jsonl PATH BYTES
"""

import json
import resource
import signal
import sqlite3
import sys
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import START, JsonlSaver, SqliteSaver, StateGraph
from actorgraph.errors import StorageError

SIZES = {"sqlite": [*range(80_000, 280_000, 4_000)], "jsonl": [*range(500, 125_500, 2_500)]}
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


def intact(kind: str, path: str) -> str:
    """Whether a store is undamaged, as a program that reads it without us says."""
    if kind == "jsonl":
        for line in Path(path, "t.jsonl").read_text().splitlines():
            json.loads(line)
        return "ok"
    database = sqlite3.connect(path)
    (integrity,) = database.execute("PRAGMA integrity_check").fetchone()
    database.close()
    return integrity


async def main(kind: str, path: str, size: int) -> dict[str, Any]:
    make = SqliteSaver if kind == "sqlite" else JsonlSaver
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
    async with make(path) as saver:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        error, after = await until_it_fails(builder.compile(checkpointer=saver), config, started)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    async with make(path) as saver:
        graph = builder.compile(checkpointer=saver)
        given: Any = None if await saver.aget_tuple(config) else {"log": []}
        log = (await graph.ainvoke(given, config))["log"]
    return {"error": error, "started after": after, "log": log, "integrity": intact(kind, path)}


if __name__ == "__main__":
    print(json.dumps(anyio.run(main, *sys.argv[1:3], int(sys.argv[3]))))
