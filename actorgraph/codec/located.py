"""Errors of stored rows, with the thread and row that they are about."""

from actorgraph.errors import ActorGraphError, SerializationError
from actorgraph.values.commits import StoredCheckpoint
from actorgraph.values.ids import as_text


def with_location(error: Exception, where: str) -> ActorGraphError:
    """Return the error to raise for one that a stored row has caused.

    The library's own errors keep their class, and get `where` in front of their text. Anything
    else, which bytes that no codec wrote can raise, becomes the cause of a SerializationError.
    """
    if isinstance(error, ActorGraphError):
        if where not in error.what:
            error.what = f"{where}: {error.what}"
            error.args = (error.what,)
        return error
    found = SerializationError(
        f"{where} can't be read: {type(error).__name__}: {error}",
        do="check the database's integrity, or restore it from a backup",
    )
    found.__cause__ = error
    return found


def checkpoint_label(stored: StoredCheckpoint) -> str:
    """Name a checkpoint for the text of an error."""
    where = f" of namespace {stored.namespace!r}" if stored.namespace else ""
    return f"checkpoint {as_text(stored.row.id)}{where} of thread {stored.thread_id!r}"
