"""SQLite's errors, translated for callers: by what they can do about them.

Stores and caches use `translate`; savers, which must also know whether a failed commit may be
durable, use `translate_for_saver`.
"""

import sqlite3

from actorgraph.errors import StorageBusyError, StorageError, StorageFullError


def translate(error: sqlite3.Error, owner: str) -> StorageError:
    """Translate SQLite's error to the one that the caller of a store or cache sees.

    Args:
        owner: "store" or "cache", for the error's text.
    """
    primary = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageBusyError(
            f"the {owner} is locked by another process: {error}",
            do="let that process finish its transaction, or raise busy_timeout_s",
        )
    if primary == sqlite3.SQLITE_FULL:
        return StorageFullError(
            f"no space is left for the {owner}: {error}",
            do=f"free some space and try again; the {owner} stays usable",
        )
    return StorageError(f"SQLite refused a statement: {error}", do="see the cause below")
