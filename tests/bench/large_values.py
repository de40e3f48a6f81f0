"""The measured programs of large values: a value that each step changes, and its reading.

Each is measured in a process of its own. Peaks are those of the process's resident memory above
what it was before the value was made, or read, so the value itself is in them.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any, TypedDict
from zlib import crc32

from tests.bench.libraries import Library
from tests.bench.timing import measured, measured_blocking
from tests.bench.workloads import open_saver

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "one"}}
TEXT_CHARS = 2_000
"""Length of a message's text."""
BLOCK_BYTES = 10_000


class Changing(TypedDict):
    """The state: how often the value has changed, when to stop, and the value."""

    count: int
    limit: int
    value: Any


def make_value(kind: str, size: int) -> Callable[[int], Any]:
    """Make the function of a count that returns a value of `size` bytes.

    "bytes" are a random block, repeated. "messages" are a list of dicts of text, of which the
    last one is new.
    """
    if kind == "bytes":
        # Made with one allocation: the value's own making must not be the peak.
        return lambda count: Random(count).randbytes(BLOCK_BYTES) * (size // BLOCK_BYTES)
    text = "The quick brown fox jumps over the lazy dog. " * (TEXT_CHARS // 45 + 1)

    def messages(count: int) -> list[dict[str, str]]:
        made = [
            {"role": "user", "content": f"{place} {text}"[:TEXT_CHARS]}
            for place in range(size // TEXT_CHARS - 1)
        ]
        return [*made, {"role": "user", "content": f"{count} {text}"[:TEXT_CHARS]}]

    return messages


def graph_of(library: Library, value: Callable[[int], Any]) -> Any:
    """A node that makes a new value, with a conditional edge back to itself."""

    async def change(state: Changing) -> dict:
        count = state["count"] + 1
        return {"count": count, "value": value(count)}

    async def again(state: Changing) -> str:
        return "change" if state["count"] < state["limit"] else library.END

    builder = library.StateGraph(Changing)
    builder.add_node("change", change)
    builder.add_edge(library.START, "change")
    builder.add_conditional_edges("change", again, ["change", library.END])
    return builder


def opened(library: Library, saver: str, where: str) -> AbstractAsyncContextManager[Any]:
    """A saver by its name; LangGraph has none of JSON lines, its SQLite is in that place."""
    if saver != "jsonl":
        return open_saver(library, saver, where)
    if library.name == "langgraph":
        return open_saver(library, "sqlite", where)
    from actorgraph import JsonlSaver

    return JsonlSaver(where)


async def run(graph: Any, steps: int, start: int = 0) -> Any:
    """Run `steps` steps on the thread."""
    given = {"count": start, "limit": start + steps}
    config = {**CONFIG, "recursion_limit": steps + 10}
    return await graph.ainvoke(given, config, durability="sync")


async def step(
    library: Library, _: Path, *, saver: str, kind: str, size: int, steps: int, where: str
) -> dict:
    """CPU of a step that changes the value, without what the node takes; the values stay stored."""
    value = make_value(kind, size)
    spent = [0.0]

    def timed(count: int) -> Any:
        started = time.thread_time()
        made = value(count)
        spent[0] += time.thread_time() - started
        return made

    async with opened(library, saver, where) as store:
        graph = graph_of(library, timed).compile(checkpointer=store)
        await run(graph, 1)
        spent[0] = 0
        state, figures = await measured(lambda: run(graph, steps, 1))
        assert state["count"] == steps + 1
        del state
        cpu = (figures["cpu_seconds"] - spent[0]) / steps
        read = await _read(graph, steps) if saver == "memory" else {}
    return {"step_ms": cpu * 1e3, **read}


async def read(
    library: Library, _: Path, *, saver: str, kind: str, size: int, steps: int, where: str
) -> dict:
    """CPU of `get_state` of what `step` has stored, and the peak of the first one."""
    async with opened(library, saver, where) as store:
        graph = graph_of(library, make_value(kind, BLOCK_BYTES)).compile(checkpointer=store)
        # The first read imports and prepares what later ones have: on a thread without a value.
        await graph.aget_state({"configurable": {"thread_id": "none"}})
        before = _reset_peak()
        state = await graph.aget_state(CONFIG)
        peak = (peak_bytes() - before) / size
        assert state.values["count"] == steps + 1
        del state
        return {**await _read(graph, steps), "read_peak": peak}


async def _read(graph: Any, steps: int) -> dict:
    async def states() -> None:
        for _ in range(steps):
            state = await graph.aget_state(CONFIG)
            del state

    _, figures = await measured(states)
    return {"read_ms": figures["cpu_seconds"] / steps * 1e3}


async def write(
    library: Library, _: Path, *, saver: str, kind: str, size: int, steps: int, where: str
) -> dict:
    """Peak of one step that makes the value, on a new thread."""
    value = make_value(kind, size)
    small = make_value(kind, BLOCK_BYTES)
    async with opened(library, saver, where) as store:
        warm = {"configurable": {"thread_id": "warm"}}
        graph = graph_of(library, small).compile(checkpointer=store)
        await graph.ainvoke({"count": 0, "limit": 1}, warm, durability="sync")
        graph = graph_of(library, value).compile(checkpointer=store)
        before = _reset_peak()
        state = await run(graph, 1)
        peak = (peak_bytes() - before) / size
        del state
        found: dict[str, Any] = {"write_peak": peak}
        if saver == "memory":
            before = _reset_peak()
            state = await graph.aget_state(CONFIG)
            found["read_peak"] = (peak_bytes() - before) / size
            del state
    return found


def _reset_peak() -> int:
    """Begin a new peak; returns the resident memory now, in bytes. Linux only."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def peak_bytes() -> int:
    """The peak of the resident memory since `_reset_peak`, in bytes."""
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


async def floor(_: Library, path: Path, *, kind: str, size: int, steps: int) -> dict:
    """The least that a durable step and a read can do: one row of one value, packed and summed.

    Neither thread, writes of tasks nor history: what raw `sqlite3`, CRC-32 and the C packer take.
    """
    import ormsgpack

    values = [make_value(kind, size)(count) for count in range(steps)]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE v (n INTEGER PRIMARY KEY, crc INTEGER, value BLOB)")

    def store() -> None:
        for count, value in enumerate(values):
            packed = ormsgpack.packb(value)
            connection.execute("INSERT INTO v VALUES (?, ?, ?)", (count, crc32(packed), packed))

    def fetch() -> None:
        for count in range(steps):
            (crc,) = connection.execute("SELECT crc FROM v WHERE n = ?", (count,)).fetchone()
            with connection.blobopen("v", "value", count, readonly=True) as blob:
                packed = blob.read()
            assert crc32(packed) == crc
            ormsgpack.unpackb(packed)

    _, stored = measured_blocking(store)
    _, fetched = measured_blocking(fetch)
    return {
        "step_ms": stored["cpu_seconds"] / steps * 1e3,
        "read_ms": fetched["cpu_seconds"] / steps * 1e3,
    }
