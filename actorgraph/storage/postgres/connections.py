"""Where connections come from: our own, or a connection or a pool that a program brought.

`lease()` hands one out in autocommit mode for one piece of work. Own connections have keepalives,
and are replaced when they are lost. Every connection in use is cut off by a watchdog when the
server doesn't answer: a network that swallows everything would hold a worker thread for ever.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from actorgraph.errors import InvalidConfigError, SaverClosedError, StorageBusyError
from actorgraph.storage.postgres.watchdog import AnswerWatchdog

Link = Connection[Any]
Prepare = Callable[[Link], None]
"""What is done to a connection before it is used."""
CONNECT_TIMEOUT_S = 10
_DEFAULTS: dict[str, Any] = {
    "application_name": "actorgraph",
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""What the connection string doesn't say itself."""


class ConnectionSource(Protocol):
    """Hands out connections, to one worker thread at a time each.

    Attributes:
        renews: whether a lost connection is followed by another one.
        connected: whether there was a connection at any time.
    """

    renews: bool
    connected: bool

    def lease(self, *, patient: bool = False) -> AbstractContextManager[Link]:
        """A connection for one piece of work; waits for one if all are in use.

        Args:
            patient: whether the work may take as long as it takes, while it makes progress.
        Raises:
            psycopg.Error: there is none, or it was lost; NoAnswerError, if it was given up.
            StorageBusyError: all stayed in use.
        """
        ...

    def close(self) -> None:
        """Close what is our own."""
        ...


def roll_back(connection: Link) -> None:
    """End the transaction of work that failed; a connection that can't is closed."""
    if connection.closed:
        return
    try:
        connection.rollback()
    except psycopg.Error:  # the first error is what counts
        connection.close()


class OwnConnections:
    """Connections of our own, opened when they are needed and kept.

    Args:
        answer_timeout_s: after how long an answer that doesn't come is not waited for any more.
        prepare: what is done to a new connection.
        connections_max: how many there are at once; None for as many as callers.
    """

    renews = True

    def __init__(
        self,
        conninfo: str,
        *,
        answer_timeout_s: float,
        prepare: Prepare | None = None,
        connections_max: int | None = None,
    ) -> None:
        given = conninfo_to_dict(conninfo)
        connect_s = max(1, min(CONNECT_TIMEOUT_S, round(answer_timeout_s)))
        defaults = {**_DEFAULTS, "connect_timeout": connect_s}
        self._parameters: dict[str, Any] = {**defaults, **given}
        self._prepare = prepare
        self._places = _Places(connections_max, answer_timeout_s)
        self._watchdog = AnswerWatchdog(answer_timeout_s, self._connect)
        self._idle: list[Link] = []
        self._lock = threading.Lock()
        self.connected = False

    @contextmanager
    def lease(self, *, patient: bool = False) -> Generator[Link]:
        """See `ConnectionSource.lease`."""
        with self._places.taken():
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or connection.closed:
                connection = self._connect()
                self.connected = True
                if self._prepare is not None:
                    self._prepare(connection)
            try:
                with self._watchdog.watching(connection, patient=patient):
                    yield connection
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
        usable = not (connection.closed or connection.broken)
        if usable:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()


