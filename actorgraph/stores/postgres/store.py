"""PostgresStore: synchronous psycopg, in whatever thread calls; async callers hop into one."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Self, TypeVar

from actorgraph.errors import FormatVersionError, InvalidConfigError
from actorgraph.stores.ops import IndexConfig, TTLConfig
from actorgraph.stores.postgres import schema as sql
from actorgraph.stores.postgres.connections import Connections, is_pool
from actorgraph.stores.postgres.home import PostgresHome
from actorgraph.stores.transacting import TransactingStore

T = TypeVar("T")
TRIES_MAX = 4


class PostgresStore(TransactingStore[PostgresHome]):
    """A store in PostgreSQL. Safe to use from several threads, event loops and processes.

    Searches find first what was put last. A batch is one transaction. One that loses the
    connection, or against another transaction, is carried out again: a put twice is a put.

    Args:
        conn: an address, such as "postgresql://localhost/db"; or a psycopg `Connection` or
            `ConnectionPool` of the program's, which it closes itself.
        schema: where the tables are, made if it doesn't exist. Default "actorgraph".
        index: how texts are embedded; None (default): `query=` of a search changes nothing.
        ttl: how long items live; default for ever.
        clock: seconds since 1970.
    Raises:
        MissingExtraError: psycopg is not installed.
        InvalidConfigError: an argument can't be used.
        InvalidStoreOperationError: the index can't be used.
    """

    __slots__ = ("_connections", "_lock", "_process", "_ready", "_source", "schema")

    def __init__(
        self,
        conn: Any,
        *,
        schema: str = "actorgraph",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(index=index, ttl=ttl, clock=clock)
        if not schema or "\0" in schema:
            raise InvalidConfigError(f"schema={schema!r}", do='name a schema, such as "public"')
        self.schema = schema
        self._source = conn
        self._connections = Connections(conn)
        self._ready = False
        self._process = os.getpid()
        self._lock = threading.Lock()

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,
        pool_config: Mapping[str, Any] | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> Self:
        """The store of an address; LangGraph's way to make one.

        Args:
            pipeline, pool_config: taken and not needed: what waits travels together anyway. For a
                pool, pass one to the class.
        Returns: a store to open with `async with` or `with`.
        """
        del pipeline, pool_config
        return cls(conn_string, index=index, ttl=ttl)

    def setup(self) -> Any:
        """Make the schema and its tables now, not at the first use. It may be awaited."""
        self._transact(lambda _: None, writes=False)
        return super().setup()

    def _release(self) -> None:
        with self._lock:
            self._connections.close()

    def __del__(self) -> None:
        connections = getattr(self, "_connections", None)
        if connections is not None and self._process == os.getpid():
            connections.close()

    def _transact(self, work: Callable[[PostgresHome], T], *, writes: bool) -> T:
        """The function's result, in one transaction; again after one that was lost."""
        self._after_fork()
        lock = sql.LOCK_SHARED if writes else ""
        for left in reversed(range(TRIES_MAX)):
            try:
                with self._guard():
                    return self._attempt(work, lock)
            except Exception as error:
                connections = self._connections
                if left and (connections.lost(error) or connections.again(error)):
                    lock = sql.LOCK_ALONE
                    continue
                translated = connections.translated(error)
                if translated is error:
                    raise
                raise translated from error
        raise AssertionError

    def _attempt(self, work: Callable[[PostgresHome], T], lock: str) -> T:
        with self._connections.lent() as connection:
            if not self._ready:
                with connection.transaction():
                    self._prepare(connection)
                self._ready = True
            with connection.transaction():
                connection.execute(sql.USE_SCHEMA, (_quoted(self.schema),))
                if lock:
                    connection.execute(lock)
                return work(PostgresHome(connection))

    def _prepare(self, connection: Any) -> None:
        """Make the tables; of several stores that do so one after the other."""
        connection.execute(sql.LOCK)
        connection.execute(sql.USE_SCHEMA, (_quoted(self.schema),))
        if connection.execute(sql.SELECT_TABLES).fetchone()[0]:
            (version,) = connection.execute(sql.SELECT_VERSION).fetchone()
            if version > sql.SCHEMA_VERSION:
                raise FormatVersionError(
                    f"the store in schema {self.schema!r} has version {version}; this version of "
                    f"actorgraph knows {sql.SCHEMA_VERSION}",
                    do="upgrade actorgraph",
                )
            for statement in sql.UPGRADE if version < sql.SCHEMA_VERSION else ():
                connection.execute(statement)
            return
        (statement,) = connection.execute(sql.FORMAT_CREATE_SCHEMA, (self.schema,)).fetchone()
        connection.execute(statement)
        for statement in (*sql.SETUP, *sql.UPGRADE):
            connection.execute(statement)

    def _guard(self) -> Any:
        """One thread at a time, but for a pool, which has a connection for each."""
        return nullcontext() if is_pool(self._source) else self._lock

    def _after_fork(self) -> None:
        """Leave the connection to the process that this one was forked from."""
        if self._process != os.getpid():
            _INHERITED.append(self._connections)
            self._connections, self._lock = Connections(self._source), threading.Lock()
            self._process = os.getpid()


_INHERITED: list[Connections] = []


def _quoted(name: str) -> str:
    """A name as an entry of the search path, which is text."""
    return '"' + name.replace('"', '""') + '"'


AsyncPostgresStore = PostgresStore
