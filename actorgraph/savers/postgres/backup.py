"""A copy of a schema, as it is at one moment, to a new SQLite file: the tables are the same.

One transaction reads all of it, and holds up nobody: writers go on, vacuums leave until its end
what it may still see.
"""

from collections.abc import Iterator
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row

from actorgraph.savers.postgres.queries import BEGIN
from actorgraph.savers.sqlite.filling import ROWS_AT_ONCE, new_database
from actorgraph.storage.postgres.connections import roll_back
from actorgraph.storage.postgres.limits import USE_SCHEMA

_TABLES: dict[str, LiteralString] = {
    "threads": """
        SELECT thread, thread_id, epoch, owner, next_seq, head, run, deleted::int, crc
        FROM threads""",
    "runs": """
        SELECT run, thread, namespace, mode, status, head, input, resumes, epoch, crc FROM runs""",
    "checkpoints": """
        SELECT thread, namespace, seq, id, parent, step, source, run, next::text,
               has_interrupts::int, created, metadata::text, record::text, crc
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
}


def copy_schema(connection: Connection[Any], begin: tuple[str, str, str], dest: str) -> None:
    """Copy all tables.

    Args:
        connection: in autocommit mode, used by nobody else meanwhile.
        begin: the parameters of `USE_SCHEMA`.
    Raises:
        InvalidConfigError: there is something at `dest`.
        StorageError: the copy can't be written; nothing is left of it.
        psycopg.Error: the server refused.
    """
    with new_database(dest) as copy:
        try:
            connection.execute(BEGIN)
            connection.execute(USE_SCHEMA, begin)
            for table, text in _TABLES.items():
                copy.add(table, _rows(connection, text))
        finally:
            roll_back(connection)


def _rows(connection: Connection[Any], text: LiteralString) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, fetched some at a time, so that a large one needs little memory."""
    with connection.cursor("backup", row_factory=tuple_row) as cursor:
        cursor.execute(text, binary=True)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield from rows
