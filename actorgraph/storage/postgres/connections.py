"""Sources of connections: our own, or a connection or pool that the program passes in.

`lease()` lends one in autocommit mode for one piece of work. Our own connections have keepalives
and are replaced when they are lost. A watchdog disconnects every connection in use whose server
does not answer: without it a network that drops all packets would block a worker thread for ever.

The server knows a connection as a session, see `sessions`; `holder_of` finds one that holds a lock.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, LiteralString, Protocol

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo, TransactionStatus
from psycopg.rows import tuple_row

from actorgraph.errors import (
    ActorGraphError,
    InvalidConfigError,
    SaverClosedError,
    StorageBusyError,
)
from actorgraph.storage.postgres.parameters import (
    CONNECT_TIMEOUT_S,
    CONNECTION_DEFAULTS,
    CONNECTION_ENCODING,
)
from actorgraph.storage.postgres.reach import Reach
from actorgraph.storage.postgres.sessions import ServerSessions
from actorgraph.storage.postgres.watchdog import AnswerWatchdog, Link

Prepare = Callable[[Link], None]
"""Called with each connection before it is used, e.g. to register dumpers."""


class ConnectionSource(Protocol):
    """Lends connections, each to one worker thread at a time.

    Attributes:
        renews: whether a lost connection is replaced by another one.
        connected: whether a connection has been open at any time.
        sessions: those of its connections.
    """

    renews: bool
    connected: bool
    sessions: ServerSessions

    def lease(self, *, patient: bool = False, extra_s: float = 0.0) -> AbstractContextManager[Link]:
        """Lend a connection for one piece of work; wait for one if all are in use.

        Args:
            patient: whether the work may exceed the timeout for answers while it makes progress.
            extra_s: seconds by which it may exceed it while the server answers over another
                connection, for large work.
        Raises:
            psycopg.Error: connecting failed, or the connection was lost.
            NoAnswerError: the server did not answer in time; a psycopg.Error too.
            StorageBusyError: all connections stayed in use.
            InvalidConfigError: the database can't be used.
        """
        ...

    def close(self) -> None:
        """Close our own connections; those of the program stay open."""
        ...


def roll_back(connection: Link) -> None:
    """Roll back after a failure; close the connection if that fails too."""
    if connection.closed:
        return
    try:
        connection.rollback()
    except psycopg.Error:  # not raised: it would hide the error that the caller handles
        connection.close()


class OwnConnections:
    """Connections of our own, opened on demand and kept.

    Args:
        conninfo: the connection string.
        answer_timeout_s: seconds to wait for the server's answers to one piece of work.
        prepare: called with each new connection.
        connections_max: limit of open connections; None for as many as there are callers.
        writes: whether a session that can't write is replaced.
        reach: learns whether the server can be reached.

    Attributes:
        renewed: sessions that were given up so far, because they were lost or couldn't be used.
    """

    renews = True

    def __init__(
        self,
        conninfo: str,
        *,
        answer_timeout_s: float,
        prepare: Prepare | None = None,
        connections_max: int | None = None,
        writes: bool = True,
        reach: Reach | None = None,
    ) -> None:
        given = conninfo_to_dict(conninfo)
        connect_s = max(1, min(CONNECT_TIMEOUT_S, round(answer_timeout_s)))
        defaults = {**CONNECTION_DEFAULTS, "connect_timeout": connect_s}
        self._parameters: dict[str, Any] = {**defaults, **given, **CONNECTION_ENCODING}
        self.sessions = ServerSessions(own=True, writes=writes)
        self._reach = reach or Reach()
        self._prepare = prepare
        self._slots = _Slots(connections_max, answer_timeout_s)
        self._watchdog = AnswerWatchdog(answer_timeout_s, self._connect)
        self._idle: list[Link] = []
        self._lock = threading.Lock()
        self.connected = False
        self.renewed = 0

    @contextmanager
    def lease(self, *, patient: bool = False, extra_s: float = 0.0) -> Generator[Link]:
        """See `ConnectionSource.lease`."""
        with self._slots.taken(extra_s), self._reach.tried():
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            is_new = connection is None or connection.closed
            if connection is None or connection.closed:
                connection = self._connect()
                self.connected = True
                if self._prepare is not None:
                    self._prepare(connection)
            try:
                with self._watchdog.watching(connection, patient=patient, extra_s=extra_s):
                    self.sessions.of(connection)
                    if is_new:
                        self._reach.found()
                    yield connection
            except psycopg.Error as error:
                self.sessions.failed(connection, error)
                raise
            finally:
                self._take_back(connection)

    def close(self) -> None:
        """See `ConnectionSource.close`."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._watchdog.close()

    def _connect(self) -> Link:
        return psycopg.connect(**self._parameters, autocommit=True)

    def _take_back(self, connection: Link) -> None:
        if self.sessions.keeps(connection):
            with self._lock:
                self._idle.append(connection)
        else:
            self.renewed += 1
            connection.close()


