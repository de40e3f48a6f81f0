"""Operations, items and settings of stores, and the validation of operations."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict

from actorgraph.codec.advice import shortened
from actorgraph.stores.errors import (
    InvalidNamespaceError,
    InvalidStoreOperationError,
    ItemValueError,
)
from actorgraph.stores.item_values import find_unstorable
from actorgraph.values.durations import checked_seconds

Namespace = tuple[str, ...]
NamespacePath = tuple[str, ...]
"""Labels of a namespace, where `"*"` matches any one label."""
NamespaceMatchType = Literal["prefix", "suffix"]


class Item:
    """A stored value with its key and times.

    Args:
        value: a dict of JSON values; a copy, so changing it changes nothing in the store.
        key: unique in its namespace.
        namespace: labels from the root.
        created_at: time of the first `put`, in UTC; ISO text is accepted too.
        updated_at: time of the last `put`, in UTC; ISO text is accepted too.
    """

    __slots__ = ("created_at", "key", "namespace", "updated_at", "value")

    def __init__(
        self,
        *,
        value: dict[str, Any],
        key: str,
        namespace: Namespace,
        created_at: datetime | str,
        updated_at: datetime | str,
    ) -> None:
        self.value = value
        self.key = key
        self.namespace = tuple(namespace)
        fromiso = datetime.fromisoformat
        self.created_at = fromiso(created_at) if isinstance(created_at, str) else created_at
        self.updated_at = fromiso(updated_at) if isinstance(updated_at, str) else updated_at

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Item):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Item.__slots__)

    def __hash__(self) -> int:
        return hash((self.namespace, self.key))

    def dict(self) -> "dict[str, Any]":
        """Return the item as a dict of JSON values; times as ISO text."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.dict().items())
        return f"{type(self).__name__}({fields})"


class SearchItem(Item):
    """An item that a search has found.

    Args:
        score: cosine similarity of its text and the query, at most 1; None for an item without an
            embedding, or a search without a query.
    """

    __slots__ = ("score",)

    def __init__(  # noqa: PLR0917 - LangGraph's signature
        self,
        namespace: Namespace,
        key: str,
        value: dict[str, Any],
        created_at: datetime | str,
        updated_at: datetime | str,
        score: float | None = None,
    ) -> None:
        super().__init__(
            value=value,
            key=key,
            namespace=namespace,
            created_at=created_at,
            updated_at=updated_at,
        )
        self.score = score

    def dict(self) -> "dict[str, Any]":
        """Return the item as a dict of JSON values, with its score."""
        return super().dict() | {"score": self.score}


class GetOp(NamedTuple):
    """Read one item. `refresh_ttl`: whether its time to live starts again."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


class SearchOp(NamedTuple):
    """Find items in a namespace and in those below it.

    Attributes:
        namespace_prefix: the labels that their namespaces begin with; () for all.
        filter: field -> value, or field -> `{"$gt": 3}`; see docs/stores.md.
        limit: maximum number of items.
        offset: number of items to skip.
        query: text; the items are sorted by similarity to it.
        refresh_ttl: whether the time to live of the found items starts again.
    """

    namespace_prefix: Namespace
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


class MatchCondition(NamedTuple):
    """Match namespaces that begin, or end, with these labels; `"*"` is any one label."""

    match_type: NamespaceMatchType
    path: NamespacePath


class ListNamespacesOp(NamedTuple):
    """Find the namespaces that hold items.

    Attributes:
        match_conditions: all of them must match.
        max_depth: cut deeper namespaces to this many labels; equal results are listed once.
        limit: maximum number of namespaces.
        offset: number of namespaces to skip.
    """

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


class PutOp(NamedTuple):
    """Store an item, or remove it.

    Attributes:
        value: replaces the key's earlier one; None removes it.
        index: paths of texts to embed; None for those of the store's index, False for none.
        ttl: minutes to live, from now and from each read that refreshes it; None for ever.
    """

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]
    ttl: float | None = None


Op = GetOp | SearchOp | PutOp | ListNamespacesOp
Result = Item | list[Item] | list[SearchItem] | list[Namespace] | None


class TTLConfig(TypedDict, total=False):
    """Time to live of items.

    Attributes:
        default_ttl: minutes, for a `put` without `ttl`; default for ever.
        refresh_on_read: whether the time to live of items that `get` and `search` return starts
            again where the call has no `refresh_ttl`. Default True.
        omit_expired: whether reads leave out expired items that are not swept yet. Default True.
        sweep_interval_minutes: how often `async with store` and `with store` remove expired items;
            default never.
    """

    refresh_on_read: bool
    omit_expired: bool
    default_ttl: float | None
    sweep_interval_minutes: float | None


class IndexConfig(TypedDict, total=False):
    """Embedding of items' texts, for searches by text.

    Attributes:
        dims: length of a vector.
        embed: a function from texts to vectors, sync or async; a LangChain `Embeddings` object; or
            the name of one, such as "openai:text-embedding-3-small".
        fields: paths of the texts in a value; default `["$"]`, the whole value as JSON.
    """

    dims: int
    embed: Any
    fields: list[str] | None


class NotProvided:
    """Type of `NOT_PROVIDED`, the default of arguments for which None has a meaning."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "NOT_PROVIDED"


