"""Bringing a schema's tables to this version: each migration once, whoever else asks for it."""

from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from actorgraph.errors import FormatVersionError
from actorgraph.savers.postgres import schema as sql
from actorgraph.storage.postgres.limits import USE_SCHEMA, Timeouts, quoted

VERSION = len(sql.MIGRATIONS)


def migrate(connection: Connection[Any], schema: str, limits: Timeouts) -> None:
    """Apply the migrations that a schema lacks, in one transaction. Without any: reads only.

    Args:
        connection: in autocommit mode.
        limits: how long it may wait: for others that migrate, as long as for a lost connection.
    Raises:
        FormatVersionError: a later version of the library has been here.
        psycopg.Error: the role may not make tables, or the server is not there.
    """
    cursor = connection.cursor(row_factory=tuple_row)
    if version_of(connection, schema, limits) == VERSION:
        return
    with connection.transaction():
        patient = limits.within(quoted(schema), patient=True)
        others = Timeouts(busy_s=max(limits.busy_s, limits.reconnect_s))
        cursor.execute(USE_SCHEMA, others.within(quoted(schema), patient=True))
        cursor.execute(sql.LOCK_MIGRATIONS, (schema,))
        cursor.execute(sql.SELECT_SCHEMA, (quoted(schema),))
        if cursor.fetchone() == (None,):
            cursor.execute(SQL("CREATE SCHEMA ") + Identifier(schema))
        cursor.execute(USE_SCHEMA, patient)
        cursor.execute(sql.CREATE_LIST)
        done = _newest(cursor)
        for number, migration in enumerate(sql.MIGRATIONS[done:], done + 1):
            cursor.execute(migration)
            cursor.execute(sql.INSERT_VERSION, (number,))


def version_of(connection: Connection[Any], schema: str, limits: Timeouts) -> int:
    """The number of the newest migration that a schema has; 0 for none.

    Raises:
        FormatVersionError: a later version of the library has been here.
    """
    cursor = connection.cursor(row_factory=tuple_row)
    cursor.execute(sql.SELECT_TABLE, (f"{quoted(schema)}.saver_migrations",))
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
    cursor.execute(sql.SELECT_VERSION)
    return cursor.fetchone()[0]
