"""Translate PostgreSQL's errors for a saver: some leave open whether a batch was stored."""

from actorgraph.errors import SaverBrokenError, StorageError
from actorgraph.storage.postgres.failures import ErrorKind, server_message
from actorgraph.storage.postgres.failures import translate as translate_statement


def translate(
    error: Exception, kind: ErrorKind, *, unsure: bool = False, connected: bool = True, by: str = ""
) -> StorageError:
    """The error to raise for an error of psycopg.

    Args:
        unsure: whether a COMMIT was sent and its result is unknown.
        connected, by: as for `storage.postgres.failures.translate`.
    """
    if unsure or kind is ErrorKind.BROKEN:
        return SaverBrokenError(
            "PostgreSQL failed, and it is unknown whether the last commit was stored: "
            f"{server_message(error)}",
            do="look at the server's log, then close and open the saver again",
        )
    if kind is ErrorKind.TABLES:
        return StorageError(
            f"the saver's tables are not there: {server_message(error)}",
            do="call `saver.setup()` once with a role that may create tables",
        )
    return translate_statement(error, kind, connected=connected, by=by)
