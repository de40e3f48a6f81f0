"""SqliteBackend: one file, one writing connection, one reading connection.

WAL, so that readers and the writer don't wait for each other; `synchronous=FULL` by default, so
that what was acknowledged survives a power cut too.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, Self

import anyio

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
from actorgraph.savers.sqlite import schema, system_schema
from actorgraph.savers.sqlite.backup import copy_database, make_private
from actorgraph.savers.sqlite.batch import run_batch
from actorgraph.savers.sqlite.drivers import Driver, HopConnection, Target, open_driver
from actorgraph.savers.sqlite.failures import translate
from actorgraph.savers.sqlite.reading import run_queries
from actorgraph.savers.sqlite.retention import vacuum
from actorgraph.savers.sqlite.upgrading import upgrade
from actorgraph.savers.sqlite.whereabouts import Whereabouts
from actorgraph.values.commits import CommitOutcome, Query, Refused, Request
from actorgraph.values.retention import Vacuum
from actorgraph.values.systems import RenewOwner

Synchronous = Literal["OFF", "NORMAL", "FULL", "EXTRA"]
_PRAGMAS: dict[str, str] = {
    "OFF": "PRAGMA synchronous = OFF",
    "NORMAL": "PRAGMA synchronous = NORMAL",
    "FULL": "PRAGMA synchronous = FULL",
    "EXTRA": "PRAGMA synchronous = EXTRA",
}


class SqliteBackend:
    """Stores checkpoints in an SQLite database.

    Args:
        path: the file, made with mode 0600 if it doesn't exist; ":memory:" for a database
            that ends with the saver.
        synchronous: SQLite's setting. FULL (default): an acknowledged commit survives a power
            cut; NORMAL: only a crash of the process; see https://sqlite.org/pragma.html.
        busy_timeout_s: seconds to wait for another process's lock. Default 5.
        codec: how values are stored; default one with no types beyond the graph's own.
    Raises:
        InvalidConfigError: an argument is out of range.
    """

    immediate = False
    keeps_runs = True
    connection_class: type[HopConnection] = HopConnection
    """The class of the writing connection; a test's subclass may fail on purpose."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout_s: float = 5.0,
        codec: Codec | SerializerProtocol | None = None,
    ) -> None:
        self.codec = codec_of(codec)
        if synchronous not in _PRAGMAS:
            raise InvalidConfigError(
                f"synchronous={synchronous!r} is no setting of SQLite",
                do=f"use one of {', '.join(_PRAGMAS)}",
            )
        given: object = busy_timeout_s
        if not isinstance(given, (int, float)) or not given >= 0:
            raise InvalidConfigError(
                f"busy_timeout_s={given!r} is no time to wait", do="use 0 or more seconds"
            )
        self.path = os.fspath(path)
        if not self.path:
            raise InvalidConfigError(
                "the database's path is empty", do='name a file, or ":memory:"'
            )
        self.durable = not self.in_memory
        self._synchronous = _PRAGMAS[synchronous]
        self._busy_timeout_s = busy_timeout_s
        self._writer: Driver | None = None
        self._reader: Driver | None = None
        self._keeper: sqlite3.Connection | None = None
        self._place: Whereabouts | None = None
        self._broken: SaverBrokenError | None = None

    def __copy__(self) -> Self:
        """Another object over the same file; a database in memory has this one alone."""
        if self.in_memory:
            return self
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        made._writer = made._reader = made._place = None  # noqa: SLF001 - its own copy
        return made

    @property
    def in_memory(self) -> bool:
        """Whether the database ends with the saver."""
        return self.path == ":memory:"

    @property
    def _source(self) -> str:
        """What to connect to: the path, or the URI of an in-memory database."""
        if not self.in_memory:
            return self.path
        return f"file:actorgraph-{id(self)}?mode=memory&cache=shared"

    async def open(self) -> None:
        """Connect, make the tables, verify the file after a failure."""
        if self._writer is not None:
            return
        target, uri = self.path, False
        if self.in_memory:
            # The keeper holds the database while the saver is closed.
            target, uri = self._source, True
            if self._keeper is None:
                self._keeper = sqlite3.connect(target, uri=True, check_same_thread=False)
        else:
            make_private(Path(self.path))
        wait, kind = self._busy_timeout_s, self.connection_class
        try:
            self._writer = await open_driver(Target(target, uri, wait, kind, self._prepare_writer))
            # In memory one connection does both: a second one would see half-written batches.
            self._reader = self._writer
            if not self.in_memory:
                self._reader = await open_driver(
                    Target(target, uri, wait, HopConnection, _prepare_reader)
                )
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await self.close()
            # A schema that is no text is named in an error that can't be decoded.
            if not isinstance(error, sqlite3.Error | UnicodeDecodeError):
                raise
            raise StorageError(
                f"can't open {self.path!r} as an SQLite database: {error}",
                do="check the path and its permissions",
            ) from error
        self._broken = None

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        if self._broken is not None:
            raise self._broken
        try:
            outcomes = await self._open(self._writer).run(lambda c: self._write(c, batch))
        except SaverBrokenError as error:
            self._broken = error
            raise
        if any(isinstance(request, Vacuum) for request in batch):
            return await self._vacuum(batch, outcomes)
        return outcomes

    def _write(
        self, connection: sqlite3.Connection, batch: Sequence[Request]
    ) -> list[CommitOutcome]:
        outcomes = run_batch(connection, batch)
        if self._place is not None:
            self._place.check()
        return outcomes

    async def _vacuum(
        self, batch: Sequence[Request], outcomes: list[CommitOutcome]
    ) -> list[CommitOutcome]:
        try:
            await self._open(self._writer).run(vacuum)
        except (sqlite3.Error, StorageBusyError) as error:
            busy = isinstance(error, StorageBusyError)
            refused = Refused(error if busy else translate(error, committing=False))
            pairs = zip(batch, outcomes, strict=True)
            return [refused if isinstance(r, Vacuum) else stored for r, stored in pairs]
        return outcomes

    @property
    def renew_beside(self) -> Callable[[Sequence[RenewOwner]], list[CommitOutcome]] | None:
        """Renews leases between two batches, from any thread; None in memory."""
        return None if self.in_memory else self._renew

    def _renew(self, renewals: Sequence[RenewOwner]) -> list[CommitOutcome]:
        source = f"{Path(self.path).absolute().as_uri()}?mode=rw"  # what is gone is not made anew
        try:
            with closing(
                sqlite3.connect(
                    source, uri=True, timeout=self._busy_timeout_s, isolation_level=None
                )
            ) as connection:
                return run_batch(connection, renewals)
        except sqlite3.Error as error:
            raise translate(error, committing=False) from error

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        return await self._open(self._reader).run(lambda c: run_queries(c, queries))

    def check_place(self) -> None:
        """See that the open database still is the file of its name; blocking, from any thread.

        Raises:
            SaverBrokenError: it was removed or replaced, or a commit has failed.
        """
        if self._broken is not None:
            raise self._broken
        if self._place is not None:
            self._place.check()

    def copy_to_file(self, dest: str) -> None:
        """Copy the database, as it is at one moment, to a new file; blocking, from any thread.

        Raises:
            StorageError: it can't be read, or the copy can't be written.
        """
        copy_database(self._source, uri=self.in_memory, dest=dest, timeout_s=self._busy_timeout_s)

    async def close(self) -> None:
        """Close the connections; an in-memory database stays until the saver is collected."""
        for driver in dict.fromkeys((self._reader, self._writer)):
            if driver is not None:
                await driver.close()
        self._reader = self._writer = None

    def __del__(self) -> None:
        keeper = getattr(self, "_keeper", None)
        if keeper is not None:
            keeper.close()

    def _open(self, driver: Driver | None) -> Driver:
        if driver is None:
            raise SaverClosedError(
                f"the saver of {self.path!r} is not open", do="use it inside its `with` block"
            )
        return driver

    def _prepare_writer(self, connection: sqlite3.Connection) -> None:
        if not self.in_memory:
            self._place = Whereabouts(self.path)
            self._use_wal(connection)
        connection.execute(self._synchronous)
        try:
            self._check_version(connection)
            upgrade(connection)
            connection.executescript(schema.SETUP)
            connection.executescript(system_schema.SETUP)
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise translate(error, committing=False) from error

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Switch to WAL. SQLite doesn't wait for locks here, so this does."""
        end = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                refused = translate(error, committing=False)
                if not isinstance(refused, StorageBusyError) or time.monotonic() > end:
                    raise refused from error
                time.sleep(0.01)  # in the connection's thread
            else:
                return

    def _check_version(self, connection: sqlite3.Connection) -> None:
        if self._broken is not None:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise self._broken
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > schema.SCHEMA_VERSION:
            raise FormatVersionError(
                f"{self.path!r} has schema version {version}; this version of actorgraph "
                f"knows {schema.SCHEMA_VERSION}",
                do="upgrade actorgraph",
            )


def _prepare_reader(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")
