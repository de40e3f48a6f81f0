"""The measured programs, one source for both libraries: only `library` differs.

Each workload is warmed up, then measured once after a garbage collection, with the collector
on at its default thresholds; then its result is checked, because a wrong answer has no speed.
Nodes and paths are `async def` unless `plain` says otherwise: that is LangGraph's best case,
because in async runs it hands each plain function to a thread. Blocking calls: `blocking.py`.
"""

import itertools
import json
import operator
import os
import random
import sqlite3
import string
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, TypedDict

from tests.bench.gathering import gather, turn
from tests.bench.libraries import IMPORTS, Library
from tests.bench.sums import share_of
from tests.bench.timing import measured

WARM_UP_STEPS = 20
READ_BACK_THREADS = 20
IMPORT_SECONDS_MAX = 60


class Count(TypedDict):
    """The state of the loop: how often the node ran, and when to stop."""

    count: int
    limit: int


class Fan(TypedDict):
    """The state of the fan-out: how wide, and what came back."""

    width: int
    results: Annotated[list, operator.add]


class Chat(TypedDict):
    """The state of the chat."""

    messages: Annotated[list, operator.add]


def counter_graph(library: Library, plain: Sequence[str] = ()) -> Any:
    """A node that counts, with a conditional edge back to itself.

    `plain` names what is a plain function instead of an async one: "node", "path".
    """

    def count(state: Count) -> dict:
        return {"count": state["count"] + 1}

    def again(state: Count) -> str:
        return "count" if state["count"] < state["limit"] else library.END

    async def count_async(state: Count) -> dict:
        return count(state)

    async def again_async(state: Count) -> str:
        return again(state)

    builder = library.StateGraph(Count)
    builder.add_node("count", count if "node" in plain else count_async)
    builder.add_edge(library.START, "count")
    path = again if "path" in plain else again_async
    builder.add_conditional_edges("count", path, ["count", library.END])
    return builder


async def count_to(graph: Any, limit: int, thread: str, durability: str | None) -> int:
    """Run the counter on one thread; what it counted."""
    config = {"configurable": {"thread_id": thread}, "recursion_limit": limit + 10}
    options = {} if durability is None else {"durability": durability}
    result = await graph.ainvoke({"count": 0, "limit": limit}, config, **options)
    return result["count"]


def open_saver(
    library: Library, kind: str | None, where: Path | str, synchronous: str = "FULL"
) -> AbstractAsyncContextManager[Any]:
    """The saver of a workload: none, in memory, a SQLite file, or a PostgreSQL database."""
    match kind:
        case None:
            return nullcontext()
        case "memory":
            return nullcontext(library.InMemorySaver())
        case "postgres":
            return library.open_postgres(str(where))
        case _:
            return library.open_sqlite(Path(where), synchronous)


async def loop(
    library: Library,
    path: Path,
    *,
    steps: int,
    saver: str | None,
    durability: str | None,
    plain: Sequence[str] = (),
) -> dict:
    """One thread, a loop of `steps` supersteps."""
    builder = counter_graph(library, plain)
    # A file of its own, so that the measured file holds the measured rows only.
    async with open_saver(library, saver, path.with_suffix(".warm")) as opened:
        await count_to(builder.compile(checkpointer=opened), WARM_UP_STEPS, "warm", durability)
    async with open_saver(library, saver, path) as opened:
        graph = builder.compile(checkpointer=opened)
        counted, figures = await measured(lambda: count_to(graph, steps, "one", durability))
    assert counted == steps, counted
    return {**figures, "units": steps}