class LentConnection:
    """One connection that a program brought: users take turns, and it isn't closed.

    Args:
        nests: whether it may be inside of a transaction of the program's.
        answer_timeout_s, prepare: as for `OwnConnections`. A connection without an answer is cut,
            so the program can't use it any more: it could not without that.
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
        self._places = _Places(1, answer_timeout_s)
        self._watchdog = AnswerWatchdog(answer_timeout_s)

    @contextmanager
    def lease(self, *, patient: bool = False) -> Generator[Link]:
        """See `ConnectionSource.lease`."""
        with (
            self._places.taken(),
            _borrowed(self._connection, self._prepare, nests=self._nests) as connection,
            self._watchdog.watching(connection, patient=patient),
        ):
            yield connection

    def close(self) -> None:
        """See `ConnectionSource.close`."""
        self._watchdog.close()


class LentPool:
    """A pool that a program brought, as `psycopg_pool.ConnectionPool`; it isn't closed.

    Args:
        answer_timeout_s, prepare: as for `OwnConnections`.
    """

    renews = True
    connected = True

    def __init__(
        self, pool: Any, *, answer_timeout_s: float, prepare: Prepare | None = None
    ) -> None:
        self._pool = pool
        self._prepare = prepare
        self._watchdog = AnswerWatchdog(answer_timeout_s)

    @contextmanager
    def lease(self, *, patient: bool = False) -> Generator[Link]:
        """See `ConnectionSource.lease`."""
        with (
            self._pool.connection() as lent,
            _borrowed(lent, self._prepare) as connection,
            self._watchdog.watching(connection, patient=patient),
        ):
            yield connection

    def close(self) -> None:
        """See `ConnectionSource.close`."""
        self._watchdog.close()


class _Places:
    """How many callers may have a connection at once; the others wait, for a bounded time.

    One that waits does so behind others that may all be waiting for a silent server.
    """

    def __init__(self, count: int | None, answer_timeout_s: float) -> None:
        self._free = None if count is None else threading.BoundedSemaphore(count)
        self._timeout_s = answer_timeout_s

    @contextmanager
    def taken(self) -> Generator[None]:
        if self._free is None:
            yield
            return
        if not self._free.acquire(timeout=self._timeout_s):
            raise StorageBusyError(
                "other threads of this program have used the connection to PostgreSQL for "
                f"{self._timeout_s:g} s",
                do="see what holds them, give it a pool of connections, or raise answer_timeout_s",
            )
        try:
            yield
        finally:
            self._free.release()


@contextmanager
def _borrowed(connection: Link, prepare: Prepare | None, *, nests: bool = False) -> Generator[Link]:
    """A program's connection in autocommit mode; given back as it was."""
    inside = connection.info.transaction_status is not TransactionStatus.IDLE
    if inside and not connection.closed and not nests:
        raise SaverClosedError(
            "the connection that the saver was given is inside a transaction",
            do="end it before the saver is used, or give the saver a connection string",
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


def connection_source(
    given: object,
    *,
    owner: str,
    answer_timeout_s: float,
    prepare: Prepare | None = None,
    nests: bool = False,
    connections_max: int | None = None,
) -> ConnectionSource:
    """Where the connections of a saver or a store come from.

    Args:
        given: a connection string, a `psycopg.Connection`, or a pool of these.
        owner: the class that is given it, for errors.
        answer_timeout_s, prepare, connections_max: as for `OwnConnections`.
        nests: as for `LentConnection`.
    Raises:
        InvalidConfigError: it is none of these.
    """
    if isinstance(given, str):
        try:
            return OwnConnections(
                given,
                answer_timeout_s=answer_timeout_s,
                prepare=prepare,
                connections_max=connections_max,
            )
        except psycopg.Error as error:
            raise InvalidConfigError(
                f"the connection string can't be read: {error}",
                do="write e.g. 'postgresql://user:password@host:5432/database'",
            ) from error
    if isinstance(given, Connection):
        return LentConnection(
            given, answer_timeout_s=answer_timeout_s, prepare=prepare, nests=nests
        )
    if _is_pool(given):
        return LentPool(given, answer_timeout_s=answer_timeout_s, prepare=prepare)
    raise InvalidConfigError(
        f"{owner} can't use a {type(given).__name__}",
        do="pass a connection string, a psycopg.Connection or a psycopg_pool.ConnectionPool; "
        "asynchronous ones belong to one event loop, and this works in threads",
    )


def _is_pool(given: object) -> bool:
    """Whether it lends connections. By what it has: the program may have a pool of its own."""
    asynchronous = any(kind.__name__.startswith("Async") for kind in type(given).__mro__)
    return hasattr(given, "connection") and not hasattr(given, "transaction") and not asynchronous
