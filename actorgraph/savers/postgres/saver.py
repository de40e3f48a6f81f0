"""PostgresBackend: stores checkpoints through synchronous psycopg in worker threads.

One thread writes, a few read. Synchronous, because psycopg's asynchronous half needs asyncio, and a
batch of hundreds of saves is one hop to a thread. The saver has its own limits of threads, so nodes
that use up anyio's worker threads don't delay a commit. psycopg is imported when one is created.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerProtocol, codec_of
from actorgraph.errors import (
    InvalidConfigError,
    MissingExtraError,
    SaverBrokenError,
    SaverClosedError,
    StorageError,
)
from actorgraph.storage.postgres.timeouts import timeouts_of
from actorgraph.storage.store_clock import StoreClock
from actorgraph.values.commits import CommitOutcome, Query, Request
from actorgraph.values.systems import RenewOwner

if TYPE_CHECKING:
    from actorgraph.savers.postgres.batch import MakeHints
    from actorgraph.savers.postgres.buckets import BucketTable
    from actorgraph.savers.postgres.engine import Engine

T = TypeVar("T")
SCHEMA_BYTES_MAX = 63
COMPRESS_ABOVE = 256
"""Bytes. Shorter payloads hardly shrink; PostgreSQL itself compresses only rows above 2 kB."""
COMMIT_SETTINGS = ("off", "local", "remote_write", "on", "remote_apply")


class PostgresBackend:
    """Stores checkpoints in a schema of a PostgreSQL database.

    Args: see `PostgresSaver`.
    """

    durable = True
    immediate = False
    keeps_runs = True
    indexes_threads = True
    routes_runs = True
    keeps_alarms = True

    def __init__(
        self,
        conn: Any,
        *,
        schema: str = "actorgraph",
        migrate: bool = True,
        read_connections: int = 4,
        busy_timeout_s: float = 5.0,
        answer_timeout_s: float = 30.0,
        reconnect_timeout_s: float = 30.0,
        synchronous_commit: str | None = None,
        codec: Codec | SerializerProtocol | None = None,
        read_only: bool = False,
    ) -> None:
        self.codec = codec_of(codec or Codec(compress_above=COMPRESS_ABOVE))
        _check(schema, read_connections, synchronous_commit)
        limits = timeouts_of(
            busy_timeout_s=busy_timeout_s,
            answer_timeout_s=answer_timeout_s,
            reconnect_timeout_s=reconnect_timeout_s,
        )
        self.schema = schema
        self._limits = limits
        self.conninfo: str | None = conn if isinstance(conn, str) else None
        self.reads_at_once = read_connections
        self._makers: list[MakeHints] = []
        self._engine = _engine(
            conn,
            schema=schema,
            migrate=migrate,
            limits=limits,
            synchronous_commit=synchronous_commit,
            read_only=read_only,
        )
        self._read_only = read_only
        self._is_open = False
        self._broken: SaverBrokenError | None = None
        self._writing = anyio.CapacityLimiter(1)
        self._reading = anyio.CapacityLimiter(read_connections)

    async def open(self) -> None:
        """Connect, migrate the tables, register the saver as a writer."""
        if self._is_open:
            return
        # A limiter belongs to one event loop, and a saver may be opened again in another.
        self._writing = anyio.CapacityLimiter(1)
        self._reading = anyio.CapacityLimiter(self.reads_at_once)
        try:
            await anyio.to_thread.run_sync(self._engine.start, limiter=self._writing)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._engine.close, limiter=self._writing)
            raise
        self._is_open, self._broken = True, None

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        if self._broken is not None:
            raise self._broken
        self._check_writable()
        try:
            return await self._run(self._engine.write, batch, self._writing)
        except SaverBrokenError as error:
            self._broken = error
            raise

    def _check_writable(self) -> None:
        if self._read_only:
            raise StorageError(
                f"the saver of schema {self.schema!r} was opened with read_only=True",
                do="open it without, to change it",
            )

    def hint_in_commit(self, make: "MakeHints") -> Callable[[], None]:
        """See `ports.Saver`."""
        # Several systems may share this saver: their hints are the same, so one of them makes
        # those of all, and the next one does when it has left.
        self._makers.append(make)
        self._engine.hint(self._makers[0])

        def end() -> None:
            self._makers.remove(make)
            self._engine.hint(self._makers[0] if self._makers else None)

        return end

    @property
    def sessions_renewed(self) -> int:
        """Number of the saver's sessions that were lost or unusable so far, and replaced."""
        return self._engine.sessions_renewed

    @property
    def away_s(self) -> float:
        """Seconds since the server can't be reached, as far as is known; else 0."""
        return self._engine.reach.away_s

    @property
    def store_clock(self) -> StoreClock:
        """The server's clock, by which runs are due."""
        return self._engine.clock

    @property
    def renew_beside(self) -> Callable[[Sequence[RenewOwner]], list[CommitOutcome]] | None:
        """See `ports.Saver`; None over a connection of the program, which a batch may be using."""
        if self._read_only or not self._engine.renews_beside:
            return None
        return self._engine.renew

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`. May be called again before the last call has returned."""
        return await self._run(self._engine.read, queries, self._reading)

    def check_place(self) -> None:
        """Check that the server can be reached and takes writes; blocking.

        Raises:
            StorageError: it can't, or doesn't: it may have become a replica.
        """
        if not self._read_only:
            self._engine.check_writable()

    def copy_to_file(self, dest: str) -> None:
        """Copy a consistent snapshot of the schema to a new SQLite file; blocking.

        Raises:
            InvalidConfigError: `dest` exists.
            StorageError: the server can't be read, or the copy can't be written.
        """
        self._engine.copy_to(dest)

    def bucket_table(self, name: str) -> "BucketTable":
        """Make the table of the buckets of threads in this saver's schema; see `ShardedSystem`.

        Args:
            name: of the database, among others.
        Raises:
            InvalidConfigError: the saver was made with a connection or a pool.
        """
        from actorgraph.savers.postgres.buckets import BucketTable

        if self.conninfo is None:
            raise InvalidConfigError(
                f"the saver of the database {name!r} has a connection or a pool of the program",
                do="pass a connection string to PostgresSaver",
            )
        return BucketTable(name, self.conninfo, self.schema, self._limits)

    async def close(self) -> None:
        """Close the saver's own connections; those of the program stay open."""
        if self._is_open:
            self._is_open = False
            await anyio.to_thread.run_sync(self._engine.close, limiter=self._writing)

    async def _run(
        self, work: Callable[[Any], T], argument: object, limiter: anyio.CapacityLimiter
    ) -> T:
        if not self._is_open:
            raise SaverClosedError(
                "the PostgreSQL saver is not open", do="use it inside its `with` block"
            )
        return await anyio.to_thread.run_sync(work, argument, limiter=limiter)


def _engine(conn: Any, **options: Any) -> "Engine":
    try:
        from actorgraph.savers.postgres.engine import Engine, EngineOptions
    except ImportError as error:
        raise MissingExtraError(
            "PostgresSaver needs psycopg 3, which isn't installed",
            do="pip install 'actorgraph[postgres]'",
        ) from error
    return Engine(conn, EngineOptions(**options))


def _check(schema: str, readers: int, synchronous_commit: str | None) -> None:
    if not schema or "\0" in schema or len(schema.encode()) > SCHEMA_BYTES_MAX:
        raise InvalidConfigError(
            f"schema must have 1 to {SCHEMA_BYTES_MAX} bytes and no NUL, got {schema!r}",
            do='use a short name, such as "actorgraph"',
        )
    if type(readers) is not int or readers < 1:
        raise InvalidConfigError(
            f"read_connections must be an int >= 1, got {readers!r}", do="use e.g. 4"
        )
    if synchronous_commit not in (None, *COMMIT_SETTINGS):
        raise InvalidConfigError(
            f"Unknown synchronous_commit {synchronous_commit!r}",
            do=f"use one of {', '.join(COMMIT_SETTINGS)}",
        )
