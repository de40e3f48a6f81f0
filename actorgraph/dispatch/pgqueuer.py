"""PGQueuerDispatcher: hints by PGQueuer, in the database and the schema of a PostgresSaver.

A hint is a job of PGQueuer, stored in the transaction that stores the run. A worker dequeues jobs
in batches and deletes them when their runs are adopted; jobs that it doesn't delete come again
after `again_s`. News are PostgreSQL notifications, with the ids of runs alone.

https://pgqueuer.readthedocs.io
"""

import asyncio
import re
import uuid
import zlib
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
import anyio.lowlevel

from actorgraph.dispatch.engine_thread import EngineThread, Parcel
from actorgraph.errors import InvalidConfigError, MissingExtraError, StorageError
from actorgraph.runtime.log import event as log_event
from actorgraph.storage.postgres.parameters import CONNECTION_DEFAULTS, CONNECTION_ENCODING
from actorgraph.storage.store_clock import StoreClock, clock_of
from actorgraph.values.dispatch import ID_BYTES, Hint, News, hint_of
from actorgraph.values.durations import checked_seconds
from actorgraph.values.systems import RunRow

if TYPE_CHECKING:
    from pgqueuer.queries import Queries
    from psycopg import AsyncConnection

T = TypeVar("T")
NOTIFIED_MAX = 300
"""Ids in one notification: its payload has at most 8,000 bytes."""
RECONNECT_S = 1.0
HEAR_S = 5.0
"""Seconds without a notification after which the listening connection is asked for one."""
_NAME = {"application_name": "actorgraph-dispatch"}
_SET_SESSION = """
SELECT pg_backend_pid(), set_config('search_path', %s, false),
       set_config('DateStyle', 'ISO', false), set_config('IntervalStyle', 'postgres', false)"""
_CREATE_SCHEMA = "CREATE SCHEMA IF NOT EXISTS %s"
_DELETE = "DELETE FROM %s WHERE id = ANY($1)"
_REQUEUE = """
UPDATE %s SET status = 'queued', queue_manager_id = NULL, updated = now()
WHERE id = ANY($1) AND status = 'picked'
"""
_REQUEUE_UNKNOWN = """
UPDATE %s SET status = 'queued', queue_manager_id = NULL, updated = now()
WHERE queue_manager_id = $1 AND status = 'picked' AND id <> ALL($2)
"""
_DELETE_UNKNOWN = """
DELETE FROM %s WHERE queue_manager_id = $1 AND status = 'picked' AND id <> ALL($2)
"""
_PRUNE = "DELETE FROM %s WHERE created < now() - $1::interval"
LISTEN_S = 5.0
"""The longest wait of a system that opens for its listening connection."""
INSTALL_S = 60.0
"""Seconds for PGQueuer's tables: several systems that open for the first time wait in turn."""
ANSWER_S = 15.0
"""Seconds for an answer of the server; then the connection is made anew."""
PRUNE_S = 3600.0
LOG_KEPT = timedelta(days=1)
"""The time for which PGQueuer's log of hints is kept."""


class PGQueuerDispatcher:
    """Carries hints over the PostgreSQL server that has the runs.

    Needs `pip install 'actorgraph[pgqueuer]'`. PGQueuer's tables are created in the saver's schema
    at the first use. Each system opens two connections of its own, one of which listens: behind a
    pooler, pass `conn` with an address that allows LISTEN.

    Args:
        conn: a connection string; default the saver's.
        again_s: seconds after which hints that a worker has taken and not settled come again.
        poll_s: seconds between looks for hints when no notification comes.
    """

    in_commit = True

    def __init__(
        self, conn: str | None = None, *, again_s: float = 15.0, poll_s: float = 2.0
    ) -> None:
        checked_seconds("again_s", again_s, default="the default, 15")
        checked_seconds("poll_s", poll_s, default="the default, 2")
        self._conn = conn
        self._again_s = again_s
        self._poll_s = poll_s

    async def open(self, saver: Any, heard: Callable[[News], None]) -> "_PGQueuerLink":
        """See `ports.Dispatcher`."""
        conn = self._conn or getattr(saver, "conninfo", None)
        add_hints = getattr(saver, "hint_in_commit", None)
        if add_hints is None:
            raise InvalidConfigError(
                f"PGQueuerDispatcher needs a PostgresSaver, got {type(saver).__name__}",
                do="use InMemoryDispatcher in one process, NATSDispatcher over another saver",
            )
        if conn is None:
            raise InvalidConfigError(
                "PGQueuerDispatcher needs a connection string, and the saver was given a "
                "connection or a pool",
                do='use PGQueuerDispatcher("postgresql://...")',
            )
        link = _PGQueuerLink(
            conn,
            saver.schema,
            heard,
            clock=clock_of(saver),
            again_s=self._again_s,
            poll_s=self._poll_s,
        )
        try:
            await link.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await link.close()
            raise
        link.end_hints = add_hints(link.statements)
        return link


