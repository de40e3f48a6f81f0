"""The contract of stores for long-term memory, as checks for a store of your own.

    @pytest.mark.parametrize("check", store_checks(), ids=lambda check: check.__name__)
    async def test_my_store(check):
        async with MyStore() as store:  # a new, empty one each time
            await check(store)

A check takes an empty `BaseStore` and raises AssertionError if it breaks the contract. Groups:

contract  holds for LangGraph's stores too
exact     where this library is stricter
ttl       for stores whose `supports_ttl` is true
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from actorgraph.stores import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    InvalidStoreOperationError,
    ItemValueError,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
)

StoreCheck = Callable[[BaseStore], Awaitable[None]]
_GROUPS: dict[str, list[StoreCheck]] = {"contract": [], "exact": [], "ttl": []}
AWKWARD = [
    {"text": "'); DROP TABLE items; --", "quote": '"', "line": "a\nb", "empty": ""},
    {"$gt": 3, "a.b": {"$eq": None}, "": [], "key with spaces": {}},
    {"float": 1.0, "whole": 1, "big": 2**80, "small": 5e-324, "wide": 1e308, "minus": -0.0},
    {"nested": [[[]], {"a": [True, False, None]}], "nul": "\0", "half": "\ud800", "smile": "☺"},
]


def store_checks(*groups: str) -> list[StoreCheck]:
    """The checks of these groups; by default of all three."""
    return [check for group in groups or tuple(_GROUPS) for check in _GROUPS[group]]


def _in(group: str) -> Callable[[StoreCheck], StoreCheck]:
    def add(check: StoreCheck) -> StoreCheck:
        _GROUPS[group].append(check)
        return check

    return add


async def _fill(store: BaseStore) -> None:
    for i, kind in enumerate(["note", "note", "task"]):
        await store.aput(("users", "ada"), f"k{i}", {"kind": kind, "n": i})
    await store.aput(("users", "ada", "old"), "k", {"kind": "note", "n": 10})
    await store.aput(("users", "adam"), "k", {"kind": "note", "n": 20})


async def _keys(store: BaseStore, wanted: dict[str, Any]) -> set[str]:
    return {item.key for item in await store.asearch(("users", "ada"), filter=wanted)}


@_in("contract")
async def items_are_found_where_they_were_put(store: BaseStore) -> None:
    """`get` returns an item's value, key, namespace and times; other namespaces don't have it."""
    await store.aput(("a", "b"), "k", {"x": 1})
    item = await store.aget(("a", "b"), "k")

    assert item is not None
    assert (item.namespace, item.key, item.value) == (("a", "b"), "k", {"x": 1})
    assert item.created_at.tzinfo is not None
    assert item.created_at <= item.updated_at
    assert await store.aget(("a",), "k") is None
    assert store.get(("a", "b"), "k") == item


@_in("contract")
async def a_put_replaces_the_whole_value(store: BaseStore) -> None:
    """`put` replaces the whole value; it doesn't merge."""
    store.put(("a",), "k", {"x": 1, "y": 2})
    store.put(("a",), "k", {"y": 3})
    item = await store.aget(("a",), "k")

    assert item is not None
    assert item.value == {"y": 3}


@_in("contract")
async def deleted_items_are_gone(store: BaseStore) -> None:
    """`delete` removes one key; repeating it raises nothing."""
    await _fill(store)
    await store.adelete(("users", "ada"), "k0")
    store.delete(("users", "ada"), "k0")

    assert await store.aget(("users", "ada"), "k0") is None
    assert await store.aget(("users", "ada"), "k1") is not None


@_in("contract")
async def searches_match_whole_labels(store: BaseStore) -> None:
    """`search` finds a namespace and those below it, not labels that only start alike."""
    await _fill(store)
    found = await store.asearch(("users", "ada"))

    assert {item.namespace for item in found} == {("users", "ada"), ("users", "ada", "old")}
    assert len(found) == 4
    assert all(isinstance(item.key, str) and item.score is None for item in found)
    assert len(await store.asearch(())) == 5
    assert await store.asearch(("nobody",)) == []


