"""SqliteStore: one connection behind a lock, in whatever thread calls.

Async callers hop into a worker thread, the same on asyncio and trio. A store is used from nodes,
tools and other threads without being opened in a loop, so it has no connection per event loop, as
savers have (docs/decisions/0032).
"""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from actorgraph.errors import (
    FormatVersionError,
    InvalidConfigError,
    StorageError,
)
from actorgraph.storage.sqlite import translate
from actorgraph.stores.ops import IndexConfig, TTLConfig
from actorgraph.stores.sqlite import schema
from actorgraph.stores.sqlite.home import SqliteItems, add_functions
from actorgraph.stores.transacting import DatabaseStore

T = TypeVar("T")
_INHERITED: list[sqlite3.Connection] = []


class SqliteStore(DatabaseStore[SqliteItems]):
    """A store in one SQLite file. Safe to use from several threads, event loops and processes.

    Searches find first what was put last. What `put` has returned from survives a crash of the
    process, and a power cut but for the last moment (WAL, `synchronous=NORMAL`).

    Args:
        path: the file, made with mode 0600 if it doesn't exist; ":memory:" for this object only.
        index: how texts are embedded; None (default): `query=` of a search changes nothing.
        ttl: how long items live; default for ever.
        busy_timeout_s: seconds to wait for another process's lock. Default 5.
        clock: seconds since 1970.
    Raises:
        InvalidConfigError: an argument is out of range.
        InvalidStoreOperationError: the index can't be used.
    """

    __slots__ = ("_busy_timeout_s", "_connection", "_file", "_lock", "_process", "path")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        busy_timeout_s: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(index=index, ttl=ttl, clock=clock)
        if not isinstance(path, str | os.PathLike):
            raise InvalidConfigError(
                f"{path!r} is a {type(path).__name__}, and no path",
                do="pass the file's path: a store opens connections of its own",
            )
        self.path = os.fspath(path)
        if not self.path:
            raise InvalidConfigError("the store's path is empty", do='name a file, or ":memory:"')
        if not busy_timeout_s >= 0:
            raise InvalidConfigError(
                f"busy_timeout_s={busy_timeout_s!r} is negative", do="use 0 or more seconds"
            )
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> Self:
        """The store of a file or of ":memory:"; LangGraph's way to make one.

        Returns: a store to open with `async with` or `with`.
        """
        return cls(conn_string, index=index, ttl=ttl)

    def setup(self) -> Any:
        """Make the file and its tables now, not at the first use. It may be awaited."""
        with self._lock:
            self._open()
        return super().setup()

    def check_place(self) -> None:
        """See that the open database still is the file of its name; blocking, from any thread.

        Raises:
            StorageError: it was removed or replaced.
        """
        if self._connection is None or self.path == ":memory:":
            return
        try:
            now = Path(self.path).stat()
        except OSError:
            now = None
        if now is None or (now.st_dev, now.st_ino) != self._file:
            raise StorageError(
                f"the store {self.path!r} was removed or replaced while it was open",
                do="close the store, put the file back, and open it again",
            )

    def _release(self) -> None:
        """Close the connection; a database in memory stays until the store is collected."""
        with self._lock:
            if self._connection is not None and self.path != ":memory:":
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()

    def _transact(self, work: Callable[[SqliteItems], T], *, writes: bool) -> T:
        """The function's result, in one transaction."""
        with self._lock:
            connection = self._open()
            try:
                home = SqliteItems(connection, writes=writes)
                with _transaction(connection, writes=writes):
                    result = work(home)
                if home.touched:
                    with _transaction(connection, writes=True):
                        home.touch_now(self._now())
            except sqlite3.Error as error:
                raise translate(error, "store") from error
            return result

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._process != os.getpid():
            # Of the process that this one was forked from; closing it here would drop its locks.
            _INHERITED.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._process = os.getpid()
            try:
                _make_private(self.path)
                self._connection = self._connect()
            except (OSError, sqlite3.Error) as error:
                raise StorageError(
                    f"can't open {self.path!r} as a store: {error}",
                    do="check the path and its permissions, or name another file",
                ) from error
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        if self.path != ":memory:":
            made = Path(self.path).stat()
            self._file = made.st_dev, made.st_ino
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        _use_wal(connection, self._busy_timeout_s)
        connection.execute("PRAGMA synchronous = NORMAL")
        add_functions(connection)
        if connection.execute(schema.SELECT_TABLES).fetchone() is not None:
            (version,) = connection.execute(schema.SELECT_VERSION).fetchone()
            if version > schema.SCHEMA_VERSION:
                raise FormatVersionError(
                    f"the store in {self.path!r} has version {version}; this version of "
                    f"actorgraph knows {schema.SCHEMA_VERSION}",
                    do="upgrade actorgraph",
                )
        connection.text_factory = _text_of
        with _transaction(connection, writes=True):
            if connection.execute(schema.SELECT_TABLES).fetchone() is not None:
                (version,) = connection.execute(schema.SELECT_VERSION).fetchone()
                if version < schema.SCHEMA_VERSION:  # and nobody was faster
                    for statement in schema.UPGRADE:
                        connection.execute(statement)
            for statement in schema.SETUP.split(";\n"):
                connection.execute(statement)


def _text_of(raw: bytes) -> str:
    """Text, or what shows that it is none: a damaged row hides no other."""
    return raw.decode(errors="surrogateescape")


@contextmanager
def _transaction(connection: sqlite3.Connection, *, writes: bool) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection, wait_s: float) -> None:
    """Switch to WAL. SQLite doesn't wait for locks here, so this does."""
    end = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def _make_private(path: str) -> None:
    if path != ":memory:" and not Path(path).exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, stat.S_IRUSR | stat.S_IWUSR))


AsyncSqliteStore = SqliteStore
