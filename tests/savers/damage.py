"""Damage done to stored rows on purpose, and a judge of what every read makes of it."""

import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec

from actorgraph import Command, interrupt
from actorgraph.errors import ActorGraphError
from tests.graphs import at, in_a_row

VICTIM, HEALTHY = "victim", "healthy"
TABLES = ("threads", "runs", "checkpoints", "blobs", "ranges", "writes")
UNSUMMED = {
    *(("threads", column) for column in ("thread", "owner", "lease_until", "deleted", "epoch")),
    *(("checkpoints", column) for column in ("thread", "has_interrupts", "created")),
    *(("runs", column) for column in ("thread", "status", "resumes", "epoch", "namespace")),
    *((table, "thread") for table in ("blobs", "ranges", "writes")),
}
"""What no checksum covers: keys by which a store finds rows, what searches use, leases."""
MOVING = {
    ("threads", "thread_id"),
    *(("checkpoints", column) for column in ("namespace", "id", "seq")),
    *(("writes", column) for column in ("namespace", "checkpoint")),
}
"""Keys whose damage takes a row away from where it is looked for; nothing else may be wrong."""


class State(TypedDict, total=False):
    """One value of each kind: inline, a row of its own, a growing list."""

    number: int
    foo: dict[str, str]
    bar: Annotated[list[str], add]


def graph(saver: Any) -> Any:
    """Two nodes; the second asks."""

    async def work(state: State) -> State:
        count = state.get("number", 0) + 1
        return {"number": count, "foo": {"text": f"value {count}" * 3}, "bar": [f"item {count}"]}

    async def ask(state: State) -> State:
        return {"bar": [interrupt("how?")]}

    return in_a_row({"work": work, "ask": ask}, schema=State, checkpointer=saver)


async def fill(saver: Any) -> None:
    """Threads with some checkpoints each, one of them waiting for an answer."""
    for thread in (VICTIM, HEALTHY):
        runs = graph(saver)
        for turn in range(2):
            await runs.ainvoke({"bar": [thread]}, at(thread))
            if turn == 0:
                await runs.ainvoke(Command(resume="so"), at(thread))


Read = Callable[[Any], Awaitable[Any]]


async def _history(saver: Any, thread: str) -> Any:
    return [
        (p.values, p.next, p.metadata) async for p in graph(saver).aget_state_history(at(thread))
    ]


async def _listed(saver: Any, config: Any, **options: Any) -> Any:
    found = [point async for point in saver.alist(config, **options)]
    return [(p.config, p.checkpoint, p.metadata, p.parent_config, p.pending_writes) for p in found]


def reads_of(thread: str) -> dict[str, Read]:
    """Every public read of a thread."""
    config = at(thread)

    async def state(saver: Any) -> Any:
        found = await graph(saver).aget_state(config)
        return found.values, found.next, found.metadata, found.interrupts, found.created_at

    async def first(saver: Any) -> Any:
        found = await saver.aget_tuple(config)
        return found and found.checkpoint

    return {
        "get_state": state,
        "history": lambda saver: _history(saver, thread),
        "get_tuple": first,
        "list": lambda saver: _listed(saver, config),
        "list_metadata": lambda saver: saver.alist_metadata(thread),
        "checkpoint_bytes": lambda saver: saver.acheckpoint_bytes(config),
    }


EVERYWHERE: dict[str, Read] = {
    "list of all": lambda saver: _listed(saver, None),
    "list of some": lambda saver: _listed(saver, None, filter={"source": "loop"}),
}

WRITES: dict[str, Read] = {
    "resume": lambda saver: graph(saver).ainvoke(Command(resume="yes"), at(VICTIM)),
    "update_state": lambda saver: graph(saver).aupdate_state(at(VICTIM), {"number": 9}),
    "copy": lambda saver: saver.acopy_thread(VICTIM, "copy"),
    "prune": lambda saver: saver.aprune([VICTIM]),
    "invoke": lambda saver: graph(saver).ainvoke({"bar": ["more"]}, at(VICTIM)),
    "retention": lambda saver: saver.aretention(0),
    "vacuum": lambda saver: saver.avacuum(),
    "delete": lambda saver: saver.adelete_thread(VICTIM),
}


async def tried(read: Read, saver: Any) -> Any:
    """The answer to a read, or its error."""
    try:
        return await read(saver)
    except Exception as error:  # noqa: BLE001 - what it is, is judged
        return error


