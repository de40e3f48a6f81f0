"""Store batches over the writing connection: retry each until it is stored or has failed."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from actorgraph.errors import StorageError
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres.batch import BatchProgress, TransactionSettings, run_batch
from actorgraph.savers.postgres.failures import translate
from actorgraph.savers.postgres.migrations import VERSION
from actorgraph.savers.postgres.shapes import Shapes
from actorgraph.storage.postgres.attempts import Attempts
from actorgraph.storage.postgres.connections import ConnectionSource
from actorgraph.storage.postgres.failures import ErrorKind, RowError, classify_error
from actorgraph.storage.postgres.limits import USE_SCHEMA
from actorgraph.storage.postgres.locks import holder_of
from actorgraph.storage.postgres.sessions import ReplacedSession
from actorgraph.values.commits import CommitOutcome, Request

Done = TypeVar("Done")
ATTEMPTS_MAX = 10


class BatchWriter:
    """Stores batches, one at a time, with retries; not safe for several threads at once.

    Lost connection   replaced, with growing pauses, until `reconnect_timeout_s` is over
    Rolled back       sent again, up to `ATTEMPTS_MAX` times, after a deadlock or a timeout
    Row refused       sent again with a savepoint per request, so that only one request is refused
    Thread locked     idle holders are ended once; then sent again without the locked threads
    No attempt stores a batch twice: see `batch`.

    Args:
        source: lends the connections.
        settings: of every transaction.
        schema: the schema's name, not quoted.
    """

    def __init__(
        self, source: ConnectionSource, settings: TransactionSettings, *, schema: str
    ) -> None:
        self._source = source
        self._settings = settings
        self._schema = schema
        self._number = 0
        self._replaced = ReplacedSession(source)
        self._shapes = Shapes()

    def register(self) -> None:
        """Insert the saver's row in `writers`; remove rows not updated for 30 days."""

        def work(connection: Connection[Any]) -> None:
            with connection.transaction():
                self._use_schema(connection)
                connection.execute(sql.FORGET_WRITER, (self._settings.writer,))
                connection.execute(sql.ADD_WRITER, (self._settings.writer, VERSION))

        self._repeat(work, BatchProgress(0))

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
        self._number += 1
        progress = BatchProgress(self._number)

        def work(connection: Connection[Any]) -> list[CommitOutcome]:
            return run_batch(connection, batch, self._settings, progress, self._shapes)

        return self._repeat(work, progress)

    def _repeat(self, work: Callable[[Connection[Any]], Done], progress: BatchProgress) -> Done:
        # A batch is bounded in attempts and in time, so every caller gets an answer. What is left
        # unsure at the end breaks the saver, instead of being taken for stored or for lost.
        attempts = Attempts(
            renews=self._source.renews,
            reconnect_timeout_s=self._settings.limits.reconnect_s,
            attempts_max=ATTEMPTS_MAX,
        )
        while True:
            connection: Connection[Any] | None = None
            try:
                with self._source.lease() as connection:
                    # A lost connection's session may still hold the locks that this attempt needs.
                    self._replaced.end_replaced(connection)
                    return work(connection)
            except (psycopg.Error, RowError, ValueError, OverflowError) as error:
                kind = classify_error(error, connection)
                # Asked now: by the time the last attempt has failed the lock may be free.
                if kind is ErrorKind.BUSY and not progress.unsure:
                    progress.holder = holder_of(self._source, self._schema)
                again = attempts.again(kind, unsure=progress.unsure)
                # While a COMMIT is in doubt the batch is sent again unchanged, until an attempt has
                # found the earlier one's mark, or none.
                if kind in (ErrorKind.ROW, ErrorKind.BUSY) and not progress.unsure:
                    again = self._end_holders(kind, progress) or _change_strategy(kind, progress)
                if not again:
                    failed = translate(error, kind, unsure=progress.unsure, by=progress.holder)
                    raise failed from error
            if progress.unsure or kind not in (ErrorKind.ROW, ErrorKind.BUSY):
                attempts.pause()

    def _end_holders(self, kind: ErrorKind, progress: BatchProgress) -> bool:
        """End sessions of savers that hold locks of threads and idle; return whether any was.

        A process that is suspended in the middle of a batch keeps the locks of its threads, and
        no other process could take its runs over. When it is resumed, it connects again and sends
        its batch again, which is then judged against what is stored by now.
        """
        if kind is not ErrorKind.BUSY or progress.skip_locked or progress.ended_holders:
            return False
        progress.ended_holders = True
        with (
            suppress(psycopg.Error, StorageError),
            self._source.lease() as connection,
            connection.transaction(),
        ):
            self._use_schema(connection)
            ended = connection.execute(_END_IDLE_HOLDERS, (self._settings.limits.lock_timeout,))
            return ended.rowcount > 0
        return False

    def _use_schema(self, connection: Connection[Any]) -> None:
        connection.execute(USE_SCHEMA, self._settings.limits.within(self._settings.search_path))


def _change_strategy(kind: ErrorKind, progress: BatchProgress) -> bool:
    """Choose another way of sending a batch that was rolled back; return whether there is one."""
    if kind is ErrorKind.ROW and not progress.separately:
        progress.separately = True
        return True
    if kind is ErrorKind.BUSY and not progress.skip_locked:
        progress.skip_locked = True
        return True
    return False


_END_IDLE_HOLDERS = """
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.wait_event_type = 'Client' AND a.xact_start IS NOT NULL
    AND a.state_change < clock_timestamp() - %s::interval
    AND a.application_name = current_setting('application_name') AND a.usename = current_user
    AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid
                AND l.relation = 'threads'::regclass AND l.mode = 'RowShareLock')
"""
"""Ends sessions that hold locks of this schema's threads and have let the server wait for longer
than the lock timeout, which no healthy batch does. Only those of the same role with the same
application name: a person's `psql` is left alone.

`idle_in_transaction_session_timeout` is no substitute: the server doesn't apply it in pipelines.
"""