class ExternalPostgresConnection:
    """One connection that the program passed in: used in turns, and not closed.

    Args:
        connection: the program's.
        answer_timeout_s, prepare: as for `OwnConnections`. A connection whose server doesn't
            answer is disconnected; the program could not have used it any more either.
        nests: whether it may be inside a transaction of the program.
    """

    renews = False
    connected = True

    def __init__(
        self,
        connection: Link,
        *,
        answer_timeout_s: float,
        prepare: Prepare | None = None,
        nests: bool = False,
    ) -> None:
        self._connection = connection
        self._prepare = prepare
        self._nests = nests
        self.sessions = ServerSessions(own=False, writes=False)
        self._slots = _Slots(1, answer_timeout_s)
        self._watchdog = AnswerWatchdog(answer_timeout_s)

    @contextmanager
    def lease(self, *, patient: bool = False, extra_s: float = 0.0) -> Generator[Link]:
        """See `ConnectionSource.lease`."""
        with (
            self._slots.taken(extra_s),
            _borrowed(self._connection, self._prepare, nests=self._nests) as connection,
            self._watchdog.watching(connection, patient=patient, extra_s=extra_s),
            _in_session(self.sessions, connection),
        ):
            yield connection

    def close(self) -> None:
        """See `ConnectionSource.close`."""
        self._watchdog.close()


class ExternalPool:
    """A pool that the program passed in, such as `psycopg_pool.ConnectionPool`; it isn't closed.

    Args:
        pool: has a method `connection()`, a context manager.
        answer_timeout_s, prepare, reach: as for `OwnConnections`.
    """

    renews = True
    connected = True

    def __init__(
        self,
        pool: Any,
        *,
        answer_timeout_s: float,
        prepare: Prepare | None = None,
        reach: Reach | None = None,
    ) -> None:
        self._pool = pool
        self._reach = reach or Reach()
        self._prepare = prepare
        self.sessions = ServerSessions(own=False)
        self._watchdog = AnswerWatchdog(answer_timeout_s)

    @contextmanager
    def lease(self, *, patient: bool = False, extra_s: float = 0.0) -> Generator[Link]:
        """See `ConnectionSource.lease`."""
        with (
            self._reach.tried(),
            self._pool.connection() as lent,
            _borrowed(lent, self._prepare) as connection,
            self._watchdog.watching(connection, patient=patient, extra_s=extra_s),
            _in_session(self.sessions, connection),
        ):
            yield connection

    def close(self) -> None:
        """See `ConnectionSource.close`."""
        self._watchdog.close()


class _Slots:
    """A semaphore with a timeout: limits how many callers have a connection at once.

    The wait is bounded, since all callers ahead may be waiting for a server that does not answer.
    """

    def __init__(self, count: int | None, answer_timeout_s: float) -> None:
        self._free = None if count is None else threading.BoundedSemaphore(count)
        self._timeout_s = answer_timeout_s
        self._latest = 0.0  # until when a caller has the connection that has large work

    @contextmanager
    def taken(self, extra_s: float = 0.0) -> Generator[None]:
        if self._free is None:
            yield
            return
        while not self._free.acquire(timeout=self._timeout_s):
            if time.monotonic() < self._latest:
                continue
            raise StorageBusyError(
                "other threads of this program have used the connection to PostgreSQL for "
                f"{self._timeout_s:g} s",
                do="find out what blocks them, pass a pool of connections, or raise "
                "answer_timeout_s",
            )
        if extra_s:
            self._latest = max(self._latest, time.monotonic() + self._timeout_s + extra_s)
        try:
            yield
        finally:
            self._free.release()


