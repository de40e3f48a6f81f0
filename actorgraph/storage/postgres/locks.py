"""Find the session that holds a lock, for the error of a statement that waited for it in vain."""

from contextlib import suppress
from typing import Any, LiteralString

import psycopg
from psycopg.rows import tuple_row

from actorgraph.errors import ActorGraphError
from actorgraph.storage.postgres.connections import ConnectionSource

_HOLDER: LiteralString = """
SELECT a.pid, a.application_name, a.state, c.relname, l.mode,
       extract(epoch FROM clock_timestamp() - a.xact_start)::bigint
FROM pg_locks l
LEFT JOIN pg_class c ON c.oid = l.relation
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.pid <> pg_backend_pid() AND l.mode <> 'AccessShareLock'
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (c.relkind = 'r' AND c.relnamespace = (
            SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
         OR l.locktype = 'advisory')
ORDER BY array_position(
    '{AccessExclusiveLock,ExclusiveLock,ShareRowExclusiveLock,ShareLock}'::text[], l.mode),
    c.relname IS NULL, c.relname = 'threads' DESC, a.xact_start
LIMIT 1
"""


def holder_of(source: ConnectionSource, schema: str) -> str:
    """Describe the session that holds a lock in a schema: a phrase for errors; empty if none.

    The server reports that a lock was not available, but not whose it is. So right afterwards this
    asks for the strongest, then oldest, lock that another session has in the schema: most often
    the holder still has it. If it was released meanwhile, the error names no session.

    Args:
        source: lends the connection to ask over, outside of any transaction.
        schema: the schema's name, not quoted.
    """
    found: Any = None
    with suppress(psycopg.Error, ActorGraphError), source.lease() as connection:
        cursor = connection.cursor(row_factory=tuple_row)
        found = cursor.execute(_HOLDER, {"schema": schema}).fetchone()
    if found is None:
        return ""
    pid, program, state, table, mode, seconds = found
    what = f"table {table!r}" if table else "the writers' advisory lock"
    since = "" if seconds is None else f", its transaction open for {seconds} s"
    name = f"{program!r}, " if program else ""
    return f"; {what} is locked by the session with pid {pid} ({name}{state}, {mode}{since})"
