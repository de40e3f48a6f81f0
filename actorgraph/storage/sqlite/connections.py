"""SQLite connections in a thread: run a function over one, from asyncio or trio; and their files.

On asyncio the thread is aiosqlite's; on trio, where aiosqlite can't run, a worker thread of
anyio. Both run the same plain function over a `sqlite3.Connection`, one hop for a whole batch.
Cancellation doesn't reach the thread: the persistence actor is the only caller, and it shields
the hop. A caller that knows that no other thread uses the connection may use it in its own
(`run_here`): SQLite's connections belong to no thread, they only take one at a time.

Files are created private and synced by name; `open_files` checks that they stay the same files.
"""

import os
import sqlite3
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec

from actorgraph.errors import InvalidConfigError
from actorgraph.storage.file_errors import checked_path, file_error
from actorgraph.storage.sqlite.translate import is_busy

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Synchronous = Literal["OFF", "NORMAL", "FULL", "EXTRA"]
_PRAGMAS: dict[str, str] = {
    "OFF": "PRAGMA synchronous = OFF",
    "NORMAL": "PRAGMA synchronous = NORMAL",
    "FULL": "PRAGMA synchronous = FULL",
    "EXTRA": "PRAGMA synchronous = EXTRA",
}


class Driver(Protocol):
    """Runs functions over one connection, one at a time, in one thread."""

    async def run(self, work: Work[T]) -> T:
        """Run a function over the connection; return its result, or raise its exception."""
        ...

    def run_here(self, work: Work[T]) -> T:
        """The same, blocking, in this thread; never beside `run` or `close`."""
        ...

    async def close(self) -> None:
        """Close the connection and end the thread."""
        ...


def _on_trio() -> bool:
    if "trio" not in sys.modules:
        return False
    import trio

    return trio.lowlevel.in_trio_run()


class _Hop(msgspec.Struct):
    """A function for the connection's thread, and its result."""

    work: Work[Any]
    result: Any = None


class HopConnection(sqlite3.Connection):
    """A connection whose `executescript` also runs a `_Hop`.

    aiosqlite passes the arguments of its public methods to the connection, in its thread. So a
    whole batch goes through one of them at the cost of one statement.
    """

    def executescript(self, script: Any, /) -> sqlite3.Cursor:
        """Run a script, or a hop's function over this connection."""
        if isinstance(script, _Hop):
            script.result = script.work(self)
            return self.cursor()
        return super().executescript(script)


class ConnectionSettings(msgspec.Struct, frozen=True):
    """Settings of a connection.

    Attributes:
        path: a file, or a URI.
        uri: whether `path` is a URI.
        timeout_s: seconds to wait for another process's lock.
        connection: class of the connection; tests pass one that injects failures.
        prepare: called with the new connection, in its thread.
    """

    path: str
    uri: bool
    timeout_s: float
    connection: type[HopConnection]
    prepare: Work[None]


async def open_driver(settings: ConnectionSettings) -> Driver:
    """Open a connection with the driver of the running event loop, and prepare it."""
    kind = ThreadDriver if _on_trio() else AiosqliteDriver
    return await kind.open(settings)


