"""End the server's session of a connection that was replaced."""

from typing import Any

import msgspec
from psycopg import Connection

from actorgraph.storage.postgres.connections import ConnectionSource, OwnConnections

_SELECT_SESSION = "SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s
"""


class ServerSession(msgspec.Struct, frozen=True):
    """The server's identity of a connection; the start time, since process ids are reused."""

    pid: int
    began: Any


class ReplacedSession:
    """Remembers the session of a source with one connection at a time, to end it when replaced.

    After the client has closed a connection because the network dropped its answers, the server
    keeps the session until TCP notices: half a minute by default. Meanwhile its open transaction
    holds locks that the new connection, and every other process, would wait for.

    Sessions of connections and pools that the program passed in are the program's: never ended.
    """

    def __init__(self, source: ConnectionSource) -> None:
        self._owns = isinstance(source, OwnConnections)
        self._session: ServerSession | None = None

    def end_replaced(self, connection: Connection[Any]) -> None:
        """End the previous session if this connection has another one.

        Raises:
            psycopg.Error: the server refused a statement, or the connection is lost.
        """
        known, pid = self._session, connection.info.backend_pid
        if not self._owns or (known is not None and known.pid == pid):
            return
        if known is not None:
            connection.execute(_END_SESSION, (known.pid, known.began))
        row = connection.execute(_SELECT_SESSION).fetchone()
        self._session = None if row is None else ServerSession(pid, row[0])
