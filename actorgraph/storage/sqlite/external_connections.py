"""Connections that the program passes in, of `sqlite3` or aiosqlite.

File        only its path is taken from the connection: savers and stores open connections of their
            own, since they use several at once and settings that the program's may not have
In memory   no other connection sees the database, so this one is used, in turns, and left open
"""

import sqlite3
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio.to_thread

from actorgraph.errors import InvalidConfigError, SaverBrokenError, StorageBusyError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
ANSWER_TIMEOUT_S = 30.0
"""Seconds to wait for the thread of a connection of aiosqlite."""


class ExternalSqliteConnection:
    """The program's connection to a database in memory.

    It is also a `Driver`. There is one for each connection, so that a saver and a store over it
    take turns.

    Args:
        connection: the program's.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._lock = threading.Lock()

    async def run(self, work: Work[T]) -> T:
        """See `Driver.run`; in a worker thread."""
        return await anyio.to_thread.run_sync(self.run_here, work)

    def run_here(self, work: Work[T]) -> T:
        """See `Driver.run_here`.

        Raises:
            StorageBusyError: the program has begun a transaction.
        """

        def turn(connection: sqlite3.Connection) -> T:
            with self._lock, _borrowed(connection):
                return work(connection)

        return _call(self.connection, turn)

    async def close(self) -> None:
        """Leave the connection open: it is the program's."""


_OUTSIDE = "leave autocommit out, or pass autocommit=True; or pass the path of a file"
_EXTERNAL: WeakValueDictionary[int, ExternalSqliteConnection] = WeakValueDictionary()


def source_of(given: Any, owner: str) -> str | ExternalSqliteConnection | None:
    """Return where a connection leads: the path of its file, or itself for a database in memory.

    Args:
        owner: the class that takes the connection, for errors.
    Returns: None for any other object.
    Raises:
        InvalidConfigError: the connection can't be used here.
    """
    wrapped = None if isinstance(given, sqlite3.Connection) else given
    is_bare = wrapped is not given
    package = type(given).__module__.partition(".")[0]
    if not is_bare and not (package == "aiosqlite" and hasattr(wrapped, "_connector")):
        return None
    try:
        if wrapped is not None and wrapped._connection is None:  # noqa: SLF001 - no other sign
            # A database in memory that is not open yet is empty.
            with closing(wrapped._connector()) as opened:  # noqa: SLF001 - as above
                return _file_of(opened) or ":memory:"
        path, always_inside = _call(given, _facts_of)
        if path:
            return path
        if is_bare:
            _check_threads(given)
    except sqlite3.Error as error:
        raise InvalidConfigError(
            f"{owner} can't use the connection: {str(error).partition('. ')[0]}",
            do="pass the file's path, or an open connection made with check_same_thread=False",
        ) from error
    if always_inside:
        raise InvalidConfigError(
            f"{owner} can't use a connection in memory with autocommit=False",
            do=_OUTSIDE,
        )
    external = _EXTERNAL.get(id(given))
    if external is None or external.connection is not given:
        external = _EXTERNAL[id(given)] = ExternalSqliteConnection(given)
    return external


def _facts_of(connection: sqlite3.Connection) -> tuple[str, bool]:
    """Return the file's path, "" in memory, and whether it is always inside a transaction."""
    return _file_of(connection), _is_always_inside(connection)


def _is_always_inside(connection: sqlite3.Connection) -> bool:
    # Since Python 3.12, where only the connection's own thread may ask.
    return getattr(connection, "autocommit", None) is False


def _file_of(connection: sqlite3.Connection) -> str:
    with closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        rows = cursor.execute("PRAGMA database_list").fetchall()
    return next((file or "" for _, name, file in rows if name == "main"), "")


def _check_threads(connection: sqlite3.Connection) -> None:
    """Check that other threads than this one may use a connection.

    Raises:
        sqlite3.ProgrammingError: they may not.
    """
    tried: Future[Any] = Future()
    thread = threading.Thread(target=_settle, args=(tried, lambda: _file_of(connection)))
    thread.start()
    thread.join()
    tried.result()


class _NoFuture:
    """In place of the future of an event loop, to which aiosqlite reports what a call returned."""

    def get_loop(self) -> "_NoFuture":
        return self

    def call_soon_threadsafe(self, *_: Any) -> None:
        return None


def _call(connection: Any, work: Work[T]) -> T:
    """Call a function with the `sqlite3.Connection`, in aiosqlite's thread if it has one.

    Raises:
        StorageBusyError: aiosqlite's thread is busy; the function won't be called.
        SaverBrokenError: the function has begun and doesn't end.
    """
    if isinstance(connection, sqlite3.Connection):
        return work(connection)
    inner, tasks = connection._connection, connection._tx  # noqa: SLF001 - see below
    if inner is None:
        msg = "Cannot operate on a closed database."
        raise sqlite3.ProgrammingError(msg)
    # aiosqlite's methods belong to an event loop of asyncio. Its queue takes calls from any thread.
    done: Future[T] = Future()
    tasks.put_nowait((_NoFuture(), lambda: _settle(done, lambda: work(inner))))
    try:
        return done.result(ANSWER_TIMEOUT_S)
    except TimeoutError as error:
        # A refused turn must not be carried out later.
        if done.cancel():
            raise StorageBusyError(
                f"the connection of aiosqlite has been busy for {ANSWER_TIMEOUT_S:g} s",
                do="find out which statement of the program it is carrying out",
            ) from error
        if done.done():
            return done.result()
        raise SaverBrokenError(
            f"the connection of aiosqlite hasn't ended its work within {ANSWER_TIMEOUT_S:g} s, "
            "and it is unknown whether it will be stored",
            do="find out what holds it up, then close and open the saver again",
        ) from error


def _settle(done: "Future[Any]", work: Callable[[], Any]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        done.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised where the result is waited for
        done.set_exception(error)


@contextmanager
def _borrowed(connection: sqlite3.Connection) -> Generator[None]:
    """Use a connection with the settings of our own ones; restore the program's afterwards."""
    if connection.in_transaction:
        raise StorageBusyError(
            "the connection that was passed in is inside a transaction of the program",
            do=_OUTSIDE
            if _is_always_inside(connection)
            else "commit or roll it back before the saver or store is used",
        )
    before = connection.isolation_level, connection.row_factory, connection.text_factory
    connection.isolation_level, connection.row_factory, connection.text_factory = None, None, str
    try:
        yield
    finally:
        connection.isolation_level, connection.row_factory, connection.text_factory = before
