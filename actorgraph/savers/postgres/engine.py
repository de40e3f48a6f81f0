"""Engine: the blocking half of the saver, for its worker threads. Imports psycopg.

Writes     `BatchWriter`, over one connection; it retries a batch until it is stored or has failed
Reads      over other connections, retried if one is lost
Leases     renewed over a connection of their own, also while a batch is being stored
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import Connection
from psycopg.rows import tuple_row

from actorgraph.errors import FormatVersionError, SaverBrokenError, StorageError
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres.backup import copy_schema
from actorgraph.savers.postgres.batch import (
    BatchProgress,
    MakeHints,
    TransactionSettings,
    kind_of,
    run_batch,
)
from actorgraph.savers.postgres.columns import register_dumpers
from actorgraph.savers.postgres.reading import run_queries
from actorgraph.savers.postgres.retention import vacuum
from actorgraph.savers.postgres.schema import VERSION, migrate, version_of
from actorgraph.savers.postgres.shapes import Shapes
from actorgraph.savers.postgres.systems import apply_request
from actorgraph.storage.postgres.connections import (
    ConnectionSource,
    connection_source,
    holder_of,
)
from actorgraph.storage.postgres.parameters import CONNECTION_DEFAULTS
from actorgraph.storage.postgres.reach import Reach
from actorgraph.storage.postgres.sessions import (
    History,
    ReplacedSession,
    check_writable,
    is_other,
)
from actorgraph.storage.postgres.timeouts import (
    LARGE_BYTES,
    SLOW_TIMES,
    USE_SCHEMA,
    Timeouts,
    extra_s,
    quoted,
)
from actorgraph.storage.postgres.translate import (
    Attempts,
    ErrorKind,
    RowError,
    classify_error,
    is_slow,
    server_message,
)
from actorgraph.storage.postgres.translate import translate as translate_statement
from actorgraph.storage.store_clock import StoreClock, sent_now
from actorgraph.values.commits import CommitOutcome, Query, Refused, Request
from actorgraph.values.retention import Vacuum
from actorgraph.values.systems import RenewOwner

T = TypeVar("T")
READ_ATTEMPTS_MAX = 3
RENEWAL_ANSWER_S = 5.0
"""Seconds for one renewal of leases. Short: the next renewal waits for this one."""


class EngineOptions(msgspec.Struct, frozen=True):
    """The arguments of `PostgresSaver`; see there."""

    schema: str
    migrate: bool
    limits: Timeouts
    synchronous_commit: str | None
    read_only: bool = False


class Engine:
    """Holds a saver's connections; writes, reads and maintains the schema over them.

    Args:
        conn: a connection string, a `psycopg.Connection`, or a pool of these.
        options: the other arguments of the saver.
    Raises:
        InvalidConfigError: `conn` is none of these.
    """

    def __init__(self, conn: object, options: EngineOptions) -> None:
        self._options = options
        self._limits = limits = options.limits
        self.clock = StoreClock()
        self.reach = Reach()
        make = partial(
            connection_source,
            conn,
            owner="PostgresSaver",
            answer_timeout_s=limits.answer_s,
            prepare=register_dumpers,
            writes=not options.read_only,
            reach=self.reach,
        )
        self._writing = make()
        self._renewing = make(answer_timeout_s=min(limits.answer_s, RENEWAL_ANSWER_S))
        # A connection or pool of the program is used for both: over a connection they take turns.
        self._reading = make() if isinstance(conn, str) else self._writing
        settings = TransactionSettings(
            search_path=quoted(options.schema),
            limits=limits,
            synchronous_commit=options.synchronous_commit,
            writer=os.urandom(16),
            clock=self.clock,
        )
        self._makes_tables = options.migrate and not options.read_only
        make_tables = self.set_up if self._makes_tables else None
        self._writer = BatchWriter(self._writing, settings, options.schema, make_tables)
        self._begin = limits.within(settings.search_path)
        self._slow_s = limits.answer_s * (SLOW_TIMES - 1)
        self._begin_slow = limits.longer(self._slow_s).within(settings.search_path)
        self._patient = limits.within(settings.search_path, patient=True)

    def start(self) -> None:
        """Migrate the tables if `migrate` is set, register the saver as a writer, ask the time.

        Raises:
            FormatVersionError: the saver only reads, and the tables are of another version.
        """
        if self._makes_tables:
            self.set_up()
            self._writer.register()
            self._maintain(self._ask_time)
            return
        version = self._maintain(
            partial(version_of, schema=self._options.schema, limits=self._limits)
        )
        if self._options.read_only:
            if version != VERSION:
                raise FormatVersionError(
                    f"schema {self._options.schema!r} has tables of another version, or none",
                    do="open it once without read_only=True, which upgrades older tables",
                )
            self._maintain(self._ask_time)
            return
        # With older tables, or none, the first batch after `setup()` registers the saver.
        if version == VERSION:
            self._writer.register()
        self._maintain(self._ask_time)

    def _ask_time(self, connection: Connection[Any]) -> None:
        sent = sent_now()
        row = connection.cursor(row_factory=tuple_row).execute(sql.SELECT_TIME).fetchone()
        if row is not None:
            self.clock.learn(row[0], sent)

    def set_up(self, *, leave: bool = False) -> None:
        """Create the tables, or migrate them to this version.

        Args:
            leave: whether to close the connection afterwards.
        """
        try:
            self._maintain(partial(migrate, schema=self._options.schema, limits=self._limits))
        finally:
            if leave:
                self._writing.close()

    def hint(self, make: MakeHints | None) -> None:
        """See `BatchWriter.hint`."""
        self._writer.hint(make)

    def write(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Store a batch, see `BatchWriter.run`; then carry out its `Vacuum` requests."""
        outcomes = self._writer.run(batch)
        if not any(isinstance(request, Vacuum) for request in batch):
            return outcomes
        try:
            self._maintain(partial(vacuum, begin=self._patient))
        except StorageError as error:  # refuses these requests only: the batch is committed
            pairs = zip(batch, outcomes, strict=True)
            return [Refused(error) if isinstance(r, Vacuum) else stored for r, stored in pairs]
        return outcomes

    def read(self, queries: Sequence[Query]) -> list[Any]:
        """Answer queries; retried over another connection if one is lost.

        How large the answers are isn't known before: after a time limit there is one attempt with
        more time.

        Raises:
            StorageError: the server refused a statement, or can't be reached.
        """
        attempts = Attempts(
            renews=self._reading.renews,
            reconnect_timeout_s=self._limits.reconnect_s,
            attempts_max=READ_ATTEMPTS_MAX,
        )
        makes_tables = self._makes_tables
        while True:
            connection: Connection[Any] | None = None
            try:
                with self._reading.lease(extra_s=self._slow_s * attempts.slow) as connection:
                    begin = self._begin_slow if attempts.slow else self._begin
                    return run_queries(connection, queries, begin)
            except psycopg.Error as error:
                kind = classify_error(error, connection)
                here = connection and self._reading.sessions.of(connection).history
                lacks = kind is ErrorKind.TABLES and is_other(self._writer.home, here)
                ends = attempts.slow and is_slow(error)
                again = not ends and attempts.again(kind, slow=is_slow(error))
                if not (again or (lacks and makes_tables)):
                    raise self._translated(error, kind, self._reading) from error
            if lacks:
                makes_tables = False
                self.set_up()
            attempts.pause()

    @property
    def renews_beside(self) -> bool:
        """Whether `renew` can be called while a batch is stored: not over a lent connection."""
        return self._writing.renews

    def renew(self, renewals: Sequence[RenewOwner]) -> list[CommitOutcome]:
        """Renew leases over a connection of their own, which is replaced if it was lost.

        Raises:
            StorageError: no lease was renewed.
        """
        attempts = Attempts(
            renews=True, reconnect_timeout_s=RENEWAL_ANSWER_S, attempts_max=READ_ATTEMPTS_MAX
        )
        while True:
            connection: Connection[Any] | None = None
            try:
                with self._renewing.lease() as connection, connection.transaction():
                    connection.execute(USE_SCHEMA, self._begin)
                    return [apply_request(connection, one, self.clock) for one in renewals]
            except psycopg.Error as error:
                kind = classify_error(error, connection)
                if not attempts.again(kind):
                    raise self._translated(error, kind, self._renewing) from error
            attempts.pause()

    @property
    def sessions_renewed(self) -> int:
        """Number of own sessions that were given up so far, and replaced."""
        sources = {id(one): one for one in (self._writing, self._renewing, self._reading)}
        return sum(getattr(one, "renewed", 0) for one in sources.values())

    def check_writable(self) -> None:
        """Check that the server can be reached and takes writes.

        Raises:
            StorageError: it can't, or doesn't.
        """
        source = self._renewing if self.renews_beside else self._writing
        try:
            with source.lease() as connection:
                check_writable(connection)
        except psycopg.Error as error:
            raise self._translated(error, classify_error(error), source) from error

    def copy_to(self, dest: str) -> None:
        """Copy a consistent snapshot of all tables to a new SQLite file.

        Raises:
            InvalidConfigError: `dest` exists.
            StorageError: the server refused a statement, or the copy can't be written.
        """
        try:
            with self._reading.lease(patient=True) as connection:
                copy_schema(connection, self._patient, dest)
        except psycopg.Error as error:
            raise self._translated(error, classify_error(error), self._reading) from error

    def close(self) -> None:
        """Unregister the writer and close the saver's own connections."""
        if self._writing.connected and not self._options.read_only:
            self._writer.unregister()
        self._writing.close()
        self._renewing.close()
        self._reading.close()

    def _maintain(self, work: Callable[[Connection[Any]], T]) -> T:
        """Run maintenance over a writing connection, without the limit for answers."""
        try:
            with self._writing.lease(patient=True) as connection:
                return work(connection)
        except psycopg.Error as error:
            raise self._translated(error, classify_error(error), self._writing) from error

    def _translated(
        self, error: Exception, kind: ErrorKind, source: ConnectionSource
    ) -> StorageError:
        by = holder_of(source, self._options.schema) if kind is ErrorKind.BUSY else ""
        return translate(error, kind, connected=source.connected, by=by)