class _PGQueuerLink:
    """The link of one system. Its coroutines run in its thread."""

    def __init__(
        self,
        conn: str,
        schema: str,
        heard: Callable[[News], None],
        *,
        clock: StoreClock,
        again_s: float,
        poll_s: float,
    ) -> None:
        self._clock = clock
        self._conn = conn
        self._heard = heard
        self._again = timedelta(seconds=again_s)
        self._poll_s = poll_s
        mark = f"{zlib.crc32(schema.encode()):08x}"
        self._channel = f"actorgraph_news_{mark}"
        self._hints_channel = f"actorgraph_hints_{mark}"
        self._search_path = '"' + schema.replace('"', '""') + '"'
        self._me = uuid.uuid4()
        self._thread = EngineThread()
        self._queries: Queries | None = None
        self._used: AsyncConnection[Any] | None = None
        self._is_read_only = self._has_left = False
        self._connecting = asyncio.Lock()
        self._parcel = Parcel()
        self._fresh: Any = None  # an asyncio.Event of the thread
        self._held: set[Any] = set()  # jobs that are taken and not settled
        self._one_by_one = 0  # jobs that are dequeued alone, because one among them is unreadable
        self.is_deaf = False
        self.unreadable = 0
        self.end_hints: Callable[[], object] = lambda: None
        try:
            from pgqueuer.adapters.persistence.qb import (
                QueryBuilderEnvironment,
                QueryQueueBuilder,
            )
            from pgqueuer.domain.settings import DBSettings
        except ImportError as error:
            raise MissingExtraError(
                "PGQueuerDispatcher needs PGQueuer, which isn't installed",
                do="pip install 'actorgraph[pgqueuer]'",
            ) from error
        settings = DBSettings(channel=cast("Any", self._hints_channel))
        self._environment = QueryBuilderEnvironment(settings)
        self._builder = QueryQueueBuilder(settings)
        self._table, self._log = settings.queue_table, settings.queue_table_log

    # --- called in the system's event loop ---

    async def start(self) -> None:
        """Connect, create PGQueuer's tables if they are missing, listen."""
        await self._thread.start()
        await self._thread.call(self._guarded, self._install, INSTALL_S)
        self._thread.keep(self._listen)
        await self._thread.call(self._wait_listening)
        self._thread.keep(self._prune)

    async def close(self) -> None:
        """See `ports.DispatchLink`."""
        self.end_hints()
        await self._thread.stop(self._leave)

    async def announce(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self._thread.call(self._answered, partial(self._enqueue, hints))

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """See `ports.DispatchLink`."""
        work = partial(self._dequeue, queues, limit)
        found: Any = await self._thread.call(self._guarded, work, None)
        self._parcel.received()
        return found

    async def settle(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        # Deleted and not logged as successful: PGQueuer's log would get a row for each run.
        jobs = [hint.receipt for hint in hints]
        await self._thread.call(self._answered, partial(self._delete, jobs))

    async def release(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self._thread.call(self._answered, partial(self._requeue, hints))

    async def publish(self, news: News) -> None:
        """See `ports.DispatchLink`."""
        # Empty news ask whether the server is there.
        parts = [*_parts("s", news.stored), *_parts("c", news.cancelled)] or ["s"]
        texts = [("SELECT pg_notify($1, $2)", self._channel, part) for part in parts]
        await self._thread.call(self._answered, partial(self._execute, *texts))

    def statements(self, rows: Sequence[RunRow]) -> list[tuple[Any, Any]]:
        """The statements that store the hints of new runs; called by the saver's writer."""
        from pgqueuer.queries import SyncQueries

        hints = [hint_of(row) for row in rows if row.owner is None]
        if not hints:
            return []
        recorder = _Recorder()
        SyncQueries(cast("Any", recorder), self._builder).enqueue(
            *_columns(hints, self._clock.now()), on_conflict="skip"
        )
        return recorder.statements

    # --- in the thread ---

    async def _answered(self, work: Callable[[], Awaitable[T]]) -> T:
        """Call a function that uses the connection, as long as an answer may take."""
        return await self._guarded(work, ANSWER_S)

    async def _guarded(self, work: Callable[[], Awaitable[T]], limit_s: float | None) -> T:
        """Call a function that uses the connection.

        Args:
            limit_s: seconds; None for one that has limits of its own.
        """
        import psycopg

        try:
            with anyio.fail_after(limit_s):
                return await work()
        except (psycopg.Error, OSError) as error:
            # A connection that broke is made anew at the next call. It is not closed here: others
            # may be waiting on it. So is one whose server takes no writes any more.
            self._is_read_only |= isinstance(error, psycopg.errors.ReadOnlySqlTransaction)
            raise StorageError(
                f"the dispatcher's connection failed: {str(error) or 'no answer came'}",
                do="check that PostgreSQL is reachable; runs are stored, and found by sweeps",
            ) from error

    async def _connected(self) -> "Queries":
        from pgqueuer.db import PsycopgDriver
        from pgqueuer.queries import Queries

        async with self._connecting:  # several calls may find that the connection is gone
            used = self._used
            if self._queries is None or used is None or used.closed or self._is_read_only:
                self._is_read_only = False
                await self._disconnect()
                made = await self._connect()
                if self._has_left:  # a call that was on its way when it closed
                    await made.close()
                    raise StorageError("the dispatcher is closed", do="open the system again")
                self._used = made
                self._queries = Queries(PsycopgDriver(made), self._environment, self._builder)
            return self._queries

    async def _connect(self) -> "AsyncConnection[Any]":
        from psycopg import AsyncConnection
        from psycopg.conninfo import conninfo_to_dict

        # A server that has gone silent ends the connection: hints would not come any more.
        given = conninfo_to_dict(self._conn)
        parameters: Any = {**CONNECTION_DEFAULTS, **_NAME, **given, **CONNECTION_ENCODING}
        made = await AsyncConnection.connect(autocommit=True, **parameters)
        try:
            cursor = await made.execute(_SET_SESSION, (self._search_path,))
            found = await cursor.fetchone()
            # A pooler may lend another session for each statement: then none is prepared.
            if found is None or found[0] != made.info.backend_pid:
                made.prepare_threshold = None
        except BaseException:  # the system may close, or the server go, right now
            await made.close()
            raise
        return made

    async def _disconnect(self) -> None:
        used, self._used, self._queries = self._used, None, None
        if used is not None:
            with suppress(Exception):
                await used.close()

    async def _install(self) -> None:
        queries = await self._connected()
        async with queries.schema_lock():
            if not await queries.has_table(self._table):
                await self._execute((_CREATE_SCHEMA % self._search_path,))
                await queries.install()

    async def _execute(self, *statements: tuple[Any, ...]) -> None:
        queries = await self._connected()
        for statement, *values in statements:
            await queries.driver.execute(statement, *values)

    async def _delete(self, jobs: Sequence[Any]) -> None:
        self._held.difference_update(jobs)
        await self._execute((_DELETE % self._table, jobs))

    async def _requeue(self, hints: Sequence[Hint]) -> None:
        jobs = [hint.receipt for hint in hints]
        self._held.difference_update(jobs)
        await self._execute((_REQUEUE % self._table, jobs))

    async def _leave(self) -> None:
        """Disconnect; hints that no call of `take` has got are free for others."""
        try:
            if left := self._parcel.all():
                with suppress(StorageError):
                    await self._answered(partial(self._requeue, left))
        finally:  # a close that is cut off, too
            self._has_left = True
            await self._disconnect()

    async def _enqueue(self, hints: Sequence[Hint]) -> None:
        queries = await self._connected()
        await queries.enqueue(*_columns(hints, self._clock.now()), on_conflict="skip")

    async def _dequeue(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        from pgqueuer.ports.repository import EntrypointExecutionParameter

        asked = {cast("Any", name): EntrypointExecutionParameter(0) for name in queues}
        while True:
            if found := self._parcel.take_hints(queues, limit):
                return found
            fresh = self._fresh_event()
            fresh.clear()
            # Shielded: a cancelled query breaks its connection, and its jobs would come much later.
            with anyio.fail_after(ANSWER_S, shield=True):
                jobs = await self._dequeue_some(asked, limit)
            await anyio.lowlevel.checkpoint()
            if not jobs and not self._one_by_one:
                with anyio.move_on_after(self._poll_s):
                    await fresh.wait()

    async def _dequeue_some(self, asked: Any, limit: int) -> Sequence[Any]:
        """Put the next hints into the parcel. Returns their jobs; none after an unreadable one."""
        import psycopg

        queries = await self._connected()
        limit = 1 if self._one_by_one else limit
        self._one_by_one = max(0, self._one_by_one - 1)
        try:
            jobs = await queries.dequeue(limit, asked, cast("Any", self._me), None, self._again)
        except (ValueError, TypeError, psycopg.DataError):  # pydantic's errors among them
            await self._sort_out(limit)
            return ()
        hints = [job for job in jobs if len(job.payload or b"") == ID_BYTES]
        self._held.update(job.id for job in hints)
        self._parcel.put(
            Hint(cast("bytes", job.payload), job.entrypoint, job.priority, receipt=job.id)
            for job in hints
        )
        if others := [job.id for job in jobs if job not in hints]:
            self.unreadable += len(others)
            await self._delete(others)
        return jobs

    async def _sort_out(self, limit: int) -> None:
        """Find the job that can't be read among those just dequeued, and delete it.

        They are given back and dequeued alone: the one that fails then is it.
        """
        text = _DELETE_UNKNOWN if limit == 1 else _REQUEUE_UNKNOWN
        self.unreadable += limit == 1
        self._one_by_one = max(self._one_by_one, limit)
        await self._execute((text % self._table, self._me, list(self._held)))

    async def _wait_listening(self) -> None:
        with anyio.move_on_after(LISTEN_S):  # else news come later, and looks replace them
            await self._fresh_event().wait()

    def _fresh_event(self) -> Any:
        if self._fresh is None:
            self._fresh = asyncio.Event()
        return self._fresh

    async def _listen(self) -> None:
        """Receive notifications until the thread ends."""
        import psycopg

        while True:
            try:
                async with self._listening() as connection:
                    await self._hear(connection)
            except (psycopg.Error, OSError, StorageError) as error:
                if not self.is_deaf:
                    log_event("warning", "dispatch.failed", where="listen", error=repr(error))
                self.is_deaf = True
            await anyio.sleep(RECONNECT_S)

    async def _hear(self, connection: "AsyncConnection[Any]") -> None:
        """Receive notifications until the connection brings none any more.

        Raises:
            OSError: it is open, and what this system has sent doesn't come.
        """
        asked = False
        while True:
            heard = False
            async for note in connection.notifies(timeout=HEAR_S):
                heard = True
                self._note(note.channel, note.payload)
            if heard:
                self.is_deaf = False
            elif asked:
                raise OSError("the connection that listens brings no notifications")
            asked = not heard
            if asked:
                # Not of the listening connection: that would show only that itself is there.
                ask = ("SELECT pg_notify($1, $2)", self._channel, "s")
                await self._answered(partial(self._execute, ask))

    async def _prune(self) -> None:
        """Keep PGQueuer's log short: it gets a row with each hint."""
        text = _PRUNE % self._log
        while True:
            try:
                await self._answered(partial(self._execute, (text, LOG_KEPT)))
            except StorageError as error:
                log_event("warning", "dispatch.failed", where="prune", error=repr(error))
            await anyio.sleep(PRUNE_S)

    @asynccontextmanager
    async def _listening(self) -> "AsyncGenerator[AsyncConnection[Any]]":
        from psycopg.sql import SQL, Identifier

        connection = await self._connect()
        try:
            for channel in (self._channel, self._hints_channel):
                await connection.execute(SQL("LISTEN ") + Identifier(channel))
            # Also wakes `take`: hints may have been sent while nothing listened.
            self._fresh_event().set()
            yield connection
        finally:
            # Not `async with connection`: a cancelled one rolls back, and may not come to this.
            await connection.close()

    def _note(self, channel: str, payload: str) -> None:
        if channel == self._hints_channel:
            self._fresh_event().set()
            return
        try:  # any role that may connect to the database may notify
            self._heard(_news(payload))
        except ValueError:
            self.unreadable += 1


def _news(payload: str) -> News:
    """Read a notification. Raises ValueError if it isn't news."""
    kind, packed = payload[:1], b64decode(payload[1:], validate=True)
    if kind not in ("s", "c") or len(packed) % ID_BYTES:
        raise ValueError
    runs = tuple(packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES))
    return News(stored=runs) if kind == "s" else News(cancelled=runs)


class _Recorder:
    """A driver of PGQueuer's that records statements, for the saver's transaction."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, dict[str, Any]]] = []

    def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """Record a statement, with psycopg's named placeholders in the place of $1, $2 ..."""
        text = re.sub(r"\$(\d+)", r"%(p\1)s", query.replace("%", "%%"))
        self.statements.append((text, {f"p{n}": value for n, value in enumerate(args, 1)}))
        return []


def _columns(hints: Sequence[Hint], now: int) -> tuple[Any, ...]:
    """The arguments of PGQueuer's `enqueue`, at a time of the store's clock."""
    return (
        [hint.queue for hint in hints],
        [hint.run for hint in hints],
        [hint.priority for hint in hints],
        [timedelta(microseconds=max(0, hint.due - now)) if hint.due else None for hint in hints],
        # With the queue: an old hint among the new runs must not keep one of a rescue away.
        [f"{hint.run.hex()} {hint.queue}" for hint in hints],
    )


def _parts(kind: str, runs: Sequence[bytes]) -> list[str]:
    return [
        kind + b64encode(b"".join(runs[at : at + NOTIFIED_MAX])).decode()
        for at in range(0, len(runs), NOTIFIED_MAX)
    ]
