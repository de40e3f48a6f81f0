"""What the saver does in its worker threads, all of it blocking. Imports psycopg."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import Connection

from actorgraph.errors import StorageError
from actorgraph.savers.postgres.backup import copy_schema
from actorgraph.savers.postgres.batch import Settings
from actorgraph.savers.postgres.columns import teach
from actorgraph.savers.postgres.failures import translate
from actorgraph.savers.postgres.migrations import VERSION, migrate, version_of
from actorgraph.savers.postgres.reading import run_queries
from actorgraph.savers.postgres.retention import vacuum
from actorgraph.savers.postgres.systems import apply
from actorgraph.savers.postgres.writer import Writer
from actorgraph.storage.postgres.attempts import Attempts
from actorgraph.storage.postgres.connections import Source, source_of
from actorgraph.storage.postgres.failures import Kind, kind_of
from actorgraph.storage.postgres.limits import USE_SCHEMA, Limits, quoted
from actorgraph.storage.postgres.locks import holder_of
from actorgraph.values.commits import CommitOutcome, Query, Refused, Request
from actorgraph.values.retention import Vacuum
from actorgraph.values.systems import RenewOwner

T = TypeVar("T")
READ_ATTEMPTS_MAX = 3
RENEWAL_ANSWER_S = 5.0
"""Seconds for a renewal of a lease: over a dead connection the next one would wait behind it."""


class Options(msgspec.Struct, frozen=True):
    """The arguments of `PostgresSaver`; see there."""

    schema: str
    migrate: bool
    limits: Limits
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
        self._limits = limits = options.limits
        make = partial(
            source_of,
            conn,
            owner="PostgresSaver",
            answer_timeout_s=limits.answer_s,
            prepare=teach,
        )
        self._writing = make()
        self._renewing = make(answer_timeout_s=min(limits.answer_s, RENEWAL_ANSWER_S))
        # What a program lends serves both: writes and reads over one connection take turns.
        self._reading = make() if isinstance(conn, str) else self._writing
        settings = Settings(
            search_path=quoted(options.schema),
            limits=limits,
            synchronous_commit=options.synchronous_commit,
            writer=os.urandom(16),
        )
        self._writer = Writer(self._writing, settings, schema=options.schema)
        self._begin = limits.within(settings.search_path)
        self._patient = limits.within(settings.search_path, patient=True)

    def start(self) -> None:
        """Bring the tables to this version, unless told otherwise; tell the server who writes."""
        if self._options.migrate:
            self.set_up()
            self._writer.register()
            return
        found = self._over(partial(version_of, schema=self._options.schema, limits=self._limits))
        if found == VERSION:  # else it registers with the first batch, after `setup()`
            self._writer.register()

    def set_up(self, *, leave: bool = False) -> None:
        """Make the tables, or bring them to this version.

        Args:
            leave: whether to keep no connection open.
        """
        try:
            self._over(partial(migrate, schema=self._options.schema, limits=self._limits))
        finally:
            if leave:
                self._writing.close()

    def write(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Store a batch; see `Writer.run`."""
        outcomes = self._writer.run(batch)
        if not any(isinstance(request, Vacuum) for request in batch):
            return outcomes
        try:
            self._over(partial(vacuum, begin=self._patient))
        except StorageError as error:  # the others of the batch are stored
            pairs = zip(batch, outcomes, strict=True)
            return [Refused(error) if isinstance(r, Vacuum) else stored for r, stored in pairs]
        return outcomes

    def read(self, queries: Sequence[Query]) -> list[Any]:
        """Answer queries; over another connection again, if the first one was lost.

        Raises:
            StorageError: the server refused, or can't be reached.
        """
        attempts = Attempts(
            renews=self._reading.renews,
            reconnect_timeout_s=self._limits.reconnect_s,
            attempts_max=READ_ATTEMPTS_MAX,
        )
        while True:
            connection: Connection[Any] | None = None
            try:
                with self._reading.lease() as connection:
                    return run_queries(connection, queries, self._begin)
            except psycopg.Error as error:
                kind = kind_of(error, connection)
                if not attempts.again(kind):
                    raise self._translated(error, kind, self._reading) from error
            attempts.pause()

    @property
    def renews_beside(self) -> bool:
        """Whether leases are renewed while a batch is stored."""
        return self._writing.renews

    def renew(self, renewals: Sequence[RenewOwner]) -> list[CommitOutcome]:
        """Renew leases, over a connection of their own; one that was lost meanwhile is replaced.

        Raises:
            StorageError: none is renewed.
        """
        attempts = Attempts(
            renews=True, reconnect_timeout_s=RENEWAL_ANSWER_S, attempts_max=READ_ATTEMPTS_MAX
        )
        while True:
            connection: Connection[Any] | None = None
            try:
                with self._renewing.lease() as connection, connection.transaction():
                    connection.execute(USE_SCHEMA, self._begin)
                    return [apply(connection, one, {}, None) for one in renewals]
            except psycopg.Error as error:
                kind = kind_of(error, connection)
                if not attempts.again(kind):
                    raise self._translated(error, kind, self._renewing) from error
            attempts.pause()

    def copy_to(self, dest: str) -> None:
        """Copy all tables, as they are at one moment, to a new SQLite file.

        Raises:
            InvalidConfigError: there is something at `dest`.
            StorageError: the server refused, or the copy can't be written.
        """
        try:
            with self._reading.lease(patient=True) as connection:
                copy_schema(connection, self._patient, dest)
        except psycopg.Error as error:
            raise self._translated(error, kind_of(error), self._reading) from error

    def close(self) -> None:
        """Forget the writer, close the saver's own connections."""
        if self._writing.connected:
            self._writer.unregister()
        self._writing.close()
        self._renewing.close()
        self._reading.close()

    def _over(self, work: Callable[[Connection[Any]], T]) -> T:
        """Run a function over a writing connection, outside of batches."""
        try:
            with self._writing.lease(patient=True) as connection:
                return work(connection)
        except psycopg.Error as error:
            raise self._translated(error, kind_of(error), self._writing) from error

    def _translated(self, error: Exception, kind: Kind, source: Source) -> StorageError:
        by = holder_of(source, self._options.schema) if kind is Kind.BUSY else ""
        return translate(error, kind, connected=source.connected, by=by)