Done = TypeVar("Done")
ATTEMPTS_MAX = 10


class BatchWriter:
    """Stores batches, one at a time, with retries; not safe for several threads at once.

    Lost connection   replaced, with growing pauses, until `reconnect_timeout_s` is over
    Rolled back       sent again, up to `ATTEMPTS_MAX` times, after a deadlock or a timeout
    Row refused       sent again with a savepoint per request, so that only one request is refused
    Thread locked     sent again until `busy_timeout_s` is over, while sessions that idle with the
                      lock are ended; then sent without the locked threads
    No tables         made once, then sent again, if another server has taken over, which had not
                      received them yet; else reported: someone has dropped them
    No attempt stores a batch twice: see `batch`.

    Args:
        source: lends the connections.
        settings: of every transaction.
        schema: the schema's name, not quoted.
        make_tables: creates the tables; None to report that they are missing.
    Attributes:
        home: the history of the server on which it was registered; None if unknown.
    """

    def __init__(
        self,
        source: ConnectionSource,
        settings: TransactionSettings,
        schema: str,
        make_tables: Callable[[], None] | None = None,
    ) -> None:
        self._make_tables = make_tables
        self.home: History | None = None
        self._source = source
        self._set(settings)
        self._schema = schema
        self._number = 0
        self._replaced = ReplacedSession(source.sessions)
        self._shapes = Shapes()

    def hint(self, make: MakeHints | None) -> None:
        """Execute the statements that `make` returns with each later batch of new runs."""
        self._set(msgspec.structs.replace(self._settings, make_hints=make))

    def _set(self, settings: TransactionSettings) -> None:
        self._settings = settings
        self._first = msgspec.structs.replace(settings, limits=settings.limits.after(0.0))

    def _settings_of(self, progress: BatchProgress) -> TransactionSettings:
        extra = extra_s(progress.size)
        if progress.unsure:
            settings = self._settings
        elif not progress.waited_s:
            settings = self._first
        else:
            limits = self._settings.limits.after(progress.waited_s)
            settings = msgspec.structs.replace(self._settings, limits=limits)
        if not extra:
            return settings
        return msgspec.structs.replace(settings, limits=settings.limits.longer(extra))

    def register(self) -> None:
        """Insert the saver's row in `writers`; remove rows not updated for 30 days."""
        progress = BatchProgress(0)

        def work(connection: Connection[Any]) -> None:
            with connection.transaction():
                self._use_schema(connection, self._settings_of(progress))
                connection.execute(sql.FORGET_WRITER, (self._settings.writer,))
                connection.execute(sql.ADD_WRITER, (self._settings.writer, VERSION))

        self._repeat(work, progress)
        self.home = progress.history

    def unregister(self) -> None:
        """Delete the saver's row in `writers`; errors are ignored."""
        # A row that is left here is removed by `register` of another saver after 30 days.
        with (
            suppress(psycopg.Error, StorageError),
            self._source.lease() as connection,
            connection.transaction(),
        ):
            self._use_schema(connection)
            connection.execute(sql.FORGET_WRITER, (self._settings.writer,))

    def run(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Store a batch.

        Returns: one outcome per request.
        Raises:
            StorageBusyError, StorageFullError, StorageError: nothing is stored.
            SaverBrokenError: whether it is stored is unknown.
        """
        fit = [request for request in batch if request.size <= SAVE_BYTES_MAX]
        if len(fit) < len(batch):
            outcomes = iter(self.run(fit) if fit else ())
            return [
                next(outcomes) if request.size <= SAVE_BYTES_MAX else Refused(_too_large(request))
                for request in batch
            ]
        self._number += 1
        progress = BatchProgress(self._number, size=sum(request.size for request in batch))

        def work(connection: Connection[Any]) -> list[CommitOutcome]:
            settings = self._settings_of(progress)
            return run_batch(connection, batch, settings, progress, self._shapes)

        return self._repeat(work, progress)

    def _repeat(self, work: Callable[[Connection[Any]], Done], progress: BatchProgress) -> Done:
        # A batch is bounded in attempts and in time, so every caller gets an answer. A commit
        # whose outcome stays unknown breaks the saver, instead of counting as stored or as lost.
        attempts = Attempts(
            renews=self._source.renews,
            reconnect_timeout_s=self._settings.limits.reconnect_s,
            attempts_max=ATTEMPTS_MAX,
        )
        while True:
            connection: Connection[Any] | None = None
            try:
                with self._source.lease(extra_s=extra_s(progress.size)) as connection:
                    # A lost connection's session may still hold the locks that this attempt needs.
                    progress.history = self._replaced.end_replaced(connection).history
                    return work(connection)
            except (psycopg.Error, RowError, ValueError, OverflowError) as error:
                kind = kind_of(error, connection)
                self._shapes.forget()  # the next attempt may meet another server, or an older state
                # Asked now: by the time the last attempt has failed the lock may be free.
                if kind is ErrorKind.BUSY and not progress.unsure:
                    progress.holder = holder_of(self._source, self._schema)
                again = attempts.again(kind, unsure=progress.unsure)
                # While a COMMIT is in doubt the batch is sent again unchanged, until an attempt has
                # found the earlier one's mark, or none.
                if kind in (ErrorKind.ROW, ErrorKind.BUSY) and not progress.unsure:
                    again = self._wait_again(kind, progress) or _change_strategy(kind, progress)
                again = self._tables_made(kind, progress) or again
                if not again:
                    failed = translate(error, kind, unsure=progress.unsure, by=progress.holder)
                    raise _with_size(failed, progress.size) from error
            if progress.unsure or kind not in (ErrorKind.ROW, ErrorKind.BUSY):
                attempts.pause()

    def _tables_made(self, kind: ErrorKind, progress: BatchProgress) -> bool:
        """Whether the tables were missing on another server, and have been made there."""
        lacks = kind is ErrorKind.TABLES and is_other(self.home, progress.history)
        if not lacks or self._make_tables is None:
            return False
        self._make_tables()
        self.home = progress.history
        return True

    def _wait_again(self, kind: ErrorKind, progress: BatchProgress) -> bool:
        """Whether a batch that has met a lock is sent again as it is, to wait on."""
        if kind is not ErrorKind.BUSY or progress.skip_locked:
            return False
        whole_s = self._settings.limits.busy_s
        was_over = progress.waited_s >= whole_s
        progress.waited_s += self._settings_of(progress).limits.busy_s
        ended = self._end_idle_holders()
        return progress.waited_s < whole_s or (ended and not was_over)

    def _end_idle_holders(self) -> bool:
        """End sessions of savers that hold locks of threads and idle; return whether any was.

        A process that is suspended in the middle of a batch keeps the locks of its threads, and
        no other process could take its runs over. When it is resumed, it connects again and sends
        its batch again, which is then judged against the rows stored by now.
        """
        idle = (CONNECTION_DEFAULTS["application_name"], *self._settings.limits.idle_timeouts)
        with (
            suppress(psycopg.Error, StorageError),
            self._source.lease() as connection,
            connection.transaction(),
        ):
            self._use_schema(connection)
            cursor = connection.cursor(row_factory=tuple_row)
            before = cursor.execute(_IDLE_HOLDERS, idle).fetchall()
            if not before:
                return False
            # One that had waited for a lock itself, and has just got it, sends its next statement.
            time.sleep(STILL_S)
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # else it sees the same ones again
            still = [row[0] for row in cursor.execute(_IDLE_HOLDERS, idle) if row in before]
            cursor.execute(_END_SESSIONS, (still,))
            return bool(still)
        return False

    def _use_schema(
        self, connection: Connection[Any], settings: TransactionSettings | None = None
    ) -> None:
        settings = settings or self._settings
        connection.execute(USE_SCHEMA, settings.limits.within(settings.search_path))


def _change_strategy(kind: ErrorKind, progress: BatchProgress) -> bool:
    """Choose another way of sending a batch that was rolled back; return whether there is one."""
    if kind is ErrorKind.ROW and not progress.separately:
        progress.separately = True
        return True
    if kind is ErrorKind.BUSY and not progress.skip_locked:
        progress.skip_locked = True
        return True
    return False


SAVE_BYTES_MAX = 1_000_000_000
"""Bytes of one save. A server ends the connection at a message above 1 GiB, before it reads it."""


def _too_large(request: Request) -> StorageError:
    return StorageError(
        f"a save of thread {request.thread_id!r} has {_megabytes(request.size)}, and PostgreSQL "
        f"takes at most {_megabytes(SAVE_BYTES_MAX)}",
        do=STORE_LESS,
    )


STORE_LESS = (
    "write less in one superstep, or keep large data in files or object storage and their names in "
    "the state"
)


def _with_size(error: StorageError, size: int) -> StorageError:
    """The error of a batch, with the batch's size if that may be the reason."""
    if size < LARGE_BYTES or isinstance(error, SaverBrokenError):
        return error
    return type(error)(
        f"{error.what}; the save has {_megabytes(size)}", do=f"{error.do}; {STORE_LESS}"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.0f} MB"


STILL_S = 0.1
"""Seconds between two looks at a session, at both of which it must idle since the same moment."""

_IDLE_HOLDERS = """
SELECT a.pid, a.state_change::text FROM pg_stat_activity a
WHERE a.wait_event_type = 'Client' AND a.xact_start IS NOT NULL
    AND a.state_change < clock_timestamp()
        - (CASE WHEN a.application_name = %s THEN %s ELSE %s END)::interval
    AND a.application_name = current_setting('application_name') AND a.usename = current_user
    AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid
                AND l.relation = 'threads'::regclass AND l.mode = 'RowShareLock')
"""
"""Sessions that hold locks of this schema's threads, whose last statement began longer ago than
`IDLE_HOLDER_S`, or the lock timeout if it is shorter, and that wait for their client. Only those of
the same role with the same application name: a person's `psql` is left alone, and so is a move of
buckets. Over connections of the program, whose other transactions may have that name too, it is the
lock timeout.

`idle_in_transaction_session_timeout` doesn't do this: the server ignores it in pipelines.
"""

_END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM unnest(%s::integer[]) AS pid"


def translate(
    error: Exception, kind: ErrorKind, *, unsure: bool = False, connected: bool = True, by: str = ""
) -> StorageError:
    """The error to raise for an error of psycopg.

    Args:
        unsure: whether a COMMIT was sent and its result is unknown.
        connected, by: as for `storage.postgres.translate.translate`.
    """
    if unsure or kind is ErrorKind.BROKEN:
        return SaverBrokenError(
            "PostgreSQL failed, and it is unknown whether the last commit was stored: "
            f"{server_message(error)}",
            do="look at the server's log, then close and open the saver again",
        )
    if kind is ErrorKind.TABLES:
        return StorageError(
            f"the saver's tables are not there: {server_message(error)}",
            do="call `saver.setup()` once with a role that may create tables",
        )
    return translate_statement(error, kind, connected=connected, by=by)
