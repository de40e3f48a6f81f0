"""Errors of what was stored, with its place: whose row it is, and which."""

from actorgraph.errors import ActorGraphError, SerializationError
from actorgraph.values.commits import StoredCheckpoint
from actorgraph.values.ids import as_text


def located(error: Exception, where: str) -> ActorGraphError:
    """The error to raise for one that a stored row has caused.

    The library's own keep their class, and name the place if they don't. Whatever else comes of
    bytes that no codec has written is a SerializationError; its cause is what came.
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


def point_of(stored: StoredCheckpoint) -> str:
    """A checkpoint, in the text of an error."""
    where = f" of namespace {stored.namespace!r}" if stored.namespace else ""
    return f"checkpoint {as_text(stored.row.id)}{where} of thread {stored.thread_id!r}"
