"""Rows of a server's databases, and what others may do to them: each column of each table."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from tests.savers.damage import is_not_taken

BAD = "spoilt"
"""The ids of what is damaged begin with it, or its items hold it. No hexadecimal id does."""
REMAINS = ("spo", "{bad", "bad", "\ufffd", "\udcff")
"""The remains of such an id when it is damaged."""
GARBAGE = b"\xc1\xff\x00bad"
UNKNOWN = b"\xc7\x03\x7fbad"
"""A value of msgpack's, of a type that no version has written."""
NOT_UTF8 = b"\xff\xfe"


class Plant(NamedTuple):
    """A change of a column of a row.

    Attributes:
        form: a word for it.
        value: the new value.
        text: whether bytes are stored as text, which SQLite doesn't check.
        summed: whether the row's checksum stays, and so shows the damage.
    """

    table: str
    column: str
    form: str
    value: Any
    text: bool = False
    summed: bool = True

    def __str__(self) -> str:
        return f"{self.table}.{self.column} {self.form}{'' if self.summed else ', no checksum'}"


def forms(value: Any, *, typed: bool) -> Iterator[tuple[str, Any, bool]]:
    """Other values for a column: a word, the value, whether it is text.

    Args:
        typed: whether the database takes only values of the column's type.
    """
    if isinstance(value, bytes | memoryview):
        yield "garbage", GARBAGE, False
        yield "cut", bytes(value)[: len(value) // 2], False
        yield "unknown type", UNKNOWN, False
    elif isinstance(value, str):
        yield "garbage", "\x01{bad", False
        yield "cut", value[: len(value) // 2], False
        if not typed:
            yield "not UTF-8", NOT_UTF8, True
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield "negative", -7, False
        yield "huge", 2**62, False
        if not typed:
            yield "text", "bad", False
    elif value is None and not typed:
        yield "garbage", GARBAGE, False
        yield "text", "bad", False


def _rows_of(table: str, columns: str = "*", rest: str = "") -> str:
    """A statement; the name of a table, or of a column, can't be a parameter."""
    return f"SELECT {columns} FROM {table} {rest}"  # noqa: S608


def _without_rows(table: str) -> str:
    return f"DELETE FROM {table}"  # noqa: S608 - as above


class Database:
    """The tables of a SQLite file."""

    typed = False

    def __init__(self, path: Any) -> None:
        self.path = path
        self._whole = b""

    @contextmanager
    def connected(self) -> Iterator[Any]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.text_factory = lambda raw: raw.decode(errors="surrogateescape")
            yield db

    def keep(self) -> None:
        """Note all that is stored, for `restore`."""
        with self.connected() as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._whole = self.path.read_bytes()

    def restore(self) -> None:
        """Put back what was noted."""
        for ending in ("-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        self.path.write_bytes(self._whole)

    def tables(self) -> list[str]:
        with self.connected() as db:
            found = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")
            return [name for (name,) in found if not name.startswith("sqlite_")]

    def rows(self, table: str) -> list[dict[str, Any]]:
        with self.connected() as db:
            found = db.execute(_rows_of(table))
            names = [column[0] for column in found.description]
            return [dict(zip(names, row, strict=True)) for row in found]

    def plant(self, plant: Plant, row: dict[str, Any]) -> bool:
        """Change a row; whether the database takes the value."""
        change: dict[str, Any] = {plant.column: plant.value}
        if not plant.summed:
            change["crc"] = None
        with self.connected() as db:
            try:
                done = db.execute(self._statement(plant, row, change), self._given(row, change))
            except Exception as error:
                if is_not_taken(error):
                    return False
                raise
            return done.rowcount == 1

    def _statement(self, plant: Plant, row: dict[str, Any], change: dict[str, Any]) -> str:
        sets = ", ".join(
            f'"{name}" = CAST(? AS TEXT)'
            if plant.text and name == plant.column
            else f'"{name}" = ?'
            for name in change
        )
        where = " AND ".join(f'"{name}" IS ?' for name in row)
        return f"UPDATE {plant.table} SET {sets} WHERE {where}"  # noqa: S608 - as above

    def _given(self, row: dict[str, Any], change: dict[str, Any]) -> list[Any]:
        return [*change.values(), *row.values()]


class Schema(Database):
    """The tables of a schema in PostgreSQL."""

    typed = True

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._kept: dict[str, bytes] = {}

    @contextmanager
    def connected(self) -> Iterator[Any]:
        with self._connect() as db:
            yield db

    def keep(self) -> None:
        with self.connected() as db:
            for table in self.tables():
                with db.cursor().copy(f"COPY {table} TO STDOUT") as copy:
                    self._kept[table] = b"".join(bytes(part) for part in copy)

    def restore(self) -> None:
        with self.connected() as db, db.transaction():
            db.execute("SET LOCAL session_replication_role = replica")  # without triggers
            for table in sorted(self._kept, key=lambda name: "vectors" not in name):
                db.execute(_without_rows(table))
            for table in sorted(self._kept, key=lambda name: "vectors" in name):
                with db.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                    copy.write(self._kept[table])

    def tables(self) -> list[str]:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
        with self.connected() as db:
            return [name for (name,) in db.execute(query)]

    def rows(self, table: str) -> list[dict[str, Any]]:
        with self.connected() as db:
            found = db.execute(_rows_of(table, rest="LIMIT 0"))
            names = [(c.name, c.type_code) for c in found.description]
            rows = db.execute(_rows_of(table, _quoted(names))).fetchall()
            return [{n: v for (n, _), v in zip(names, row, strict=True)} for row in rows]

    def _statement(self, plant: Plant, row: dict[str, Any], change: dict[str, Any]) -> str:
        codes = self._codes(plant.table)
        sets = ", ".join(f'"{name}" = %s::{codes[name]}' for name in change)
        where = " AND ".join(
            f'"{name}"::text IS NOT DISTINCT FROM (%s::{codes[name]})::text' for name in row
        )
        return f"UPDATE {plant.table} SET {sets} WHERE {where}"  # noqa: S608 - as above

    def _codes(self, table: str) -> dict[str, str]:
        query = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
            WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"""
        with self.connected() as db:
            return dict(db.execute(query, (table,)).fetchall())


def _quoted(names: list[tuple[str, int]]) -> str:
    """Columns; those of `_CAST` as text."""
    return ", ".join(f'"{n}"::text' if code in _CAST else f'"{n}"' for n, code in names)


_CAST = {114, 3802, 1184}
"""Types that are read as text: json, jsonb, timestamptz."""


def of_the_bad(database: Database, table: str, names: set[str]) -> list[dict[str, Any]]:
    """The rows of a table that belong to what is damaged.

    Args:
        names: ids that items of the server have by its own choice.
    """
    if table == "facts":  # of all threads that have the same
        return []
    keys = _keys_of_bad(database, "thread_index" if table == "thread_facts" else "threads")

    def belongs(row: dict[str, Any]) -> bool:
        if "thread_id" in row:
            return row["thread_id"].startswith(BAD)
        if "thread" in row or "run" in row:
            return row.get("thread") in keys or bytes(row.get("run") or b"") in keys
        return any(name in repr(value) for value in row.values() for name in names)

    return [row for row in database.rows(table) if belongs(row)]


def _keys_of_bad(database: Database, threads: str) -> set[Any]:
    """The threads' numbers and runs' ids of what is damaged."""
    there = database.tables()
    found: set[Any] = set()
    for table, column in ((threads, "thread"), ("system_runs", "run")):
        for row in database.rows(table) if table in there else ():
            if row["thread_id"].startswith(BAD):
                found.add(bytes(row[column]) if column == "run" else row[column])
    return found


OF_ALL = {
    "memory_format": "the version of all tables",
    "memory_migrations": "as above",
    "saver_migrations": "as above",
    "shapes": "texts of records that many threads share",
    "facts": "texts that many threads share",
    "writers": "open savers",
    "owners": "open systems",
    "thread_marks": "emptied by each search",
}
"""Tables without rows of one thread or item: what others do to them concerns all."""


def plants(
    database: Database, table: str, rows: list[dict[str, Any]]
) -> Iterator[tuple[Plant, Any]]:
    """Each form of damage to each column of a table, with a row to do it to."""
    for column in rows[0] if rows else ():
        if column == "crc":
            continue
        seen: set[tuple[type, str]] = set()
        for row in rows:
            for form, value, text in forms(row[column], typed=database.typed):
                if (type(row[column]), form) in seen:
                    continue
                seen.add((type(row[column]), form))
                plant = Plant(table, column, form, value, text)
                yield plant, row
                if "crc" in row:
                    yield plant._replace(summed=False), row
