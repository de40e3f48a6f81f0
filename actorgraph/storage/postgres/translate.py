"""Classify PostgreSQL's errors by what to do about them, translate them, limit retries.

Source: https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""

import random
import time
from enum import Enum
from typing import Any

import psycopg

from actorgraph.errors import StorageBusyError, StorageError, StorageFullError


class ErrorKind(Enum):
    """The kind of an error, by what to do about it.

    Attributes:
        LOST: the connection is lost, or its server can't write: connect again.
        AGAIN: the server rolled the transaction back for a transient reason: send it again.
        BUSY: another session held a lock for longer than the busy timeout.
        FULL: no disk space is left.
        ROW: the server refused values of one request: the others can be stored without it.
        BROKEN: the server reports an I/O error or damaged data.
        TABLES: the tables don't exist.
        OTHER: any other error.
    """

    LOST = "lost"
    AGAIN = "again"
    BUSY = "busy"
    FULL = "full"
    ROW = "row"
    BROKEN = "broken"
    TABLES = "tables"
    OTHER = "other"


_BY_CODE = {
    "57P01": ErrorKind.LOST,  # the server shuts down, or the backend was terminated
    "57P02": ErrorKind.LOST,
    "57P03": ErrorKind.LOST,  # the server is starting
    "57P05": ErrorKind.LOST,  # idle session timeout
    "25P03": ErrorKind.LOST,  # idle in transaction timeout
    "25006": ErrorKind.LOST,  # read-only: a standby
    "53300": ErrorKind.LOST,  # too many connections
    "40001": ErrorKind.AGAIN,  # serialization failure
    "40P01": ErrorKind.AGAIN,  # deadlock
    "26000": ErrorKind.AGAIN,  # a pooler has lent another session, without the prepared statement
    "42P05": ErrorKind.AGAIN,  # or with one of that name
    "57014": ErrorKind.AGAIN,  # statement timeout, or cancelled by an administrator
    "40003": ErrorKind.LOST,  # completion unknown
    "55P03": ErrorKind.BUSY,
    "53100": ErrorKind.FULL,
    "53200": ErrorKind.ROW,  # out of memory: a value is too large for this server
    "58030": ErrorKind.BROKEN,
    "42P01": ErrorKind.TABLES,
    "3F000": ErrorKind.TABLES,
}
_BY_CLASS = {
    "08": ErrorKind.LOST,
    "21": ErrorKind.ROW,
    "22": ErrorKind.ROW,
    "23": ErrorKind.ROW,
    "54": ErrorKind.ROW,
    "58": ErrorKind.BROKEN,
    "XX": ErrorKind.BROKEN,
}


_REFUSED = {
    "25006": "connect to the primary server (target_session_attrs=read-write), or let the role's "
    "default_transaction_read_only be off",
    "42501": "grant the role what it lacks: CREATE on the database for `setup()`, afterwards USAGE "
    "on the schema and all rights on its tables",
}
"""SQLSTATE of servers that can be reached but refuse to write -> advice."""


class NoAnswerError(psycopg.OperationalError):
    """The server did not answer in time, so the connection was closed."""


class RowError(Exception):
    """The rows of a request contradict the stored ones."""


def server_message(error: Exception) -> str:
    """The server's primary message, without the details, which may quote a row's values."""
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return "the server accepted no connection in time (connect_timeout)"
    said = getattr(getattr(error, "diag", None), "message_primary", None)
    return said or str(error)


def classify_error(error: Exception, connection: Any = None) -> ErrorKind:
    """Classify an error of psycopg, or of converting a request's rows to parameters.

    Args:
        connection: the one that was used; None if connecting failed.
    """
    if connection is not None and (connection.closed or connection.broken):
        return ErrorKind.LOST
    code: str | None = getattr(error, "sqlstate", None)
    if code is not None:
        return _BY_CODE.get(code) or _BY_CLASS.get(code[:2], ErrorKind.OTHER)
    if isinstance(error, psycopg.OperationalError):
        return ErrorKind.LOST  # without a SQLSTATE it is the client's own: no server answered
    if isinstance(error, RowError | psycopg.DataError | ValueError | OverflowError):
        return ErrorKind.ROW
    return ErrorKind.OTHER


def is_slow(error: Exception) -> bool:
    """Whether a time limit has ended work: the server's for a statement, or ours for an answer."""
    return isinstance(error, NoAnswerError) or getattr(error, "sqlstate", None) == "57014"


