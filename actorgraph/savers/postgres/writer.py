"""The writing half of the saver: a batch, again and again until it is stored or can't be.

Lost connections are replaced, with growing pauses, within a time limit. What the server rolled
back for reasons of the moment is sent again, a bounded number of times. An attempt that finds the
mark of an earlier one stores nothing twice (see `batch`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from actorgraph.errors import StorageError
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres.batch import Settings, Turn, run_batch
from actorgraph.savers.postgres.failures import translate
from actorgraph.savers.postgres.migrations import VERSION
from actorgraph.savers.postgres.shapes import Shapes
from actorgraph.storage.postgres.attempts import Attempts
from actorgraph.storage.postgres.connections import Source
from actorgraph.storage.postgres.failures import Kind, RowError, kind_of
from actorgraph.storage.postgres.limits import USE_SCHEMA
from actorgraph.storage.postgres.locks import holder_of
from actorgraph.storage.postgres.sessions import Replaced
from actorgraph.values.commits import CommitOutcome, Request

T = TypeVar("T")
ATTEMPTS_MAX = 10


class Writer:
    """Stores batches over a source's connections; used by one thread at a time.

    Args:
        schema: the schema's name, as `settings` has it quoted.
    """

    def __init__(self, source: Source, settings: Settings, *, schema: str) -> None:
        self._source = source
        self._settings = settings
        self._schema = schema
        self._number = 0
        self._replaced = Replaced(source)
        self._shapes = Shapes()

    def register(self) -> None:
        """Make the saver's row in `writers`, and remove those of savers long gone."""

        def work(connection: Connection[Any]) -> None:
            with connection.transaction():
                self._use_schema(connection)
                connection.execute(sql.FORGET_WRITER, (self._settings.writer,))
                connection.execute(sql.ADD_WRITER, (self._settings.writer, VERSION))

        self._repeat(work, Turn(0))

    def unregister(self) -> None:
        """Remove the saver's row; one that is left is removed by others after a month."""
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
        turn = Turn(self._number)
        return self._repeat(lambda c: run_batch(c, batch, self._settings, turn, self._shapes), turn)

    def _repeat(self, work: Callable[[Connection[Any]], T], turn: Turn) -> T:
        attempts = Attempts(
            renews=self._source.renews,
            reconnect_timeout_s=self._settings.limits.reconnect_s,
            attempts_max=ATTEMPTS_MAX,
        )
        while True:
            connection: Connection[Any] | None = None
            try:
                with self._source.lease() as connection:
                    self._replaced.greet(connection)
                    return work(connection)
            except (psycopg.Error, RowError, ValueError, OverflowError) as error:
                kind = kind_of(error, connection)
                if kind is Kind.BUSY and not turn.unsure:
                    turn.holder = holder_of(self._source, self._schema)
                again = attempts.again(kind, unsure=turn.unsure)
                if kind in (Kind.ROW, Kind.BUSY) and not turn.unsure:
                    again = self._unblocked(kind, turn) or _otherwise(kind, turn)
                if not again:
                    raise translate(error, kind, unsure=turn.unsure, by=turn.holder) from error
            if turn.unsure or kind not in (Kind.ROW, Kind.BUSY):
                attempts.pause()

    def _unblocked(self, kind: Kind, turn: Turn) -> bool:
        """Whether a lock that a batch has waited for is free now, as its holder was ended.

        A process that stands still in the middle of a batch holds the locks of its threads, and
        nobody could take over its runs. When it goes on it connects and is judged anew.
        """
        if kind is not Kind.BUSY or turn.skips or turn.freed:
            return False
        turn.freed = True
        with (
            suppress(psycopg.Error, StorageError),
            self._source.lease() as connection,
            connection.transaction(),
        ):
            self._use_schema(connection)
            ended = connection.execute(_END_STANDING, (self._settings.limits.lock_timeout,))
            return ended.rowcount > 0
        return False

    def _use_schema(self, connection: Connection[Any]) -> None:
        connection.execute(USE_SCHEMA, self._settings.limits.within(self._settings.search_path))


def _otherwise(kind: Kind, turn: Turn) -> bool:
    """Whether to send a batch again in another way after it was rolled back; notes in which."""
    if kind is Kind.ROW and not turn.alone:
        turn.alone = True
        return True
    if kind is Kind.BUSY and not turn.skips:
        turn.skips = True
        return True
    return False


_END_STANDING = """
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.wait_event_type = 'Client' AND a.xact_start IS NOT NULL
    AND a.state_change < clock_timestamp() - %s::interval
    AND a.application_name = current_setting('application_name') AND a.usename = current_user
    AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid
                AND l.relation = 'threads'::regclass AND l.mode = 'RowShareLock')
"""
"""Ends who lets the server wait for longer than anybody waits for a lock, has locks of this
schema's threads, and is a saver of the same program by its name: no batch takes that long.

`idle_in_transaction_session_timeout` would not do: in pipelines it does not count.
"""
