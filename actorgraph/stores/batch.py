"""Batches of operations, the same for every store, over the `ItemTable` of each.

Order   reads first, then the puts, of each key the last one. So reads see the state before the
        batch, regardless of the order in it (LangGraph's rule, and that of its databases).
Atomic  `prepare` refuses invalid operations before anything is done; the store carries out a batch
        in one transaction.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Protocol

import msgspec

from actorgraph.errors import DamagedRowError
from actorgraph.errors.texts import is_encodable
from actorgraph.storage.logged_problems import warn
from actorgraph.stores.embedding import Embedder, get_text_at_path, ranked, steps_of
from actorgraph.stores.filters import join_namespace, listed, plain_prefix
from actorgraph.stores.item_values import damaged_item, from_text, item_sum, to_dict, to_text
from actorgraph.stores.operations import (
    INTEGER_MAX,
    GetOp,
    Item,
    ListNamespacesOp,
    Namespace,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    checked_ops,
)

Address = tuple[Namespace, str]
ItemFilter = Mapping[str, Any] | None
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = 60_000_000


class ItemRow(msgspec.Struct):
    """An item as it is stored. Times are microseconds since 1970.

    Attributes:
        text: the value as JSON.
        created: time of the first put.
        updated: time of the last put.
        ttl: minutes to live; None for ever.
        expires: time at which it expires; None for never.
        sum: its checksum; None for a row of an older version.
    """

    namespace: Namespace
    key: str
    text: str
    created: int
    updated: int
    ttl: float | None = None
    expires: int | None = None
    sum: int | None = None


class PreparedPut(msgspec.Struct):
    """A put, ready to be stored.

    Attributes:
        text: the value as JSON.
        ttl: minutes to live; None for ever.
        texts: (path, text to embed).
        vectors: (path, float32 numbers); set once the texts are embedded.
    """

    text: str
    ttl: float | None
    texts: list[tuple[str, str]]
    vectors: list[tuple[str, bytes]] = []


class Batch(msgspec.Struct):
    """Validated operations, ready to be carried out.

    Attributes:
        puts: address -> the last put of it; None to remove the item.
        queries: text to search for -> its vector.
    """

    ops: list[Op]
    puts: dict[Address, PreparedPut | None]
    queries: dict[str, bytes]


class ItemTable(Protocol):
    """The items of a store, inside one transaction.

    With `visible_from` items that have expired at that time are left out; None shows them too.

    Attributes:
        is_private: whether nothing but this store can change its rows.
    """

    is_private: bool

    def get(self, address: Address, visible_from: int | None) -> ItemRow | None:
        """Return the row of an address."""
        ...

    def scan(
        self, prefix: Namespace, wanted: ItemFilter, visible_from: int | None, rows_max: int
    ) -> Iterator[ItemRow]:
        """Yield rows below a prefix that match a filter, in the store's order."""
        ...

    def vectors(
        self, prefix: Namespace, wanted: ItemFilter, visible_from: int | None
    ) -> Iterable[tuple[Address, bytes]]:
        """Yield the vectors of rows below a prefix that match a filter."""
        ...

    def namespaces(self, prefix: Namespace, visible_from: int | None) -> Iterable[Namespace]:
        """Return every namespace below a prefix that has a row, once."""
        ...

    def put(self, address: Address, put: PreparedPut, now: int) -> None:
        """Store a row and its vectors."""
        ...

    def delete(self, address: Address) -> None:
        """Remove a row and its vectors."""
        ...

    def touch(self, addresses: Iterable[Address], now: int) -> None:
        """Start the time to live of rows again, from now."""
        ...


def prepare(ops: Iterable[Op], embedder: Embedder | None) -> Batch:
    """Validate operations and encode their values.

    Raises:
        StoreError: an operation is invalid; none is carried out.
    """
    checked, puts, queries = (
        checked_ops(ops),
        dict[Address, PreparedPut | None](),
        dict[str, bytes](),
    )
    for op in checked:
        if isinstance(op, PutOp):
            puts[tuple(op.namespace), op.key] = _prepared_put(op, embedder)
        elif isinstance(op, SearchOp) and op.query and embedder is not None:
            queries[op.query] = b""
    return Batch(checked, puts, queries)


