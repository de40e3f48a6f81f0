"""SqliteSaver: checkpoints in one SQLite file."""

import os
from collections.abc import Awaitable
from typing import Self

from actorgraph.api.savers.hosted import HostedSaver
from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerProtocol
from actorgraph.loops import Done
from actorgraph.savers.sqlite.saver import SqliteBackend, Synchronous


class SqliteSaver(HostedSaver, SqliteBackend):
    """Keeps checkpoints in one SQLite file, durable before they are acknowledged.

    Use it as `async with SqliteSaver(path) as saver`, as `with SqliteSaver(path) as saver` in
    sync code, or without opening it, e.g. at module level; then one background thread of the
    process hosts it.

    Args:
        path: the file, created with mode 0600 if it doesn't exist; ":memory:" for a database
            that is gone with the saver.
        synchronous: SQLite's setting. FULL (default): an acknowledged commit survives a power
            cut; NORMAL: only a crash of the process; see https://sqlite.org/pragma.html.
        busy_timeout_s: seconds to wait for another process's lock. Default 5.
        codec: how values are stored; default one with no types beyond the graph's own. A
            serializer of LangGraph's kind, with `dumps_typed` and `loads_typed`, will do.
    Raises:
        InvalidConfigError: an argument is out of range.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout_s: float = 5.0,
        codec: Codec | SerializerProtocol | None = None,
    ) -> None:
        SqliteBackend.__init__(
            self, path, synchronous=synchronous, busy_timeout_s=busy_timeout_s, codec=codec
        )

    @classmethod
    def from_conn_string(cls, conn_string: str) -> Self:
        """Make a saver for a file or ":memory:"; LangGraph's constructor.

        Returns: a saver to open with `async with` or `with`.
        """
        return cls(conn_string)

    def setup(self) -> Awaitable[None]:
        """Do nothing: opening creates the tables, or migrates them. LangGraph's programs call it.

        Returns: an awaitable that is done; sync code leaves it.
        """
        return Done()


AsyncSqliteSaver = SqliteSaver

__all__ = ["AsyncSqliteSaver", "SqliteSaver"]
