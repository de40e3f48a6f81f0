"""What one asks a store for, and what comes back: operations, items, settings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict

Namespace = tuple[str, ...]
NamespacePath = tuple[str, ...]
"""Labels of a namespace, where `"*"` stands for any one label."""
NamespaceMatchType = Literal["prefix", "suffix"]


class Item:
    """A stored value, where it stands, and since when.

    Args:
        value: a dict of what JSON has. A copy: changing it changes nothing in the store.
        key: its name, unique in its namespace.
        namespace: where it stands, from the root.
        created_at, updated_at: of the first and of the last `put`, in UTC; ISO text is read too.
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
        """The item as plain data; times as ISO text."""
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
        score: how near its text is to the query: the cosine, 1 at best; None for an item without
            an embedding, or a search without a query.
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
        """The item as plain data, with its score."""
        return super().dict() | {"score": self.score}


class GetOp(NamedTuple):
    """Read one item. `refresh_ttl`: whether that lets it live anew."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


class SearchOp(NamedTuple):
    """Find items in a namespace and in those below it.

    Attributes:
        namespace_prefix: the labels that their namespaces begin with; () for all.
        filter: field -> value, or field -> `{"$gt": 3}`; see docs/stores.md.
        limit: items at most. offset: items to skip.
        query: text that the found ones are sorted by nearness to.
        refresh_ttl: whether being found lets an item live anew.
    """

    namespace_prefix: Namespace
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


class MatchCondition(NamedTuple):
    """Namespaces that begin, or end, with these labels; `"*"` is any one label."""

    match_type: NamespaceMatchType
    path: NamespacePath


class ListNamespacesOp(NamedTuple):
    """Find the namespaces that hold items.

    Attributes:
        match_conditions: all of them hold.
        max_depth: cut deeper namespaces to so many labels; those that become equal are one.
        limit: namespaces at most. offset: namespaces to skip.
    """

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


class PutOp(NamedTuple):
    """Store an item, or remove it.

    Attributes:
        value: replaces what stood there; None removes it.
        index: the fields to embed for searches by text; None for the store's, False for none.
        ttl: minutes to live from now, and from each read that refreshes; None for ever.
    """

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]
    ttl: float | None = None


Op = GetOp | SearchOp | PutOp | ListNamespacesOp
Result = Item | list[Item] | list[SearchItem] | list[Namespace] | None


class TTLConfig(TypedDict, total=False):
    """How long items live.

    Attributes:
        default_ttl: minutes, where `put` doesn't say; default for ever.
        refresh_on_read: whether `get` and `search` let what they return live anew. Default True.
        omit_expired: whether reads leave out what has expired and is not swept yet. Default True.
        sweep_interval_minutes: how often `async with store` and `with store` remove what has
            expired; default never.
    """

    refresh_on_read: bool
    omit_expired: bool
    default_ttl: float | None
    sweep_interval_minutes: float | None


class IndexConfig(TypedDict, total=False):
    """How the texts of items are embedded, for searches by text.

    Attributes:
        dims: numbers in a vector.
        embed: a function from texts to vectors, sync or async, or a LangChain `Embeddings` object
            or its name, such as "openai:text-embedding-3-small".
        fields: paths of the texts in a value; default `["$"]`, the whole value as JSON.
    """

    dims: int
    embed: Any
    fields: list[str] | None


class NotProvided:
    """The argument that was not given."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "NOT_PROVIDED"


NOT_PROVIDED = NotProvided()


def _moment(value: datetime | str) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
