"""Bringing a file of an older version to this one, in one transaction; its rows stay."""

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
"""What version 1 lacks: how to see whether it is there, and how to add it."""
SET_VERSION = "PRAGMA user_version = 2"


def upgrade(connection: sqlite3.Connection) -> None:
    """Add the columns that version 1 didn't have, and shut it out; no row is rewritten.

    Args:
        connection: in autocommit mode.
    Raises:
        sqlite3.Error: nothing has changed.
    """
    if _version(connection) == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    if _version(connection) == 1:  # nobody was faster
        for columns, statement in CHECKSUM_COLUMNS:
            there = {name for _, name, *_ in connection.execute(columns)}
            if there and "crc" not in there:
                connection.execute(statement)
        # A saver of version 1 that is open still would change rows and not their checksums, so a
        # column that each of its commits names gets another name.
        if "deleted" in {name for _, name, *_ in connection.execute(CHECKSUM_COLUMNS[0][0])}:
            connection.execute("ALTER TABLE threads RENAME COLUMN deleted TO removed")
        connection.execute(SET_VERSION)
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version