def translate(
    error: Exception, kind: ErrorKind, *, connected: bool = True, by: str = ""
) -> StorageError:
    """The error to raise for an error of psycopg.

    Args:
        connected: whether a connection has been open before.
        by: a phrase about the session that held the lock; empty if unknown.
    """
    code: str | None = getattr(error, "sqlstate", None)
    if code in _REFUSED:
        return StorageError(
            f"PostgreSQL refused to write: {server_message(error)}", do=_REFUSED[code]
        )
    if kind is ErrorKind.LOST:
        what = (
            "the connection to PostgreSQL is lost"
            if connected
            else "no connection to PostgreSQL, it can't be reached"
        )
        return StorageError(
            f"{what}: {server_message(error)}",
            do="check that the server runs and can be reached, then run again; nothing of this was "
            "stored. answer_timeout_s and reconnect_timeout_s limit how long calls wait for it",
        )
    if code == "57014":
        return StorageBusyError(
            f"PostgreSQL was busy: it cancelled a statement that took too long "
            f"({server_message(error)})",
            do="find out what slows the server down, or raise answer_timeout_s",
        )
    if kind is ErrorKind.BUSY:
        return StorageBusyError(
            f"PostgreSQL was busy with other transactions: {server_message(error)}{by}",
            do="let that transaction finish or end it, or raise busy_timeout_s",
        )
    if kind is ErrorKind.AGAIN:
        return StorageBusyError(
            f"PostgreSQL was busy with other transactions: {server_message(error)}",
            do="let them finish, or raise busy_timeout_s",
        )
    if kind is ErrorKind.FULL:
        return StorageFullError(
            f"no space is left for the database: {server_message(error)}",
            do="free some space and run again; the database stays usable",
        )
    return StorageError(
        f"PostgreSQL refused a statement: {server_message(error)}", do="see the cause below"
    )


_FIRST_PAUSE_S = 0.01
_PAUSE_MAX_S = 0.5


class Attempts:
    """Counts the attempts at one piece of work and decides about the next one.

    Args:
        renews: whether the source replaces a lost connection.
        reconnect_timeout_s: no new attempt starts so long after the first failure.
        attempts_max: limit of attempts after errors that the server answered by a rollback.
    Attributes:
        slow: whether a time limit has ended an attempt: the next one gets more time.
    """

    def __init__(self, *, renews: bool, reconnect_timeout_s: float, attempts_max: int) -> None:
        self._renews = renews
        self._timeout_s = reconnect_timeout_s
        self._attempts_max = attempts_max
        self._failed = 0
        self._end = self._unsure_end = 0.0
        self.slow = False

    def again(self, kind: ErrorKind, *, unsure: bool = False, slow: bool = False) -> bool:
        """Whether to try again after a failure.

        A COMMIT in doubt is looked up for `reconnect_timeout_s` from its own loss on: attempts
        before it may have taken that time.

        Args:
            kind: of the failure.
            unsure: whether the result of a COMMIT is unknown: only another attempt can find out.
            slow: whether a time limit has ended the attempt, see `is_slow`.
        """
        self.slow = self.slow or slow
        self._failed += 1
        now = time.monotonic()
        self._end = self._end or now + self._timeout_s
        if unsure:
            self._unsure_end = self._unsure_end or now + self._timeout_s
            return self._renews and now < self._unsure_end
        if kind is ErrorKind.LOST:
            return self._renews and now < self._end
        return kind is ErrorKind.AGAIN and self._failed < self._attempts_max and now < self._end

    def pause(self) -> None:
        """Sleep, blocking; longer each time, with jitter so that clients don't retry at once."""
        longest = min(_PAUSE_MAX_S, _FIRST_PAUSE_S * 2**self._failed)
        time.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, hides nothing
