"""Transactions of a store over synchronous psycopg, repeated after failures that allow it."""

from collections.abc import Callable
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import Connection

from actorgraph.errors import FormatVersionError, StorageError
from actorgraph.storage.postgres.connections import connection_source, holder_of
from actorgraph.storage.postgres.reach import Reach
from actorgraph.storage.postgres.sessions import (
    History,
    ReplacedSession,
    check_writable,
    is_other,
)
from actorgraph.storage.postgres.timeouts import SLOW_TIMES, USE_SCHEMA, Timeouts, quoted
from actorgraph.storage.postgres.translate import (
    Attempts,
    ErrorKind,
    classify_error,
    is_slow,
    translate,
)
from actorgraph.stores.postgres import schema as sql

T = TypeVar("T")
ATTEMPTS_MAX = 4


class Transactions:
    """Runs functions inside transactions, one at a time; over a pool, one for each caller.

    Args:
        conn: an address, a `psycopg.Connection`, or a pool of these.
        schema: schema of the tables, which are created before the first transaction.
        limits: timeouts.
    Raises:
        InvalidConfigError: `conn` is none of these.
    """

    def __init__(self, conn: object, schema: str, limits: Timeouts) -> None:
        self._schema = schema
        self._limits = limits
        self._begin = limits.within(quoted(schema))
        self._slow_s = limits.answer_s * (SLOW_TIMES - 1)
        self._begin_slow = limits.longer(self._slow_s).within(quoted(schema))
        self.reach = Reach()
        self._source = connection_source(
            conn,
            owner="PostgresStore",
            answer_timeout_s=limits.answer_s,
            nests=True,
            connections_max=1,
            reach=self.reach,
        )
        self._replaced = ReplacedSession(self._source.sessions)
        self._ready = False
        self._home: History | None = None

    def close(self) -> None:
        """Close the store's own connection; the next transaction opens another one."""
        self._source.close()

    def run(self, work: Callable[[Connection[Any]], T], *, writes: bool) -> T:
        """Call a function inside a transaction; repeat both if the transaction fails.

        After a time limit there is one attempt with more time, since its items may be large.

        Args:
            work: gets the connection; may be called several times.
            writes: whether it writes.
        Raises:
            StorageError: nothing was stored; or the server stored it, and its answer was lost.
        """
        lock: LiteralString = sql.LOCK_SHARED if writes else ""
        attempts = Attempts(
            renews=self._source.renews and self._source.connected,
            reconnect_timeout_s=self._limits.reconnect_s,
            attempts_max=ATTEMPTS_MAX,
        )
        while True:
            connection: Connection[Any] | None = None
            try:
                with self._source.lease(extra_s=self._slow_s * attempts.slow) as connection:
                    self._replaced.end_replaced(connection)
                    begin = self._begin_slow if attempts.slow else self._begin
                    return self._attempt(connection, work, lock, begin)
            except psycopg.Error as error:
                kind = classify_error(error, connection)
                # Another server may have taken over, which had not received the tables yet.
                here = connection and self._source.sessions.of(connection).history
                lacks = kind is ErrorKind.TABLES and is_other(self._home, here)
                self._ready = self._ready and not lacks
                ends = attempts.slow and is_slow(error)
                again = not ends and attempts.again(kind, slow=is_slow(error))
                if not (lacks or again):
                    raise self._translated(error, kind) from error
            if kind is ErrorKind.AGAIN:
                lock = sql.LOCK_ALONE
            attempts.pause()

    def check_writable(self) -> None:
        """Check that the server can be reached and takes writes.

        Raises:
            StorageError: it can't, or doesn't.
        """
        try:
            with self._source.lease() as connection:
                check_writable(connection)
        except psycopg.Error as error:
            raise self._translated(error, classify_error(error)) from error

    def _attempt(
        self,
        connection: Connection[Any],
        work: Callable[[Connection[Any]], T],
        lock: LiteralString,
        begin: tuple[str, str, str],
    ) -> T:
        if not self._ready:
            with connection.transaction():
                self._prepare(connection)
            self._ready, self._home = True, self._source.sessions.of(connection).history
        with connection.transaction():
            connection.execute(USE_SCHEMA, begin)
            if lock:
                connection.execute(lock)
            return work(connection)

    def _prepare(self, connection: Any) -> None:
        """Create or upgrade the tables; a lock makes several stores do so one after the other."""
        connection.execute(USE_SCHEMA, self._begin)
        connection.execute(sql.LOCK)
        if connection.execute(sql.SELECT_TABLES).fetchone()[0]:
            (version,) = connection.execute(sql.SELECT_VERSION).fetchone()
            if version > sql.SCHEMA_VERSION:
                raise FormatVersionError(
                    f"the store in schema {self._schema!r} has version {version}; this version of "
                    f"actorgraph supports up to {sql.SCHEMA_VERSION}",
                    do="upgrade actorgraph",
                )
            for statement in sql.UPGRADE if version < sql.SCHEMA_VERSION else ():
                connection.execute(statement)
            return
        (statement,) = connection.execute(sql.FORMAT_CREATE_SCHEMA, (self._schema,)).fetchone()
        connection.execute(statement)
        for statement in (*sql.SETUP, *sql.UPGRADE):
            connection.execute(statement)

    def _translated(self, error: Exception, kind: ErrorKind) -> StorageError:
        by = holder_of(self._source, self._schema) if kind is ErrorKind.BUSY else ""
        return translate(error, kind, connected=self._source.connected, by=by)
