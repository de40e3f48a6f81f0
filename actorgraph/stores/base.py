"""BaseStore: the interface of stores. Implement `batch` and `abatch`; the rest calls them.

AsyncBatchedBaseStore also carries out single operations of concurrent tasks together.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import anyio.lowlevel

from actorgraph.errors import RunningLoopError
from actorgraph.storage.batching import Batcher
from actorgraph.stores.errors import UnsupportedByStoreError
from actorgraph.stores.operations import (
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
    check_labels,
    check_namespace,
)

Index = Literal[False] | list[str] | None
Ttl = float | NotProvided | None


class BaseStore(ABC):
    """Long-term memory across threads: JSON values by namespace and key.

    Subclasses implement `batch` and `abatch`. Within a batch reads come first: they see the state
    before it. Of several puts of one key the last one counts.

    Attributes:
        supports_ttl: whether items may have a time to live.
        ttl_config: settings of the time to live; None for none.
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
        """Return the item of a key, or None.

        Args:
            refresh_ttl: whether the item's time to live starts again; None for the store's setting.
        Raises:
            InvalidNamespaceError: a label is invalid.
        """
        return cast(
            "Item | None", self._actorgraph_one(_reading(self, namespace, key, refresh_ttl))
        )

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
        """Return items of a namespace and of those below it.

        Args:
            namespace_prefix: whole labels from the root; () for all.
            query: text; the most similar items come first. Ignored by a store without an index.
            filter: field -> value, or field -> operators: `{"stars": {"$gte": 3}}`.
            limit: maximum number of items.
            offset: number of items to skip.
            refresh_ttl: whether their time to live starts again; None for the store's setting.
        Raises:
            InvalidNamespaceError: a label is invalid.
            InvalidStoreOperationError: the filter, limit or offset is invalid.
            ItemValueError: the filter compares with a value that no item holds.
        """
        op = SearchOp(namespace_prefix, filter, limit, offset, query, _refreshes(self, refresh_ttl))
        return cast("list[SearchItem]", self._actorgraph_one(op))

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: dict[str, Any],
        index: Index = None,
        *,
        ttl: Ttl = NOT_PROVIDED,
    ) -> None:
        """Store an item; it replaces the key's earlier one.

        Args:
            value: a dict of JSON values.
            index: paths of texts to embed; None for those of the store's index, False for none.
            ttl: minutes to live, None for ever; default the store's.
        Raises:
            InvalidNamespaceError: the namespace is invalid.
            ItemValueError: the value can't be stored as JSON.
            UnsupportedByStoreError: the store doesn't support a time to live.
        """
        self._actorgraph_one(_putting(self, namespace, key, value, index=index, ttl=ttl))

    def delete(self, namespace: Namespace, key: str) -> None:
        """Remove an item; does nothing if it doesn't exist.

        Raises:
            InvalidNamespaceError: a label is invalid.
        """
        self._actorgraph_one(_deletion(namespace, key))

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Return the namespaces that hold items, sorted.

        Args:
            prefix: labels that they begin with; "*" is any one label.
            suffix: labels that they end with; "*" is any one label.
            max_depth: cut deeper ones to this many labels; equal results are listed once.
            limit: maximum number of namespaces.
            offset: number of namespaces to skip.
        Raises:
            InvalidNamespaceError: a label is invalid.
        """
        op = _listing(prefix, suffix, max_depth, limit, offset)
        return cast("list[Namespace]", self._actorgraph_one(op))

    async def aget(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """`get` without blocking the event loop."""
        found = await self._actorgraph_aone(_reading(self, namespace, key, refresh_ttl))
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
        op = SearchOp(namespace_prefix, filter, limit, offset, query, _refreshes(self, refresh_ttl))
        return cast("list[SearchItem]", await self._actorgraph_aone(op))

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
        await self._actorgraph_aone(_putting(self, namespace, key, value, index=index, ttl=ttl))

    async def adelete(self, namespace: Namespace, key: str) -> None:
        """`delete` without blocking the event loop."""
        await self._actorgraph_aone(_deletion(namespace, key))

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
        return cast("list[Namespace]", await self._actorgraph_aone(op))

    # A name that no helper of a program's subclass has by chance, as it might have `_one`.
    def _actorgraph_one(self, op: Op) -> Result:
        return self.batch([op])[0]

    async def _actorgraph_aone(self, op: Op) -> Result:
        return (await self.abatch([op]))[0]


def _reading(store: BaseStore, namespace: Namespace, key: str, refresh_ttl: bool | None) -> GetOp:
    check_labels(namespace)
    return GetOp(namespace, str(key), _refreshes(store, refresh_ttl))


def _putting(
    store: BaseStore,
    namespace: Namespace,
    key: str,
    value: Mapping[str, Any],
    *,
    index: Index,
    ttl: Ttl,
) -> PutOp:
    check_namespace(namespace)
    if isinstance(ttl, NotProvided):
        ttl = (store.ttl_config or {}).get("default_ttl")
    elif ttl is not None and not store.supports_ttl:
        raise UnsupportedByStoreError(
            f"TTL is not supported by {type(store).__name__}",
            do="leave `ttl` out, or use a store whose `supports_ttl` is true",
        )
    return PutOp(namespace, str(key), value, index=index, ttl=ttl)


def _refreshes(store: BaseStore, refresh_ttl: bool | None) -> bool:
    if refresh_ttl is not None:
        return refresh_ttl
    return (store.ttl_config or {}).get("refresh_on_read", True)


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


class AsyncBatchedBaseStore(BaseStore):
    """Base class of stores for which one `abatch` of many operations is cheaper than many calls.

    `aget`, `aput`, `asearch` and the others, called by tasks at the same moment or while an
    `abatch` is running, go to `abatch` together. Equal reads are done once; of several puts of a
    key only the last one. Override `batch` and `abatch`.

    The blocking methods can't be called in the event loop in which the store was created.
    """

    __slots__ = ("__batcher", "__loop")

    def __init__(self) -> None:
        self.__loop = _current_loop()
        self.__batcher: Batcher[Op, Result] = Batcher(self.__carry_out_once, gathers=True)

    def _actorgraph_one(self, op: Op) -> Result:
        if self.__loop is not None and self.__loop == _current_loop():
            raise RunningLoopError(
                f"Synchronous calls to {type(self).__name__} in the event loop it was made in",
                do="use the async methods: `await store.aget(...)`, not `store.get(...)`",
            )
        return super()._actorgraph_one(op)

    async def _actorgraph_aone(self, op: Op) -> Result:
        return await self.__batcher.run(op)

    async def __carry_out_once(self, ops: list[Op]) -> list[Result]:
        """Carry out operations, equal ones once; return the result of each, in order."""
        once: dict[Any, Op] = {_identity(op, number): op for number, op in enumerate(ops)}
        results = dict(zip(once, await self.abatch(list(once.values())), strict=True))
        return [results[_identity(op, number)] for number, op in enumerate(ops)]


def _identity(op: Op, number: int) -> Any:
    """Return a key that is equal for operations that need to be carried out only once."""
    if isinstance(op, GetOp):
        return GetOp, op
    if isinstance(op, PutOp):
        return PutOp, op.namespace, op.key
    return number


def _current_loop() -> object:
    try:
        return anyio.lowlevel.current_token()
    except RuntimeError:
        return None
