"""Migrate a schema's tables to this version; each migration is applied once."""

from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from actorgraph.errors import FormatVersionError
from actorgraph.savers.postgres.schema import (
    CREATE_LIST,
    INSERT_VERSION,
    LOCK_MIGRATIONS,
    MIGRATIONS,
    SELECT_SCHEMA,
    SELECT_TABLE,
    SELECT_VERSION,
)
from actorgraph.storage.postgres.limits import USE_SCHEMA, Timeouts, quoted

VERSION = len(MIGRATIONS)


def migrate(connection: Connection[Any], schema: str, limits: Timeouts) -> None:
    """Apply the migrations that a schema lacks, in one transaction; only reads if it lacks none.

    Args:
        connection: in autocommit mode.
        schema: its name, not quoted; created if it does not exist.
        limits: timeouts. For others that migrate it waits `limits.reconnect_s`, if that is longer.
    Raises:
        FormatVersionError: the tables are of a later version of the library.
        psycopg.Error: the role may not create tables, or the server can't be reached.
    """
    cursor = connection.cursor(row_factory=tuple_row)
    if version_of(connection, schema, limits) == VERSION:
        return
    with connection.transaction():
        # Statements may take as long as they need: a migration may rewrite a large table.
        patient = limits.within(quoted(schema), patient=True)
        others = Timeouts(busy_s=max(limits.busy_s, limits.reconnect_s))
        cursor.execute(USE_SCHEMA, others.within(quoted(schema), patient=True))
        cursor.execute(LOCK_MIGRATIONS, (schema,))
        cursor.execute(SELECT_SCHEMA, (quoted(schema),))
        if cursor.fetchone() == (None,):
            cursor.execute(SQL("CREATE SCHEMA ") + Identifier(schema))
        # The lock is held: for tables wait no longer than usual.
        cursor.execute(USE_SCHEMA, patient)
        cursor.execute(CREATE_LIST)
        done = _newest(cursor)  # read again: another process may have migrated before the lock
        for number, migration in enumerate(MIGRATIONS[done:], done + 1):
            cursor.execute(migration)
            cursor.execute(INSERT_VERSION, (number,))


def version_of(connection: Connection[Any], schema: str, limits: Timeouts) -> int:
    """The number of the newest migration that was applied to a schema; 0 for none.

    Raises:
        FormatVersionError: the tables are of a later version of the library.
    """
    cursor = connection.cursor(row_factory=tuple_row)
    cursor.execute(SELECT_TABLE, (f"{quoted(schema)}.saver_migrations",))
    if cursor.fetchone() == (None,):
        return 0
    with connection.transaction():
        cursor.execute(USE_SCHEMA, limits.within(quoted(schema)))
        version = _newest(cursor)
    if version > VERSION:
        raise FormatVersionError(
            f"schema {schema!r} has version {version}; this version of actorgraph knows {VERSION}",
            do="upgrade actorgraph",
        )
    return version


def _newest(cursor: Any) -> int:
    cursor.execute(SELECT_VERSION)
    return cursor.fetchone()[0]
