"""SqliteBackend: one database, one connection that writes, one that reads.

Journal    WAL, so that readers and the writer don't wait for each other
Durability `synchronous=FULL` by default: an acknowledged commit survives a power cut
Ends       a COMMIT that fails otherwise than by a lock or a full disk breaks the saver: every
           later commit fails until it is reopened (docs/decisions/0004)
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.to_thread

from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerProtocol, codec_of
from actorgraph.errors import (
    FormatVersionError,
    InvalidConfigError,
    SaverBrokenError,
    SaverClosedError,
    StorageBusyError,
    StorageError,
)
from actorgraph.ports import CommitHere
from actorgraph.savers.sqlite import schema, system_schema
from actorgraph.savers.sqlite.backup import copy_connection, copy_database
from actorgraph.savers.sqlite.batch import KnownThreads, run_batch
from actorgraph.savers.sqlite.reading import run_queries
from actorgraph.savers.sqlite.retention import vacuum
from actorgraph.savers.sqlite.schema import upgrade
from actorgraph.storage.kept import keep, release
from actorgraph.storage.sqlite.connections import (
    ConnectionSettings,
    Driver,
    HopConnection,
    Synchronous,
    database_path,
    make_private,
    open_driver,
    synchronous_statement,
    use_wal,
)
from actorgraph.storage.sqlite.external_connections import ExternalSqliteConnection, source_of
from actorgraph.storage.sqlite.open_files import DatabaseFile, UnchangedFile, reading_address
from actorgraph.storage.sqlite.translate import opening_error, translate_for_saver
from actorgraph.values.commits import CommitOutcome, Query, Refused, Request
from actorgraph.values.durations import checked_seconds
from actorgraph.values.retention import Vacuum
from actorgraph.values.systems import RenewOwner

READER_CACHE = "PRAGMA cache_size = -16000"
"""The pages that the connection for reading may keep, in KiB; SQLite's default is 2,000."""
BUSY_MAX_S = 2_000_000.0


