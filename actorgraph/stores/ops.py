"""Operations, items and settings of stores, and the validation of operations."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict

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
        self.created_at = _moment(created_at)
        self.updated_at = _moment(updated_at)

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
            again. Default True.
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


def _moment(value: datetime | str) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