async def threads(
    library: Library,
    path: Path,
    *,
    threads: int,
    steps: int,
    durability: str | None,
    saver: str | None = "sqlite",
    synchronous: str = "FULL",
    plain: Sequence[str] = (),
    url: str | None = None,
) -> dict:
    """Many threads at once, each a loop of `steps` supersteps, on one saver."""
    builder = counter_graph(library, plain)
    warm, where = (url, url) if url else (path.with_suffix(".warm"), path)
    async with open_saver(library, saver, warm, synchronous) as opened:
        await count_to(builder.compile(checkpointer=opened), WARM_UP_STEPS, "warm", durability)
    async with open_saver(library, saver, where, synchronous) as opened:
        graph = builder.compile(checkpointer=opened)
        runs = [lambda n=n: count_to(graph, steps, f"t{n}", durability) for n in range(threads)]
        counted, figures = await measured(lambda: gather(runs))
        batches = library.statistics(opened) if saver in {"sqlite", "postgres"} else None
        assert counted == [steps] * threads
        for n in range(0, threads if saver else 0, max(1, threads // READ_BACK_THREADS)):
            state = await graph.aget_state({"configurable": {"thread_id": f"t{n}"}})
            assert state.values["count"] == steps, (n, state.values)
    return {**figures, "units": threads * steps, "batches": batches}


async def large_value(
    library: Library, path: Path, *, steps: int, value_bytes: int, saver: str
) -> dict:
    """One thread that carries a large value, which no step changes."""

    class Carried(Count):
        value: bytes

    async def count(state: Carried) -> dict:
        return {"count": state["count"] + 1}

    async def again(state: Carried) -> str:
        return "count" if state["count"] < state["limit"] else library.END

    builder = library.StateGraph(Carried)
    builder.add_node("count", count)
    builder.add_edge(library.START, "count")
    builder.add_conditional_edges("count", again, ["count", library.END])
    value = random.Random(1).randbytes(value_bytes)

    async def run(graph: Any, limit: int) -> dict:
        config = {"configurable": {"thread_id": "one"}, "recursion_limit": limit + 10}
        start = {"count": 0, "limit": limit, "value": value}
        return await graph.ainvoke(start, config, durability="sync")

    async with open_saver(library, saver, path.with_suffix(".warm")) as opened:
        await run(builder.compile(checkpointer=opened), WARM_UP_STEPS)
    async with open_saver(library, saver, path) as opened:
        graph = builder.compile(checkpointer=opened)
        state, figures = await measured(lambda: run(graph, steps))
    assert (state["count"], state["value"]) == (steps, value)
    return {**figures, "units": steps}


async def large_reads(
    library: Library, path: Path, *, steps: int, value_bytes: int, history: bool
) -> dict:
    """Read the newest state, or `steps` snapshots; each run has changed the large value."""
    config = {"configurable": {"thread_id": "one"}}
    values = random.Random(1)

    class Changed(Count):
        value: bytes

    async def change(state: Changed) -> dict:
        return {"value": values.randbytes(value_bytes)}

    builder = library.StateGraph(Changed)
    builder.add_node("change", change)
    builder.add_edge(library.START, "change")
    builder.add_edge("change", library.END)
    async with open_saver(library, "sqlite", path) as opened:
        graph = builder.compile(checkpointer=opened)
        for _ in range(steps):
            state = await graph.ainvoke({"count": 0}, config, durability="sync")

        async def read() -> list[Any]:
            if not history:
                return [await graph.aget_state(config)]
            return [each async for each in graph.aget_state_history(config, limit=steps)]

        found, figures = await measured(read)
    assert found[0].values["value"] == state["value"]
    return {**figures, "units": 1}


async def checksums(library: Library, path: Path, **arguments: Any) -> dict:
    """`threads`, and what the checksums of its rows take."""
    count = itertools.count()
    return await share_of(
        lambda: threads(library, path.with_suffix(f".{next(count)}"), **arguments)
    )


async def fan_out(
    library: Library, path: Path, *, tasks: int, saver: str | None, rounds: int
) -> dict:
    """A fan-out of `tasks` Sends to one node, gathered by a reducer; `rounds` times."""

    async def spread(state: Fan) -> list:
        return [library.Send("work", {"number": n}) for n in range(state["width"])]

    async def work(task: dict) -> dict:
        return {"results": [task["number"] * 2]}

    builder = library.StateGraph(Fan)
    builder.add_node("work", work)
    builder.add_conditional_edges(library.START, spread, ["work"])
    builder.add_edge("work", library.END)

    async with open_saver(library, saver, path) as opened:
        graph = builder.compile(checkpointer=opened)
        options = {} if saver is None else {"durability": "sync"}

        async def run(width: int, name: str) -> list:
            config = {"configurable": {"thread_id": name}}
            result = await graph.ainvoke({"width": width, "results": []}, config, **options)
            return result["results"]

        async def every_round() -> list:
            return [await run(tasks, f"round {n}") for n in range(rounds)]

        await run(WARM_UP_STEPS, "warm")
        results, figures = await measured(every_round)
    assert results == [[n * 2 for n in range(tasks)]] * rounds
    return {**figures, "units": tasks * rounds}


async def chat(library: Library, path: Path, *, turns: int, text_chars: int) -> dict:
    """A chat of one user and one assistant message a turn; what it leaves on the disk.

    The final state's size is the length of its compact JSON. The ledger of pending writes is
    kept, as both libraries do; the WAL is truncated, so that only the database counts.
    """
    texts = random.Random(400)
    alphabet = string.ascii_letters + string.digits + "  "

    def message(role: str) -> dict:
        return {"role": role, "content": "".join(texts.choices(alphabet, k=text_chars))}

    async def answer(state: Chat) -> dict:
        return {"messages": [message("assistant")]}

    builder = library.StateGraph(Chat)
    builder.add_node("answer", answer)
    builder.add_edge(library.START, "answer")
    builder.add_edge("answer", library.END)

    async with library.open_sqlite(path, "FULL") as opened:
        graph = builder.compile(checkpointer=opened)
        config = {"configurable": {"thread_id": "chat"}}

        async def every_turn() -> dict:
            for _ in range(turns):
                update = {"messages": [message("user")]}
                result = await graph.ainvoke(update, config, durability="sync")
            return result

        state, figures = await measured(every_turn)
        history = [snapshot async for snapshot in graph.aget_state_history(config)]
    assert len(state["messages"]) == 2 * turns
    return {
        **figures,
        "units": turns,
        "checkpoints": len(history),
        "disk_bytes": _truncated_size(path),
        "state_bytes": len(json.dumps(state, separators=(",", ":")).encode()),
    }


async def dialogue(library: Library, path: Path, *, turns: int, text_chars: int) -> dict:
    """A chat of messages that `add_messages` joins, `turns` turns, each saved before the next."""
    async with library.open_sqlite(path, "FULL") as opened:
        graph = _dialogue_graph(library, text_chars, opened)
        state, figures = await measured(lambda: _talk(graph, turns, text_chars))
    assert len(state["messages"]) == 2 * turns
    return {**figures, "units": turns}


async def history(
    library: Library, path: Path, *, turns: int, text_chars: int, limit: int | None
) -> dict:
    """Read the newest `limit` snapshots of such a chat (None: all), opened again."""
    async with library.open_sqlite(path, "FULL") as opened:
        await _talk(_dialogue_graph(library, text_chars, opened), turns, text_chars)
    async with library.open_sqlite(path, "FULL") as opened:
        graph = _dialogue_graph(library, text_chars, opened)

        async def read() -> list[int]:
            found = graph.aget_state_history(_DIALOGUE, limit=limit)
            return [len(each.values.get("messages", ())) async for each in found]

        lengths, figures = await measured(read)
    assert len(lengths) == (limit or 3 * turns)
    assert lengths[0] == 2 * turns
    return {**figures, "units": 1}


_DIALOGUE = {"configurable": {"thread_id": "dialogue"}}


def _dialogue_graph(library: Library, text_chars: int, saver: Any) -> Any:
    """A graph with one node that answers with `text_chars` characters."""
    messages = Annotated[list, library.add_messages]
    state = TypedDict("Dialogue", {"messages": messages})  # noqa: UP013

    async def answer(_: Any) -> dict:
        return {"messages": [{"role": "assistant", "content": "x" * text_chars}]}

    builder = library.StateGraph(state)
    builder.add_node("answer", answer)
    builder.add_edge(library.START, "answer")
    builder.add_edge("answer", library.END)
    return builder.compile(checkpointer=saver)


async def _talk(graph: Any, turns: int, text_chars: int) -> dict:
    """The state after `turns` turns."""
    update = {"messages": [{"role": "user", "content": "y" * text_chars}]}
    for _ in range(turns):
        result = await graph.ainvoke(update, _DIALOGUE, durability="sync")
    return result


def _truncated_size(path: Path) -> int:
    """The bytes of a closed database after its write-ahead log went into it."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    parts = (path.with_name(path.name + suffix) for suffix in ("", "-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


async def import_time(library: Library, path: Path) -> dict:
    """The import statements of a program, timed by an interpreter that imported nothing else.

    The first of two runs writes the byte code and fills the page cache; the second counts.
    """
    program = (
        f"import time; started = time.perf_counter()\n{IMPORTS[library.name]}\n"
        "print(time.perf_counter() - started)"
    )
    command = [sys.executable, "-c", program]
    # A shell that forbids byte code would have each start compile what has changed.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(2):
        done = subprocess.run(  # noqa: ASYNC221 - nothing else runs on this loop
            command,
            check=True,
            capture_output=True,
            timeout=IMPORT_SECONDS_MAX,
            env=environment,
        )
    return {"seconds": float(done.stdout), "units": 1}


async def custom_tokens(library: Library, path: Path, *, runs: int, tokens: int) -> dict:
    """Runs at once whose node writes tokens, each with a turn for others after it, and a reader."""

    class State(TypedDict, total=False):
        done: bool

    async def write(state: State) -> dict:
        send = library.get_stream_writer()
        for number in range(tokens):
            send(f"tok{number} ")
            await turn()
        return {"done": True}

    builder = library.StateGraph(State)
    builder.add_node("write", write)
    builder.add_edge(library.START, "write")
    graph = builder.compile()

    async def read() -> int:
        return len([chunk async for chunk in graph.astream({}, stream_mode="custom")])

    await read()
    counted, figures = await measured(lambda: gather([read] * runs))
    assert counted == [tokens] * runs, counted
    return {**figures, "units": runs * tokens}