class Judge:
    """Knows what every read answered before anything was damaged."""

    def __init__(self) -> None:
        self.right: dict[str, Any] = {}
        self.everywhere: dict[str, list[str]] = {}
        self.told = self.same = 0

    async def learn(self, saver: Any) -> None:
        """Read everything."""
        for thread in (VICTIM, HEALTHY):
            for name, read in reads_of(thread).items():
                self.right[f"{name} {thread}"] = repr(await read(saver))
        for name, read in EVERYWHERE.items():
            self.everywhere[name] = [repr(row) for row in await read(saver)]

    async def wrong(self, saver: Any, *, moved: bool = False) -> list[str]:
        """What is wrong with the answers now.

        Args:
            moved: whether a row is not where it is looked for: then the victim's may be fewer.
        """
        wrong: list[str] = []
        for thread in (VICTIM, HEALTHY):
            for name, read in reads_of(thread).items():
                answer = await tried(read, saver)
                if isinstance(answer, Exception):
                    wrong += self._bad(name, answer, thread)
                elif repr(answer) == self.right[f"{name} {thread}"]:
                    self.same += 1
                elif not moved or thread == HEALTHY:
                    wrong.append(f"{name} of {thread}: {answer!r:.300}")
        for name, read in EVERYWHERE.items():
            answer = await tried(read, saver)
            if isinstance(answer, Exception):
                wrong.append(f"{name}: {answer!r:.300}")
                continue
            rows = [repr(row) for row in answer]
            healthy = [row for row in self.everywhere[name] if f"'{HEALTHY}'" in row]
            if not moved and set(rows) - set(self.everywhere[name]):
                wrong.append(f"{name}: another row")
            if [row for row in rows if f"'{HEALTHY}'" in row] != healthy:
                wrong.append(f"{name}: a row of {HEALTHY} is missing")
        return wrong

    def _bad(self, name: str, error: Exception, thread: str) -> list[str]:
        self.told += 1
        if thread == HEALTHY or not isinstance(error, ActorGraphError):
            return [f"{name} of {thread}: {error!r:.300}"]
        return [] if VICTIM in str(error) else [f"{name} names no place: {error}"]


def changed(value: Any, chance: random.Random) -> Any:
    """Another value of the same kind: a bit of it is flipped."""
    if value is None:
        return chance.randbytes(16)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value ^ 1 << chance.randrange(12)
    if isinstance(value, str):
        if not value:
            return "x"
        spot = chance.randrange(len(value))
        return value[:spot] + chr(ord(value[spot]) ^ 1 << chance.randrange(5)) + value[spot + 1 :]
    if not value:
        return b"x"
    made = bytearray(value)
    made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
    return bytes(made)


class Flip(msgspec.Struct, frozen=True):
    """A column of a row to damage."""

    table: str
    column: str
    row: int


def columns_of(path: Path) -> list[tuple[str, str]]:
    """Every column of every table of a database that a checksum covers."""
    with closing(sqlite3.connect(path)) as db:
        return [
            (table, name)
            for table in TABLES
            for _, name, *_ in db.execute("SELECT * FROM pragma_table_info(?)", (table,))
            if (table, name) not in UNSUMMED and name != "crc"
        ]


def plant(path: Path, flip: tuple[str, str], chance: random.Random) -> bool:
    """Change a column of a random row of the victim; False if it has none."""
    table, column = flip
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        named = [row[1] for row in db.execute("SELECT * FROM pragma_table_info(?)", (table,))]
        text = ", ".join(named)
        rows = db.execute(f"SELECT {text} FROM {table} WHERE thread = 1").fetchall()  # noqa: S608
        if table == "runs":
            rows = [row for row in rows if row[named.index("status")] == "running"]
        if not rows:
            return False
        row = chance.choice(rows)
        where = " AND ".join(f"{name} IS ?" for name in named)
        new = changed(row[named.index(column)], chance)
        try:
            done = db.execute(
                f"UPDATE {table} SET {column} = ? WHERE {where}",  # noqa: S608
                (new, *row),
            )
        except sqlite3.IntegrityError:
            return False
        return done.rowcount == 1


def flips(whole: bytes, count: int, chance: random.Random) -> Iterator[bytes]:
    """Copies of a file, each with one bit changed."""
    for _ in range(count):
        made = bytearray(whole)
        made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
        yield bytes(made)


@asynccontextmanager
async def opened(made: Any) -> AsyncIterator[Any]:
    """An open saver; the end of one whose file is damaged must not hide what was found."""
    await made.__aenter__()
    try:
        yield made
    finally:
        await made.__aexit__(None, None, None)
