"""Stores, caches and systems beside savers: cancelled at the k-th suspension, for every k.

A case is a call to a store, a cache, a session or a reader of events. However it is cancelled,
it ends; no task and no thread of it stays; other tasks' calls of the same moment are answered;
and `after` uses the same object again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from actorgraph import END, START, CachePolicy, StateGraph
from actorgraph.caches import BaseCache, InMemoryCache, SqliteCache
from actorgraph.stores import AsyncBatchedBaseStore, BaseStore, InMemoryStore, SqliteStore
from tests.faults.cancels import cancel_at, tasks_alive
from tests.faults.stores import numbers
from tests.support.gates import PATIENCE_S
from tests.support.graphs import AB, writer

Call = Callable[[], Coroutine[Any, Any, Any]]
After = Callable[[], Awaitable[None]]
Opened = Callable[[Path], AbstractAsyncContextManager[tuple[Call, After]]]


@dataclass(frozen=True)
class Case:
    """A call to cancel, and what must hold after it. `waits`: whether it can be cancelled."""

    name: str
    opened: Opened
    waits: bool = True


async def cancel_case(case: Case, how: str, folder: Path, part: tuple[int, int] = (0, 1)) -> int:
    """Cancel a call at each of its suspensions, or at a part of them; how many there were."""
    for awaits, k in enumerate(numbers(part)):
        place = folder / f"{how}-{k}"
        place.mkdir()
        with anyio.fail_after(PATIENCE_S):
            async with case.opened(place) as (call, after):
                before = tasks_alive()
                fired = await cancel_at(call, k, how)
                await after()
                while tasks_alive() > before:  # a task that stays makes this endless
                    await checkpoint()
        if not fired:
            return awaits
    raise AssertionError("unreachable")


class Slow:
    """Blocking work that takes a moment, and counts how often it was done."""

    def __init__(self) -> None:
        self.done = 0

    def work(self) -> None:
        """Take a moment."""
        Event().wait(0.002)
        self.done += 1

    async def rests(self) -> bool:
        """Whether nothing of it goes on, in a thread that was left behind."""
        before = self.done
        await anyio.sleep(0.01)
        return self.done == before


# --- stores ---


class Batched(AsyncBatchedBaseStore):
    """A program's store whose batches wait."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemoryStore()

    def batch(self, ops: Iterable[Any]) -> Any:
        return self.inner.batch(ops)

    async def abatch(self, ops: Iterable[Any]) -> Any:
        found = self.inner.batch(ops)
        await checkpoint()
        return found


class Own(BaseStore):
    """A program's store that waits in each call."""

    def __init__(self) -> None:
        self.inner = InMemoryStore()

    def batch(self, ops: Iterable[Any]) -> Any:
        return self.inner.batch(ops)

    async def abatch(self, ops: Iterable[Any]) -> Any:
        await checkpoint()
        return self.inner.batch(ops)


async def embed(texts: Any) -> list[list[float]]:
    """A vector for each text, after a wait."""
    await checkpoint()
    return [[float(len(text)), 1.0] for text in texts]


INDEX: Any = {"dims": 2, "embed": embed}
STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: InMemoryStore(index=INDEX),
    "sqlite": lambda folder: SqliteStore(folder / "items.db", index=INDEX),
    "sqlite in memory": lambda _: SqliteStore(":memory:", index=INDEX),
    "batched": lambda _: Batched(),
    "a program's": lambda _: Own(),
}
OPERATIONS: dict[str, Callable[[Any], Coroutine[Any, Any, Any]]] = {
    "aget": lambda store: store.aget(("a",), "k"),
    "aput": lambda store: store.aput(("a",), "k", {"text": "new"}),
    "adelete": lambda store: store.adelete(("a",), "k"),
    "asearch": lambda store: store.asearch(("a",), query="old"),
    "alist_namespaces": lambda store: store.alist_namespaces(),
}


