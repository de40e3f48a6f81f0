"""PostgresSaver: checkpoints in a PostgreSQL database."""

from collections.abc import Awaitable
from functools import partial
from typing import Any, Self

import anyio.to_thread

from actorgraph.api.savers.hosted import HostedSaver
from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerProtocol, codec_of
from actorgraph.errors import InvalidConfigError
from actorgraph.loops import Done, in_event_loop
from actorgraph.savers.postgres.saver import COMPRESS_ABOVE, PostgresBackend


class PostgresSaver(HostedSaver, PostgresBackend):
    """Keeps checkpoints in a PostgreSQL database, durable before they are acknowledged.

    Use it as `async with PostgresSaver(url) as saver`, as `with PostgresSaver(url) as saver` in
    sync code, or without opening it, e.g. at module level; on asyncio and on trio alike. It has
    one connection for writing and a few for reading, opened when they are needed. Lost
    connections are replaced, and a batch whose COMMIT got no answer is looked up before it is
    sent again.

    Args:
        conn: a connection string; or the program's own `psycopg.Connection` or
            `psycopg_pool.ConnectionPool`, used in autocommit mode and left open. Reads and
            writes over one connection wait for each other, and a lost one can't be replaced.
            Of an `AsyncConnection` or an `AsyncConnectionPool` only the address is taken: the
            saver opens connections of its own.
        pipe: not needed, since batches are sent in a pipeline; None is LangGraph's default.
        schema: of the tables. Default "actorgraph"; created if it doesn't exist.
        migrate: whether opening creates the tables, or migrates them to this version. If not,
            call `setup()`.
        read_connections: the most concurrent reads. Default 4.
        busy_timeout_s: seconds to wait for a thread that another process has locked. Default 5.
        answer_timeout_s: seconds after which a connection without an answer is closed, even one
            that the program passed. Default 30.
        reconnect_timeout_s: seconds to replace a lost connection before the save fails.
            Default 30.
        synchronous_commit: PostgreSQL's setting. Default: the server's own, but never "off": an
            acknowledged commit survives a crash of the server.
        codec: how values are stored; default one with no types beyond the graph's own, which
            compresses values above 256 bytes. A serializer of LangGraph's kind, with `dumps_typed`
            and `loads_typed`, works too.
        serde: LangGraph's name for `codec`; its own serializers are taken for codecs.
        read_only: neither migrate nor register, e.g. to look into the database of a running
            program; what would write is refused with a StorageError.
    Raises:
        InvalidConfigError: an argument is out of range, or `conn` can't be used.
        MissingExtraError: psycopg isn't installed.
    """

    def __init__(
        self,
        conn: Any,
        pipe: None = None,
        serde: SerializerProtocol | None = None,
        *,
        schema: str = "actorgraph",
        migrate: bool = True,
        read_connections: int = 4,
        busy_timeout_s: float = 5.0,
        answer_timeout_s: float = 30.0,
        reconnect_timeout_s: float = 30.0,
        synchronous_commit: str | None = None,
        codec: Codec | SerializerProtocol | None = None,
        read_only: bool = False,
    ) -> None:
        if pipe is not None:
            raise InvalidConfigError(
                "PostgresSaver takes no pipeline", do="leave pipe out: batches are sent in one"
            )
        codec = codec if serde is None else codec_of(codec, serde, compress_above=COMPRESS_ABOVE)
        PostgresBackend.__init__(
            self,
            conn,
            schema=schema,
            migrate=migrate,
            read_connections=read_connections,
            busy_timeout_s=busy_timeout_s,
            answer_timeout_s=answer_timeout_s,
            reconnect_timeout_s=reconnect_timeout_s,
            synchronous_commit=synchronous_commit,
            codec=codec,
            read_only=read_only,
        )

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,  # noqa: ARG003 - see below
        serde: SerializerProtocol | None = None,
    ) -> Self:
        """Make a saver for a database; LangGraph's constructor.

        Args:
            conn_string: a connection string.
            pipeline: ignored; batches are always sent in a pipeline.
            serde: as for the class.
        Returns: a saver to open with `async with` or `with`.
        """
        return cls(conn_string, serde=serde)

    @classmethod
    def setup_tables(cls, conn: Any, *, schema: str = "actorgraph") -> Awaitable[None]:
        """Create the tables over a connection, a pool or an address, as `setup` of a saver does.

        Returns: an awaitable, as `setup`.
        Raises: as `setup`.
        """
        return cls(conn, schema=schema).setup()

    def setup(self) -> Awaitable[None]:
        """Create the tables, or migrate them to this version; each migration is done once.

        Opening the saver does so too, unless `migrate=False`: then call this once, with a role
        that may create tables. Several processes may call it at the same time.

        Returns: an awaitable. Inside an event loop the work starts when it is awaited:
            `await saver.setup()`; elsewhere it is done when this returns.
        Raises:
            FormatVersionError: a later version of actorgraph has made the tables.
            StorageError: the server refused, or the saver only reads.
        """
        self._check_writable()
        work = partial(self._engine.set_up, leave=not self._is_open)
        if in_event_loop():
            return anyio.to_thread.run_sync(work)
        work()
        return Done()


AsyncPostgresSaver = PostgresSaver

__all__ = ["AsyncPostgresSaver", "PostgresSaver"]
