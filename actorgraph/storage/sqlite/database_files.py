"""Database files: created private, synced by name, and checked for removal while they are open.

If the file of an open database is removed or replaced, SQLite goes on writing to a file without a
name, and its commits are lost when it is closed. So savers check the path at each commit, before
they acknowledge it.
"""

import os
import stat
from pathlib import Path

from actorgraph.errors import InvalidConfigError, SaverBrokenError, StorageError


def check_free(dest: str) -> None:
    """Refuse a path that exists.

    Raises:
        InvalidConfigError: it exists, or is empty.
    """
    if not dest or os.path.lexists(dest):
        raise InvalidConfigError(f"{dest!r} exists already", do="name a path that doesn't exist")


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut; does nothing on Windows."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(path: Path) -> None:
    """Create a file with mode 0600; one that exists keeps its mode.

    Raises:
        StorageError: it can't be created.
    """
    if path.exists():
        return
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        raise StorageError(
            f"can't create the database file {str(path)!r}: {error}",
            do="make its folder, or choose another path",
        ) from error
    os.close(descriptor)


class DatabaseFile:
    """The file that a path names when this is made.

    Raises:
        OSError: the path names no file.
    """

    def __init__(self, path: str) -> None:
        self._path = str(Path(path).absolute())  # the process may change its folder
        status = os.stat(self._path)  # noqa: PTH116 - see `check`
        self._file = status.st_dev, status.st_ino

    def check(self) -> None:
        """Check that the path still names the same file.

        Raises:
            SaverBrokenError: the file was removed or replaced.
        """
        try:
            status = os.stat(self._path)  # noqa: PTH116 - faster than Path.stat, at every commit
            found = status.st_dev, status.st_ino
        except OSError:
            found = None
        if found != self._file:
            what = "removed" if found is None else "replaced"
            raise SaverBrokenError(
                f"the database {self._path!r} was {what} while it was open: the last commit, and "
                "all that this saver still writes, go to a file without that name",
                do="close the saver, put the file back, and open it again; close savers before "
                "restoring a backup over their file",
            )