def embed(batch: Batch, embedder: Embedder | None) -> None:
    """Compute the vectors of the texts that a batch stores and searches for."""
    if embedder is not None and (wanted := _to_embed(batch)):
        _fill(batch, wanted[0], *embedder.embed(*wanted))


async def aembed(batch: Batch, embedder: Embedder | None) -> None:
    """`embed` without blocking the event loop."""
    if embedder is not None and (wanted := _to_embed(batch)):
        _fill(batch, wanted[0], *await embedder.aembed(*wanted))


def carry_out(items: ItemTable, batch: Batch, now: int, ttl: TTLConfig | None) -> list[Result]:
    """Carry out a batch; return the result of each operation, in order.

    Args:
        now: microseconds since 1970.
        ttl: the store's settings of the time to live.
    """
    visible_from = now if (ttl or {}).get("omit_expired", True) else None
    results, touched = list[Result](), list[Address]()
    for op in batch.ops:
        match op:
            case GetOp():
                row = items.get((tuple(op.namespace), op.key), visible_from)
                rows = [] if row is None else [row]
                results.append(None if row is None else _item(row))
            case SearchOp():
                found = _search(items, op, batch, visible_from)
                rows = [row for row, _ in found]
                results.append([item for _, item in found])
            case ListNamespacesOp():
                rows = []
                there = items.namespaces(plain_prefix(op), visible_from)
                results.append(listed(op, filter(_is_text, there)))
            case PutOp():
                rows = []
                results.append(None)
        if rows and getattr(op, "refresh_ttl", False):
            for row in rows:
                if row.ttl is not None:
                    touched.append((row.namespace, row.key))
    if touched:
        items.touch(dict.fromkeys(touched), now)
    for address, put in batch.puts.items():
        items.delete(address) if put is None else items.put(address, put, now)
    return results


def expiry(ttl: float | None, now: int) -> int | None:
    """Return when a time to live of so many minutes ends that begins now; None for never."""
    return None if ttl is None else now + int(ttl * _MINUTE)


def changes(batch: Batch) -> bool:
    """Whether a batch has puts. Restarting the time to live of items that it reads is not one."""
    return bool(batch.puts)


def _search(
    items: ItemTable, op: SearchOp, batch: Batch, visible_from: int | None
) -> list[tuple[ItemRow, SearchItem]]:
    """Return what a search finds.

    Damaged rows count neither for the limit nor for the offset: a page is short only at the end.
    """
    stop = min(op.offset + op.limit, INTEGER_MAX)
    query = batch.queries.get(op.query or "")
    if query is None:
        rows = ((row, None) for row in _scanned(items, op, visible_from, stop))
        return list(islice(_sound(rows, op.offset, items), op.limit))
    ranking = ranked(query, items.vectors(tuple(op.namespace_prefix), op.filter, visible_from))
    rows = _ranked_rows(items, op, ranking, visible_from)
    return list(islice(_sound(rows, op.offset, items), op.limit))


def _scanned(
    items: ItemTable, op: SearchOp, visible_from: int | None, most: int
) -> Iterator[ItemRow]:
    """Yield the rows of a scan; at first `most` are read, more only if they are asked for."""
    given, most = 0, max(1, most)
    while True:
        rows = list(items.scan(tuple(op.namespace_prefix), op.filter, visible_from, most))
        yield from rows[given:]
        if len(rows) < most:
            return
        given, most = len(rows), min(2 * most, INTEGER_MAX)


