"""A copy of a database file while it is in use, and files that only their owner can read."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from actorgraph.errors import InvalidConfigError, StorageError
from actorgraph.savers.sqlite.failures import translate


def copy_database(source: str, *, uri: bool, dest: str, timeout_s: float) -> None:
    """Copy a database with SQLite's online backup: one moment of it, all or nothing.

    It reads on a connection of its own, which in WAL mode neither waits for writers nor holds
    them up. The copy gets its name when it is whole and on the disk.

    Args:
        source: a path, or a URI.
        timeout_s: seconds to wait for locks.
    Raises:
        InvalidConfigError: there is something at `dest`.
        StorageError: it can't be read, or the copy can't be written.
    """
    check_free(dest)
    part = f"{dest}.part"
    make_private(Path(part))
    try:
        with (
            closing(sqlite3.connect(source, uri=uri, timeout=timeout_s)) as origin,
            closing(sqlite3.connect(part, isolation_level=None)) as copy,
        ):
            origin.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # the copy is one file
        Path(part).replace(dest)
    except (sqlite3.Error, OSError) as error:
        Path(part).unlink(missing_ok=True)
        if isinstance(error, sqlite3.Error):
            raise translate(error, committing=False) from error
        raise StorageError(
            f"can't write the backup {dest!r}: {error}", do="free some space, or name another path"
        ) from error
    sync_folder(Path(dest).parent)


def check_free(dest: str) -> None:
    """Refuse a path where something is.

    Raises: InvalidConfigError.
    """
    if not dest or os.path.lexists(dest):
        raise InvalidConfigError(
            f"there is something at {dest!r} already", do="name a path that doesn't exist"
        )


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(path: Path) -> None:
    """Make the file readable by its owner only; one that exists keeps its mode.

    Raises:
        StorageError: it can't be made.
    """
    if path.exists():
        return
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        raise StorageError(
            f"can't make the database file {str(path)!r}: {error}",
            do="make its folder, or choose another path",
        ) from error
    os.close(descriptor)
