"""Back up a schema to a new SQLite file, whose tables are the same.

One REPEATABLE READ transaction reads a consistent snapshot. It blocks no writers; rows that it may
still see are not vacuumed until it ends.

A checkpoint whose record can't be put together is named in a warning and copied without it: it is
as damaged in the copy as here, and everything else is whole.
"""

from collections.abc import Iterator
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row

from actorgraph.savers.integrity import damaged, point_key
from actorgraph.savers.postgres.queries import BEGIN
from actorgraph.savers.postgres.shapes import SHAPE_MISSING
from actorgraph.savers.sqlite.backup import ROWS_AT_ONCE, new_database
from actorgraph.storage.logged_problems import warn
from actorgraph.storage.postgres.connections import roll_back
from actorgraph.storage.postgres.timeouts import USE_SCHEMA

TABLES: dict[str, LiteralString] = {
    "threads": """
        SELECT thread, thread_id, epoch, owner, next_seq, head, run, deleted::int, crc
        FROM threads""",
    "runs": """
        SELECT run, thread, namespace, mode, status, head, input, resumes, epoch, crc FROM runs""",
    "checkpoints": """
        SELECT thread, namespace, seq, id, parent, step, source, run, next::text,
               has_interrupts::int, created, metadata::text, coalesce(record::text, ''), crc
        FROM checkpoints ORDER BY thread, seq""",
    "blobs": "SELECT thread, namespace, channel, version, payload, crc FROM blobs",
    "ranges": """
        SELECT thread, namespace, channel, lineage, start, count, payload FROM ranges
        WHERE lineage >= 0""",
    "writes": """
        SELECT thread, namespace, checkpoint, task, idx, generation, path, payload, crc
        FROM writes""",
    "system_runs": """
        SELECT run, thread_id, graph, status, attempts, claimed::int, owner, created, metadata,
               payload, reason, crc FROM system_runs""",
    "events": "SELECT run, place, created, payload, crc FROM events",
    "cancels": "SELECT run, reason FROM cancels",
    "alarms": "SELECT thread_id, at, graph FROM alarms",
    # The first search of the copy makes the rest of the index, see `TrackThreads`.
    "thread_index": """
        SELECT thread_id, created, updated, created, metadata, 1, temporary::int
        FROM thread_index WHERE registered""",
}

SELECT_DAMAGED = """
SELECT t.thread_id, p.namespace, p.id FROM points p JOIN threads t USING (thread)
WHERE p.shape <> 0 AND NOT EXISTS (SELECT FROM shapes s WHERE s.shape = p.shape)
ORDER BY p.thread, p.seq
"""
NAMED_MAX = 100
"""Damaged checkpoints that are named one by one; of others there is the number."""


def copy_schema(connection: Connection[Any], begin: tuple[str, str, str], dest: str) -> None:
    """Copy all tables.

    Args:
        connection: in autocommit mode, for this call alone.
        begin: the parameters of `USE_SCHEMA`.
        dest: path of the new file.
    Raises:
        InvalidConfigError: `dest` exists.
        StorageError: the copy can't be written; a partial one is removed.
        psycopg.Error: the server refused a statement.
    """
    with new_database(dest) as copy:
        try:
            connection.execute(BEGIN)
            connection.execute(USE_SCHEMA, begin)
            _name_damaged(connection)
            for table, text in TABLES.items():
                copy.add(table, _rows(connection, text))
        finally:
            roll_back(connection)


def _name_damaged(connection: Connection[Any]) -> None:
    """Warn of each checkpoint whose record is incomplete."""
    cursor = connection.cursor(row_factory=tuple_row, binary=True)
    rows = cursor.execute(SELECT_DAMAGED).fetchall()
    for thread, namespace, identifier in rows[:NAMED_MAX]:
        error = damaged(thread, point_key(namespace, identifier), SHAPE_MISSING)
        warn("backup.damaged", error=str(error))
    if len(rows) > NAMED_MAX:
        warn("backup.damaged", more=len(rows) - NAMED_MAX)


def _rows(connection: Connection[Any], text: LiteralString) -> Iterator[tuple[Any, ...]]:
    """The rows of a table through a server-side cursor, so that a large one needs little memory."""
    with connection.cursor("backup", row_factory=tuple_row) as cursor:
        cursor.execute(text, binary=True)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield from rows
