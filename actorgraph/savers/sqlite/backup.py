"""Backups: copy a database that is in use, or fill a new one with rows of another saver.

Either way the file gets its final name only when it is complete and synced, so a backup that was
interrupted can't be mistaken for one.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from actorgraph.errors import StorageError
from actorgraph.savers.sqlite.failures import translate_for_saver
from actorgraph.savers.sqlite.whereabouts import check_free, make_private, sync_folder


def copy_database(source: str, *, uri: bool, dest: str, timeout_s: float) -> None:
    """Copy one consistent state of a database, with SQLite's online backup.

    It reads on a connection of its own, which in WAL mode neither waits for writers nor blocks
    them. The copy gets its name when it is complete and synced.

    Args:
        source: a path, or a URI.
        uri: whether `source` is a URI.
        timeout_s: seconds to wait for locks.
    Raises:
        InvalidConfigError: `dest` exists.
        StorageError: the database can't be read, or the copy can't be written.
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
            raise translate_for_saver(error, committing=False) from error
        raise StorageError(
            f"can't write the backup {dest!r}: {error}", do="free some space, or name another path"
        ) from error
    sync_folder(Path(dest).parent)
