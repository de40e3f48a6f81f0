"""Engine: the blocking half of the saver, for its worker threads. Imports psycopg.

Writes     `BatchWriter`, over one connection; it retries a batch until it is stored or has failed
Reads      over other connections, retried if one is lost
Leases     renewed over a connection of their own, also while a batch is being stored
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import Connection

from actorgraph.errors import StorageError
from actorgraph.savers.postgres.backup import copy_schema
from actorgraph.savers.postgres.batch import TransactionSettings
from actorgraph.savers.postgres.columns import register_dumpers
from actorgraph.savers.postgres.failures import translate
from actorgraph.savers.postgres.migrations import VERSION, migrate, version_of
from actorgraph.savers.postgres.reading import run_queries
from actorgraph.savers.postgres.retention import vacuum
from actorgraph.savers.postgres.systems import apply_request
from actorgraph.savers.postgres.writer import BatchWriter
from actorgraph.storage.postgres.attempts import Attempts
from actorgraph.storage.postgres.connections import ConnectionSource, connection_source
from actorgraph.storage.postgres.failures import ErrorKind, classify_error
from actorgraph.storage.postgres.limits import USE_SCHEMA, Timeouts, quoted
from actorgraph.storage.postgres.locks import holder_of
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
        make = partial(
            connection_source,
            conn,
            owner="PostgresSaver",
            answer_timeout_s=limits.answer_s,
            prepare=register_dumpers,
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
        )
        self._writer = BatchWriter(self._writing, settings, schema=options.schema)
        self._begin = limits.within(settings.search_path)
        self._patient = limits.within(settings.search_path, patient=True)

    def start(self) -> None:
        """Migrate the tables if `migrate` is set, and register the saver as a writer."""
        if self._options.migrate:
            self.set_up()
            self._writer.register()
            return
        found = self._maintain(
            partial(version_of, schema=self._options.schema, limits=self._limits)
        )
        # With older tables, or none, the first batch after `setup()` registers the saver.
        if found == VERSION:
            self._writer.register()

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

        Raises:
            StorageError: the server refused a statement, or can't be reached.
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
                kind = classify_error(error, connection)
                if not attempts.again(kind):
                    raise self._translated(error, kind, self._reading) from error
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
                    return [apply_request(connection, one, {}, None) for one in renewals]
            except psycopg.Error as error:
                kind = classify_error(error, connection)
                if not attempts.again(kind):
                    raise self._translated(error, kind, self._renewing) from error
            attempts.pause()

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
        if self._writing.connected:
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
