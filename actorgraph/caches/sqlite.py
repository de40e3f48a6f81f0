"""SqliteCache: entries in an SQLite file, shared by the processes that open it.

One connection behind a lock, used in the caller's thread; async callers use a worker thread, the
same on asyncio and trio. A cache is used from anywhere without being opened in an event loop, so
unlike a saver it has no connection per loop.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time
from typing import Any
from zlib import crc32

from actorgraph.caches.base import BaseCache, FullKey, Namespace, ValueT
from actorgraph.codec import Codec
from actorgraph.errors import StorageError
from actorgraph.storage.kept import keep, release
from actorgraph.storage.sqlite.connections import database_path, make_private, use_wal
from actorgraph.storage.sqlite.open_files import DatabaseFile
from actorgraph.storage.sqlite.translate import opening_error, translate
from actorgraph.values.durations import checked_seconds

_SETUP = """
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS cache (
    namespace TEXT NOT NULL,
    key       TEXT NOT NULL,
    expiry    REAL,
    payload   BLOB NOT NULL,
    crc       INTEGER,
    PRIMARY KEY (namespace, key)
);
CREATE INDEX IF NOT EXISTS idx_cache_expiry ON cache (expiry) WHERE expiry IS NOT NULL;
"""
_GET = """
SELECT j.value ->> 0, j.value ->> 1, c.payload, c.expiry, c.crc FROM json_each(?) AS j
JOIN cache c ON c.namespace = j.value ->> 0 AND c.key = j.value ->> 1
WHERE c.expiry IS NULL OR c.expiry > ?
"""
_SET = "INSERT OR REPLACE INTO cache VALUES (?, ?, ?, ?, ?)"
_PURGE = "DELETE FROM cache WHERE expiry <= ?"
_CLEAR = "DELETE FROM cache WHERE namespace IN (SELECT value FROM json_each(?))"


class SqliteCache(BaseCache[ValueT]):
    """A cache in a file. Safe to use from several threads, event loops and processes.

    A file that is removed or replaced while it is open is opened anew.

    Args:
        path: the file, created with mode 0600 if missing; ":memory:" for this object only.
        busy_timeout_s: seconds to wait for another process's lock. Default 5.
        codec: see `BaseCache`.
        clock: see `BaseCache`.
    Raises:
        InvalidConfigError: the path is an address, which begins with `file:`, or the time is
            negative or not finite.
        StorageError: the file can't be opened or created.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout_s: float = 5.0,
        codec: Codec | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        super().__init__(codec=codec, clock=clock)
        self.path = database_path(path, "SqliteCache")
        checked_seconds("busy_timeout_s", busy_timeout_s, zero=True, default="0 or more seconds")
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.Lock()
        self._file: DatabaseFile | None = None
        self._open()

    def _open(self) -> None:
        try:
            if self.path != ":memory:":
                make_private(Path(self.path))
            self._connection = sqlite3.connect(
                self.path,
                timeout=self._busy_timeout_s,
                isolation_level=None,
                check_same_thread=False,
            )
            keep(self._connection)
            use_wal(self._connection, self._busy_timeout_s)
            self._connection.executescript(_SETUP)
            _upgrade(self._connection)
            if self.path != ":memory:":
                self._file = DatabaseFile(self.path, "cache", StorageError)
                self._file.check()
        except (OSError, sqlite3.Error) as error:
            self._close()
            raise opening_error(
                error,
                f"can't open {self.path!r} as a cache",
                do="check the path and its permissions, or name another file",
            ) from error

    def _open_if_lost(self) -> None:
        """Open the file anew if it, or its log, was removed or replaced: a cache may be deleted."""
        try:
            if self._file is not None:
                self._file.explain()
        except StorageError:
            self._close()
            self._open()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """See `BaseCache.get`."""
        wanted = {(_text(namespace), key): (namespace, key) for namespace, key in keys}
        with self._using():
            rows = self._connection.execute(_GET, (json.dumps(list(wanted)), self.clock()))
            found = rows.fetchall()
        payloads = {wanted[row[0], row[1]]: row[2] for row in found if _is_sound(*row)}
        return {key: self.decoded(key, payload) for key, payload in payloads.items()}

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """See `BaseCache.set`; also removes expired entries."""
        rows = [
            _with_sum(_text(key[0]), key[1], self.expiry(ttl), self.encoded(key, value))
            for key, (value, ttl) in pairs.items()
        ]
        with self._using():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.execute(_PURGE, (self.clock(),))
                self._connection.executemany(_SET, rows)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """See `BaseCache.clear`."""
        with self._using():
            if namespaces is None:
                self._connection.execute("DELETE FROM cache")
            else:
                gone = json.dumps([_text(namespace) for namespace in namespaces])
                self._connection.execute(_CLEAR, (gone,))

    @contextmanager
    def _using(self) -> Generator[None]:
        with self._lock:
            self._open_if_lost()
            try:
                yield
            except sqlite3.Error as error:
                if self._file is not None:
                    self._file.explain()
                raise translate(error, f"cache {self.path!r}") from error
            if self._file is not None:
                with suppress(StorageError):  # its files are opened anew at the next use
                    self._file.check()

    def close(self) -> None:
        """Close the file; the cache can't be used any more."""
        self._file = None
        if getattr(self, "_connection", None) is not None:
            with self._lock:  # a worker thread of a cancelled caller may still use it
                self._close()

    def _close(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()
            release(connection)

    def __enter__(self) -> "SqliteCache[ValueT]":
        return self

    def __exit__(self, *_: object) -> None:
        """See `close`."""
        self.close()

    def __del__(self) -> None:
        self.close()


def _upgrade(connection: sqlite3.Connection) -> None:
    """Add the column of checksums that older files lack; their rows have none."""
    if any(name == "crc" for _, name, *_ in connection.execute("PRAGMA table_info(cache)")):
        return
    try:
        connection.execute("ALTER TABLE cache ADD COLUMN crc INTEGER")
    except sqlite3.OperationalError as error:
        # Another process may have added it since the check above.
        if "duplicate column" not in str(error):
            raise


def _sum(namespace: str, key: str, expiry: float | None, payload: bytes) -> int:
    end = None if expiry is None else float(expiry)  # a clock may return integers; the column: REAL
    return crc32(payload, crc32(f"{namespace}\n{key}\n{end!r}".encode()))


def _with_sum(*row: Any) -> tuple[Any, ...]:
    return (*row, _sum(*row))


def _is_sound(space: str, key: str, payload: Any, expiry: Any, found: int | None) -> bool:
    """Whether an entry is as it was stored; a damaged one counts as a miss."""
    return type(payload) is bytes and found in (None, _sum(space, key, expiry, payload))


def _text(namespace: Namespace) -> str:
    return json.dumps(namespace)
