"""BaseStore: what programs call on a store. Two methods make one; the rest is built on them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from actorgraph.stores.checks import check_labels, check_namespace
from actorgraph.stores.errors import UnsupportedByStoreError
from actorgraph.stores.ops import (
    NOT_PROVIDED,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Namespace,
    NamespacePath,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

Index = Literal[False] | list[str] | None
Ttl = float | NotProvided | None


class BaseStore(ABC):
    """A home of what outlives threads: JSON values by namespace and key.

    A store of one's own overrides `batch` and `abatch`. Within a batch reads come first: they see
    the state before it. Of several puts of one key the last counts.

    Attributes:
        supports_ttl: whether items may have a time to live.
        ttl_config: the store's settings for that.
    """

    supports_ttl: bool = False
    ttl_config: TTLConfig | None = None
    __slots__ = ("__weakref__",)

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations; one result for each, in order."""

    @abstractmethod
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` without blocking the event loop."""

    def get(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """The item of a key, or None.

        Args:
            refresh_ttl: whether it lives anew from now; None for the store's setting.
        Raises:
            InvalidNamespaceError: a label can't be used.
        """
        return cast("Item | None", self._one(self._get(namespace, key, refresh_ttl)))

    def search(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """The items of a namespace and of those below it.

        Args:
            namespace_prefix: whole labels from the root; () for all.
            query: text; the nearest items come first. Without an index it changes nothing.
            filter: field -> value, or field -> operators: `{"stars": {"$gte": 3}}`.
            limit: items at most. offset: items to skip.
            refresh_ttl: whether they live anew from now; None for the store's setting.
        Raises:
            InvalidNamespaceError: a label can't be used.
            InvalidStoreOperationError: the filter, the limit or the offset can't.
        """
        op = SearchOp(namespace_prefix, filter, limit, offset, query, self._refreshes(refresh_ttl))
        return cast("list[SearchItem]", self._one(op))

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: dict[str, Any],
        index: Index = None,
        *,
        ttl: Ttl = NOT_PROVIDED,
    ) -> None:
        """Store an item, in place of what stood there.

        Args:
            value: a dict of what JSON has.
            index: fields to embed; None for those of the store's index, False for none.
            ttl: minutes to live, None for ever; default the store's.
        Raises:
            InvalidNamespaceError: the namespace can't be used. ItemValueError: the value can't.
            UnsupportedByStoreError: the store has no time to live.
        """
        self._one(self._put(namespace, key, value, index, ttl))

    def delete(self, namespace: Namespace, key: str) -> None:
        """Remove an item, if it is there.

        Raises:
            InvalidNamespaceError: a label can't be used.
        """
        self._one(_deletion(namespace, key))

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """The namespaces that hold items, sorted.

        Args:
            prefix, suffix: labels that they begin and end with; "*" is any one label.
            max_depth: cut deeper ones to so many labels; those that become equal are one.
            limit: namespaces at most. offset: namespaces to skip.
        Raises:
            InvalidNamespaceError: a label can't be used.
        """
        op = _listing(prefix, suffix, max_depth, limit, offset)
        return cast("list[Namespace]", self._one(op))

    async def aget(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """`get` without blocking the event loop."""
        found = await self._aone(self._get(namespace, key, refresh_ttl))
        return cast("Item | None", found)

    async def asearch(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """`search` without blocking the event loop."""
        op = SearchOp(namespace_prefix, filter, limit, offset, query, self._refreshes(refresh_ttl))
        return cast("list[SearchItem]", await self._aone(op))

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: dict[str, Any],
        index: Index = None,
        *,
        ttl: Ttl = NOT_PROVIDED,
    ) -> None:
        """`put` without blocking the event loop."""
        await self._aone(self._put(namespace, key, value, index, ttl))

    async def adelete(self, namespace: Namespace, key: str) -> None:
        """`delete` without blocking the event loop."""
        await self._aone(_deletion(namespace, key))

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """`list_namespaces` without blocking the event loop."""
        op = _listing(prefix, suffix, max_depth, limit, offset)
        return cast("list[Namespace]", await self._aone(op))

    def _one(self, op: Op) -> Result:
        return self.batch([op])[0]

    async def _aone(self, op: Op) -> Result:
        return (await self.abatch([op]))[0]

    def _get(self, namespace: Namespace, key: str, refresh_ttl: bool | None) -> GetOp:
        check_labels(namespace)
        return GetOp(namespace, str(key), self._refreshes(refresh_ttl))

    def _put(
        self, namespace: Namespace, key: str, value: Mapping[str, Any], index: Index, ttl: Ttl
    ) -> PutOp:
        check_namespace(namespace)
        if isinstance(ttl, NotProvided):
            ttl = (self.ttl_config or {}).get("default_ttl")
        elif ttl is not None and not self.supports_ttl:
            raise UnsupportedByStoreError(
                f"TTL is not supported by {type(self).__name__}",
                do="leave `ttl` out, or use a store whose `supports_ttl` is true",
            )
        return PutOp(namespace, str(key), value, index=index, ttl=ttl)

    def _refreshes(self, refresh_ttl: bool | None) -> bool:
        if refresh_ttl is not None:
            return refresh_ttl
        return (self.ttl_config or {}).get("refresh_on_read", True)


def _deletion(namespace: Namespace, key: str) -> PutOp:
    check_labels(namespace)
    return PutOp(namespace, str(key), None)


def _listing(
    prefix: NamespacePath | None,
    suffix: NamespacePath | None,
    max_depth: int | None,
    limit: int,
    offset: int,
) -> ListNamespacesOp:
    check_labels(prefix or ())
    check_labels(suffix or ())
    conditions: list[MatchCondition] = []
    if prefix:
        conditions.append(MatchCondition("prefix", tuple(prefix)))
    if suffix:
        conditions.append(MatchCondition("suffix", tuple(suffix)))
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)
