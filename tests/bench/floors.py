"""Raw floors of storage: what plain sqlite3 needs to store the same rows again.

`replay` reads every row that a finished run left in its database and writes those rows, by
`executemany`, into a fresh database with the same schema, page size, WAL and synchronous=FULL,
in a given number of transactions, in this process, with no other work between. It needs no
knowledge of the schema but two names, HEADS and STEPS.

Work of the floor
- A table's rows are cut into as many equal runs as there are transactions; transaction i
  writes the i-th run of each table.
- The rows are in the order in which they were written: by rowid. A table without one is dealt
  round-robin over the values of its first key column (the threads), because a thousand threads
  that run together write interleaved, and a B-tree notices.
- A `threads` row is inserted in the first transaction and updated once per checkpoint: the
  head moves. Its first counter is raised by one, because SQLite skips an unchanged row.

Left out, all in the floor's favour: encoding, reads, the comparison of heads, rows
that were written and later deleted or overwritten, and every update but that of the head.
"""

import contextlib
import sqlite3
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADS = "threads"
STEPS = "checkpoints"


@dataclass(frozen=True)
class Table:
    """One table of the source: the columns that are stored, its key, its rows as written."""

    name: str
    columns: list[str]
    counters: list[str]
    key: list[str]
    rows: list[tuple[Any, ...]]

    @property
    def insert(self) -> str:
        """The statement that adds one row."""
        marks = ", ".join("?" * len(self.columns))
        into = f"{_quoted(self.name)} ({_list(self.columns)})"
        return f"INSERT INTO {into} VALUES ({marks})"  # noqa: S608 - names from the schema


@dataclass(frozen=True)
class Source:
    """The rows of a finished run: page size, CREATE statements, tables."""

    page_size: int
    schema: list[str]
    tables: list[Table]


Statement = tuple[str, list[tuple[Any, ...]]]
"""An `executemany`: SQL and its rows."""


def replay(path: Path, *, transactions: int | None, per: str, units: int) -> dict[str, Any]:
    """Write the rows of the database at `path` again, and time it.

    Args:
        path: a closed database; it is only read.
        transactions: how many commits; None means one per row of STEPS.
        per: what the units are, for the record.
        units: how many of those the original run did.
    """
    source = read(path)
    total = sum(len(table.rows) for table in source.tables)
    steps = next((len(table.rows) for table in source.tables if table.name == STEPS), total)
    count = transactions or max(1, steps)
    batches = plan(source.tables, count)
    target = path.with_suffix(".floor")
    connection = create(target, source)
    try:
        cpu = time.process_time()
        started = time.perf_counter()
        _write(connection, batches)
        seconds = time.perf_counter() - started
        cpu_seconds = time.process_time() - cpu
        _assert_same_counts(connection, source)
    finally:
        connection.close()
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "units": units,
        "per": per,
        "transactions": count,
        "rows": total,
        "head_updates": sum(len(rows) for batch in batches for sql, rows in batch if _moves(sql)),
    }


