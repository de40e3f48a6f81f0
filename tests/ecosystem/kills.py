"""Kill a program again and again until it is done, then judge what it left.

    python [-m actorgraph.compat -m] tests.ecosystem.kills PROGRAM DATABASE FOLDER KILLS SEED

DATABASE is "sqlite" or the address of a PostgreSQL server. Each attempt is a thread of its own:
a forked child runs it, is killed at a moment, and another child goes on, up to three times; the
last one ends undisturbed. Every second attempt runs by the blocking methods.

The log of an attempt has `did LABEL` for each reply of a model and each side effect of a tool,
`ack LABEL` for each message of a delivered chunk (durability "sync"), `turn N` for a turn that
has ended, and `lost LABEL` if a child finds that what was acknowledged isn't stored.

Judged: lost (acknowledged, and not stored or not in the final state), twice (done again after it
was acknowledged), wrong (another final state than that of an undisturbed run). Prints one line of
JSON with the counts.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Command

from tests.ecosystem.drive import first_input, graph_of, program_of
from tests.ecosystem.scripted import LOG

KILLS_PER_THREAD_MAX = 3
DELAY_SECONDS_MAX = 0.02
CHILD_SECONDS_MAX = 60.0
POLL_SECONDS = 0.0005
STEPS_MAX = 30


def config_of(thread: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread}}


def messages_in(value: Any) -> list[BaseMessage]:
    """All messages inside of a chunk or a state, at any depth."""
    if isinstance(value, BaseMessage):
        return [value]
    if isinstance(value, Command):
        return messages_in(value.update)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    return [message for one in value for message in messages_in(one)]


def labels_of(value: Any) -> list[str]:
    """Name a message as the log does: the call that it answers, or its own id."""
    found = messages_in(value)
    return [str(getattr(m, "tool_call_id", None) or m.id) for m in found if m.type != "human"]


def acknowledge(chunk: Any, program: ModuleType) -> None:
    """Note the messages of a delivered chunk, unless the graph that sent it stores nothing."""
    namespace, update = chunk
    if namespace and not getattr(program, "SUBGRAPHS_STORE", True):
        return
    for label in dict.fromkeys(labels_of(update)):
        LOG.write("ack", label)


def events(path: Path) -> list[tuple[str, str]]:
    """Read a log; a line that was cut off isn't an event."""
    text = path.read_text() if path.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


class Run:
    """One child's work on a thread.

    Args:
        log: the path of the thread's log.
        database: "sqlite:PATH", or the address of a server.
    """

    def __init__(self, program: ModuleType, thread: str, log: Path, database: str) -> None:
        self.program = program
        self.thread = thread
        self.config = config_of(thread)
        self.log = log
        self.database = database
        named = getattr(program, "NAMESPACE", ())
        self.namespace = tuple(part.format(thread_id=thread) for part in named)

    def note_lost(self, rows: list[Any]) -> None:
        """Compare what was acknowledged with the stored checkpoints and writes."""
        stored = str([(row.checkpoint, row.pending_writes) for row in rows])
        for label in {label for what, label in events(self.log) if what == "ack"}:
            if label not in stored:
                LOG.write("lost", label)

    def next_input(self, state: Any) -> Any:
        """The next input of the graph; "" at the end."""
        if state.interrupts:
            return Command(resume=self.program.answer(state.interrupts))
        if state.next:
            return None
        given = [m for m in messages_in(state.values) if str(m.id).startswith("turn-")]
        ended = [int(label) for what, label in events(self.log) if what == "turn"]
        turn = max([-1, *ended, *(int(str(m.id)[5:]) for m in given)]) + 1
        if turn:
            LOG.write("turn", str(turn - 1))
        return first_input(self.program, turn) if turn < len(self.program.TURNS) else ""

    def end(self, state: Any, memories: list[str]) -> None:
        """Write the final state to the log."""
        shown = [
            [label, str(m.content)] for m in messages_in(state.values) for label in labels_of(m)
        ]
        text = json.dumps([_without_ids(shown), sorted(set(memories))])
        LOG.write("end", text.replace(self.thread, "<thread>"))

    async def run(self) -> None:
        """Go on until all turns are done, by the async methods."""
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
        from langgraph.store.postgres.aio import AsyncPostgresStore
        from langgraph.store.sqlite.aio import AsyncSqliteStore

        lite = self.database.startswith("sqlite:")
        place = self.database.removeprefix("sqlite:")
        async with AsyncExitStack() as stack:
            saver: Any = AsyncSqliteSaver if lite else AsyncPostgresSaver
            saver = await stack.enter_async_context(saver.from_conn_string(place))
            await saver.setup()
            store: Any = None
            if self.namespace:
                store = AsyncSqliteStore if lite else AsyncPostgresStore
                at = f"{place}.store" if lite else place
                store = await stack.enter_async_context(store.from_conn_string(at))
                await store.setup()
            self.note_lost([row async for row in saver.alist(self.config)])
            graph = await graph_of(self.program, saver, store)
            for _ in range(STEPS_MAX):
                state = await graph.aget_state(self.config)
                if (put := self.next_input(state)) == "":
                    break
                options: Any = {"stream_mode": "updates", "subgraphs": True, "durability": "sync"}
                async for chunk in graph.astream(put, self.config, **options):
                    acknowledge(chunk, self.program)
            found = await store.asearch(self.namespace, limit=100) if store else []
            self.end(state, [one.value["content"] for one in found])

    def run_blocking(self) -> None:
        """Go on until all turns are done, by the blocking methods."""
        from langgraph.checkpoint.postgres import PostgresSaver
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.store.postgres import PostgresStore
        from langgraph.store.sqlite import SqliteStore

        lite = self.database.startswith("sqlite:")
        place = self.database.removeprefix("sqlite:")
        with ExitStack() as stack:
            saver: Any = SqliteSaver if lite else PostgresSaver
            saver = stack.enter_context(saver.from_conn_string(place))
            saver.setup()
            store: Any = None
            if self.namespace:
                store = SqliteStore if lite else PostgresStore
                at = f"{place}.store" if lite else place
                store = stack.enter_context(store.from_conn_string(at))
                store.setup()
            self.note_lost(list(saver.list(self.config)))
            graph = self.program.build(saver, store)
            for _ in range(STEPS_MAX):
                state = graph.get_state(self.config)
                if (put := self.next_input(state)) == "":
                    break
                options: Any = {"stream_mode": "updates", "subgraphs": True, "durability": "sync"}
                for chunk in graph.stream(put, self.config, **options):
                    acknowledge(chunk, self.program)
            found = store.search(self.namespace, limit=100) if store else []
            self.end(state, [one.value["content"] for one in found])


