"""PostgresStore: synchronous psycopg in the caller's thread; async callers use a worker thread."""

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from actorgraph.errors import InvalidConfigError, MissingExtraError, StorageError
from actorgraph.storage.kept import keep, release
from actorgraph.storage.postgres.timeouts import Timeouts, timeouts_of
from actorgraph.stores.operations import IndexConfig, TTLConfig
from actorgraph.stores.postgres.items import PostgresItemTable
from actorgraph.stores.store import DatabaseStore

if TYPE_CHECKING:
    from actorgraph.stores.postgres.transactions import Transactions

T = TypeVar("T")


class PostgresStore(DatabaseStore[PostgresItemTable]):
    """A store in PostgreSQL. Safe to use from several threads, event loops and processes.

    Searches return the items first that were put last. A batch is one transaction. If it loses the
    connection, or a conflict with another transaction, it is carried out again, which is safe as
    a repeated put stores the same item.

    Args:
        conn: an address, such as "postgresql://localhost/db"; or a psycopg `Connection` or
            `ConnectionPool`, which the program closes itself.
        schema: schema of the tables, created if missing. Default "actorgraph".
        index: how texts are embedded; None (default): searches ignore `query`.
        ttl: how long items live; default for ever.
        busy_timeout_s: seconds to wait for a lock of another transaction. Default 5.
        answer_timeout_s: seconds after which a connection without an answer is given up; also how
            long other threads wait for the connection. Default 30.
        reconnect_timeout_s: seconds to try to replace a lost connection before the call fails.
            Default 30.
        clock: returns seconds since 1970.
    Raises:
        MissingExtraError: psycopg is not installed.
        InvalidConfigError: an argument is invalid.
        InvalidStoreOperationError: the index is invalid.
    """

    __slots__ = ("_limits", "_process", "_source", "_transactions", "schema")

    def __init__(
        self,
        conn: Any,
        *,
        schema: str = "actorgraph",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        busy_timeout_s: float = 5.0,
        answer_timeout_s: float = 30.0,
        reconnect_timeout_s: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(index=index, ttl=ttl, clock=clock)
        if not schema or "\0" in schema:
            raise InvalidConfigError(
                f"schema must be a name without NUL, got {schema!r}",
                do='name a schema, such as "public"',
            )
        self.schema = schema
        self._limits = timeouts_of(
            busy_timeout_s=busy_timeout_s,
            answer_timeout_s=answer_timeout_s,
            reconnect_timeout_s=reconnect_timeout_s,
        )
        self._source = conn
        self._transactions = _transactions(conn, schema, self._limits)
        self._process = os.getpid()
        keep(self._transactions)

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,
        pool_config: Mapping[str, Any] | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> Self:
        """Make the store of an address, as with LangGraph's class.

        Args:
            conn_string: the address.
            pipeline: ignored: waiting batches share a transaction anyway.
            pool_config: ignored: to use a pool, pass one to the class.
            index: how texts are embedded.
            ttl: how long items live; default for ever.
        Returns: a store to open with `async with` or `with`.
        """
        del pipeline, pool_config
        return cls(conn_string, index=index, ttl=ttl)

    def setup(self) -> Any:
        """Create the schema and its tables now, not at the first use. Can be awaited."""
        self._transact(lambda _: None, writes=False)
        return super().setup()

    @property
    def away_s(self) -> float:
        """Seconds since the server can't be reached, as far as is known; else 0."""
        return self._transactions.reach.away_s

    def check_place(self) -> None:
        """Check that the server can be reached and takes writes; blocking.

        Raises:
            StorageError: it can't, or doesn't: it may have become a replica.
        """
        self._after_fork()
        self._transactions.check_writable()

    def _release(self) -> None:
        self._transactions.close()

    def __del__(self) -> None:
        transactions = getattr(self, "_transactions", None)
        if transactions is not None and self._process == os.getpid():
            transactions.close()
            release(transactions)

    def _transact(self, work: Callable[[PostgresItemTable], T], *, writes: bool) -> T:
        """Call a function with the items of one transaction; repeat it if the transaction fails."""
        self._after_fork()
        try:
            return self._transactions.run(lambda c: work(PostgresItemTable(c)), writes=writes)
        except StorageError as error:
            if not _is_of_a_value(error):
                raise
        # The server can't compare a damaged value with a filter. Without its help the row is read,
        # found to be damaged, and left out.
        return self._transactions.run(
            lambda c: work(PostgresItemTable(c, compares=False)), writes=writes
        )

    def _after_fork(self) -> None:
        """In a forked child, leave the connection to the parent and use a new one."""
        if self._process != os.getpid():
            # The other stays kept: closing it would end the parent's session at the server.
            self._transactions = _transactions(self._source, self.schema, self._limits)
            keep(self._transactions)
            self._process = os.getpid()


def _transactions(conn: Any, schema: str, limits: Timeouts) -> "Transactions":
    try:
        from actorgraph.stores.postgres.transactions import Transactions
    except ImportError as error:
        raise MissingExtraError(
            "PostgresStore needs the package psycopg",
            do="pip install 'actorgraph[postgres]'",
        ) from error
    return Transactions(conn, schema, limits)


AsyncPostgresStore = PostgresStore


def _is_of_a_value(error: StorageError) -> bool:
    """Whether the server refused a statement for a value: SQLSTATE of class 22."""
    return str(getattr(error.__cause__, "sqlstate", "")).startswith("22")