class AiosqliteDriver:
    """Runs functions in the thread of an aiosqlite connection; asyncio only."""

    def __init__(self, connection: Any, inner: sqlite3.Connection) -> None:
        self._connection = connection
        self._inner = inner

    @classmethod
    async def open(cls, settings: ConnectionSettings) -> "AiosqliteDriver":
        """Connect and prepare the connection, both in its thread."""
        import aiosqlite

        failures: list[sqlite3.Error] = []
        made: list[sqlite3.Connection] = []

        def connected(_: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
            # After a failed connect aiosqlite doesn't wait for its thread, which may then call
            # into an event loop that has ended. So connect to a database in memory instead, and
            # close that connection below, which does wait.
            try:
                made.append(settings.connection(settings.path, *arguments, **options))
            except sqlite3.Error as error:
                failures.append(error)
                made.append(settings.connection(":memory:", *arguments, **options))
            return made[0]

        connection: Any = None
        with anyio.CancelScope(shield=True):
            connection = await aiosqlite.connect(
                settings.path,
                factory=connected,
                isolation_level=None,
                uri=settings.uri,
                timeout=settings.timeout_s,
                cached_statements=256,
                check_same_thread=False,
            )
        driver = cls(connection, made[0])
        try:
            if failures:
                raise failures[0]
            await driver.run(settings.prepare)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await driver.close()
            raise
        return driver

    async def run(self, work: Work[T]) -> T:
        """See `Driver.run`."""
        hop = _Hop(work)
        await self._connection.executescript(hop)
        return hop.result

    def run_here(self, work: Work[T]) -> T:
        """See `Driver.run_here`."""
        return work(self._inner)

    async def close(self) -> None:
        """See `Driver.close`."""
        await self._connection.close()


class ThreadDriver:
    """Runs functions in a worker thread of anyio, one at a time; trio, and any other loop."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._limiter = anyio.CapacityLimiter(1)

    @classmethod
    async def open(cls, settings: ConnectionSettings) -> "ThreadDriver":
        """Connect and prepare the connection, both in a worker thread."""

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(
                settings.path,
                factory=settings.connection,
                isolation_level=None,
                uri=settings.uri,
                timeout=settings.timeout_s,
                cached_statements=256,
                check_same_thread=False,
            )
            try:
                settings.prepare(connection)
            except BaseException:
                connection.close()
                raise
            return connection

        return cls(await anyio.to_thread.run_sync(connect))

    async def run(self, work: Work[T]) -> T:
        """See `Driver.run`."""
        return await anyio.to_thread.run_sync(work, self._connection, limiter=self._limiter)

    def run_here(self, work: Work[T]) -> T:
        """See `Driver.run_here`."""
        return work(self._connection)

    async def close(self) -> None:
        """See `Driver.close`."""
        await anyio.to_thread.run_sync(self._connection.close, limiter=self._limiter)


def synchronous_statement(synchronous: str) -> str:
    """Return the statement that sets when a connection syncs.

    Raises:
        InvalidConfigError: the setting is unknown.
    """
    if synchronous not in _PRAGMAS:
        raise InvalidConfigError(
            f"synchronous must be one of {', '.join(_PRAGMAS)}, got {synchronous!r}",
            do='use "FULL" unless losing the last commits is acceptable',
        )
    return _PRAGMAS[synchronous]


def database_path(given: Any, owner: str) -> str:
    """Return the path of a database as text.

    An address is refused: SQLite may open another file than the one that such a path names here.

    Args:
        owner: what takes the path, for the error.
    Raises:
        InvalidConfigError: the path begins with `file:`, or isn't a path: see `checked_path`.
    """
    path = checked_path(given, owner)
    if path.startswith("file:"):
        raise InvalidConfigError(
            f"{owner} takes a path, not an address of SQLite's: {path!r}",
            do='pass the path of the file ("./file:..." if that is its name), or ":memory:"; to '
            "open a database of checkpoints for reading only, pass read_only=True",
        )
    return path


def check_free(dest: str) -> None:
    """Refuse a path that exists.

    Raises:
        InvalidConfigError: it exists, or `database_path` refuses it.
    """
    database_path(dest, "a copy")
    if os.path.lexists(dest):
        raise InvalidConfigError(f"{dest!r} exists already", do="name a path that doesn't exist")


def use_wal(connection: sqlite3.Connection, wait_s: float) -> None:
    """Switch the file to WAL; while another connection has it locked, try again.

    SQLite doesn't always wait for the lock of this pragma: where waiting could end in a deadlock it
    answers SQLITE_BUSY at once (https://www.sqlite.org/c3ref/busy_handler.html).

    Args:
        wait_s: seconds after which the error is raised.
    """
    end = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)  # in the connection's thread
        else:
            return


def make_private(path: Path) -> None:
    """Create a file with mode 0600; one that exists keeps its mode.

    Raises:
        StorageError: it can't be created.
    """
    if os.path.exists(path):  # noqa: PTH110 - `Path.exists` raises for some that can't be read
        return
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        do = f"make the folder {str(path.parent)!r}, or choose another path"
        if "://" in os.fspath(path) or path.parts[0].endswith(":"):
            do = f"pass a path without {path.parts[0]!r}, such as 'runs.db'"
        raise file_error(error, f"can't create the database file {str(path)!r}", do) from error
    os.close(descriptor)
