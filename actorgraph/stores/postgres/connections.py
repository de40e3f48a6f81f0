"""Where a store's connection to PostgreSQL comes from: an address, a connection, or a pool."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from actorgraph.errors import InvalidConfigError, MissingExtraError, StorageBusyError, StorageError

RETRIED_STATES = {"40001", "40P01"}


def driver() -> Any:
    """The psycopg module.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtraError(
            "PostgresStore needs the package psycopg",
            do="pip install 'actorgraph[postgres]'",
        ) from error
    return psycopg


def is_pool(source: Any) -> bool:
    """Whether it lends connections; a connection is begun with, and so has `transaction`."""
    return hasattr(source, "connection") and not hasattr(source, "transaction")


class Connections:
    """Lends a connection, one at a time for each caller.

    Args:
        source: an address, such as "postgresql://localhost/db", of which it keeps one connection;
            or a psycopg `Connection`; or a pool with `connection()`. The caller's are not closed.
    Raises:
        InvalidConfigError: it is none of these.
    """

    def __init__(self, source: Any) -> None:
        self._psycopg = driver()
        self._address = source if isinstance(source, str) else None
        self._pool: Any = source if is_pool(source) else None
        self._connection: Any = None
        if self._address is None and self._pool is None:
            if not hasattr(source, "execute") or not hasattr(source, "transaction"):
                raise InvalidConfigError(
                    f"{source!r} is no address, psycopg.Connection or ConnectionPool",
                    do='pass "postgresql://...", or an open synchronous connection or pool',
                )
            self._connection = source

    @property
    def owned(self) -> bool:
        """Whether the connection is the store's own, so that it may be made anew."""
        return self._address is not None

    @contextmanager
    def lent(self) -> Generator[Any]:
        """A connection outside of any transaction."""
        if self._pool is not None:
            with self._pool.connection() as connection:
                yield connection
            return
        if self._address is not None and (self._connection is None or self._connection.closed):
            self._connection = self._psycopg.connect(self._address, autocommit=True)
        yield self._connection

    def close(self) -> None:
        """Close the store's own connection."""
        if self._address is not None and self._connection is not None:
            self._connection.close()
            self._connection = None

    def lost(self, error: BaseException) -> bool:
        """Whether an error means that the connection is gone, and a new one may do."""
        if not isinstance(error, self._psycopg.OperationalError) or not self.owned:
            return False
        return self._connection is not None and self._connection.closed

    def again(self, error: BaseException) -> bool:
        """Whether the same transaction may succeed now: it lost against another one."""
        return getattr(error, "sqlstate", None) in RETRIED_STATES

    def translated(self, error: BaseException) -> BaseException:
        """The error that callers see."""
        if not isinstance(error, self._psycopg.Error):
            return error
        if getattr(error, "sqlstate", None) in {*RETRIED_STATES, "55P03", "57014"}:
            return StorageBusyError(
                f"the store is busy: {error}", do="try again; nothing of the batch is stored"
            )
        if isinstance(error, self._psycopg.OperationalError):
            return StorageError(
                f"PostgreSQL can't be reached: {error}",
                do="check the address and the server; the store connects anew at its next use",
            )
        return StorageError(f"PostgreSQL refused a statement: {error}", do="see the cause below")
