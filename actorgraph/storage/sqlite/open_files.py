"""The files of an open database: whether they are still those that were opened.

If the file of an open database is removed or replaced, SQLite goes on writing to a file without a
name, and its commits are lost when it is closed. The same happens to its log ("-wal") and to the
index of that ("-shm"), without which processes don't see each other's locks either
(https://www.sqlite.org/howtocorrupt.html). So savers and stores check the names at each commit,
before they acknowledge it.

A program must not open a database's file itself, or SQLite's locks on it are lost: only names,
numbers and sizes are looked at here, and SQLite is asked about the rest.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from actorgraph.errors import SaverBrokenError, StorageError


def reading_address(path: str) -> str:
    """Return the address of a database to read only.

    Reading needs an index of the log, which SQLite makes beside the file. In a folder where
    nothing can be written, a database that all of its writers have closed is opened as one that
    doesn't change (https://www.sqlite.org/uri.html#uriimmutable); see `check_unchanged`.
    """
    file = Path(path).absolute()
    # `Path.exists` raises for some paths; here SQLite's own error follows.
    closed = not os.path.exists(f"{file}-wal")  # noqa: PTH110
    fixed = closed and os.path.exists(file) and not os.access(file.parent, os.W_OK)  # noqa: PTH110
    return f"{file.as_uri()}?mode=ro{'&immutable=1' if fixed else ''}"


class UnchangedFile:
    """A database that was opened as one that doesn't change.

    Args:
        path: of the database.
    Raises:
        OSError: the path names no file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = self._look()

    def _look(self) -> tuple[int, int, int, int, bool]:
        status = Path(self._path).stat()
        log = Path(f"{self._path}-wal").exists()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, log

    def check(self) -> None:
        """Check that no process has written to it.

        Raises:
            StorageError: a process did, through another mount for example.
        """
        with suppress(OSError):
            if self._look() == self._seen:
                return
        raise StorageError(
            f"{self._path!r} has changed while it was read in a folder without write access, "
            "where SQLite can't follow changes",
            do="open it again once its writers have closed it, or copy it with `actorgraph backup`",
        )


class DatabaseFile:
    """The file that a path names when this is made, and its log.

    Args:
        path: of the database.
        owner: "database", "store" or "cache", for errors.
        error: class of the errors.
    Raises:
        OSError: the path names no file.
    """

    def __init__(
        self, path: str, owner: str = "database", error: type[StorageError] = SaverBrokenError
    ) -> None:
        self.path = str(Path(path).absolute())  # the process may change its folder
        self._owner, self._error = owner, error
        self._log_path, self._index_path = f"{self.path}-wal", f"{self.path}-shm"
        status = Path(self.path).stat()
        self._file = status.st_dev, status.st_ino
        self._size, self._log_size = status.st_size, 0
        self._logs: tuple[int, int, int] | None = None

    def check(self) -> None:
        """Check that the path, and the names beside it, are those of the same files.

        The log's files are those that are there at the first check, which follows a transaction.

        Raises:
            SaverBrokenError: one was removed or replaced, or the database was cut.
        """
        try:  # `Path.stat` and functions of our own would cost more, at every commit
            database = os.stat(self.path)  # noqa: PTH116
            log, index = os.stat(self._log_path), os.stat(self._index_path)  # noqa: PTH116
        except OSError:
            if self._logs is None and _number_of(self.path) == self._file:
                return  # a file system without shared memory, where SQLite has no such log
            raise self._lost() from None
        logs = log.st_dev, log.st_ino, index.st_ino
        self._logs = self._logs or logs
        if (database.st_dev, database.st_ino) != self._file or logs != self._logs:
            raise self._lost()
        if database.st_size < self._size:
            self._check_content(database.st_size)
        self._size, self._log_size = database.st_size, log.st_size

    def check_log(self) -> None:
        """Check that no other program has cut the log; before a transaction, which extends it.

        Raises:
            SaverBrokenError: it was cut.
        """
        try:
            size = os.stat(self._log_path).st_size  # noqa: PTH116 - as in `check`
        except OSError:
            return  # see `check`
        if size >= self._log_size:
            return
        # A checkpoint that truncates the log has written all of it to the database before.
        if not self._is_sound():
            raise self._error(
                f"the log {self._log_path!r} of the {self._owner} was cut while it was open: "
                f"{size} of {self._log_size} bytes are left, and the last commits are lost",
                do=f"close the {self._owner} in every process, and restore it from a backup",
            )
        self._log_size = size

    def accept(self) -> None:
        """Take the sizes as they are: after a vacuum of our own."""
        with suppress(OSError):
            self._size = Path(self.path).stat().st_size
            self._log_size = Path(self._log_path).stat().st_size

    def explain(self) -> None:
        """Check everything, after SQLite has failed: its own error doesn't say what others did.

        Raises:
            SaverBrokenError: as `check`.
        """
        self.check_log()
        self.check()

    def _check_content(self, size: int) -> None:
        """Check a file that has become smaller: by a vacuum, or by a program that has cut it.

        Raises:
            SaverBrokenError: it was cut.
        """
        if not size or not self._is_sound():  # SQLite removes the log of an empty file
            raise self._error(
                f"the {self._owner} {self.path!r} was cut or overwritten while it was open: "
                f"{size} of {self._size} bytes are left",
                do=f"close the {self._owner} in every process, restore the file from a backup, and "
                "open it again",
            )

    def _is_sound(self) -> bool:
        """Whether a new connection can read all pages, from the database and its log."""
        source = f"{Path(self.path).as_uri()}?mode=rw"
        try:
            with closing(sqlite3.connect(source, uri=True)) as connection:
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error:
            return False
        return verdict == "ok"

    def _lost(self) -> StorageError:
        """Return the error of the first name that is gone, or leads to another file."""
        found = _number_of(self.path)
        if found != self._file:
            return self._error(
                f"the {self._owner} {self.path!r} was {_how(found)} while it was open: the last "
                "commit, and all that is still written here, go to a file without that name",
                do=f"close the {self._owner}, put the file back, and open it again; before a "
                "backup is restored over the file close it, and remove the '-wal' of the old file",
            )
        log = _number_of(self._log_path)
        same = self._logs is not None and log == self._logs[:2]
        name = self._index_path if same else self._log_path
        return self._error(
            f"the log {name!r} of the {self._owner} was {_how(_number_of(name))} while it was "
            "open: other programs don't see later commits, and they are lost if this process "
            "dies",
            do=f"close the {self._owner} in every process, so that SQLite writes back the "
            f"rest of the log, and open it again; leave the files beside a {self._owner} in use "
            "where they are",
        )


def _how(found: tuple[int, int] | None) -> str:
    return "removed or renamed" if found is None else "replaced"


def _number_of(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