def _ranked_rows(
    items: ItemTable,
    op: SearchOp,
    ranking: list[tuple[Address, float]],
    visible_from: int | None,
) -> Iterator[tuple[ItemRow, float | None]]:
    """Yield rows with scores, the most similar first.

    Items without a vector come last: LangGraph too fills up its results with them.
    """
    for address, score in ranking:
        row = items.get(address, visible_from)
        if row is not None:
            yield row, score
    scored = dict(ranking)
    for row in items.scan(tuple(op.namespace_prefix), op.filter, visible_from, INTEGER_MAX):
        if (row.namespace, row.key) not in scored:
            yield row, None


def _sound(
    rows: Iterable[tuple[ItemRow, float | None]], skipped: int, items: ItemTable
) -> Iterator[tuple[ItemRow, SearchItem]]:
    """Yield rows and their items; a damaged row is logged and left out.

    Args:
        skipped: how many sound rows are left out at the beginning.
        items: where the rows come from.
    """
    passed = 0
    for row, score in rows:
        if passed < skipped:
            passed += items.is_private or _is_sound(row)
            continue
        try:
            found = _search_item(row, score)
        except DamagedRowError as error:
            warn("item.damaged", error=str(error))
            continue
        yield row, found


def _prepared_put(op: PutOp, embedder: Embedder | None) -> PreparedPut | None:
    if op.value is None:
        return None
    value = to_dict(op.value)
    text = to_text(value, f"the value of {op.key!r} in {op.namespace!r}")
    if embedder is None or op.index is False:
        return PreparedPut(text, op.ttl, [])
    fields = embedder.fields if op.index is None else [(p, steps_of(p)) for p in op.index]
    texts: list[tuple[str, str]] = []
    for path, steps in fields:
        found = get_text_at_path(value, steps)
        texts += [(path if len(found) == 1 else f"{path}.{i}", t) for i, t in enumerate(found)]
    return PreparedPut(text, op.ttl, texts)


def _to_embed(batch: Batch) -> tuple[list[str], list[str]] | None:
    """Return the texts of puts, each once, and the queries; None without any."""
    puts = [put for put in batch.puts.values() if put is not None]
    texts = list(dict.fromkeys(text for put in puts for _, text in put.texts))
    queries = list(batch.queries)
    return (texts, queries) if texts or queries else None


def _fill(batch: Batch, texts: list[str], vectors: list[bytes], queries: list[bytes]) -> None:
    made = dict(zip(texts, vectors, strict=True))
    batch.queries = dict(zip(batch.queries, queries, strict=True))
    for put in batch.puts.values():
        if put is not None:
            put.vectors = [(path, made[text]) for path, text in put.texts]


def _verified(row: ItemRow) -> tuple[Any, datetime, datetime]:
    """Verify a row and decode its value and its times (created, updated).

    Raises:
        DamagedRowError: the row is damaged.
    """
    try:
        where = join_namespace(row.namespace), row.key
        times = row.created, row.updated, row.expires
        whole = row.sum is None or row.sum == item_sum(where, row.text, row.ttl, times)
        if whole and is_encodable("".join(where)):
            created = _EPOCH + timedelta(microseconds=row.created)
            updated = _EPOCH + timedelta(microseconds=row.updated)
            return from_text(row.text), created, updated
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as e:
        why = f"{type(e).__name__}: {e}"
        raise damaged_item(row.namespace, row.key, why) from e
    raise damaged_item(row.namespace, row.key)


def _is_sound(row: ItemRow) -> bool:
    try:
        _verified(row)
    except DamagedRowError:
        return False
    return True


def _is_text(namespace: Namespace) -> bool:
    """Whether a namespace is one that a store has written; another one is logged."""
    if is_encodable(join_namespace(namespace)):
        return True
    warn("item.damaged", error=f"the namespace {namespace!r} is not valid UTF-8")
    return False


def _item(row: ItemRow) -> Item:
    value, created, updated = _verified(row)
    return Item(
        value=value,
        key=row.key,
        namespace=row.namespace,
        created_at=created,
        updated_at=updated,
    )


def _search_item(row: ItemRow, score: float | None) -> SearchItem:
    value, created, updated = _verified(row)
    return SearchItem(row.namespace, row.key, value, created, updated, score)
