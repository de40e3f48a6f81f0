"""Items in SQLite: the statements, and the rows that they find (see `engine.Home`).

A filter reaches SQLite as one bound parameter, JSON text; a function of ours compares it with the
row's value. So no part of it is ever SQL, and it means the same as in every other store.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from actorgraph.stores.engine import Address, Filter, Put, Row, expiry
from actorgraph.stores.filters import matches
from actorgraph.stores.namespaces import joined, parted, text_range
from actorgraph.stores.ops import Namespace
from actorgraph.stores.texts import from_text, to_text

SCHEMA_VERSION = 1
SETUP = """
CREATE TABLE IF NOT EXISTS store_format (version INTEGER NOT NULL);
INSERT INTO store_format SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM store_format);
-- Times are microseconds since 1970. `seq` is the order of the last puts.
CREATE TABLE IF NOT EXISTS items (
    namespace TEXT NOT NULL,     -- labels joined by periods
    key       TEXT NOT NULL,
    value     TEXT NOT NULL,     -- JSON
    created   INTEGER NOT NULL,
    updated   INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    ttl       REAL,              -- minutes; NULL for ever
    expires   INTEGER,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS idx_items_seq ON items (seq);
CREATE INDEX IF NOT EXISTS idx_items_expires ON items (expires) WHERE expires IS NOT NULL;
CREATE TABLE IF NOT EXISTS item_vectors (
    namespace TEXT NOT NULL,
    key       TEXT NOT NULL,
    path      TEXT NOT NULL,     -- which text of the value
    vector    BLOB NOT NULL,     -- float32 numbers
    PRIMARY KEY (namespace, key, path)
) WITHOUT ROWID;
"""
SELECT_VERSION = "SELECT version FROM store_format"
SELECT_TABLES = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'store_format'"

_COLUMNS = "i.namespace, i.key, i.value, i.created, i.updated, i.ttl, i.expires"
_VISIBLE = "(:visible IS NULL OR i.expires IS NULL OR i.expires > :visible)"
_BELOW = "(:prefix = '' OR i.namespace = :prefix OR (i.namespace >= :first AND i.namespace < :end))"
_FITS = "(:filter IS NULL OR actorgraph_matches(i.value, :filter))"
_GET = f"SELECT {_COLUMNS} FROM items i WHERE namespace = :namespace AND key = :key AND {_VISIBLE}"  # noqa: S608 - the only things put in are constants of this file
_SCAN_ALL = f"""
SELECT {_COLUMNS} FROM items i WHERE {_VISIBLE} AND {_FITS} ORDER BY i.seq DESC LIMIT :rows_max
"""  # noqa: S608 - as above
_SCAN = f"""
SELECT {_COLUMNS} FROM (
    SELECT * FROM items WHERE namespace = :prefix
    UNION ALL SELECT * FROM items WHERE namespace >= :first AND namespace < :end
) i WHERE {_VISIBLE} AND {_FITS} ORDER BY i.seq DESC LIMIT :rows_max
"""  # noqa: S608 - as above
_VECTORS = f"""
SELECT v.namespace, v.key, v.vector FROM items i
JOIN item_vectors v ON v.namespace = i.namespace AND v.key = i.key
WHERE {_BELOW} AND {_VISIBLE} AND {_FITS} ORDER BY i.seq DESC, v.path
"""  # noqa: S608 - as above
_NAMESPACES = f"SELECT DISTINCT i.namespace FROM items i WHERE {_BELOW} AND {_VISIBLE}"  # noqa: S608 - as above
_PUT = """
INSERT INTO items VALUES (:namespace, :key, :value, :now, :now,
    (SELECT coalesce(max(seq), 0) + 1 FROM items), :ttl, :expires)
ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, updated = excluded.updated,
    seq = excluded.seq, ttl = excluded.ttl, expires = excluded.expires
"""
_DELETE = "DELETE FROM items WHERE namespace = ? AND key = ?"
_DELETE_VECTORS = "DELETE FROM item_vectors WHERE namespace = ? AND key = ?"
_PUT_VECTOR = "INSERT OR REPLACE INTO item_vectors VALUES (?, ?, ?, ?)"
_SELECT_TTL = "SELECT ttl FROM items WHERE namespace = ? AND key = ?"
_TOUCH = "UPDATE items SET expires = ? WHERE namespace = ? AND key = ?"
_SWEEP_VECTORS = """
DELETE FROM item_vectors WHERE (namespace, key) IN (
    SELECT namespace, key FROM items WHERE expires IS NOT NULL AND expires <= ?)
"""
_SWEEP = "DELETE FROM items WHERE expires IS NOT NULL AND expires <= ?"


class SqliteHome:
    """The rows of one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, address: Address, visible_from: int | None) -> Row | None:
        """See `Home.get`."""
        namespace, key = address
        where = {"namespace": joined(namespace), "key": key, "visible": visible_from}
        found = self._connection.execute(_GET, where).fetchone()
        return None if found is None else _row(found)

    def scan(
        self, prefix: Namespace, wanted: Filter, visible_from: int | None, rows_max: int
    ) -> Iterator[Row]:
        """See `Home.scan`; what was put last comes first."""
        where = _where(prefix, visible_from) | {"filter": _text(wanted), "rows_max": rows_max}
        for found in self._connection.execute(_SCAN if prefix else _SCAN_ALL, where):
            yield _row(found)

    def vectors(
        self, prefix: Namespace, wanted: Filter, visible_from: int | None
    ) -> Iterable[tuple[Address, bytes]]:
        """See `Home.vectors`."""
        where = _where(prefix, visible_from) | {"filter": _text(wanted)}
        for namespace, key, vector in self._connection.execute(_VECTORS, where):
            yield (parted(namespace), key), vector

    def namespaces(self, prefix: Namespace, visible_from: int | None) -> Iterable[Namespace]:
        """See `Home.namespaces`."""
        rows = self._connection.execute(_NAMESPACES, _where(prefix, visible_from))
        return [parted(namespace) for (namespace,) in rows]

    def put(self, address: Address, put: Put, now: int) -> None:
        """See `Home.put`."""
        where = joined(address[0]), address[1]
        values = {"namespace": where[0], "key": where[1], "value": put.text, "now": now}
        self._connection.execute(_PUT, values | {"ttl": put.ttl, "expires": expiry(put.ttl, now)})
        self._connection.execute(_DELETE_VECTORS, where)
        self._connection.executemany(_PUT_VECTOR, [(*where, *entry) for entry in put.vectors])

    def delete(self, address: Address) -> None:
        """See `Home.delete`."""
        where = joined(address[0]), address[1]
        self._connection.execute(_DELETE, where)
        self._connection.execute(_DELETE_VECTORS, where)

    def touch(self, addresses: Iterable[Address], now: int) -> None:
        """See `Home.touch`."""
        for namespace, key in addresses:
            where = joined(namespace), key
            (ttl,) = self._connection.execute(_SELECT_TTL, where).fetchone()
            self._connection.execute(_TOUCH, (expiry(ttl, now), *where))

    def sweep(self, now: int) -> int:
        """Remove what has expired; how many rows."""
        self._connection.execute(_SWEEP_VECTORS, (now,))
        return self._connection.execute(_SWEEP, (now,)).rowcount


def add_functions(connection: sqlite3.Connection) -> None:
    """Give a connection what the statements above call."""
    connection.create_function("actorgraph_matches", 2, _matches, deterministic=True)


def _matches(value: str, wanted: str) -> bool:
    return matches(from_text(value), _filter(wanted))


@lru_cache(maxsize=64)
def _filter(text: str) -> Any:
    return from_text(text)


def _text(wanted: Mapping[str, Any] | None) -> str | None:
    return to_text(dict(wanted), "the filter") if wanted else None


def _where(prefix: Namespace, visible_from: int | None) -> dict[str, Any]:
    text, first, end = text_range(prefix)
    return {"prefix": text, "first": first, "end": end, "visible": visible_from}


def _row(found: tuple[Any, ...]) -> Row:
    return Row(parted(found[0]), *found[1:])
