"""Sessions: facts about the server behind a connection, asked once for each connection.

Encoding   A database in another encoding than UTF8 is refused.
Pooler     A pooler lends a connection another session of the server for each transaction, so that
           statements prepared before are gone, or are those of other clients: none is prepared.
History    System identifier and timeline. A server with others may lack acknowledged rows.
Read-only  A session that can't write is closed after use: the address may name several servers, or
           the one that it reaches may have become a replica.

Nothing of it outlives the connection.
"""

import threading
from contextlib import suppress
from typing import Any, LiteralString
from weakref import WeakKeyDictionary

import msgspec
import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from actorgraph.errors import InvalidConfigError
from actorgraph.storage.postgres.watchdog import Link

_FACTS: LiteralString = """
SELECT pg_backend_pid(), current_setting('server_encoding'),
       (SELECT extract(epoch FROM backend_start)::text FROM pg_stat_activity
        WHERE pid = pg_backend_pid())
"""
_HISTORY: LiteralString = """
SELECT (pg_control_system()).system_identifier::text,
       CASE WHEN pg_is_in_recovery() THEN '' ELSE
           left(pg_walfile_name(pg_current_wal_lsn()), 8) END
"""
_PID = "SELECT pg_backend_pid()"
_READ_ONLY = "25006"
_PREPARED_ELSEWHERE = ("26000", "42P05", "08P01")
"""The server doesn't know a prepared statement, or knows another one of that name."""


class History(msgspec.Struct, frozen=True):
    """A database cluster, and the line of its changes: another one begins with each promotion."""

    system: str
    timeline: str


def is_other(one: History | None, other: History | None) -> bool:
    """Whether two histories are known to differ: what one has the other may lack."""
    return one is not None and other is not None and one != other


class ServerSession(msgspec.Struct, frozen=True):
    """The server's session of a connection.

    Attributes:
        pid, began: its process, and the start time of that, since process ids are reused.
        pooled: whether a pooler is between, so that it may be another one in each transaction.
        history: None if the role may not ask.
    """

    pid: int
    began: str
    pooled: bool
    history: History | None


class ServerSessions:
    """The sessions of one source of connections; safe for several threads.

    Args:
        own: whether the connections are ours, so that their sessions may be ended.
        writes: whether they must be able to write.
    """

    def __init__(self, *, own: bool, writes: bool = True) -> None:
        self.own = own
        self._writes = writes
        self._known: WeakKeyDictionary[Link, ServerSession] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._pooled = False

    def of(self, connection: Link) -> ServerSession:
        """The session of a connection; asks the server at the first call.

        Raises:
            InvalidConfigError: the database can't be used.
            psycopg.Error: the connection is lost.
        """
        with self._lock:
            known = self._known.get(connection)
        if known is None:
            known = _asked(connection)
            with self._lock:
                self._known[connection] = known
        if self._pooled or known.pooled:
            connection.prepare_threshold = None
        return known

    def failed(self, connection: Link, error: psycopg.Error) -> None:
        """Learn from an error of a statement; close a connection that can't be used any more."""
        if error.sqlstate in _PREPARED_ELSEWHERE:
            self._pooled = True
        if error.sqlstate == _READ_ONLY and self._writes:
            connection.close()

    def keeps(self, connection: Link) -> bool:
        """Whether a connection can be used again."""
        if connection.closed or connection.broken:
            return False
        with self._lock:
            known = self._known.get(connection)
        # A pooler reports the state that its first session had.
        if not self._writes or known is None or known.pooled:
            return True
        status = connection.info.parameter_status
        return "on" not in (status("in_hot_standby"), status("default_transaction_read_only"))


def check_writable(connection: Link) -> None:
    """Check that a session can write.

    Raises:
        psycopg.errors.ReadOnlySqlTransaction: it can't; the server is a replica, say.
        psycopg.Error: the connection is lost.
    """
    cursor = connection.cursor(row_factory=tuple_row)
    row: Any = cursor.execute(_IS_READ_ONLY, prepare=False).fetchone()
    if row[0]:
        raise psycopg.errors.ReadOnlySqlTransaction("the server takes no writes")


_IS_READ_ONLY = (
    "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean"
)


def _asked(connection: Link) -> ServerSession:
    cursor = connection.cursor(row_factory=tuple_row)
    found: Any = cursor.execute(_FACTS, prepare=False).fetchone()
    pid, encoding, began = found
    if encoding != "UTF8":
        raise InvalidConfigError(
            f"the database {connection.info.dbname!r} is in {encoding}, which can't store every "
            "text",
            do="make one with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0, and move "
            "what this one has by pg_dump",
        )
    pooled = pid != connection.info.backend_pid
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        return ServerSession(pid, began or "", pooled, None)  # an error would end the program's
    pooled = pooled or cursor.execute(_PID, prepare=False).fetchone() != (pid,)
    if pooled:
        _check_transactions(connection)
    history = None
    with suppress(psycopg.DatabaseError):  # not every server lets every role ask
        row: Any = cursor.execute(_HISTORY, prepare=False).fetchone()
        history = History(*row)
    return ServerSession(pid, began or "", pooled, history)


def _check_transactions(connection: Link) -> None:
    """Refuse a pooler that lends sessions for single statements."""
    try:
        connection.execute("BEGIN", prepare=False)
        connection.execute("ROLLBACK", prepare=False)
    except psycopg.Error as error:
        if "statement pooling" not in str(error):
            raise
        raise InvalidConfigError(
            "the pooler at this address lends a session for one statement only, and refuses "
            "transactions",
            do="set pool_mode = transaction or session for this database in PgBouncer",
        ) from error


_END_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = %s AND extract(epoch FROM backend_start)::text = %s
"""


class ReplacedSession:
    """Remembers the session of a source with one connection at a time, to end it when replaced.

    After the client has closed a connection because the network dropped its answers, the server
    keeps the session until TCP notices: half a minute by default. Meanwhile its open transaction
    holds locks that the new connection, and every other process, would wait for.

    Sessions of connections and pools that the program passed in are the program's, and those of a
    pooler are other clients' by now: never ended.
    """

    def __init__(self, sessions: ServerSessions) -> None:
        self._sessions = sessions
        self._last: ServerSession | None = None

    def end_replaced(self, connection: Connection[Any]) -> ServerSession:
        """End the previous session if this connection has another one.

        Returns: this connection's.
        Raises:
            psycopg.Error: the server refused a statement, or the connection is lost.
        """
        found = self._sessions.of(connection)
        last, self._last = self._last, found
        ends = self._sessions.own and not found.pooled
        if ends and last is not None and not last.pooled and last != found:
            connection.execute(_END_SESSION, (last.pid, last.began))
        return found
