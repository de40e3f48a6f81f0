"""What the saver does in its worker threads, all of it blocking. Imports psycopg."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import Connection

from actorgraph.errors import StorageError
from actorgraph.savers.postgres.backup import copy_schema
from actorgraph.savers.postgres.batch import Settings
from actorgraph.savers.postgres.connections import source_of
from actorgraph.savers.postgres.failures import Kind, kind_of, translate
from actorgraph.savers.postgres.migrations import migrate, quoted, version_of
from actorgraph.savers.postgres.reading import run_queries
from actorgraph.savers.postgres.retention import vacuum
from actorgraph.savers.postgres.writer import Writer, pause
from actorgraph.values.commits import Outcome, Query, Refused, Request
from actorgraph.values.retention import Vacuum

T = TypeVar("T")
READ_ATTEMPTS_MAX = 3


class Options(msgspec.Struct, frozen=True):
    """The arguments of `PostgresSaver`; see there."""

    schema: str
    migrate: bool
    busy_timeout_s: float
    answer_timeout_s: float
    reconnect_timeout_s: float
    synchronous_commit: str | None


class Engine:
    """A saver's connections, and the work over them.

    Args:
        conn: a connection string, a `psycopg.Connection`, or a pool of these.
    Raises:
        InvalidConfigError: `conn` is none of these.
    """

    def __init__(self, conn: object, options: Options) -> None:
        self._options = options
        make = partial(source_of, conn, answer_timeout_s=options.answer_timeout_s)
        self._writing = make()
        # What a program lends serves both: writes and reads over one connection take turns.
        self._reading = make() if isinstance(conn, str) else self._writing
        settings = Settings(
            search_path=quoted(options.schema),
            lock_timeout=f"{max(1, round(options.busy_timeout_s * 1000))}ms",
            synchronous_commit=options.synchronous_commit,
            writer=os.urandom(16),
        )
        self._writer = Writer(
            self._writing, settings, reconnect_timeout_s=options.reconnect_timeout_s
        )
        self._search_path = settings.search_path

    def start(self) -> None:
        """Bring the tables to this version, unless told otherwise; tell the server who writes."""
        if self._options.migrate:
            self.set_up()
            self._writer.register()
        elif self._over(partial(version_of, schema=self._options.schema)):
            self._writer.register()

    def set_up(self, *, leave: bool = False) -> None:
        """Make the tables, or bring them to this version.

        Args:
            leave: whether to keep no connection open.
        """
        try:
            self._over(partial(migrate, schema=self._options.schema))
        finally:
            if leave:
                self._writing.close()

    def write(self, batch: Sequence[Request]) -> list[Outcome]:
        """Store a batch; see `Writer.run`."""
        outcomes = self._writer.run(batch)
        if not any(isinstance(request, Vacuum) for request in batch):
            return outcomes
        try:
            self._over(partial(vacuum, schema=self._options.schema))
        except StorageError as error:  # the others of the batch are stored
            pairs = zip(batch, outcomes, strict=True)
            return [Refused(error) if isinstance(r, Vacuum) else stored for r, stored in pairs]
        return outcomes

    def read(self, queries: Sequence[Query]) -> list[Any]:
        """Answer queries; over another connection again, if the first one was lost.

        Raises:
            StorageError: the server refused, or can't be reached.
        """
        attempt, end = 0, 0.0
        while True:
            attempt += 1
            connection: Connection[Any] | None = None
            try:
                with self._reading.lease() as connection:
                    return run_queries(connection, queries, self._search_path)
            except psycopg.Error as error:
                kind = kind_of(error, connection)
                end = end or time.monotonic() + self._options.reconnect_timeout_s
                lost = kind is Kind.LOST and self._reading.renews and time.monotonic() < end
                if not lost and (kind is not Kind.AGAIN or attempt >= READ_ATTEMPTS_MAX):
                    raise translate(error, kind) from error
            time.sleep(pause(attempt))  # in a reader's thread

    def copy_to(self, dest: str) -> None:
        """Copy all tables, as they are at one moment, to a new SQLite file.

        Raises:
            InvalidConfigError: there is something at `dest`.
            StorageError: the server refused, or the copy can't be written.
        """
        try:
            with self._reading.lease(patient=True) as connection:
                copy_schema(connection, self._search_path, dest)
        except psycopg.Error as error:
            raise translate(error, kind_of(error)) from error

    def close(self) -> None:
        """Forget the writer, close the saver's own connections."""
        self._writer.unregister()
        self._writing.close()
        self._reading.close()

    def _over(self, work: Callable[[Connection[Any]], T]) -> T:
        """Run a function over a writing connection, outside of batches."""
        try:
            with self._writing.lease(patient=True) as connection:
                return work(connection)
        except psycopg.Error as error:
            raise translate(error, kind_of(error)) from error
