"""Errors of saving and loading."""

from actorgraph.errors.base import ActorGraphError


class CheckpointError(ActorGraphError):
    """Base of errors between a run and its saver.

    Attributes:
        input_stored: of an error that ended a run: True if the input of the call is stored in the
            thread, so that repeating the call would add it a second time; False if nothing of the
            call is stored; None if that is unknown, or the error is not about a run.
    """

    input_stored: bool | None = None


class SaverRequiredError(CheckpointError, ValueError):
    """The operation needs checkpoints, and the graph was compiled without a saver."""


class ConflictError(CheckpointError):
    """Another run holds the thread, or has moved its head; the refused save was not written.

    `input_stored` says what the run had stored before that.
    """


class AlreadyResumedError(ConflictError):
    """The interrupt has been answered by another call."""


AlreadyResumed = AlreadyResumedError


class CheckpointNotFoundError(CheckpointError):
    """The thread has no checkpoint of that id."""


class SerializationError(CheckpointError, TypeError):
    """A value can't be encoded exactly, or stored bytes can't be decoded; the text says where."""


class EncryptionError(CheckpointError):
    """A stored value can't be decrypted.

    Its key is unknown or differs, it was changed or moved to another place, or it is not encrypted
    and must be. Also raised for a cipher whose name can't be stored.
    """


class UnknownTypeError(CheckpointError):
    """A stored value has a type that this program doesn't allow.

    Attributes:
        type_name: "module:Name" as stored; "" for an unknown extension code.
    """

    type_name: str = ""


class SchemaMismatchError(CheckpointError):
    """The graph no longer has a node or a channel that a stored checkpoint needs."""


class ChangedTypeError(SchemaMismatchError, SerializationError):
    """A stored value doesn't fit its class any more: other fields, other members.

    Attributes:
        type_name: "module:Name" of the class, as stored.
    """

    type_name: str = ""


class FormatVersionError(CheckpointError):
    """A stored record was written by a newer version of the library, or is damaged."""


class StorageError(CheckpointError):
    """The database or the file refused an operation.

    Attributes:
        retryable: whether the same batch may be retried at once, because nothing of it is stored.
    """

    retryable: bool = False


class StorageBusyError(StorageError):
    """The database was locked for longer than the busy timeout."""


class ThreadMovedError(StorageBusyError):
    """The thread is in another database, or moves there; nothing of the request was stored.

    A `ShardedSystem` reads its map again and repeats the request.
    """


class StorageFullError(StorageError):
    """No space left on the device; the batch was rolled back and the saver stays usable."""


class DamagedRowError(StorageError):
    """A stored row, or a line of a file, was damaged after it was written; the text names it."""


class SaverBrokenError(StorageError):
    """A commit failed with unknown outcome; reopen the saver."""


class NotSupportedError(CheckpointError):
    """This kind of saver doesn't support the operation; nothing was changed."""


class AccessDeniedError(CheckpointError, PermissionError):
    """The principal may not use this thread; nothing was read or changed."""


class CheckpointSizeError(CheckpointError):
    """A save is larger than the saver's limit; nothing of it was stored."""


class AuditError(CheckpointError):
    """An audit log was tampered with, or can't be written."""


class SaverClosedError(CheckpointError):
    """The saver is closed."""


class DrainTimeoutError(CheckpointError):
    """The saver was closed before everything was stored; the text lists the rest."""


UNREADABLE = (EncryptionError, FormatVersionError, SchemaMismatchError, UnknownTypeError)
"""Errors for data that another program, or another version of this one, can read."""

DAMAGED = (DamagedRowError, SerializationError)
"""Errors for data that no program can read, because its bytes were damaged."""


def fails_every_request(error: BaseException) -> bool:
    """Whether a saver's error is about the saver, so that its next requests will fail too."""
    one = (*DAMAGED, ThreadMovedError)
    return isinstance(error, StorageError | SaverClosedError) and not isinstance(error, one)
