"""Damage done to stored rows on purpose, and a judge of what every read makes of it."""

import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from operator import add
from typing import Annotated, Any, TypedDict

from actorgraph import Command, interrupt
from actorgraph.errors import ActorGraphError
from tests.support.every_saver import Store
from tests.support.graphs import at, in_a_row

VICTIM, HEALTHY = "victim", "healthy"
UNSUMMED = {
    *(("threads", column) for column in ("thread", "owner", "lease_until", "deleted", "epoch")),
    *((t, c) for t in ("checkpoints", "points") for c in ("thread", "has_interrupts", "created")),
    *(("runs", column) for column in ("thread", "status", "resumes", "epoch", "namespace")),
    *((table, "thread") for table in ("blobs", "ranges", "writes")),
}
"""Columns that no checksum covers: keys by which a store finds rows, what searches use, leases."""
MOVING = {
    ("threads", "thread_id"),
    *((t, c) for t in ("checkpoints", "points") for c in ("namespace", "id", "seq")),
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
        """Return what is wrong with the answers now.

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


class Tables:
    """The tables of a database, for tests that change rows by hand."""

    def __init__(self, store: Store, postgres: Any = None) -> None:
        self._store = store
        self._postgres = postgres
        self._mark = "?" if store.kind == "sqlite" else "%s"

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A connection; what it does is kept."""
        if self._store.kind == "sqlite":
            with closing(sqlite3.connect(self._store.path, isolation_level=None)) as db:
                yield db
        else:
            with self._postgres.connect(self._store.schema) as db:
                yield db

    def columns(self, db: Any, table: str) -> list[str]:
        """The names of a table's columns."""
        found = db.execute(_rows_of(table, "*", "LIMIT 0"))
        return [column[0] for column in found.description]

    def covered(self) -> list[tuple[str, str]]:
        """Every column that a checksum covers."""
        with self.connected() as db:
            found = [(t, c) for t in self.tables for c in self.columns(db, t)]
        left = UNSUMMED | {(t, c) for t in self.tables for c in ("crc", "shape")}
        return [place for place in found if place not in left]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables; those of PostgreSQL have another name for one of them."""
        points = "checkpoints" if self._store.kind == "sqlite" else "points"
        return ("threads", "runs", points, "blobs", "ranges", "writes")

    def plant(
        self, place: tuple[str, str], make: Callable[[Any], Any], pick: Callable[[Any], Any]
    ) -> Callable[[], None] | None:
        """Change a column of one of the victim's rows.

        Args:
            make: the new value for the old one. pick: chooses a row.
        Returns: what puts the old value back; None without a row, or the database does not
            take the value.
        """
        table, column = place
        with self.connected() as db:
            names = self.columns(db, table)
            cast = "" if self._store.kind == "sqlite" else "::text"
            found = db.execute(_rows_of(table, _quoted(names, cast), _OF_VICTIM))
            rows = [dict(zip(names, row, strict=True)) for row in found]
        rows = [
            r for r in rows if r.get("status") in (None, "running") and r.get("lineage", 0) >= 0
        ]
        if not rows:
            return None
        row = pick(rows)
        new = {**row, column: make(row[column])}
        if not self._change(table, column, row, new):
            return None

        def undo() -> None:
            assert self._change(table, column, new, row)

        return undo

    def _change(self, table: str, column: str, row: dict[str, Any], new: dict[str, Any]) -> bool:
        keys = [n for n, v in row.items() if type(v) in (int, str, bytes) and n not in _JSON]
        json = "::json" if self._store.kind != "sqlite" and column in _JSON else ""
        change = _changing(table, column, self._mark + json, [(n, self._mark) for n in keys])
        with self.connected() as db:
            try:
                done = db.execute(change, [new[column], *(row[n] for n in keys)])
            except Exception as error:
                if is_not_taken(error):
                    return False
                raise
            else:
                return done.rowcount == 1


def _rows_of(table: str, columns: str, where: str) -> str:
    """A statement; the name of a table, or of a column, can't be a parameter."""
    return f"SELECT {columns} FROM {table} {where}"  # noqa: S608


def _quoted(names: Sequence[str], cast: str) -> str:
    """Columns; JSON as the text that is stored."""
    return ", ".join(f'"{n}"{cast}' if n in _JSON else f'"{n}"' for n in names)


def _changing(table: str, column: str, mark: str, keys: Sequence[tuple[str, str]]) -> str:
    where = " AND ".join(f'"{name}" = {value}' for name, value in keys)
    return f'UPDATE {table} SET "{column}" = {mark} WHERE {where}'  # noqa: S608


_OF_VICTIM = "WHERE thread = (SELECT thread FROM threads WHERE thread_id = 'victim')"
_JSON = ("next", "metadata", "record")
_NOT_TAKEN = {
    *("IntegrityError", "UniqueViolation", "NotNullViolation", "CheckViolation", "DataError"),
    *("InvalidTextRepresentation", "CharacterNotInRepertoire", "UntranslatableCharacter"),
    *("ForeignKeyViolation", "NumericValueOutOfRange"),
}
"""Errors of databases for values that they don't take."""


def is_not_taken(error: Exception) -> bool:
    """Whether a database has refused a value that would not fit its column."""
    return type(error).__name__ in _NOT_TAKEN


def flips(whole: bytes, count: int, chance: random.Random) -> Iterator[bytes]:
    """Copies of a file, each with one bit changed."""
    for _ in range(count):
        made = bytearray(whole)
        made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
        yield bytes(made)