@contextmanager
def _borrowed(connection: Link, prepare: Prepare | None, *, nests: bool = False) -> Generator[Link]:
    """Lend the program's connection in autocommit mode; restore its mode afterwards."""
    inside = connection.info.transaction_status is not TransactionStatus.IDLE
    if inside and not connection.closed and not nests:
        raise SaverClosedError(
            "the connection that was passed to the saver is inside a transaction",
            do="end it before the saver is used, or pass a connection string",
        )
    before = connection.autocommit
    switches = not before and not inside and not connection.closed
    if switches:
        connection.autocommit = True
    if prepare is not None:
        prepare(connection)
    try:
        yield connection
    finally:
        if switches and not connection.closed:
            roll_back(connection)
            connection.autocommit = False


@contextmanager
def _in_session(sessions: ServerSessions, connection: Link) -> Generator[None]:
    """Use the session of a program's connection; restore its settings afterwards."""
    prepares = connection.prepare_threshold
    before = connection.info.parameter_status("client_encoding")
    sets = connection.info.encoding != "utf-8"
    if sets:
        connection.execute(_SET_ENCODING, ("UTF8",))
    try:
        sessions.of(connection)
        yield
    except psycopg.Error as error:
        sessions.failed(connection, error)
        raise
    finally:
        if not (connection.closed or connection.broken):
            connection.prepare_threshold = prepares
            if sets:
                with suppress(psycopg.Error):
                    connection.execute(_SET_ENCODING, (before,))


_SET_ENCODING = "SELECT set_config('client_encoding', %s, false)"


def connection_source(
    given: object,
    *,
    owner: str,
    answer_timeout_s: float,
    prepare: Prepare | None = None,
    nests: bool = False,
    connections_max: int | None = None,
    writes: bool = True,
    reach: Reach | None = None,
) -> ConnectionSource:
    """Make the source of connections for the argument of a saver or a store.

    Args:
        given: a connection string, a `psycopg.Connection`, or a pool of these. Of asynchronous
            ones only the address is taken.
        owner: the class that takes the argument, for errors.
        answer_timeout_s, prepare, connections_max, writes, reach: as for `OwnConnections`.
        nests: as for `ExternalPostgresConnection`.
    Raises:
        InvalidConfigError: `given` is none of these, or the string can't be parsed.
    """
    common: Any = {"answer_timeout_s": answer_timeout_s, "prepare": prepare, "reach": reach}
    address = given if isinstance(given, str) else _address_of(given)
    if address is not None:
        try:
            return OwnConnections(address, connections_max=connections_max, writes=writes, **common)
        except psycopg.Error as error:
            raise InvalidConfigError(
                f"the connection string can't be parsed: {str(error).strip()}",
                do="write e.g. 'postgresql://user:password@host:5432/database'",
            ) from error
    if isinstance(given, Connection):
        return ExternalPostgresConnection(
            given, answer_timeout_s=answer_timeout_s, prepare=prepare, nests=nests
        )
    if _is_pool(given):
        return ExternalPool(given, **common)
    driver = type(given).__module__.partition(".")[0]
    raise InvalidConfigError(
        f"{owner} can't use a {type(given).__name__}"
        + (" of asyncpg: its driver is psycopg" if driver == "asyncpg" else ""),
        do="pass a connection string, such as the one that the pool was made with; or a "
        "psycopg.Connection or a psycopg_pool.ConnectionPool",
    )


def _address_of(given: Any) -> str | None:
    """Return the address of an asynchronous connection or pool of psycopg; None for others.

    It belongs to one event loop, and statements run in threads here, so it can't be used itself.
    """
    if isinstance(given, AsyncConnection):
        connection: AsyncConnection[Any] = given
        info = connection.info
        return make_conninfo("", **info.get_parameters(), password=info.password or None)
    names = [kind.__name__ for kind in type(given).__mro__]
    if "AsyncConnectionPool" not in names and "AsyncNullConnectionPool" not in names:
        return None
    conninfo, options = given.conninfo, given.kwargs or {}
    if not isinstance(conninfo, str) or callable(options):
        return None
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    return make_conninfo(conninfo, **{k: v for k, v in options.items() if k in known})


def _is_pool(given: object) -> bool:
    """Whether it lends connections: by its methods, as it may be a class of the program."""
    asynchronous = any(kind.__name__.startswith("Async") for kind in type(given).__mro__)
    return hasattr(given, "connection") and not hasattr(given, "transaction") and not asynchronous


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
