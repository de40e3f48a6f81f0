"""PostgresItemTable: items in PostgreSQL, inside one transaction.

A filter is applied here, by the function that all stores share. Its necessary conditions are also
sent, as one bound parameter, so that the database leaves out most other rows (`necessary`).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from actorgraph.stores.batch import Address, ItemFilter, ItemRow, PreparedPut, expiry
from actorgraph.stores.filters import join_namespace, may_match, split_namespace, text_range
from actorgraph.stores.item_values import is_sound, item_sum, to_text, vector_sum
from actorgraph.stores.operations import INTEGER_MAX, Namespace
from actorgraph.stores.postgres import schema

ROWS_AT_ONCE = 500
_EXACT_MAX = 2**53


class PostgresItemTable:
    """Rows of one connection, inside a transaction; implements `ItemTable`.

    Args:
        compares: whether the server applies the necessary conditions of filters.
    """

    is_private = False

    def __init__(self, connection: Any, *, compares: bool = True) -> None:
        self._connection = connection
        self._compares = compares

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
        where = _where(prefix, wanted if self._compares else None, visible_from)
        if not wanted:
            rows = self._connection.execute(schema.SELECT_BELOW, where | {"rows_max": rows_max})
            yield from map(_row, rows)
            return
        every = where | {"rows_max": INTEGER_MAX}
        fitting = (
            row
            for row in map(_row, self._in_pages(schema.SELECT_BELOW, every))
            if may_match(row.text, wanted)
        )
        yield from islice(fitting, rows_max)

    def vectors(
        self, prefix: Namespace, wanted: ItemFilter, visible_from: int | None
    ) -> Iterable[tuple[Address, bytes]]:
        """See `ItemTable.vectors`."""
        where = _where(prefix, wanted if self._compares else None, visible_from)
        where |= {"filtered": bool(wanted)}
        for namespace, key, *entry, text in self._in_pages(schema.SELECT_VECTORS, where):
            vector, path, crc = bytes(entry[0]), *entry[1:]
            if not is_sound((namespace, key), path, vector, crc):
                continue
            if not wanted or may_match(text, wanted):
                yield (split_namespace(namespace), key), vector

    def namespaces(self, prefix: Namespace, visible_from: int | None) -> Iterable[Namespace]:
        """See `ItemTable.namespaces`."""
        where = _where(prefix, None, visible_from)
        rows = self._connection.execute(schema.SELECT_NAMESPACES, where)
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
        for entry in put.vectors:
            crc = vector_sum(where, *entry)
            self._connection.execute(schema.PUT_VECTOR, (*where, *entry, crc))

    def delete(self, address: Address) -> None:
        """See `ItemTable.delete`; a foreign key deletes the vectors."""
        self._connection.execute(schema.DELETE_ITEM, (join_namespace(address[0]), address[1]))

    def touch(self, addresses: Iterable[Address], now: int) -> None:
        """See `ItemTable.touch`."""
        for namespace, key in addresses:
            where = {"namespace": join_namespace(namespace), "key": key, "now": now}
            self._connection.execute(schema.UPDATE_EXPIRY, where)

    def sweep(self, now: int) -> int:
        """Remove expired rows; return how many."""
        return self._connection.execute(schema.DELETE_EXPIRED, (now,)).rowcount

    def _in_pages(self, statement: str, where: dict[str, Any]) -> Iterator[Any]:
        """Yield rows through a server-side cursor, so that rows beyond a limit are not sent."""
        with self._connection.cursor(name="actorgraph_rows") as cursor:
            cursor.itersize = ROWS_AT_ONCE
            cursor.execute(statement, where)
            yield from cursor


def necessary(wanted: ItemFilter) -> dict[str, Any]:
    """Return an object that every matching value contains, for jsonb's operator `@>`.

    It has texts, bools and numbers that a float holds exactly, where the filter wants them equal.
    Conditions that PostgreSQL might judge differently are left out: None, which also matches a
    missing field, lists, comparisons of order, and names with periods, which may be nested.
    """
    found: dict[str, Any] = {}
    for name, condition in (wanted or {}).items():
        if "." in name or not _plain(name):
            continue
        operands = condition if isinstance(condition, Mapping) else {"$eq": condition}
        if any(key.startswith("$") for key in operands):
            equal = operands.get("$eq")
            if equal is not None and _plain(equal):
                found[name] = equal
        elif operands:
            found[name] = necessary(operands)
    return found


def _plain(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, int | float) and abs(value) <= _EXACT_MAX


def _where(prefix: Namespace, wanted: ItemFilter, visible_from: int | None) -> dict[str, Any]:
    text, first, end = text_range(prefix)
    contains = necessary(wanted)
    return {
        "prefix": text,
        "first": first,
        "end": end,
        "visible": visible_from,
        "contains": to_text(contains, "the filter") if contains else None,
    }


def _row(found: tuple[Any, ...]) -> ItemRow:
    return ItemRow(split_namespace(found[0]), *found[1:])
