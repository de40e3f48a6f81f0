"""Translate SQLite's errors for stores and caches."""

import sqlite3

from actorgraph.errors import StorageBusyError, StorageError, StorageFullError


def translate(error: sqlite3.Error, what: str) -> StorageError:
    """The error to raise for an error of SQLite.

    Args:
        what: names the owner of the file in the text, such as "store".
    """
    primary = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageBusyError(
            f"the {what} is locked by another process: {error}",
            do="let that process finish its transaction, or raise busy_timeout_s",
        )
    if primary == sqlite3.SQLITE_FULL:
        return StorageFullError(
            f"no space is left for the {what}: {error}",
            do=f"free some space and try again; the {what} stays usable",
        )
    return StorageError(f"SQLite refused a statement: {error}", do="see the cause below")