def store_case(kind: str, make: Callable[[Path], Any], operation: str, others: int = 3) -> Case:
    """One operation, while other tasks put."""

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[tuple[Call, After]]:
        store = make(folder)
        await store.aput(("a",), "k", {"text": "old"})
        async with anyio.create_task_group() as group:
            for number in range(others):
                group.start_soon(partial(store.aput, ("b",), str(number), {"n": number}))

            async def after() -> None:
                await store.aput(("a",), "next", {})
                assert await store.aget(("a",), "next") is not None
                for number in range(others):
                    while await store.aget(("b",), str(number)) is None:
                        await checkpoint()

            yield lambda: OPERATIONS[operation](store), after
        if hasattr(store, "close"):
            store.close()

    waits = kind != "memory" or operation == "asearch"  # which embeds its query
    return Case(f"{kind} store, {operation} beside {others} others", opened, waits)


def closed_store(kind: str, make: Callable[[Path], Any]) -> Case:
    """`async with`, with a put in it."""

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[tuple[Call, After]]:
        store = make(folder)

        async def use() -> None:
            async with store:
                await store.aput(("a",), "k", {"text": "new"})

        async def after() -> None:
            await use()
            store.close()

        yield use, after

    return Case(f"{kind} store, async with", opened)


# --- caches ---


class OwnCache(InMemoryCache[Any]):
    """A program's cache: blocking methods that take a moment."""

    aget, aset, aclear = BaseCache.aget, BaseCache.aset, BaseCache.aclear

    def __init__(self) -> None:
        super().__init__()
        self.slow = Slow()

    def get(self, keys: Any) -> Any:
        self.slow.work()
        return super().get(keys)

    def set(self, pairs: Any) -> None:
        self.slow.work()
        super().set(pairs)

    def clear(self, namespaces: Any = None) -> None:
        self.slow.work()
        super().clear(namespaces)


CACHES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: InMemoryCache(),
    "sqlite": lambda folder: SqliteCache(folder / "cache.db"),
    "a program's": lambda _: OwnCache(),
}
KEY = (("n",), "k")
CACHED: dict[str, Callable[[Any], Coroutine[Any, Any, Any]]] = {
    "aget": lambda cache: cache.aget([KEY]),
    "aset": lambda cache: cache.aset({KEY: ("new", None)}),
    "aclear": lambda cache: cache.aclear(),
}


def cache_case(kind: str, make: Callable[[Path], Any], operation: str) -> Case:
    """One operation of a cache."""

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[tuple[Call, After]]:
        cache = make(folder)
        await cache.aset({KEY: ("old", None)})

        async def after() -> None:
            assert kind != "a program's" or await cache.slow.rests()
            await cache.aset({KEY: ("next", None)})
            assert await cache.aget([KEY]) == {KEY: "next"}

        yield lambda: CACHED[operation](cache), after
        if hasattr(cache, "close"):
            cache.close()

    return Case(f"{kind} cache, {operation}", opened, waits=kind != "memory")


def cached_graph(kind: str, make: Callable[[Path], Any]) -> Case:
    """A run whose node's result is looked up and kept."""

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[tuple[Call, After]]:
        cache = make(folder)
        builder = StateGraph(AB).add_node("a", writer("a"), cache_policy=CachePolicy())
        graph = builder.add_edge(START, "a").add_edge("a", END).compile(cache=cache)

        async def after() -> None:
            for _ in range(2):
                assert (await graph.ainvoke({"bar": []}))["bar"] == ["a"]

        yield lambda: graph.ainvoke({"bar": []}), after
        if hasattr(cache, "close"):
            cache.close()

    return Case(f"a run with the {kind} cache", opened)


KEEPERS = [
    *(
        store_case(kind, make, name, others)
        for kind, make in STORES.items()
        for name in OPERATIONS
        for others in (0, 3)
    ),
    *(closed_store(kind, STORES[kind]) for kind in ("memory", "sqlite", "sqlite in memory")),
    *(cache_case(kind, make, name) for kind, make in CACHES.items() for name in CACHED),
    *(cached_graph(kind, make) for kind, make in CACHES.items()),
]
