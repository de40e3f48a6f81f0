"""SQLite's errors, translated for callers: by what they can do about them.

Stores and caches use `translate`; savers, which must also know whether a failed commit may be
durable, use `translate_for_saver`.
"""

import sqlite3

from actorgraph.errors import SaverBrokenError, StorageBusyError, StorageError, StorageFullError
from actorgraph.storage.file_errors import file_error

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def is_busy(error: sqlite3.Error) -> bool:
    """Whether a statement was refused because another connection has the file locked."""
    return _primary(error) in _BUSY


def _primary(error: sqlite3.Error) -> int | None:
    # Errors of the sqlite3 module itself have no code; the bits above are of an extended one.
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def translate(error: sqlite3.Error, owner: str) -> StorageError:
    """Translate SQLite's error to the one that the caller of a store or cache sees.

    Args:
        owner: "store", or "cache" with its path, for the error's text.
    """
    primary = _primary(error)
    if primary in _BUSY:
        return StorageBusyError(
            f"the {owner} is locked by another process: {error}",
            do="let that process finish its transaction, or raise busy_timeout_s",
        )
    if primary == sqlite3.SQLITE_FULL:
        return StorageFullError(
            f"no space is left for the {owner}: {error}",
            do=f"free some space and try again; the {owner} stays usable",
        )
    return StorageError(
        f"SQLite refused a statement over the {owner}: {error}", do="see the cause below"
    )


def opening_error(error: Exception, failed: str, do: str) -> StorageError:
    """Return the error of a file that can't be opened as a database, or written as a new one.

    Args:
        error: of SQLite or of the file system.
        failed: what can't be done, with the path.
        do: the advice for an error that has none of its own.
    """
    if isinstance(error, OSError):
        return file_error(error, failed, do)
    primary = _primary(error) if isinstance(error, sqlite3.Error) else None
    if primary in _BUSY:
        return StorageBusyError(f"{failed}: {error}", do="let the process that has it locked end")
    if primary == sqlite3.SQLITE_FULL:
        return StorageFullError(f"{failed}: {error}", do="free some space and try again")
    return StorageError(f"{failed}: {error}", do=do)


_CLOSED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_BROKEN = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_invalid_utf8(error: sqlite3.Error) -> bool:
    """Whether a row could not be read because its text is not valid UTF-8."""
    return "Could not decode to UTF-8" in str(error)


def lenient_text(raw: bytes) -> str:
    """Decode text; invalid bytes become lone surrogates. For `Connection.text_factory`."""
    return raw.decode(errors="surrogateescape")


def file_damaged(error: sqlite3.Error) -> StorageError:
    """Return the error of a query that failed because the file is damaged."""
    found = StorageError(
        f"SQLite can't read the rows: {error}",
        do="check the file with `PRAGMA integrity_check`, or restore it from a backup",
    )
    found.__cause__ = error
    return found


def translate_for_saver(error: sqlite3.Error, *, committing: bool) -> StorageError:
    """Translate SQLite's error to the one that the caller of a saver sees.

    Args:
        committing: whether COMMIT itself failed, so that the outcome is unknown.
    """
    primary = _primary(error)
    if primary in _BUSY:
        return StorageBusyError(
            f"the database is locked by another process: {error}",
            do="let that process finish its transaction, or raise busy_timeout_s",
        )
    if primary == sqlite3.SQLITE_FULL:
        return StorageFullError(
            f"no space is left for the database: {error}",
            do="free some space and run again; the saver stays usable",
        )
    if committing or primary in _BROKEN:
        return SaverBrokenError(
            f"SQLite failed in a way that leaves the last commit's outcome unknown: {error}",
            do="check the disk, then close and open the saver again; it verifies the file",
        )
    if primary in _CLOSED:
        return StorageError(
            f"the database can't be written: {error}",
            do="check the permissions of the file and of its folder, where SQLite keeps its log, "
            "and that the disk isn't mounted read-only; nothing of this save was stored",
        )
    return StorageError(f"SQLite refused a statement: {error}", do="see the cause below")