NOT_PROVIDED = NotProvided()


INTEGER_MAX = 2**63 - 1
TTL_MAX = 10**11
_UNSTORABLE = re.compile("[\0\ud800-\udfff]").search
"""Finds NUL and lone surrogates, which some databases refuse."""
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


def check_op(op: Any) -> None:
    """Refuse an invalid operation.

    Raises:
        InvalidNamespaceError: a namespace is invalid.
        InvalidStoreOperationError: another field is invalid, or the type is unknown.
        ItemValueError: a filter compares with a value that no item holds.
    """
    match op:
        case GetOp():
            check_labels(op.namespace)
            check_key(op.key)
        case PutOp():
            check_labels(op.namespace) if op.value is None else check_namespace(op.namespace)
            check_key(op.key)
            _check_ttl(op.ttl)
        case SearchOp():
            check_labels(op.namespace_prefix)
            _check_filter(op.filter)
            _check_page(op.limit, op.offset)
            _check_query(op.query)
        case ListNamespacesOp():
            _check_listing(op)
        case _:
            raise InvalidStoreOperationError(
                f"Unknown operation type: {type(op).__name__}",
                do="use GetOp, PutOp, SearchOp or ListNamespacesOp",
            )


def check_namespace(namespace: Any) -> None:
    """Refuse a namespace in which no item can be stored.

    Raises:
        InvalidNamespaceError: it is empty, its root is "langgraph", or a label is invalid (see
            `check_labels`).
    """
    check_labels(namespace)
    if not namespace:
        raise InvalidNamespaceError(
            "Namespace cannot be empty.", do='use at least one label, such as ("users", "ada")'
        )
    if namespace[0] == "langgraph":
        raise InvalidNamespaceError(
            f'Root label for namespace cannot be "langgraph". Got: {namespace}',
            do="begin it with another label",
        )


def check_labels(namespace: Any) -> None:
    """Refuse a namespace with invalid labels.

    Raises:
        InvalidNamespaceError: it isn't a tuple or list, or a label isn't text, is empty, contains
            a period or NUL, or can't be encoded as UTF-8.
    """
    if isinstance(namespace, str | bytes) or not isinstance(namespace, tuple | list):
        raise InvalidNamespaceError(
            f"namespace must be a tuple of labels, got {namespace!r}",
            do='use a tuple of labels, such as ("users", "ada")',
        )
    for label in namespace:
        if isinstance(label, str) and label and "." not in label and not _UNSTORABLE(label):
            continue
        raise InvalidNamespaceError(
            f"Invalid namespace label {label!r} found in {namespace!r}: {_what_is_wrong(label)}",
            do="use non-empty text without '.' and NUL",
        )


def check_key(key: Any) -> None:
    """Refuse a key that some store can't hold.

    Raises:
        InvalidStoreOperationError: it isn't text, contains NUL, or can't be encoded as UTF-8.
    """
    if not isinstance(key, str) or _UNSTORABLE(key):
        raise InvalidStoreOperationError(
            f"key must be text without NUL and lone surrogates, got {key!r}",
            do="encode other data as text, such as hexadecimal digits",
        )


def checked_ops(ops: Iterable[Op]) -> list[Op]:
    """Return the operations of a batch, validated; LangGraph's as ours."""
    found: list[Op] = []
    for op in ops:
        ours = op if type(op) in _OWN else _ours(op)
        check_op(ours)
        found.append(ours)
    return found


_KINDS = {kind.__name__: kind for kind in (GetOp, SearchOp, PutOp, ListNamespacesOp)}
_OWN = frozenset(_KINDS.values())


