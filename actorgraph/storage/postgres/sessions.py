"""Ends the session that a new connection replaces.

A connection that was given up, because the network swallowed its answers, has a session at the
server until TCP notices: half a minute by default. Its open transaction holds locks all the while,
and the connection that follows would wait for them, and so would every other process.
"""

from typing import Any

import msgspec
from psycopg import Connection

from actorgraph.storage.postgres.connections import ConnectionSource, OwnConnections

_SELECT_SESSION = "SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s
"""


class ServerSession(msgspec.Struct, frozen=True):
    """A connection as the server knows it: process ids are used again, moments are not."""

    pid: int
    began: Any


class ReplacedSession:
    """Knows the session of a source that has one connection at a time.

    Connections that a program lent, or a pool's, are the program's: their sessions are left alone.
    """

    def __init__(self, source: ConnectionSource) -> None:
        self._owns = isinstance(source, OwnConnections)
        self._session: ServerSession | None = None

    def greet(self, connection: Connection[Any]) -> None:
        """End the session before this one, if the connection is a new one.

        Raises:
            psycopg.Error: the server could not be asked.
        """
        known, pid = self._session, connection.info.backend_pid
        if not self._owns or (known is not None and known.pid == pid):
            return
        if known is not None:
            connection.execute(_END_SESSION, (known.pid, known.began))
        row = connection.execute(_SELECT_SESSION).fetchone()
        self._session = None if row is None else ServerSession(pid, row[0])