class SqliteBackend:
    """Stores checkpoints in an SQLite database.

    Args:
        path: the file, created with mode 0600 if missing; ":memory:" for a database that ends
            with the saver; or a connection of the program, see
            `storage.sqlite.external_connections`.
        synchronous: SQLite's setting. FULL (default): an acknowledged commit survives a power
            cut; NORMAL: only a crash of the process; see https://sqlite.org/pragma.html.
        busy_timeout_s: seconds to wait for another process's lock. Default 5.
        codec: encodes values; default one with no types beyond the graph's own.
        read_only: open an existing file without changing it; each commit is refused.
    Raises:
        InvalidConfigError: an argument is invalid.
    """

    immediate = False
    keeps_runs = True
    delays_runs = True
    keeps_alarms = True
    indexes_threads = True
    local_reads = True
    connection_class: type[HopConnection] = HopConnection
    """Class of the writing connection; tests replace it to inject failures."""

    def __init__(
        self,
        path: Any,
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout_s: float = 5.0,
        codec: Codec | SerializerProtocol | None = None,
        read_only: bool = False,
    ) -> None:
        self.codec = codec_of(codec)
        self._synchronous = synchronous_statement(synchronous)
        checked_seconds("busy_timeout_s", busy_timeout_s, zero=True, default="0 or more seconds")
        self.path, self._external = _source_of(path)
        self.path = database_path(self.path, "SqliteSaver")
        if read_only and (self.in_memory or self._external is not None):
            raise InvalidConfigError(
                "read_only=True needs a file of its own", do="pass the path of a database file"
            )
        self._read_only = read_only
        self._leaves_log = False  # whether a log was there before a read-only saver was opened
        self.durable = not self.in_memory
        if self.in_memory and codec is None:
            self.codec = self.codec.for_this_process()
        self._busy_timeout_s = busy_timeout_s
        # An integer in SQLite; this statement takes no parameters.
        self._patient = f"PRAGMA busy_timeout = {int(min(busy_timeout_s, BUSY_MAX_S) * 1000)}"
        self._writer: Driver | None = None
        self._reader: Driver | None = None
        self._keeper: sqlite3.Connection | None = None
        self._file: DatabaseFile | None = None
        self._unchanged: UnchangedFile | None = None
        self._known = KnownThreads()
        self._broken: SaverBrokenError | None = None
        self._waits = True  # for locks of other processes

    def __copy__(self) -> Self:
        """Return a closed saver over the same file; this one itself if it is in memory."""
        if self.in_memory:
            return self
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        copied._writer = copied._reader = copied._file = None  # noqa: SLF001 - its own copy
        copied._known = KnownThreads()  # noqa: SLF001 - as above
        return copied

    @property
    def busy_timeout_s(self) -> float:
        """Seconds to wait for another process's lock."""
        return self._busy_timeout_s

    @property
    def in_memory(self) -> bool:
        """Whether the database ends with the saver."""
        return self.path == ":memory:"

    @property
    def _source(self) -> str:
        """The path, or the URI of an in-memory database."""
        if not self.in_memory:
            return self.path
        return f"file:actorgraph-{id(self)}?mode=memory&cache=shared"

    async def open(self) -> None:
        """Connect, create or upgrade the tables, and verify the file after a failed commit.

        Raises:
            StorageError: the database can't be opened.
            FormatVersionError: a newer version of the library wrote it.
            SaverBrokenError: the file is damaged after a failed commit.
        """
        if self._writer is not None:
            return
        if self._read_only:
            await self._open_to_read()
            return
        if self._external is not None:
            await self._external.run(self._prepare_writer)
            self._writer = self._reader = self._external
            self._broken, self._waits = None, True
            return
        target, uri = self.path, False
        if self.in_memory:
            # A shared in-memory database exists while any connection to it is open. The keeper
            # is that connection while the saver is closed, so that it can be opened again.
            target, uri = self._source, True
            if self._keeper is None:
                self._keeper = sqlite3.connect(target, uri=True, check_same_thread=False)
                keep(self._keeper)
        else:
            await anyio.to_thread.run_sync(make_private, Path(self.path))
        wait, kind = self._busy_timeout_s, self.connection_class
        try:
            self._writer = await open_driver(
                ConnectionSettings(target, uri, wait, kind, self._prepare_writer)
            )
            # In memory one connection does both: a second one would see half-written batches.
            self._reader = self._writer
            if not self.in_memory:
                self._reader = await open_driver(
                    ConnectionSettings(target, uri, wait, HopConnection, _prepare_reader)
                )
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await self.close()
            # sqlite3 raises UnicodeDecodeError for an error message that quotes a damaged schema.
            if not isinstance(error, sqlite3.Error | OSError | UnicodeDecodeError):
                raise
            raise self._open_error(error) from error
        self._broken = None
        self._waits = True

    async def _open_to_read(self) -> None:
        """Connect to an existing file; raises as `open`."""
        self._leaves_log = os.path.exists(f"{self.path}-wal")  # noqa: ASYNC240, PTH110 - no wait
        try:
            source = reading_address(self.path)
        except OSError as error:  # of a relative path, in a folder that was removed
            raise self._open_error(error) from error
        settings = ConnectionSettings(
            source,
            uri=True,
            timeout_s=self._busy_timeout_s,
            connection=HopConnection,
            prepare=self._prepare_reading,
        )
        try:
            self._unchanged = UnchangedFile(self.path) if "immutable" in source else None
            self._writer = self._reader = await open_driver(settings)
        except BaseException as error:
            self._remove_log()
            if not isinstance(error, sqlite3.Error | OSError | UnicodeDecodeError):
                raise
            raise self._open_error(error) from error

    def _remove_log(self) -> None:
        """Remove the empty log that reading has made, unless another process uses it by now.

        A connection that only reads leaves it. SQLite removes it when the last one that could
        write is closed, under its own locks; where this process may not write it stays.
        """
        if self._leaves_log:
            return
        with suppress(sqlite3.Error):
            source = self._uri("rw")
            with closing(sqlite3.connect(source, uri=True, timeout=0)) as connection:
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    def _uri(self, mode: str) -> str:
        return f"{Path(os.path.abspath(self.path)).as_uri()}?mode={mode}"  # noqa: PTH100 - no wait

    def _prepare_reading(self, connection: sqlite3.Connection) -> None:
        self._check_version(connection)
        if schema.is_older(connection):
            raise FormatVersionError(
                f"{self.path!r} has tables of an older version, or none",
                do="open it once without read_only=True, which upgrades it",
            )
        _prepare_reader(connection)

    def set_up(self) -> None:
        """Create or upgrade the tables; blocking, from any thread. Does nothing while it is open.

        Raises: as `open`.
        """
        if self._read_only:
            raise self._read_only_error()
        if self._writer is not None or (self.in_memory and self._external is None):
            return
        try:
            if self._external is not None:
                self._external.run_here(self._prepare_writer)
                return
            make_private(Path(self.path))
            wait = self._busy_timeout_s
            with closing(
                sqlite3.connect(self.path, timeout=wait, isolation_level=None)
            ) as connection:
                self._prepare_writer(connection)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._open_error(error) from error

    def _read_only_error(self) -> StorageError:
        return StorageError(
            f"{self.path!r} was opened with read_only=True", do="open it without, to change it"
        )

    def _open_error(self, error: Exception) -> StorageError:
        do = "check the path and its permissions"
        if "is not a database" in str(error):
            do = "choose another path: this file is of another kind, is damaged or is encrypted"
        elif os.path.isdir(self.path):  # noqa: PTH112 - `Path.is_dir` raises for some
            do = "name a file in this folder, such as 'runs.db'"
        return opening_error(error, f"can't open {self.path!r} as an SQLite database", do)

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        if self._broken is not None:
            raise self._broken
        if self._read_only:
            raise self._read_only_error()
        try:
            if self._writer is None:
                raise self._closed_error()
            outcomes = await self._writer.run(partial(self._write, batch, None, waits=True))
        except SaverBrokenError as error:
            self._broken = error
            raise
        if Vacuum in map(type, batch):
            return await self._vacuum(batch, outcomes)
        return outcomes

    @property
    def commit_here(self) -> CommitHere | None:
        """See `ports.Saver`; None in memory, where reads use the writing connection."""
        if self.in_memory or self._read_only or type(self).commit is not SqliteBackend.commit:
            return None
        return self._commit_here

    def _commit_here(
        self, batch: Sequence[Request], durable: list[list[CommitOutcome]]
    ) -> list[CommitOutcome]:
        if self._broken is not None:
            raise self._broken
        if self._writer is None:
            raise self._closed_error()
        try:
            return self._writer.run_here(partial(self._write, batch, durable, waits=False))
        except SaverBrokenError as error:
            self._broken = error
            raise

    def _write(
        self,
        batch: Sequence[Request],
        durable: list[list[CommitOutcome]] | None,
        connection: sqlite3.Connection,
        *,
        waits: bool,
    ) -> list[CommitOutcome]:
        if waits != self._waits:
            self._set_waits(connection, waits=waits)
        if self._file is not None:
            self._file.check_log()
        outcomes = run_batch(connection, batch, durable, self._known)
        # After the commit, before its acknowledgement: a file that was removed or replaced while
        # it was open still takes commits, and loses them when it is closed.
        if self._file is not None:
            self._file.check()
        return outcomes

    def _set_waits(self, connection: sqlite3.Connection, *, waits: bool) -> None:
        # A caller's thread never waits for another process: it hands the batch over instead.
        try:
            connection.execute(self._patient if waits else "PRAGMA busy_timeout = 0")
        except sqlite3.Error as error:
            raise translate_for_saver(error, committing=False) from error
        self._waits = waits

    async def _vacuum(
        self, batch: Sequence[Request], outcomes: list[CommitOutcome]
    ) -> list[CommitOutcome]:
        # VACUUM can't run inside of a transaction, so it follows the batch. Where it fails only
        # its own requests are refused: the others are durable.
        try:
            if self._writer is None:
                raise self._closed_error()
            await self._writer.run(vacuum)
            if self._file is not None:
                self._file.accept()
        except (sqlite3.Error, StorageBusyError) as error:
            busy = isinstance(error, StorageBusyError)
            refused = Refused(error if busy else translate_for_saver(error, committing=False))
            pairs = zip(batch, outcomes, strict=True)
            return [refused if isinstance(r, Vacuum) else stored for r, stored in pairs]
        return outcomes

    @property
    def renew_beside(self) -> Callable[[Sequence[RenewOwner]], list[CommitOutcome]] | None:
        """A function that renews leases from any thread, beside `commit`; None in memory.

        It has a connection of its own, so that leases are renewed between two batches even while
        the event loop is blocked.
        """
        return None if self.in_memory or self._read_only else self._renew

    def _renew(self, renewals: Sequence[RenewOwner]) -> list[CommitOutcome]:
        if self._file is not None:
            self._file.check()  # before, as another log than the writer's would damage the file
        source = self._uri("rw")  # never create a missing file
        try:
            with closing(
                sqlite3.connect(
                    source, uri=True, timeout=self._busy_timeout_s, isolation_level=None
                )
            ) as connection:
                return run_batch(connection, renewals)
        except sqlite3.Error as error:
            raise translate_for_saver(error, committing=False) from error

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        if self._reader is None:
            raise self._closed_error()
        if self._unchanged is not None:
            self._unchanged.check()
        return await self._reader.run(partial(self._read, queries))

    def _read(self, queries: Sequence[Query], connection: sqlite3.Connection) -> list[Any]:
        try:
            return run_queries(connection, queries)
        except StorageError:
            if self._file is not None:
                self._file.explain()
            raise

    def check_place(self) -> None:
        """Check that the path still names the open database; blocking, from any thread.

        Raises:
            SaverBrokenError: the file was removed or replaced, or a commit has failed.
        """
        if self._broken is not None:
            raise self._broken
        if self._file is not None:
            self._file.check()

    def copy_to_file(self, dest: str) -> None:
        """Copy one consistent state of the database to a new file; blocking, from any thread.

        Raises:
            InvalidConfigError: `dest` exists.
            StorageError: the database can't be read, or the copy can't be written.
        """
        if self._external is not None:
            self._external.run_here(lambda connection: copy_connection(connection, dest))
            return
        if self._writer is not None and self._file is not None:
            self._file.check()
        source = self._source if self.in_memory else self._uri("rw")  # never make a missing file
        copy_database(source, dest=dest, timeout_s=self._busy_timeout_s)

    async def close(self) -> None:
        """Close the connections; an in-memory database stays until the saver is freed."""
        for driver in dict.fromkeys((self._reader, self._writer)):
            if driver is not None:
                await driver.close()
        if self._read_only and self._reader is not None:
            await anyio.to_thread.run_sync(self._remove_log)
        self._reader = self._writer = None

    def __del__(self) -> None:
        keeper = getattr(self, "_keeper", None)
        if keeper is not None:
            keeper.close()
            release(keeper)

    def _closed_error(self) -> SaverClosedError:
        return SaverClosedError(
            f"the saver of {self.path!r} is closed", do="use it inside its `with` block"
        )

    def _prepare_writer(self, connection: sqlite3.Connection) -> None:
        self._known = KnownThreads()
        if not self.in_memory:
            self._file = DatabaseFile(self.path)
            self._use_wal(connection)
        connection.execute(self._synchronous)
        try:
            self._check_version(connection)
            upgrade(connection)
            connection.executescript(schema.SETUP)
            connection.executescript(system_schema.SETUP)
            if self._file is not None:
                self._file.check()  # its log is there now
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise translate_for_saver(error, committing=False) from error

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        # The error of a file of another kind has another class, which the caller translates.
        try:
            use_wal(connection, self._busy_timeout_s)
        except sqlite3.OperationalError as error:
            raise translate_for_saver(error, committing=False) from error

    def _check_version(self, connection: sqlite3.Connection) -> None:
        # After a failed COMMIT or an I/O error the file may be damaged. The saver is usable again
        # only if SQLite finds it intact.
        if self._broken is not None:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise self._broken
        columns = {row[1] for row in connection.execute("PRAGMA table_info(checkpoints)")}
        if "checkpoint_ns" in columns:
            raise StorageError(
                f"{self.path!r} holds the checkpoints of LangGraph's SqliteSaver",
                do="move them with `python -m actorgraph.migrate OLD NEW`, or name another file",
            )
        if columns and "thread" not in columns:
            raise StorageError(
                f"{self.path!r} is a database of another program: its table 'checkpoints' has "
                "other columns",
                do="name another file, which will be made",
            )
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > schema.SCHEMA_VERSION:
            raise FormatVersionError(
                f"{self.path!r} has schema version {version}; this version of actorgraph "
                f"supports up to {schema.SCHEMA_VERSION}",
                do="upgrade actorgraph",
            )


def _source_of(path: Any) -> tuple[str, ExternalSqliteConnection | None]:
    """Return the path of the database, and the connection to use if no other one sees it.

    Raises:
        InvalidConfigError: it is neither a path nor a connection.
    """
    if isinstance(path, str | bytes | os.PathLike):
        return database_path(path, "SqliteSaver"), None
    source = source_of(path, "SqliteSaver")
    if source is None:
        raise InvalidConfigError(
            f"SqliteSaver can't use a {type(path).__name__}",
            do="pass the file's path, or a connection of sqlite3 or aiosqlite",
        )
    return (source, None) if isinstance(source, str) else (":memory:", source)


def _prepare_reader(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")
    # The checksum behind a large value is read first, and the value then from these pages.
    connection.execute(READER_CACHE)
