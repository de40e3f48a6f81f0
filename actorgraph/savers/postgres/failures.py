"""What PostgreSQL's errors are to a saver: some leave open whether a batch was stored."""

from actorgraph.errors import SaverBrokenError, StorageError
from actorgraph.storage.postgres import failures
from actorgraph.storage.postgres.failures import ErrorKind, server_message


def translate(
    error: Exception, kind: ErrorKind, *, unsure: bool = False, connected: bool = True, by: str = ""
) -> StorageError:
    """The error that callers see.

    Args:
        unsure: whether a COMMIT was sent and nothing says what became of it.
        connected, by: as for the function of `storage`.
    """
    if unsure or kind is ErrorKind.BROKEN:
        return SaverBrokenError(
            "PostgreSQL failed in a way that leaves the last commit's outcome unknown: "
            f"{server_message(error)}",
            do="look at the server's log, then close and open the saver again",
        )
    if kind is ErrorKind.TABLES:
        return StorageError(
            f"the saver's tables are not there: {server_message(error)}",
            do="call `saver.setup()` once with a role that may make tables",
        )
    return failures.translate(error, kind, connected=connected, by=by)
