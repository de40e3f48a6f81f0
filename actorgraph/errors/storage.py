"""Errors of saving and resuming."""

from actorgraph.errors.base import ActorGraphError


class CheckpointError(ActorGraphError):
    """Base of what can go wrong between a run and its saver.

    Attributes:
        input_stored: of an error that has ended a run: True if the input of the call is in the
            thread, so that a call that repeats it would add it a second time; False if nothing
            of the call is. None: that is not known, or the error is not about a run.
    """

    input_stored: bool | None = None


class SaverRequiredError(CheckpointError, ValueError):
    """The operation reads or writes checkpoints and the graph was compiled without a saver."""


class ConflictError(CheckpointError):
    """Another run has the thread, or has moved its head; the save that says so was not written.

    See `input_stored` for what the run had stored before that.
    """


class AlreadyResumedError(ConflictError):
    """The interrupt has been answered by another call."""


AlreadyResumed = AlreadyResumedError


class CheckpointNotFoundError(CheckpointError):
    """The thread has no checkpoint of that id."""


class SerializationError(CheckpointError, TypeError):
    """A value can't be stored exactly; the text names its path."""


class EncryptionError(CheckpointError):
    """A stored value can't be decrypted: its key is unknown or another, it was changed, is plain.

    Also: a cipher gave itself an impossible name.
    """


class UnknownTypeError(CheckpointError):
    """A stored value has a type that this program did not allow.

    Attributes:
        type_name: "module:Name" as it was stored; "" for an extension that isn't known at all.
    """

    type_name: str = ""


class SchemaMismatchError(CheckpointError):
    """The graph has lost a node or a channel that a stored checkpoint needs."""


class FormatVersionError(CheckpointError):
    """A stored record was written by a newer version of the library, or is damaged."""


class StorageError(CheckpointError):
    """The database or the file refused an operation.

    Attributes:
        retryable: whether the same batch may be sent again at once: nothing of it is stored.
    """

    retryable: bool = False


class StorageBusyError(StorageError):
    """Somebody else held the database's lock for longer than the busy timeout."""


class StorageFullError(StorageError):
    """No space left; the batch was rolled back and the saver stays usable."""


class DamagedRowError(StorageError):
    """A stored row, or a line of a file, is not as it was written; the text names its place."""


class SaverBrokenError(StorageError):
    """A commit failed in a way that leaves its outcome unknown; reopen the saver."""


class NotSupportedError(CheckpointError):
    """This kind of saver can't do what was asked; nothing has changed."""


class AccessDeniedError(CheckpointError, PermissionError):
    """The principal may not use this thread; nothing was read or changed."""


class CheckpointSizeError(CheckpointError):
    """A save is larger than the saver's limit; nothing of it was stored."""


class AuditError(CheckpointError):
    """An audit log was changed, or can't be written."""


class SaverClosedError(CheckpointError):
    """The saver has been closed."""


class DrainTimeoutError(CheckpointError):
    """The saver was closed before everything was stored; the text lists what was not."""


UNREADABLE = (EncryptionError, FormatVersionError, SchemaMismatchError, UnknownTypeError)
"""Why a program can't read what another one, or another version of it, has stored."""

DAMAGED = (DamagedRowError, SerializationError)
"""Why nobody can read what is stored: its bytes are not what a saver has written."""


def fails_all(error: BaseException) -> bool:
    """Whether an error of a saver is about all that it is asked next, and not about one row."""
    return isinstance(error, StorageError | SaverClosedError) and not isinstance(error, DAMAGED)