def _without_ids(shown: list[list[str]]) -> list[list[str]]:
    """Leave out ids that are made at random: those of messages without a script."""
    from tests.ecosystem.normal import normal

    return normal(shown)


def child(run: Run, blocking: bool) -> int:
    """Fork a child that runs; returns its process id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        LOG.open(str(run.log))
        if blocking:
            run.run_blocking()
        else:
            asyncio.run(run.run())
        code = 0
    except BaseException:  # noqa: BLE001 - the parent reads the log
        LOG.write("failed", json.dumps(traceback.format_exc()[-3000:]))
    finally:
        os._exit(code)


def wait(process: int, log: Path, lines: int, delay: float) -> bool:
    """Wait until a log has so many lines, then a bit, and kill; False if the child ended before."""
    deadline = time.monotonic() + CHILD_SECONDS_MAX
    while log.read_bytes().count(b"\n") < lines if log.exists() else lines > 0:
        if os.waitpid(process, os.WNOHANG)[0]:
            return False
        if time.monotonic() > deadline:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise AssertionError(f"{log} has no {lines} lines")
        time.sleep(POLL_SECONDS)
    time.sleep(delay)
    if os.waitpid(process, os.WNOHANG)[0]:
        return False
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def judge(log: Path, expected: str) -> Counter[str]:
    """Count what is lost, done twice and wrong in one thread."""
    seen: Counter[str] = Counter()
    acknowledged: set[str] = set()
    ends = ""
    for what, label in events(log):
        if what == "ack":
            acknowledged.add(label)
        seen["lost"] += what == "lost"
        seen["twice"] += what == "did" and label in acknowledged
        seen["failed"] += what == "failed"
        ends = label if what == "end" else ends
    seen["acknowledged"] = len(acknowledged)
    seen["did"] = sum(what == "did" for what, _ in events(log))
    seen["wrong"] = ends != expected
    return seen


def kill_often(program: ModuleType, database: str, folder: Path, kills: int, seed: int) -> Any:
    """Make so many kills; returns the counts, and the logs with faults."""
    name = program.__name__.rpartition(".")[2]
    chance = random.Random(f"{name} {seed}")
    syncs = getattr(program, "SYNC", True)
    folder.mkdir(parents=True, exist_ok=True)
    place = f"sqlite:{folder / 'store.db'}" if database == "sqlite" else database
    whole: dict[bool, tuple[int, str]] = {}
    for blocking in (False, True) if syncs else (False,):
        log = folder / f"whole-{blocking}"
        os.waitpid(child(Run(program, f"{name}-{seed}-whole-{blocking}", log, place), blocking), 0)
        lines = events(log)
        assert lines, f"no log of {program.__name__}"
        assert lines[-1][0] == "end", lines[-1]
        whole[blocking] = len(lines), lines[-1][1]
    seen: Counter[str] = Counter()
    bad: list[str] = []
    for attempt in range(3 * kills):
        blocking = syncs and attempt % 2 == 1
        log = folder / f"log-{attempt}"
        run = Run(program, f"{name}-{seed}-{attempt}", log, place)
        lines = 0
        for _ in range(KILLS_PER_THREAD_MAX):
            lines = chance.randrange(lines, whole[blocking][0] + 1)
            if not wait(child(run, blocking), log, lines, chance.uniform(0, DELAY_SECONDS_MAX)):
                break
            seen["kills"] += 1
        if not events(log) or events(log)[-1][0] != "end":
            os.waitpid(child(run, blocking), 0)
        found = judge(log, whole[blocking][1])
        seen += found
        if found["lost"] or found["twice"] or found["wrong"] or found["failed"]:
            bad.append(str(log))
        seen["threads"] += 1
        if seen["kills"] >= kills:
            break
    names = ("kills", "threads", "acknowledged", "did", "lost", "twice", "wrong", "failed")
    return {**{name: seen[name] for name in names}, "bad": bad}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    name, database, folder, kills, seed = sys.argv[1:]
    found = kill_often(program_of(name), database, Path(folder), int(kills), int(seed))
    print(json.dumps({"program": name, **found}), flush=True)