def read(path: Path) -> Source:
    """The schema and all rows of a database file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        entries = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'index') "
            "AND sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
            "ORDER BY type = 'index', rowid"
        ).fetchall()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        tables = [_read_table(connection, name) for kind, name, _ in entries if kind == "table"]
    return Source(page_size, [sql for _, _, sql in entries], tables)


def _read_table(connection: sqlite3.Connection, name: str) -> Table:
    """One table; a generated column (hidden 2 or 3) is computed, so it is not among them."""
    info = connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
    stored = [
        (column, kind.upper(), key) for _, column, kind, _, _, key, hidden in info if not hidden
    ]
    columns = [column for column, _, _ in stored]
    key = [column for column, _, rank in sorted(stored, key=lambda each: each[2]) if rank]
    select = f"SELECT {_list(columns)} FROM {_quoted(name)}"  # noqa: S608 - the same
    try:
        rows = connection.execute(f"{select} ORDER BY rowid").fetchall()
    except sqlite3.OperationalError:  # WITHOUT ROWID
        rows = connection.execute(f"{select} ORDER BY {_list(key)}").fetchall()
        rows = deal(rows, columns.index(key[0]))
    counters = [column for column, kind, rank in stored if "INT" in kind and not rank]
    return Table(name, columns, counters, key, rows)


def deal(rows: list[tuple[Any, ...]], column: int) -> list[tuple[Any, ...]]:
    """Rows in round-robin order over the values of one column; within a value as they were."""
    seen: dict[Any, int] = defaultdict(int)
    ranked = []
    for row in rows:
        ranked.append((seen[row[column]], row))
        seen[row[column]] += 1
    return [row for _, row in sorted(ranked, key=lambda each: each[0])]


def plan(tables: list[Table], transactions: int) -> list[list[Statement]]:
    """Every transaction as its statements: equal runs of each table, heads first."""
    by_name = {table.name: table for table in tables}
    heads, steps = by_name.get(HEADS), by_name.get(STEPS)
    batches: list[list[Statement]] = [[] for _ in range(transactions)]
    if heads and heads.rows:
        batches[0].append((heads.insert, heads.rows))
    for table in tables:
        if table is heads or not table.rows:
            continue
        for batch, rows in zip(batches, cut(table.rows, transactions), strict=True):
            if rows:
                batch.append((table.insert, rows))
    if heads and steps and heads.counters and set(heads.key) <= set(steps.columns):
        positions = [steps.columns.index(column) for column in heads.key]
        moved = move(heads)
        for batch, rows in zip(batches, cut(steps.rows, transactions), strict=True):
            batch.append((moved, [tuple(row[at] for at in positions) for row in rows]))
    return batches


def cut(rows: list[tuple[Any, ...]], parts: int) -> list[list[tuple[Any, ...]]]:
    """Rows in order, as `parts` runs whose lengths differ by at most one."""
    size = len(rows)
    return [rows[size * n // parts : size * (n + 1) // parts] for n in range(parts)]


def move(heads: Table) -> str:
    """The UPDATE of one head; a counter named like a sequence if there is one."""
    counter = next((name for name in heads.counters if "seq" in name), heads.counters[0])
    where = " AND ".join(f"{_quoted(column)} = ?" for column in heads.key)
    raised = f"{_quoted(counter)} = coalesce({_quoted(counter)}, 0) + 1"
    return f"UPDATE {_quoted(heads.name)} SET {raised} WHERE {where}"  # noqa: S608 - the same


def _moves(sql: str) -> bool:
    """Whether a statement of the plan moves heads."""
    return sql.startswith("UPDATE")


def create(path: Path, source: Source, *, any_thread: bool = False) -> sqlite3.Connection:
    """A fresh database with the schema of the source, for this thread or for any."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=not any_thread)
    connection.execute(f"PRAGMA page_size={source.page_size}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    for statement in source.schema:
        connection.execute(statement)
    return connection


def _write(connection: sqlite3.Connection, batches: list[list[Statement]]) -> None:
    """One transaction per batch."""
    for batch in batches:
        connection.execute("BEGIN IMMEDIATE")
        for sql, rows in batch:
            connection.executemany(sql, rows)
        connection.execute("COMMIT")


def _assert_same_counts(connection: sqlite3.Connection, source: Source) -> None:
    """The replay stored every row."""
    for table in source.tables:
        query = f"SELECT count(*) FROM {_quoted(table.name)}"  # noqa: S608 - the same
        (count,) = connection.execute(query).fetchone()
        assert count == len(table.rows), (table.name, count, len(table.rows))


def _quoted(name: str) -> str:
    """An identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _list(names: list[str]) -> str:
    """Identifiers for SQL, with commas."""
    return ", ".join(_quoted(name) for name in names)
