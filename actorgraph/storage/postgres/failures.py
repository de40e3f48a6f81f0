"""PostgreSQL's errors by kind: what savers and stores do about them differs.

Source: https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""

from enum import Enum
from typing import Any

import psycopg

from actorgraph.errors import StorageBusyError, StorageError, StorageFullError


class ErrorKind(Enum):
    """What to do about an error.

    Attributes:
        LOST: the connection is gone, or leads to a server that can't write: connect again.
        AGAIN: the server rolled the transaction back for reasons of the moment: send it again.
        BUSY: somebody held a lock for longer than the busy timeout.
        FULL: no space.
        ROW: the server refused what one request holds: the others can be stored without it.
        BROKEN: the disk or the data is damaged.
        TABLES: the tables aren't there.
        OTHER: all the rest.
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
    "57P01": ErrorKind.LOST,  # the server stops, or somebody ended the backend
    "57P02": ErrorKind.LOST,
    "57P03": ErrorKind.LOST,  # it is starting
    "57P05": ErrorKind.LOST,  # the session was idle for too long
    "25P03": ErrorKind.LOST,  # so was the transaction
    "25006": ErrorKind.LOST,  # a standby
    "53300": ErrorKind.LOST,  # too many connections
    "40001": ErrorKind.AGAIN,  # serialization failure
    "40P01": ErrorKind.AGAIN,  # deadlock
    "57014": ErrorKind.AGAIN,  # statement timeout, or cancelled by hand
    "40003": ErrorKind.LOST,  # completion unknown
    "55P03": ErrorKind.BUSY,
    "53100": ErrorKind.FULL,
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
"""What a server says that can be reached and refuses to write -> what to do about it."""


class NoAnswerError(psycopg.OperationalError):
    """The server did not answer in time, so the connection was given up."""


class RowError(Exception):
    """A request's rows don't fit to what is stored."""


def server_message(error: Exception) -> str:
    """What the server says is wrong, without its details, which quote the row."""
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return "the server accepted no connection in time (connect_timeout)"
    said = getattr(getattr(error, "diag", None), "message_primary", None)
    return said or str(error)


def classify_error(error: Exception, connection: Any = None) -> ErrorKind:
    """What to do about an error of psycopg, or of making parameters of a request's rows."""
    if connection is not None and (connection.closed or connection.broken):
        return ErrorKind.LOST
    code: str | None = getattr(error, "sqlstate", None)
    if code is not None:
        return _BY_CODE.get(code) or _BY_CLASS.get(code[:2], ErrorKind.OTHER)
    if isinstance(error, psycopg.OperationalError):
        return ErrorKind.LOST  # it never reached a server that would name it
    if isinstance(error, RowError | psycopg.DataError | ValueError | OverflowError):
        return ErrorKind.ROW
    return ErrorKind.OTHER


def translate(
    error: Exception, kind: ErrorKind, *, connected: bool = True, by: str = ""
) -> StorageError:
    """The error that callers see.

    Args:
        connected: whether there was a connection before.
        by: whose lock it was that was waited for, where that is known.
    """
    code: str | None = getattr(error, "sqlstate", None)
    if code in _REFUSED:
        return StorageError(
            f"PostgreSQL takes no writes from here: {server_message(error)}", do=_REFUSED[code]
        )
    if kind is ErrorKind.LOST:
        what = (
            "the connection to PostgreSQL is lost"
            if connected
            else "there is no connection to PostgreSQL, it can't be reached"
        )
        return StorageError(
            f"{what}: {server_message(error)}",
            do="see that the server runs and can be reached, then run again; nothing of this was "
            "stored. answer_timeout_s and reconnect_timeout_s say how long is waited",
        )
    if code == "57014":
        return StorageBusyError(
            f"PostgreSQL was busy: it ended a statement that took too long ({server_message(error)})",
            do="see what slows the server down, or raise answer_timeout_s",
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
            do="free some space and run again; it stays usable",
        )
    return StorageError(
        f"PostgreSQL refused a statement: {server_message(error)}", do="see the cause below"
    )
