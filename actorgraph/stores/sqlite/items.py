"""SqliteItemTable: items in SQLite, inside one transaction.

A filter is passed to SQLite as one bound parameter, JSON text; a Python function compares it with
the row's value. So no part of it is ever SQL, and it means the same as in every other store.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from actorgraph.stores.batch import Address, ItemFilter, ItemRow, PreparedPut, expiry
from actorgraph.stores.filters import join_namespace, matches, split_namespace, text_range
from actorgraph.stores.item_values import from_text, is_sound, item_sum, to_text, vector_sum
from actorgraph.stores.operations import Namespace
from actorgraph.stores.sqlite import schema


class SqliteItemTable:
    """Rows of one connection, inside a transaction; implements `ItemTable`.

    Args:
        writes: whether the transaction may write. If not, `touched` has the rows whose time to
            live starts again, for a second transaction.
    """

    is_private = False

    def __init__(self, connection: sqlite3.Connection, *, writes: bool) -> None:
        self._connection = connection
        self._writes = writes
        self.touched: list[Address] = []

    def get(self, address: Address, visible_from: int | None) -> ItemRow | None:
        """See `ItemTable.get`."""
        namespace, key = address
        where = {"namespace": join_namespace(namespace), "key": key, "visible": visible_from}
        found = self._connection.execute(schema.SELECT_ITEM, where).fetchone()
        return None if found is None else _row(found)

    def scan(
        self, prefix: Namespace, wanted: ItemFilter, visible_from: int | None, rows_max: int
    ) -> Iterator[ItemRow]:
        """See `ItemTable.scan`; rows that were put last come first."""
        where = _where(prefix, visible_from) | {"filter": _text(wanted), "rows_max": rows_max}
        for found in self._connection.execute(
            schema.SELECT_BELOW if prefix else schema.SELECT_ALL, where
        ):
            yield _row(found)

    def vectors(
        self, prefix: Namespace, wanted: ItemFilter, visible_from: int | None
    ) -> Iterable[tuple[Address, bytes]]:
        """See `ItemTable.vectors`."""
        where = _where(prefix, visible_from) | {"filter": _text(wanted)}
        for namespace, key, *entry in self._connection.execute(schema.SELECT_VECTORS, where):
            vector, path, crc = entry
            if is_sound((namespace, key), path, vector, crc):
                yield (split_namespace(namespace), key), vector

    def namespaces(self, prefix: Namespace, visible_from: int | None) -> Iterable[Namespace]:
        """See `ItemTable.namespaces`."""
        rows = self._connection.execute(schema.SELECT_NAMESPACES, _where(prefix, visible_from))
        return [split_namespace(namespace) for (namespace,) in rows]

    def put(self, address: Address, put: PreparedPut, now: int) -> None:
        """See `ItemTable.put`."""
        where = join_namespace(address[0]), address[1]
        values = {"namespace": where[0], "key": where[1], "value": put.text, "now": now}
        expires = expiry(put.ttl, now)
        crc = item_sum(where, put.text, put.ttl, (now, now, expires))
        values |= {"ttl": put.ttl, "expires": expires, "crc": crc}
        self._connection.execute(schema.PUT_ITEM, values)
        self._connection.execute(schema.DELETE_VECTORS, where)
        self._connection.executemany(
            schema.PUT_VECTOR, [(*where, *e, vector_sum(where, *e)) for e in put.vectors]
        )

    def delete(self, address: Address) -> None:
        """See `ItemTable.delete`."""
        where = join_namespace(address[0]), address[1]
        self._connection.execute(schema.DELETE_ITEM, where)
        self._connection.execute(schema.DELETE_VECTORS, where)

    def touch(self, addresses: Iterable[Address], now: int) -> None:
        """See `ItemTable.touch`."""
        self.touched += addresses
        if self._writes:
            self.touch_now(now)

    def touch_now(self, now: int) -> None:
        """Start the time to live of the rows in `touched` again."""
        for namespace, key in self.touched:
            where = {"namespace": join_namespace(namespace), "key": key, "now": now}
            self._connection.execute(schema.UPDATE_EXPIRY, where)
        self.touched.clear()

    def sweep(self, now: int) -> int:
        """Remove expired rows; return how many."""
        self._connection.execute(schema.DELETE_EXPIRED_VECTORS, (now,))
        return self._connection.execute(schema.DELETE_EXPIRED, (now,)).rowcount


def add_functions(connection: sqlite3.Connection) -> None:
    """Register the Python functions that the statements call."""
    connection.create_function("actorgraph_matches", 9, _matches, deterministic=True)


def _matches(wanted: str, namespace: bytes, key: bytes, value: bytes, *columns: Any) -> bool:
    try:
        if matches(from_text(value), _filter(wanted)):
            return True
        created, updated, ttl, expires, crc = columns
        times = (created, updated, expires)
        where = namespace.decode(), key.decode()
        return crc not in (None, item_sum(where, value.decode(), ttl, times))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return True


@lru_cache(maxsize=64)
def _filter(text: str) -> Any:
    return from_text(text)


def _text(wanted: Mapping[str, Any] | None) -> str | None:
    return to_text(dict(wanted), "the filter") if wanted else None


def _where(prefix: Namespace, visible_from: int | None) -> dict[str, Any]:
    text, first, end = text_range(prefix)
    return {"prefix": text, "first": first, "end": end, "visible": visible_from}


def _row(found: tuple[Any, ...]) -> ItemRow:
    return ItemRow(split_namespace(str(found[0])), *found[1:])
