"""A program to kill: several threads, several turns each, one database, one oracle file.

    python -m tests.faults.worker DB ORACLE BACKEND MODE

DB is the path of an SQLite file, that of a folder of JSON lines if it ends in ".jsonl", or
URL#SCHEMA of a PostgreSQL server.

Every oracle line is one `write` to a file opened with O_APPEND, so it survives `kill -9`.
"""

import operator
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import (
    Command,
    EmptyInputError,
    JsonlSaver,
    PostgresSaver,
    Send,
    SqliteSaver,
    StateGraph,
    interrupt,
)
from actorgraph.testing import FaultySaver
from tests.faults.oracle import Oracle

THREADS, TURNS = 4, 4
NAMES = ("plan", "work0", "work1", "work2", "rank", "ask", "end")


class FileOracle(Oracle):
    """An oracle that another process reads."""

    def __init__(self, path: str, mode: str) -> None:
        super().__init__(staggers=mode != "exit")
        self._file = opened(path)

    def write(self, what: str, label: str) -> None:
        super().write(what, label)
        os.write(self._file, f"{what} {label}\n".encode())


def opened(path: str) -> int:
    """A file to which lines are added, as a descriptor."""
    return os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)


def read(path: Path, oracle: Oracle) -> None:
    """Add what an oracle file says."""
    if path.exists():
        for line in path.read_text().splitlines():
            what, label = line.split(" ")
            oracle.lines.append((what, label))


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    thread: str
    turn: int


def expected(thread: str) -> list[str]:
    return [label_of(thread, turn, name) for turn in range(TURNS) for name in NAMES]


def label_of(thread: str, turn: int, name: str) -> str:
    return f"{thread}.{turn}.{name};"


def build(oracle: Oracle) -> StateGraph:
    """Plan, fan out to three, rank in a worker thread, ask, end."""

    def begin(state: Any, name: str) -> str:
        label = label_of(state["thread"], state["turn"], name)
        oracle.write("start", label)
        return label

    def node(name: str) -> Callable[[Any], Any]:
        async def run(state: Any) -> dict[str, Any]:
            label = begin(state, f"{name}{state.get('item', '')}")
            await anyio.lowlevel.checkpoint()
            if state.get("item"):
                about = (state["thread"], state["turn"], f"{name}{state['item'] - 1}")
                await oracle.wait_stored(label_of(*about))
            oracle.write("done", label)
            return {"log": [label]}

        return run

    def rank(state: Any) -> dict[str, Any]:
        return {"log": [begin(state, "rank")]}

    def ask(state: Any) -> dict[str, Any]:
        label = begin(state, "ask")
        interrupt("go on?")
        return {"log": [label]}

    def sends(state: Any) -> list[Send]:
        about = {"thread": state["thread"], "turn": state["turn"]}
        return [Send("work", {**about, "item": item}) for item in range(3)]

    graph = StateGraph(State)
    for name, function in (("rank", rank), ("ask", ask)):
        graph.add_node(name, function)
    for name in ("plan", "work", "end"):
        graph.add_node(name, node(name))
    graph.set_entry_point("plan")
    graph.add_conditional_edges("plan", sends)
    for one, two in (("work", "rank"), ("rank", "ask"), ("ask", "end")):
        graph.add_edge(one, two)
    return graph


async def turn(graph: Any, given: Any, thread: str, mode: str, oracle: Oracle) -> dict[str, Any]:
    """One run, and a second one to answer; in `sync` each delivered chunk is acknowledged."""
    config = {"configurable": {"thread_id": thread}}
    while True:
        async with graph.astream(given, config, durability=mode) as stream:
            async for chunk in stream:
                if mode == "sync":
                    oracle.chunk(chunk)
        state = await graph.aget_state(config)
        if not state.interrupts:
            oracle.write("return", thread)
            return state.values
        given = Command(resume="yes")


async def finish(graph: Any, thread: str, mode: str, oracle: Oracle) -> list[str]:
    """Bring a thread to its end, from wherever it is; its log.

    Raises: AssertionError: a turn that had begun was not taken up.
    """
    begun = [label for label in oracle.labels("start") if label.startswith(f"{thread}.")]
    try:
        done = (await turn(graph, None, thread, mode, oracle))["turn"]
    except EmptyInputError:
        done = -1
    assert done >= max((int(label.split(".")[1]) for label in begun), default=-1)
    values: dict[str, Any] = {}
    for number in range(done + 1, TURNS):
        given = {"thread": thread, "turn": number}
        values = await turn(graph, given, thread, mode, oracle)
    config = {"configurable": {"thread_id": thread}}
    return (values or (await graph.aget_state(config)).values)["log"]


def names() -> list[str]:
    return [f"t{number}" for number in range(THREADS)]


def saver_of(database: str) -> Any:
    """The saver of a database."""
    url, _, schema = database.partition("#")
    if schema:
        return PostgresSaver(url, schema=schema)
    return (JsonlSaver if database.endswith(".jsonl") else SqliteSaver)(database)


async def main(database: str, path: str, mode: str) -> None:
    oracle = FileOracle(path, mode)
    async with FaultySaver(saver_of(database), on_stored=oracle.stored) as saver:
        graph = build(oracle).compile(checkpointer=saver)
        async with anyio.create_task_group() as group:
            for thread in names():
                group.start_soon(finish, graph, thread, mode, oracle)


if __name__ == "__main__":
    database, path, backend, mode = sys.argv[1:]
    anyio.run(main, database, path, mode, backend=backend)