@_in("contract")
async def pages_are_disjoint_and_complete(store: BaseStore) -> None:
    """Pages by `limit` and `offset` don't overlap and contain every item."""
    await _fill(store)
    pages = [await store.asearch((), limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    seen = [(item.namespace, item.key) for page in pages for item in page]

    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert len(set(seen)) == 5


@_in("contract")
async def filters_compare_fields(store: BaseStore) -> None:
    """A plain value must be equal, operators compare by order; all conditions must hold."""
    await _fill(store)

    assert await _keys(store, {"kind": "task"}) == {"k2"}
    assert await _keys(store, {"n": {"$gte": 1, "$lt": 10}}) == {"k1", "k2"}
    assert await _keys(store, {"n": {"$gt": 1}, "kind": "note"}) == {"k"}
    assert await _keys(store, {"n": {"$lte": 0}}) == {"k0"}
    assert await _keys(store, {"kind": {"$ne": "note"}}) == {"k2"}
    assert await _keys(store, {"kind": {"$eq": "task"}}) == {"k2"}
    assert await _keys(store, {}) == {"k0", "k1", "k2", "k"}


@_in("contract")
async def namespaces_are_listed(store: BaseStore) -> None:
    """`list_namespaces` returns each once, sorted; by prefix, suffix, wildcard and depth."""
    await _fill(store)
    await store.aput(("teams", "x", "old"), "k", {})

    assert await store.alist_namespaces() == [
        ("teams", "x", "old"),
        ("users", "ada"),
        ("users", "ada", "old"),
        ("users", "adam"),
    ]
    assert store.list_namespaces(prefix=("users", "ada")) == [
        ("users", "ada"),
        ("users", "ada", "old"),
    ]
    assert await store.alist_namespaces(suffix=("old",)) == [
        ("teams", "x", "old"),
        ("users", "ada", "old"),
    ]
    assert await store.alist_namespaces(prefix=("*", "x")) == [("teams", "x", "old")]
    assert await store.alist_namespaces(suffix=("ada", "*")) == [("users", "ada", "old")]
    assert await store.alist_namespaces(max_depth=1) == [("teams",), ("users",)]
    assert await store.alist_namespaces(max_depth=2, limit=1, offset=1) == [("users", "ada")]


@_in("contract")
async def a_batch_reads_before_it_writes(store: BaseStore) -> None:
    """Results are in the order of the operations; reads see the state before the batch; the last
    put of a key wins.
    """
    await store.aput(("a",), "k", {"n": 1})
    results = await store.abatch(
        [
            PutOp(("a",), "k", {"n": 2}),
            GetOp(("a",), "k"),
            PutOp(("a",), "k", {"n": 3}),
            PutOp(("b",), "k", {"n": 4}),
            PutOp(("b",), "k", None),
            SearchOp(("a",)),
            ListNamespacesOp(),
        ]
    )

    assert [results[i] for i in (0, 2, 3, 4)] == [None] * 4
    read: Any = results[1]
    found: Any = results[5]
    assert read.value == {"n": 1}
    assert [item.value for item in found] == [{"n": 1}]
    assert results[6] == [("a",)]
    item = await store.aget(("a",), "k")
    assert item is not None
    assert item.value == {"n": 3}
    assert await store.aget(("b",), "k") is None


@_in("contract")
async def invalid_namespaces_are_refused(store: BaseStore) -> None:
    """An empty namespace, the root "langgraph", and labels that are empty, not text or contain a
    period raise ValueError.
    """
    wrong: list[Any] = [(), ("langgraph", "x"), ("",), ("a", ""), ("a.b",), ("a", 1), ("a\0",)]
    for namespace in wrong:
        try:
            await store.aput(namespace, "k", {})
        except ValueError:
            continue
        raise AssertionError(f"{namespace!r} was accepted")
    assert await store.asearch(()) == []


@_in("exact")
async def a_value_comes_back_as_it_was(store: BaseStore) -> None:
    """Every JSON value is stored exactly, with its type; keys and texts are never interpreted."""
    for number, value in enumerate(AWKWARD):
        await store.aput(("a",), f"k'{number}\";", value)
        item = await store.aget(("a",), f"k'{number}\";")
        assert item is not None
        assert repr(item.value) == repr(value)
    assert len(await store.asearch(("a",))) == len(AWKWARD)


@_in("exact")
async def nothing_is_shared_with_the_caller(store: BaseStore) -> None:
    """Mutating a value after `put`, or a returned item, changes nothing in the store."""
    value: dict[str, Any] = {"list": [1]}
    await store.aput(("a",), "k", value)
    value["list"].append(2)
    first, (found,) = await store.aget(("a",), "k"), await store.asearch(("a",))
    assert first is not None
    first.value["list"].append(3)
    found.value["list"].append(4)
    again = await store.aget(("a",), "k")

    assert again is not None
    assert again.value == {"list": [1]}


@_in("exact")
async def the_time_of_the_first_put_stays(store: BaseStore) -> None:
    """`created_at` is the time of the first put, `updated_at` that of the last."""
    await store.aput(("a",), "k", {"n": 1})
    first = await store.aget(("a",), "k")
    await anyio.sleep(0.002)
    await store.aput(("a",), "k", {"n": 2})
    second = await store.aget(("a",), "k")

    assert first is not None
    assert second is not None
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


@_in("exact")
async def a_batch_is_whole_or_refused(store: BaseStore) -> None:
    """An invalid operation fails its batch: none is carried out, and the error names it."""
    text: Any = "1; DROP TABLE items"
    wrong: list[tuple[type[Exception], Any]] = [
        (ItemValueError, PutOp(("a",), "x", {"a": [1, {"b": object()}]})),
        (ItemValueError, PutOp(("a",), "x", {"a": float("nan")})),
        (ItemValueError, PutOp(("a",), "x", {"a": {1: 2}})),
        (InvalidNamespaceError, PutOp((), "x", {})),
        (InvalidNamespaceError, GetOp(("a.b",), "x")),
        (InvalidStoreOperationError, PutOp(("a",), "nul\0", {})),
        (InvalidStoreOperationError, SearchOp((), filter={"a": {"$where": 1}})),
        (InvalidStoreOperationError, SearchOp((), limit=text)),
        (InvalidStoreOperationError, SearchOp((), offset=-1)),
        (InvalidStoreOperationError, "SELECT 1"),
    ]
    for kind, op in wrong:
        try:
            await store.abatch([PutOp(("a",), "k", {}), op])
        except kind:
            continue
        raise AssertionError(f"{op!r} was accepted")
    assert await store.asearch(()) == []


@_in("exact")
async def filters_follow_json(store: BaseStore) -> None:
    """A bool is not a number; text and numbers are not ordered; a missing field equals None; a
    stored key that looks like an operator is compared by `$eq` of the value around it.
    """
    values: list[Any] = [1, 1.0, True, "1", None, {"$gt": 0}, [1, {"a": 2}], {"a": {"b": 1}}]
    for number, value in enumerate(values):
        await store.aput(("v",), str(number), {"x": value})
    await store.aput(("v",), "missing", {"y": 1})

    async def keys(wanted: Any) -> set[str]:
        return {item.key for item in await store.asearch(("v",), filter={"x": wanted}, limit=99)}

    assert await keys(1) == {"0", "1"}
    assert await keys(values[2]) == {"2"}
    assert await keys("1") == {"3"}
    assert await keys(None) == {"4", "missing"}
    assert await keys({"$gte": 0}) == {"0", "1"}
    assert await keys({"$gte": "0"}) == {"3"}
    assert await keys({"$eq": {"$gt": 0}}) == {"5"}
    assert await keys([1, {"a": {"$gt": 1}}]) == {"6"}
    assert await keys({"a": {"b": 1}}) == {"7"}
    assert len(await keys({"$ne": 1})) == len(values) - 1
    assert await store.asearch(("v",), filter={"x') OR 1=1 --": 1}) == []


@_in("exact")
async def an_empty_namespace_is_not_listed(store: BaseStore) -> None:
    """Reads create no namespace, and deleting its last item removes one."""
    await store.aget(("never",), "k")
    await store.aput(("a", "b"), "k", {})
    await store.adelete(("a", "b"), "k")

    assert await store.alist_namespaces() == []


@_in("exact")
async def concurrent_puts_lose_nothing(store: BaseStore) -> None:
    """A hundred concurrent puts are all stored."""
    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(store.aput, ("crowd", str(number % 7)), str(number), {"n": number})
    found: list[SearchItem] = await store.asearch(("crowd",), limit=1000)

    assert sorted(item.value["n"] for item in found) == list(range(100))


@_in("ttl")
async def expired_items_are_gone(store: BaseStore) -> None:
    """An item with `ttl=0` expires at once; without a ttl it stays."""
    await store.aput(("a",), "gone", {}, ttl=0)
    await store.aput(("a",), "stays", {}, ttl=60)
    await store.aput(("a",), "ever", {}, ttl=None)

    assert await store.aget(("a",), "gone") is None
    assert {item.key for item in await store.asearch(("a",))} == {"stays", "ever"}
    await store.aput(("a",), "stays", {}, ttl=0)
    await store.aput(("a",), "ever", {}, ttl=0)
    assert await store.alist_namespaces() == []
