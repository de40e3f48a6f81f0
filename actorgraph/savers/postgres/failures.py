"""What PostgreSQL's errors are to a saver: some leave open whether a batch was stored."""

from actorgraph.errors import SaverBrokenError, StorageError
from actorgraph.storage.postgres import failures
from actorgraph.storage.postgres.failures import Kind, said


def translate(
    error: Exception, kind: Kind, *, unsure: bool = False, connected: bool = True, by: str = ""
) -> StorageError:
    """The error that callers see.

    Args:
        unsure: whether a COMMIT was sent and nothing says what became of it.
        connected, by: as for the function of `storage`.
    """
    if unsure or kind is Kind.BROKEN:
        return SaverBrokenError(
            "PostgreSQL failed in a way that leaves the last commit's outcome unknown: "
            f"{said(error)}",
            do="look at the server's log, then close and open the saver again",
        )
    if kind is Kind.TABLES:
        return StorageError(
            f"the saver's tables are not there: {said(error)}",
            do="call `saver.setup()` once with a role that may make tables",
        )
    return failures.translate(error, kind, connected=connected, by=by)
