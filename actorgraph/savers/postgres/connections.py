"""Where connections come from: the saver's own, or a connection or a pool that a program brought.

`lease()` hands one out in autocommit mode for one piece of work. Own connections have keepalives,
are replaced when they are lost, and are cut off by a watchdog when the server doesn't answer: a
network that swallows everything would hold a worker thread for ever.
"""

import socket
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from math import inf
from typing import Any, Protocol

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from actorgraph.errors import InvalidConfigError, SaverClosedError
from actorgraph.savers.postgres.columns import teach

Link = Connection[Any]
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


class Source(Protocol):
    """Hands out connections, to one worker thread at a time each.

    Attributes:
        renews: whether a lost connection is followed by another one.
    """

    renews: bool

    def lease(self, *, patient: bool = False) -> AbstractContextManager[Link]:
        """A connection for one piece of work; waits for one if all are in use.

        Args:
            patient: whether the work may take as long as it takes.
        Raises:
            psycopg.Error: there is none.
        """
        ...

    def close(self) -> None:
        """Close what is the saver's own."""
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
    """Connections of the saver's own, opened when they are needed and kept.

    Args:
        answer_timeout_s: after how long an answer that doesn't come is not waited for any more.
    """

    renews = True

    def __init__(self, conninfo: str, *, answer_timeout_s: float) -> None:
        given = conninfo_to_dict(conninfo)
        self._parameters: dict[str, Any] = {**_DEFAULTS, **given}
        self._timeout_s = answer_timeout_s
        self._idle: list[Link] = []
        self._busy: dict[Link, float] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._watchdog: threading.Thread | None = None

    @contextmanager
    def lease(self, *, patient: bool = False) -> Generator[Link]:
        """See `Source.lease`."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None or connection.closed:
            connection = psycopg.connect(**self._parameters, autocommit=True)
            teach(connection)
        with self._lock:
            self._busy[connection] = inf if patient else time.monotonic() + self._timeout_s
            if self._watchdog is None:
                self._stopped.clear()
                self._watchdog = threading.Thread(
                    target=self._watch, name="actorgraph-postgres", daemon=True
                )
                self._watchdog.start()
        try:
            yield connection
        finally:
            with self._lock:
                del self._busy[connection]
                usable = not (connection.closed or connection.broken)
                if usable:
                    self._idle.append(connection)
            if not usable:
                connection.close()

    def close(self) -> None:
        """See `Source.close`."""
        self._stopped.set()
        with self._lock:
            idle, self._idle = self._idle, []
            watchdog, self._watchdog = self._watchdog, None
        for connection in idle:
            connection.close()
        if watchdog is not None:
            watchdog.join()

    def _watch(self) -> None:
        while not self._stopped.wait(self._timeout_s / 4):
            now = time.monotonic()
            with self._lock:
                for connection, end in self._busy.items():
                    if now > end:
                        _cut(connection)


def _cut(connection: Link) -> None:
    """Let whoever waits for this connection's answer see that it is lost."""
    with suppress(OSError, psycopg.Error):
        number = connection.fileno()
        with socket.socket(fileno=socket.dup(number)) as copy:
            copy.shutdown(socket.SHUT_RDWR)


class LentConnection:
    """One connection that a program brought: writes and reads take turns, and it isn't closed."""

    renews = False

    def __init__(self, connection: Link) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    @contextmanager
    def lease(self, *, patient: bool = False) -> Generator[Link]:
        """See `Source.lease`."""
        with self._lock, _borrowed(self._connection) as connection:
            yield connection

    def close(self) -> None:
        """See `Source.close`."""


class LentPool:
    """A pool that a program brought, as `psycopg_pool.ConnectionPool`; it isn't closed."""

    renews = True

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    @contextmanager
    def lease(self, *, patient: bool = False) -> Generator[Link]:
        """See `Source.lease`."""
        connection: Link = self._pool.getconn()
        try:
            with _borrowed(connection):
                yield connection
        finally:
            self._pool.putconn(connection)

    def close(self) -> None:
        """See `Source.close`."""


@contextmanager
def _borrowed(connection: Link) -> Generator[Link]:
    """A program's connection in autocommit mode; given back as it was."""
    if connection.info.transaction_status is not TransactionStatus.IDLE and not connection.closed:
        raise SaverClosedError(
            "the connection that the saver was given is inside a transaction",
            do="end it before the saver is used, or give the saver a connection string",
        )
    before = connection.autocommit
    if not before and not connection.closed:
        connection.autocommit = True
    teach(connection)
    try:
        yield connection
    finally:
        if not before and not connection.closed:
            roll_back(connection)
            connection.autocommit = False


def source_of(given: object, *, answer_timeout_s: float) -> Source:
    """Where a saver's connections come from.

    Args:
        given: a connection string, a `psycopg.Connection`, or a pool of these.
    Raises:
        InvalidConfigError: it is none of these.
    """
    if isinstance(given, str):
        try:
            return OwnConnections(given, answer_timeout_s=answer_timeout_s)
        except psycopg.Error as error:
            raise InvalidConfigError(
                f"the connection string can't be read: {error}",
                do="write e.g. 'postgresql://user:password@host:5432/database'",
            ) from error
    if isinstance(given, Connection):
        return LentConnection(given)
    # By its name: psycopg_pool is a package of its own, which the program may not have.
    kinds = {kind.__name__ for kind in type(given).__mro__}
    if "ConnectionPool" in kinds:
        return LentPool(given)
    raise InvalidConfigError(
        f"PostgresSaver can't use a {type(given).__name__}",
        do="pass a connection string, a psycopg.Connection or a psycopg_pool.ConnectionPool; "
        "asynchronous ones belong to one event loop, and the saver works in threads",
    )
