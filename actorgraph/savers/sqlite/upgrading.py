"""Bringing a file of an older version to this one, in one transaction; its rows stay."""

import sqlite3

from actorgraph.savers.sqlite.schema import SCHEMA_VERSION, TABLES_WITH_CHECKSUMS


def upgrade(connection: sqlite3.Connection) -> None:
    """Add the columns that version 1 didn't have; adding one rewrites no row.

    Args:
        connection: in autocommit mode.
    Raises:
        sqlite3.Error: nothing has changed.
    """
    if _version(connection) == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    if _version(connection) == 1:  # nobody was faster
        for table in TABLES_WITH_CHECKSUMS:
            columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
            if columns and "crc" not in {name for _, name, *_ in columns}:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN crc INTEGER")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version
