"""SqliteStore: one connection behind a lock, used in the caller's thread.

Async callers use a worker thread, the same on asyncio and trio. A store is used from nodes, tools
and other threads without being opened in an event loop, so unlike a saver it has no connection per
loop (docs/decisions/0032).
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from actorgraph.errors import FormatVersionError, InvalidConfigError, StorageError
from actorgraph.storage.kept import keep, release
from actorgraph.storage.sqlite.connections import (
    Synchronous,
    database_path,
    make_private,
    synchronous_statement,
    use_wal,
)
from actorgraph.storage.sqlite.external_connections import ExternalSqliteConnection, source_of
from actorgraph.storage.sqlite.open_files import DatabaseFile
from actorgraph.storage.sqlite.translate import lenient_text, opening_error, translate
from actorgraph.stores.operations import IndexConfig, TTLConfig
from actorgraph.stores.sqlite import schema
from actorgraph.stores.sqlite.items import SqliteItemTable, add_functions
from actorgraph.stores.store import DatabaseStore
from actorgraph.values.durations import checked_seconds

if TYPE_CHECKING:
    import aiosqlite

T = TypeVar("T")


class SqliteStore(DatabaseStore[SqliteItemTable]):
    """A store in one SQLite file. Safe to use from several threads, event loops and processes.

    Searches return the items first that were put last. When `put` returns, the item survives a
    crash of the process; a power cut may lose the last ones unless `synchronous` is "FULL".

    Args:
        path: the file, created with mode 0600 if missing; ":memory:" for this object only. Or a
            connection of `sqlite3` or aiosqlite, which stays open: of one to a file only the path
            is taken; one to a database in memory is used itself.
        index: how texts are embedded; None (default): searches ignore `query`.
        ttl: how long items live; default for ever.
        busy_timeout_s: seconds to wait for another process's lock. Default 5.
        synchronous: SQLite's setting. NORMAL (default): an item survives a crash of the process;
            FULL: a power cut too; see https://sqlite.org/pragma.html.
        clock: returns seconds since 1970.
    Raises:
        InvalidConfigError: an argument is invalid.
        InvalidStoreOperationError: the index is invalid.
    """

    __slots__ = (
        *("_busy_timeout_s", "_connection", "_file", "_external", "_lock", "_prepared", "_process"),
        "_synchronous",
        "path",
    )

    def __init__(
        self,
        path: "str | os.PathLike[str] | sqlite3.Connection | aiosqlite.Connection",
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        busy_timeout_s: float = 5.0,
        synchronous: Synchronous = "NORMAL",
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(index=index, ttl=ttl, clock=clock)
        self._external: ExternalSqliteConnection | None = None
        self._prepared = False
        given: Any = path
        if not isinstance(path, str | bytes | os.PathLike):
            given, self._external = _source_of(path)
        self.path = database_path(given, "SqliteStore")
        self._synchronous = synchronous_statement(synchronous)
        checked_seconds("busy_timeout_s", busy_timeout_s, zero=True, default="0 or more seconds")
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: DatabaseFile | None = None
        self._process = os.getpid()

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> Self:
        """Make the store of a file or of ":memory:", as with LangGraph's class.

        Returns: a store to open with `async with` or `with`.
        """
        return cls(conn_string, index=index, ttl=ttl)

    def setup(self) -> Any:
        """Create the file and its tables now, not at the first use. Can be awaited."""
        if self._external is not None:
            self._external.run_here(self._prepare_once)
        else:
            with self._lock:
                self._open()
        return super().setup()

    def check_place(self) -> None:
        """Check that the path still names the open database; blocking, from any thread.

        Raises:
            StorageError: the file or its log was removed or replaced, or the file was cut.
        """
        if self._connection is not None and self._file is not None:
            self._file.check()

    def _release(self) -> None:
        """Close the connection; a database in memory stays until the store is freed."""
        with self._lock:
            if self._connection is not None and self.path != ":memory:":
                self._connection.close()
                release(self._connection)
                self._connection = None

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None and self._process == os.getpid():
            connection.close()
            release(connection)

    def _transact(self, work: Callable[[SqliteItemTable], T], *, writes: bool) -> T:
        """Call a function with the items of one transaction; return its result."""

        def turn(connection: sqlite3.Connection) -> T:
            if writes and self._file is not None:
                self._file.check_log()
            try:
                items = SqliteItemTable(connection, writes=writes)
                with _transaction(connection, writes=writes):
                    result = work(items)
                # A second transaction, so that reads take no write lock unless items with a time
                # to live were read.
                if items.touched:
                    with _transaction(connection, writes=True):
                        items.touch_now(self._now())
            except sqlite3.Error as error:
                if self._file is not None:
                    self._file.explain()
                raise translate(error, f"store {self.path!r}") from error
            if writes:  # before it is acknowledged: see `storage.sqlite.open_files`
                self.check_place()
            return result

        if self._external is None:
            with self._lock:
                return turn(self._open())

        def external_turn(connection: sqlite3.Connection) -> T:
            self._prepare_once(connection)
            return turn(connection)

        return self._external.run_here(external_turn)

    def _prepare_once(self, connection: sqlite3.Connection) -> None:
        """Create the tables over the program's connection, whose settings are ours just now."""
        if not self._prepared:
            self._prepare(connection)
            self._prepared = True
        connection.text_factory = lenient_text

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._process != os.getpid():
            # A forked child must neither use nor close its parent's connection
            # (https://www.sqlite.org/howtocorrupt.html): that is kept, and it opens its own.
            self._connection = None
        if self._connection is None:
            self._process = os.getpid()
            try:
                if self.path != ":memory:":
                    make_private(Path(self.path))
                self._connection = self._connect()
                keep(self._connection)
            except (OSError, sqlite3.Error) as error:
                raise opening_error(
                    error,
                    f"can't open {self.path!r} as a store",
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
            self._file = DatabaseFile(self.path, "store", StorageError)
            self._file.check()
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        use_wal(connection, self._busy_timeout_s)
        connection.execute(self._synchronous)
        add_functions(connection)
        if connection.execute(schema.SELECT_TABLES).fetchone() is not None:
            (version,) = connection.execute(schema.SELECT_VERSION).fetchone()
            if version > schema.SCHEMA_VERSION:
                raise FormatVersionError(
                    f"the store in {self.path!r} has version {version}; this version of "
                    f"actorgraph supports up to {schema.SCHEMA_VERSION}",
                    do="upgrade actorgraph",
                )
        connection.text_factory = lenient_text
        with _transaction(connection, writes=True):
            if connection.execute(schema.SELECT_TABLES).fetchone() is not None:
                (version,) = connection.execute(schema.SELECT_VERSION).fetchone()
                # Read again under the write lock: another process may have upgraded it since.
                if version < schema.SCHEMA_VERSION:
                    for statement in schema.UPGRADE:
                        connection.execute(statement)
            for statement in schema.SETUP.split(";\n"):
                connection.execute(statement)


def _source_of(given: Any) -> tuple[str, ExternalSqliteConnection | None]:
    source = source_of(given, "SqliteStore")
    if source is None:
        raise InvalidConfigError(
            f"path must be text or a path, got {given!r}",
            do="pass the file's path, or a connection of sqlite3 or aiosqlite",
        )
    return (source, None) if isinstance(source, str) else (":memory:", source)


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


AsyncSqliteStore = SqliteStore
