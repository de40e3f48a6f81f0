"""Backups: copy a database that is in use, or fill a new one with rows of another saver.

Either way the file gets its final name only when it is complete and synced, so a backup that was
interrupted can't be mistaken for one.
"""

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any

from actorgraph.savers.sqlite import schema, system_schema, thread_index
from actorgraph.storage.part_files import finish, locked_part
from actorgraph.storage.sqlite.connections import check_free
from actorgraph.storage.sqlite.translate import opening_error, translate_for_saver


def copy_database(source: str, *, dest: str, timeout_s: float) -> None:
    """Copy one consistent state of a database, with SQLite's online backup.

    It reads on a connection of its own, which in WAL mode neither waits for writers nor blocks
    them. The copy gets its name when it is complete and synced.

    Args:
        source: a URI.
        timeout_s: seconds to wait for locks.
    Raises:
        InvalidConfigError: `dest` exists.
        StorageBusyError: something else makes a backup there.
        StorageError: the database can't be read, or the copy can't be written.
    """
    check_free(dest)
    try:
        origin = sqlite3.connect(source, uri=True, timeout=timeout_s)
    except sqlite3.Error as error:
        raise translate_for_saver(error, committing=False) from error
    with closing(origin):
        copy_connection(origin, dest)


def copy_connection(origin: sqlite3.Connection, dest: str) -> None:
    """Copy one consistent state of a connection's database; otherwise as `copy_database`."""
    check_free(dest)
    with _errors(dest), locked_part(dest) as part:
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            origin.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # the copy is one file
        finish(part, dest)


@contextmanager
def _errors(dest: str) -> Generator[None]:
    """Translate the errors of a backup that can't be written."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        do = "make its folder, or name another path"
        raise opening_error(error, f"can't write the backup {dest!r}", do) from error


ROWS_AT_ONCE = 200

INSERTS = {
    "threads": """INSERT INTO threads
        (thread, thread_id, epoch, owner, next_seq, head, run, removed, crc)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
    "runs": """INSERT INTO runs
        (run, thread, namespace, mode, status, head, input, resumes, epoch, crc)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
    "checkpoints": """INSERT INTO checkpoints
        (thread, namespace, seq, id, parent, step, source, run, next, has_interrupts, created,
         metadata, record, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
    "blobs": """INSERT INTO blobs
        (thread, namespace, channel, version, payload, crc) VALUES (?, ?, ?, ?, ?, ?)""",
    "ranges": """INSERT INTO ranges
        (thread, namespace, channel, lineage, start, count, payload)
        VALUES (?, ?, ?, ?, ?, ?, ?)""",
    "writes": """INSERT INTO writes
        (thread, namespace, checkpoint, task, idx, generation, path, payload, crc)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
    "system_runs": """INSERT INTO system_runs
        (run, thread_id, graph, status, attempts, claimed, owner, created, metadata, payload,
         reason, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
    "events": "INSERT INTO events (run, place, created, payload, crc) VALUES (?, ?, ?, ?, ?)",
    "cancels": "INSERT INTO cancels (run, reason) VALUES (?, ?)",
    "alarms": "INSERT INTO alarms (thread_id, at, graph) VALUES (?, ?, ?)",
    "thread_index": """INSERT INTO thread_index
        (thread_id, created, updated, state_updated, metadata, registered, temporary)
        VALUES (?, ?, ?, ?, ?, ?, ?)""",
}
"""Table -> statement. Leases are not copied: their owners don't use the copy. Rows bring their
own `crc`."""


class DatabaseFiller:
    """Inserts rows of tables, with the columns of `INSERTS`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows, `ROWS_AT_ONCE` at a time."""
        left = iter(rows)
        while some := list(islice(left, ROWS_AT_ONCE)):
            self._connection.executemany(INSERTS[table], some)


@contextmanager
def new_database(dest: str) -> Generator[DatabaseFiller]:
    """Create a database at `dest`; it gets its name when it is complete and synced.

    Raises:
        InvalidConfigError: `dest` exists.
        StorageBusyError: something else makes a backup there.
        StorageError: it can't be written; the partial file is removed.
    """
    check_free(dest)
    with _errors(dest), locked_part(dest) as part:
        with closing(sqlite3.connect(part, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(schema.SETUP)
            connection.executescript(system_schema.SETUP)
            connection.executescript(thread_index.SETUP)
            connection.execute("BEGIN")
            yield DatabaseFiller(connection)
            connection.execute("COMMIT")
        finish(part, dest)
