"""Upgrade a database of an older schema version, in one transaction and without rewriting rows."""

import sqlite3

from actorgraph.savers.sqlite.schema import SCHEMA_VERSION

CHECKSUM_COLUMNS = (
    (
        "PRAGMA table_info(threads)",
        "ALTER TABLE threads ADD COLUMN crc INTEGER",
    ),
    (
        "PRAGMA table_info(runs)",
        "ALTER TABLE runs ADD COLUMN crc INTEGER",
    ),
    (
        "PRAGMA table_info(checkpoints)",
        "ALTER TABLE checkpoints ADD COLUMN crc INTEGER",
    ),
    (
        "PRAGMA table_info(blobs)",
        "ALTER TABLE blobs ADD COLUMN crc INTEGER",
    ),
    (
        "PRAGMA table_info(writes)",
        "ALTER TABLE writes ADD COLUMN crc INTEGER",
    ),
    (
        "PRAGMA table_info(events)",
        "ALTER TABLE events ADD COLUMN crc INTEGER",
    ),
    (
        "PRAGMA table_info(system_runs)",
        "ALTER TABLE system_runs ADD COLUMN crc INTEGER",
    ),
)
"""For each table: the pragma that lists its columns, and the statement that adds `crc`."""
SET_VERSION = "PRAGMA user_version = 2"


def upgrade(connection: sqlite3.Connection) -> None:
    """Upgrade from version 1: add its missing columns, and lock out processes that still use it.

    Args:
        connection: in autocommit mode.
    Raises:
        sqlite3.Error: nothing was changed, once the caller has rolled back.
    """
    if _version(connection) == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Read again under the write lock: another process may have upgraded the file since.
    if _version(connection) == 1:
        for columns, statement in CHECKSUM_COLUMNS:
            there = {name for _, name, *_ in connection.execute(columns)}
            if there and "crc" not in there:
                connection.execute(statement)
        # A process that still has the file open with version 1 would change rows and not their
        # checksums. Renaming a column that each of its commits uses makes those commits fail.
        if "deleted" in {name for _, name, *_ in connection.execute(CHECKSUM_COLUMNS[0][0])}:
            connection.execute("ALTER TABLE threads RENAME COLUMN deleted TO removed")
        connection.execute(SET_VERSION)
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version