def _ours(op: Any) -> Any:
    kind = _KINDS.get(type(op).__name__)
    return op if kind is None or isinstance(op, kind) else kind(*op)


def _what_is_wrong(label: object) -> str:
    if not isinstance(label, str):
        return f"Namespace labels must be strings, but got {type(label).__name__}."
    if not label:
        return "Namespace labels cannot be empty strings."
    if "." in label:
        return "Namespace labels cannot contain periods ('.')."
    if "\0" in label:
        return "Namespace labels cannot contain NUL bytes."
    return "Namespace labels cannot contain lone surrogates."


def _check_listing(op: ListNamespacesOp) -> None:
    _check_page(op.limit, op.offset)
    if op.max_depth is not None:
        _check_count("max_depth", op.max_depth)
    for condition in op.match_conditions or ():
        check_labels(condition.path)
        if condition.match_type not in ("prefix", "suffix"):
            raise InvalidStoreOperationError(
                f"Unsupported match type: {condition.match_type!r}", do='use "prefix" or "suffix"'
            )


def _check_page(limit: Any, offset: Any) -> None:
    _check_count("limit", limit)
    _check_count("offset", offset)


def _check_count(name: str, value: Any) -> None:
    if type(value) is not int or not 0 <= value <= INTEGER_MAX:
        raise InvalidStoreOperationError(
            f"{name} must be an integer >= 0, got {value!r}", do="use a whole number from 0 on"
        )


def _check_query(query: Any) -> None:
    if query is not None and not isinstance(query, str):
        raise InvalidStoreOperationError(
            f"query must be text or None, got {query!r}", do="pass text, or None"
        )


def check_ttl_config(config: TTLConfig | None) -> None:
    """Check the times of a store's `ttl`, both in minutes.

    Raises:
        InvalidStoreOperationError: one is negative, not finite, or no number.
    """
    if config is not None:
        _check_ttl(config.get("default_ttl"))
        check_interval(config.get("sweep_interval_minutes"))


def check_interval(minutes: Any) -> None:
    """Check the time between two sweeps.

    Raises:
        InvalidStoreOperationError: it is negative, not finite, or no number of minutes.
    """
    checked_seconds(
        "sweep_interval_minutes",
        0 if minutes is None else minutes,
        zero=True,
        default="minutes, such as 5, or None for no sweeps",
        error=InvalidStoreOperationError,
    )


def _check_ttl(ttl: Any) -> None:
    if ttl is not None and (
        isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 <= ttl <= TTL_MAX
    ):
        raise InvalidStoreOperationError(
            f"ttl must be from 0 to {TTL_MAX} minutes or None, got {ttl!r}",
            do="use None for items that live for ever",
        )


def _check_filter(wanted: Any) -> None:
    if wanted is None:
        return
    if not isinstance(wanted, Mapping):
        raise InvalidStoreOperationError(
            f"filter must be a dict, got {type(wanted).__name__}",
            do='use a dict, such as {"kind": "note"}',
        )
    with suppress(RecursionError):  # a filter of so many levels is refused below, with its place
        _check_fields(wanted)
    if found := find_unstorable(dict(wanted)):
        path, problem = found
        raise ItemValueError(
            f"the filter{shortened(path)} {problem}, which no item holds",
            do="compare with lists, dicts, text, finite numbers, bools and None",
        )


def _check_fields(wanted: Any) -> None:
    """Refuse unknown operators, operators mixed with fields, and keys that aren't text."""
    if isinstance(wanted, list | tuple):
        for part in wanted:
            _check_condition(part)
        return
    if not isinstance(wanted, Mapping):
        return
    for name, condition in wanted.items():
        if not isinstance(name, str):
            raise InvalidStoreOperationError(
                f"keys of a filter must be text, got {name!r}", do="use names of fields"
            )
        _check_condition(condition)


def _check_condition(condition: Any) -> None:
    if not isinstance(condition, Mapping) or not any(
        isinstance(name, str) and name.startswith("$") for name in condition
    ):
        _check_fields(condition)
        return
    for name in condition:
        if name not in OPERATORS:
            raise InvalidStoreOperationError(
                f"Unsupported operator: {name!r}",
                do=f"use {', '.join(OPERATORS)}; a field of that name is compared by "
                '{"$eq": {...}} of the value around it',
            )
