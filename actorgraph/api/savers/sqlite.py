"""SqliteSaver: checkpoints in one SQLite file."""

import os
import sqlite3
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Self

import anyio.to_thread

from actorgraph.api.savers.hosted import HostedSaver
from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerProtocol, codec_of
from actorgraph.loops import Done, in_event_loop
from actorgraph.savers.sqlite.saver import SqliteBackend, Synchronous

if TYPE_CHECKING:
    import aiosqlite


class SqliteSaver(HostedSaver, SqliteBackend):
    """Keeps checkpoints in one SQLite file, durable before they are acknowledged.

    Use it as `async with SqliteSaver(path) as saver`, as `with SqliteSaver(path) as saver` in
    sync code, or without opening it, e.g. at module level; then one background thread of the
    process hosts it.

    Args:
        path: the file, created with mode 0600 if it doesn't exist; ":memory:" for a database
            that is gone with the saver. Or a connection of `sqlite3` or aiosqlite, which stays
            open: of one to a file only the path is taken; one to a database in memory is used
            itself, between transactions of the program.
        synchronous: SQLite's setting. FULL (default): an acknowledged commit survives a power
            cut; NORMAL: only a crash of the process; see https://sqlite.org/pragma.html.
        busy_timeout_s: seconds to wait for another process's lock. Default 5.
        codec: how values are stored; default one with no types beyond the graph's own. A
            serializer of LangGraph's kind, with `dumps_typed` and `loads_typed`, will do.
        serde: LangGraph's name for `codec`; its own serializers are taken for codecs.
        read_only: open an existing file without changing it, e.g. to look into the database of a
            running program; what would write is refused with a StorageError.
    Attributes:
        conn: the connection that was passed in; None for a path.
    Raises:
        InvalidConfigError: an argument is out of range, or the connection can't be used.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str] | sqlite3.Connection | aiosqlite.Connection",
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout_s: float = 5.0,
        codec: Codec | SerializerProtocol | None = None,
        serde: SerializerProtocol | None = None,
        read_only: bool = False,
    ) -> None:
        codec = codec if serde is None else codec_of(codec, serde)
        SqliteBackend.__init__(
            self,
            path,
            synchronous=synchronous,
            busy_timeout_s=busy_timeout_s,
            codec=codec,
            read_only=read_only,
        )
        self.conn: Any = None if isinstance(path, str | os.PathLike) else path

    @classmethod
    def from_conn_string(cls, conn_string: str) -> Self:
        """Make a saver for a file or ":memory:"; LangGraph's constructor.

        Returns: a saver to open with `async with` or `with`.
        """
        return cls(conn_string)

    def setup(self) -> Awaitable[None]:
        """Create the tables, or migrate them to this version; opening the saver does so too.

        Returns: an awaitable. Inside an event loop the work starts when it is awaited:
            `await saver.setup()`; elsewhere it is done when this returns.
        Raises:
            FormatVersionError: a later version of actorgraph has made the tables.
            StorageError: the database can't be opened, or the saver only reads.
        """
        if in_event_loop():
            return anyio.to_thread.run_sync(self.set_up)
        self.set_up()
        return Done()


AsyncSqliteSaver = SqliteSaver

__all__ = ["AsyncSqliteSaver", "SqliteSaver"]
