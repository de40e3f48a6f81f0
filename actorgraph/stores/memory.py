"""InMemoryStore: items in memory, as JSON text, so that callers never share an object."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from actorgraph.stores.batch import (
    Address,
    Batch,
    ItemFilter,
    ItemRow,
    PreparedPut,
    carry_out,
    expiry,
)
from actorgraph.stores.filters import matches
from actorgraph.stores.item_values import from_text
from actorgraph.stores.operations import INTEGER_MAX, IndexConfig, Namespace, Result, TTLConfig
from actorgraph.stores.store import BuiltinStore


class InMemoryStore(BuiltinStore):
    """A store in memory. Safe to use from several threads and event loops.

    Searches return items in the order in which they were first put, namespace by namespace.

    Args:
        index: how texts are embedded; None (default): searches ignore `query`.
        ttl: how long items live; default for ever.
        clock: returns seconds since 1970.
    Raises:
        InvalidStoreOperationError: the index is invalid.
    """

    __slots__ = ("_items", "_lock")

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(index=index, ttl=ttl, clock=clock)
        self._items = MemoryItemTable()
        self._lock = threading.Lock()

    def _carry_out(self, batch: Batch) -> list[Result]:
        with self._lock:
            return carry_out(self._items, batch, self._now(), self.ttl_config)

    async def _acarry_out(self, batch: Batch) -> list[Result]:
        return self._carry_out(batch)

    def _sweep(self, now: int) -> int:
        with self._lock:
            return self._items.sweep(now)


class MemoryItemTable:
    """Rows by namespace and key; implements `ItemTable`."""

    is_private = True

    def __init__(self) -> None:
        self._rows: dict[Namespace, dict[str, ItemRow]] = {}
        self._vectors: dict[Address, list[bytes]] = {}
        self._values: dict[Address, Any] = {}

    def get(self, address: Address, visible_from: int | None) -> ItemRow | None:
        """See `ItemTable.get`."""
        namespace, key = address
        row = self._rows.get(namespace, {}).get(key)
        return row if row is not None and _visible(row, visible_from) else None

    def scan(
        self, prefix: Namespace, wanted: ItemFilter, visible_from: int | None, rows_max: int
    ) -> Iterator[ItemRow]:
        """See `ItemTable.scan`."""
        fitting = (
            row
            for row in self._below(prefix)
            if _visible(row, visible_from) and (not wanted or matches(self._value(row), wanted))
        )
        return islice(fitting, rows_max)

    def vectors(
        self, prefix: Namespace, wanted: ItemFilter, visible_from: int | None
    ) -> Iterable[tuple[Address, bytes]]:
        """See `ItemTable.vectors`."""
        for row in self.scan(prefix, wanted, visible_from, INTEGER_MAX):
            address = row.namespace, row.key
            yield from ((address, vector) for vector in self._vectors.get(address, ()))

    def namespaces(self, prefix: Namespace, visible_from: int | None) -> Iterable[Namespace]:
        """See `ItemTable.namespaces`."""
        for namespace, rows in self._rows.items():
            if namespace[: len(prefix)] == prefix and any(
                _visible(row, visible_from) for row in rows.values()
            ):
                yield namespace

    def put(self, address: Address, put: PreparedPut, now: int) -> None:
        """See `ItemTable.put`."""
        namespace, key = address
        rows = self._rows.setdefault(namespace, {})
        old, ends = rows.get(key), expiry(put.ttl, now)
        created = now if old is None else old.created
        rows[key] = ItemRow(namespace, key, put.text, created, now, put.ttl, ends)
        self._values.pop(address, None)
        self._vectors.pop(address, None)
        if put.vectors:
            self._vectors[address] = [vector for _, vector in put.vectors]

    def delete(self, address: Address) -> None:
        """See `ItemTable.delete`."""
        namespace, key = address
        rows = self._rows.get(namespace)
        if rows is None or rows.pop(key, None) is None:
            return
        self._values.pop(address, None)
        self._vectors.pop(address, None)
        if not rows:
            del self._rows[namespace]

    def touch(self, addresses: Iterable[Address], now: int) -> None:
        """See `ItemTable.touch`."""
        for namespace, key in addresses:
            row = self._rows[namespace][key]
            row.expires = expiry(row.ttl, now)

    def sweep(self, now: int) -> int:
        """Remove expired rows; return how many."""
        every = (row for rows in self._rows.values() for row in rows.values())
        gone = [(row.namespace, row.key) for row in every if not _visible(row, now)]
        for address in gone:
            self.delete(address)
        return len(gone)

    def _below(self, prefix: Namespace) -> Iterator[ItemRow]:
        for namespace, rows in self._rows.items():
            if namespace[: len(prefix)] == prefix:
                yield from rows.values()

    def _value(self, row: ItemRow) -> Any:
        """Return the decoded value of a row, cached for filters; callers never get it."""
        address = row.namespace, row.key
        if address not in self._values:
            self._values[address] = from_text(row.text)
        return self._values[address]


def _visible(row: ItemRow, visible_from: int | None) -> bool:
    return visible_from is None or row.expires is None or row.expires > visible_from
