"""What a batch means: one rule for every store, over the few things that a home can do.

Order   reads first, then the puts, of each key the last one. So reads see the state before the
        batch, whatever the order in it (LangGraph's rule, and that of its databases).
Whole   `prepare` has refused what can't be carried out; a home carries a batch out in one
        transaction.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Protocol

import msgspec

from actorgraph.errors import StorageError
from actorgraph.stores.checks import INTEGER_MAX, whole_ops
from actorgraph.stores.checksums import damaged, item_sum
from actorgraph.stores.embedding import Embedder, steps_of
from actorgraph.stores.log import warn
from actorgraph.stores.namespaces import joined, listed, plain_prefix
from actorgraph.stores.ops import (
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
)
from actorgraph.stores.paths import get_text_at_path
from actorgraph.stores.texts import from_text, plain, to_text
from actorgraph.stores.vectors import ranked

Address = tuple[Namespace, str]
ItemFilter = Mapping[str, Any] | None
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = 60_000_000


class ItemRow(msgspec.Struct):
    """An item as it is kept. Times are microseconds since 1970.

    Attributes:
        text: the value as JSON.
        ttl: minutes to live; None for ever. expires: when that is over.
        sum: its checksum; None for a row that has none.
    """

    namespace: Namespace
    key: str
    text: str
    created: int
    updated: int
    ttl: float | None = None
    expires: int | None = None
    sum: int | None = None


class ItemPut(msgspec.Struct):
    """What to store under a key.

    Attributes:
        vectors: path -> float32 numbers; filled in once the texts are embedded.
    """

    text: str
    ttl: float | None
    texts: list[tuple[str, str]]
    vectors: list[tuple[str, bytes]] = []


class Batch(msgspec.Struct):
    """Checked operations, ready to be carried out.

    Attributes:
        puts: address -> what to store, or None to remove it.
        queries: text -> its vector.
    """

    ops: list[Op]
    puts: dict[Address, ItemPut | None]
    queries: dict[str, bytes]


class Items(Protocol):
    """Where items are. `visible_from`: leave out what has expired by then; None: nothing."""

    def get(self, address: Address, visible_from: int | None) -> ItemRow | None:
        """The row of an address."""
        ...

    def scan(
        self, prefix: Namespace, wanted: ItemFilter, visible_from: int | None, rows_max: int
    ) -> Iterator[ItemRow]:
        """Rows below a prefix that fit a filter, in the store's order."""
        ...

    def vectors(
        self, prefix: Namespace, wanted: ItemFilter, visible_from: int | None
    ) -> Iterable[tuple[Address, bytes]]:
        """The vectors of these rows."""
        ...

    def namespaces(self, prefix: Namespace, visible_from: int | None) -> Iterable[Namespace]:
        """Every namespace below a prefix that has a row, once."""
        ...

    def put(self, address: Address, put: ItemPut, now: int) -> None:
        """Store a row and its vectors."""
        ...

    def delete(self, address: Address) -> None:
        """Remove a row and its vectors."""
        ...

    def touch(self, addresses: Iterable[Address], now: int) -> None:
        """Let rows that have a time to live, live it anew."""
        ...


def prepare(ops: Iterable[Op], embedder: Embedder | None) -> Batch:
    """Check operations and make text of their values.

    Raises:
        StoreError: an operation can't be carried out; none is.
    """
    checked, puts, queries = whole_ops(ops), dict[Address, ItemPut | None](), dict[str, bytes]()
    for op in checked:
        if isinstance(op, PutOp):
            puts[tuple(op.namespace), op.key] = _made(op, embedder)
        elif isinstance(op, SearchOp) and op.query and embedder is not None:
            queries[op.query] = b""
    return Batch(checked, puts, queries)


def embed(batch: Batch, embedder: Embedder | None) -> None:
    """Fill in the vectors of what a batch stores and searches for."""
    texts, queries = _texts(batch), list(batch.queries)
    if embedder is not None and (texts or queries):
        _fill(batch, texts, *embedder.embed(texts, queries))


async def aembed(batch: Batch, embedder: Embedder | None) -> None:
    """`embed` without blocking the event loop."""
    texts, queries = _texts(batch), list(batch.queries)
    if embedder is not None and (texts or queries):
        _fill(batch, texts, *await embedder.aembed(texts, queries))


