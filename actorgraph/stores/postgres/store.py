"""PostgresStore: synchronous psycopg, in whatever thread calls; async callers hop into one."""

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from actorgraph.errors import InvalidConfigError, MissingExtraError
from actorgraph.storage.postgres.limits import Limits, limits_of
from actorgraph.stores.ops import IndexConfig, TTLConfig
from actorgraph.stores.postgres.home import PostgresItems
from actorgraph.stores.transacting import DatabaseStore

if TYPE_CHECKING:
    from actorgraph.stores.postgres.transactions import Transactions

T = TypeVar("T")


class PostgresStore(DatabaseStore[PostgresItems]):
    """A store in PostgreSQL. Safe to use from several threads, event loops and processes.

    Searches find first what was put last. A batch is one transaction. One that loses the
    connection, or against another transaction, is carried out again: a put twice is a put.

    Args:
        conn: an address, such as "postgresql://localhost/db"; or a psycopg `Connection` or
            `ConnectionPool` of the program's, which it closes itself.
        schema: where the tables are, made if it doesn't exist. Default "actorgraph".
        index: how texts are embedded; None (default): `query=` of a search changes nothing.
        ttl: how long items live; default for ever.
        busy_timeout_s: seconds to wait for a lock of another transaction. Default 5.
        answer_timeout_s: seconds after which a connection without an answer is given up, and
            what other threads wait for it. Default 30.
        reconnect_timeout_s: seconds in which a connection that was lost is replaced before the
            call fails. Default 30.
        clock: seconds since 1970.
    Raises:
        MissingExtraError: psycopg is not installed.
        InvalidConfigError: an argument can't be used.
        InvalidStoreOperationError: the index can't be used.
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
            raise InvalidConfigError(f"schema={schema!r}", do='name a schema, such as "public"')
        self.schema = schema
        self._limits = limits_of(
            busy_timeout_s=busy_timeout_s,
            answer_timeout_s=answer_timeout_s,
            reconnect_timeout_s=reconnect_timeout_s,
        )
        self._source = conn
        self._transactions = _transactions(conn, schema, self._limits)
        self._process = os.getpid()

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
        """The store of an address; LangGraph's way to make one.

        Args:
            pipeline, pool_config: taken and not needed: what waits travels together anyway. For a
                pool, pass one to the class.
        Returns: a store to open with `async with` or `with`.
        """
        del pipeline, pool_config
        return cls(conn_string, index=index, ttl=ttl)

    def setup(self) -> Any:
        """Make the schema and its tables now, not at the first use. It may be awaited."""
        self._transact(lambda _: None, writes=False)
        return super().setup()

    def _release(self) -> None:
        self._transactions.close()

    def __del__(self) -> None:
        transactions = getattr(self, "_transactions", None)
        if transactions is not None and self._process == os.getpid():
            transactions.close()

    def _transact(self, work: Callable[[PostgresItems], T], *, writes: bool) -> T:
        """The function's result, in one transaction; again after one that was lost."""
        self._after_fork()
        return self._transactions.run(lambda c: work(PostgresItems(c)), writes=writes)

    def _after_fork(self) -> None:
        """Leave the connection to the process that this one was forked from."""
        if self._process != os.getpid():
            _INHERITED.append(self._transactions)
            self._transactions = _transactions(self._source, self.schema, self._limits)
            self._process = os.getpid()


_INHERITED: list[Any] = []


def _transactions(conn: Any, schema: str, limits: Limits) -> "Transactions":
    try:
        from actorgraph.stores.postgres.transactions import Transactions
    except ImportError as error:
        raise MissingExtraError(
            "PostgresStore needs the package psycopg",
            do="pip install 'actorgraph[postgres]'",
        ) from error
    return Transactions(conn, schema, limits)


AsyncPostgresStore = PostgresStore