def carry_out(home: Items, batch: Batch, now: int, ttl: TTLConfig | None) -> list[Result]:
    """The results of a batch, which is then done.

    Args:
        now: microseconds since 1970.
        ttl: the store's settings.
    """
    visible_from = now if (ttl or {}).get("omit_expired", True) else None
    results, touched = list[Result](), list[Address]()
    for op in batch.ops:
        match op:
            case GetOp():
                row = home.get((tuple(op.namespace), op.key), visible_from)
                rows = [] if row is None else [row]
                results.append(None if row is None else _item(row))
            case SearchOp():
                found = _search(home, op, batch, visible_from)
                rows = [row for row, _ in found]
                results.append(list(_sound(found)))
            case ListNamespacesOp():
                rows = []
                there = home.namespaces(plain_prefix(op), visible_from)
                results.append(listed(op, there))
            case PutOp():
                rows = []
                results.append(None)
        if getattr(op, "refresh_ttl", False) and (ttl or {}).get("refresh_on_read", True):
            touched += [(row.namespace, row.key) for row in rows if row.ttl is not None]
    if touched:
        home.touch(dict.fromkeys(touched), now)
    for address, put in batch.puts.items():
        home.delete(address) if put is None else home.put(address, put, now)
    return results


def expiry(ttl: float | None, now: int) -> int | None:
    """When a time to live that begins now is over."""
    return None if ttl is None else now + int(ttl * _MINUTE)


def changes(batch: Batch) -> bool:
    """Whether a batch writes, but for letting what it reads live anew."""
    return bool(batch.puts)


def _search(
    home: Items, op: SearchOp, batch: Batch, visible_from: int | None
) -> list[tuple[ItemRow, float | None]]:
    """The rows that a search finds, with scores."""
    prefix, stop = tuple(op.namespace_prefix), min(op.offset + op.limit, INTEGER_MAX)
    query = batch.queries.get(op.query or "")
    if query is None:
        rows = home.scan(prefix, op.filter, visible_from, stop)
        return [(row, None) for row in islice(rows, op.offset, None)]
    ranking = ranked(query, home.vectors(prefix, op.filter, visible_from))
    chosen = [(home.get(address, visible_from), score) for address, score in ranking[:stop]]
    found: list[tuple[ItemRow, float | None]] = [(r, s) for r, s in chosen[op.offset :] if r]
    if len(ranking) < stop:
        # What has no vector comes last, as LangGraph fills its results up.
        scored, skipped = dict(ranking), max(0, op.offset - len(ranking))
        every = home.scan(prefix, op.filter, visible_from, INTEGER_MAX)
        others = (row for row in every if (row.namespace, row.key) not in scored)
        found += [(r, None) for r in islice(others, skipped, skipped + op.limit - len(found))]
    return found


def _made(op: PutOp, embedder: Embedder | None) -> ItemPut | None:
    if op.value is None:
        return None
    value = plain(op.value)
    text = to_text(value, f"the value of {op.key!r} in {op.namespace!r}")
    if embedder is None or op.index is False:
        return ItemPut(text, op.ttl, [])
    fields = embedder.fields if op.index is None else [(p, steps_of(p)) for p in op.index]
    texts: list[tuple[str, str]] = []
    for path, steps in fields:
        found = get_text_at_path(value, steps)
        texts += [(path if len(found) == 1 else f"{path}.{i}", t) for i, t in enumerate(found)]
    return ItemPut(text, op.ttl, texts)


def _texts(batch: Batch) -> list[str]:
    puts = [put for put in batch.puts.values() if put is not None]
    return list(dict.fromkeys(text for put in puts for _, text in put.texts))


def _fill(batch: Batch, texts: list[str], vectors: list[bytes], queries: list[bytes]) -> None:
    made = dict(zip(texts, vectors, strict=True))
    batch.queries = dict(zip(batch.queries, queries, strict=True))
    for put in batch.puts.values():
        if put is not None:
            put.vectors = [(path, made[text]) for path, text in put.texts]


def _value(row: ItemRow) -> Any:
    """The value of a row that is as it was put.

    Raises: StorageError.
    """
    try:
        where, times = (joined(row.namespace), row.key), (row.created, row.updated, row.expires)
        if row.sum is None or row.sum == item_sum(where, row.text, row.ttl, times):
            for time in (row.created, row.updated):
                _moment(time)
            return from_text(row.text)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as e:
        why = f"{type(e).__name__}: {e}"
        raise damaged(row.namespace, row.key, why) from e
    raise damaged(row.namespace, row.key)


def _sound(found: list[tuple[ItemRow, float | None]]) -> Iterator[SearchItem]:
    """What a search shows: a damaged row is told, and hides no other."""
    for row, score in found:
        try:
            yield _search_item(row, score)
        except StorageError as error:
            warn("item.damaged", error=str(error))


def _item(row: ItemRow) -> Item:
    return Item(
        value=_value(row),
        key=row.key,
        namespace=row.namespace,
        created_at=_moment(row.created),
        updated_at=_moment(row.updated),
    )


def _search_item(row: ItemRow, score: float | None) -> SearchItem:
    value = _value(row)
    moments = _moment(row.created), _moment(row.updated)
    return SearchItem(row.namespace, row.key, value, *moments, score)


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
