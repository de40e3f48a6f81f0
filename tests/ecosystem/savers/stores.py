"""Stores and a cache of other packages, called by a program and by a graph; prints the results.

python [-m actorgraph.compat -m] tests.ecosystem.savers.stores STORE FOLDER
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import CachePolicy
from typing_extensions import TypedDict

from tests.ecosystem.normal import normal
from tests.ecosystem.savers.places import AWS, REDIS, own_database


class State(TypedDict, total=False):
    """The state of the graphs."""

    found: list[Any]
    number: int


@contextmanager
def qdrant(folder: Path) -> Iterator[Any]:
    """Qdrant in this process."""
    del folder
    client = import_module("qdrant_client").QdrantClient(":memory:")
    store = import_module("langgraph.store.qdrant").QdrantStore(client)
    store.setup()
    yield store


@contextmanager
def mysql(folder: Path) -> Iterator[Any]:
    """A database of a MariaDB server."""
    kind = import_module("langgraph.store.mysql.pymysql").PyMySQLStore
    with kind.from_conn_string(own_database(folder)) as store:
        store.setup()
        yield store


@contextmanager
def dynamodb(folder: Path) -> Iterator[Any]:
    """A table of DynamoDB."""
    kind = import_module("langgraph_store_dynamodb").DynamoDBStore
    yield kind(folder.name, endpoint_url=os.environ[AWS])


@contextmanager
def duckdb(folder: Path) -> Iterator[Any]:
    """A DuckDB file."""
    kind = import_module("langgraph.store.duckdb").DuckDBStore
    with kind.from_conn_string(str(folder / "store.duckdb")) as store:
        store.setup()
        yield store


STORES: dict[str, Callable[[Path], Any]] = {
    made.__name__: made for made in (qdrant, mysql, dynamodb, duckdb)
}


def show(way: str, item: Any) -> None:
    """Print a line."""
    print(json.dumps({"way": way, "turn": 0, "item": normal(item)}), flush=True)


def shown(item: Any) -> Any:
    """An item, without its times."""
    return None if item is None else [list(item.namespace), item.key, item.value]


def calls(store: Any) -> None:
    """Call the store's methods."""
    for number in range(3):
        store.put(("users", "one"), f"k{number}", {"number": number, "kind": "odd" * (number % 2)})
    store.put(("users", "two"), "k", {"number": 9})
    show("get", [shown(store.get(("users", "one"), key)) for key in ("k1", "absent")])
    for way, asked in {
        "all": {},
        "filter": {"filter": {"kind": "odd"}},
        "limit": {"limit": 1},
    }.items():
        found = store.search(("users", "one"), **asked)
        keys = [shown(item) for item in sorted(found, key=lambda item: item.key)]
        show(f"search {way}", len(keys) if way == "limit" else keys)
    show("namespaces", sorted(map(list, store.list_namespaces(prefix=("users",)))))
    store.delete(("users", "one"), "k0")
    show("deleted", shown(store.get(("users", "one"), "k0")))
    try:
        store.put(("bad.label",), "k", {})
    except ValueError as error:
        show("refused", type(error).__name__)


def graph(store: Any) -> None:
    """Let a node put and get."""

    def node(state: State, runtime: Runtime[None]) -> State:
        assert runtime.store is not None
        runtime.store.put(("memories",), "m", {"number": state["number"]})
        return {"found": [shown(item) for item in runtime.store.search(("memories",))]}

    built = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(store=store)
    show("graph", built.invoke({"number": 1}))


def cache() -> None:
    """Keep a node's result in a cache of another package."""
    redis = import_module("redis").Redis.from_url(os.environ[REDIS])
    kind = import_module("langgraph.cache.base").BaseCache

    class RedisCache(kind):  # type: ignore[misc, valid-type]
        """As packages write one: bytes by the serializer that the base class has."""

        def __init__(self, **more: Any) -> None:
            super().__init__(serde=None, **more)

        def get(self, keys: Any) -> Any:
            rows = {key: redis.hgetall(repr(key)) for key in keys}
            found = {key: (row[b"form"].decode(), row[b"data"]) for key, row in rows.items() if row}
            return {key: self.serde.loads_typed(row) for key, row in found.items()}

        def set(self, pairs: Any) -> None:
            for key, (value, _) in pairs.items():
                form, data = self.serde.dumps_typed(value)
                redis.hset(repr(key), mapping={"form": form, "data": data})

        def clear(self, namespaces: Any = None) -> None:
            redis.flushdb()

        async def aget(self, keys: Any) -> Any:
            return self.get(keys)

        async def aset(self, pairs: Any) -> None:
            self.set(pairs)

        async def aclear(self, namespaces: Any = None) -> None:
            self.clear(namespaces)

    ran: list[int] = []

    def node(state: State) -> State:
        ran.append(state["number"])
        return {"found": ["made"]}

    built = StateGraph(State).add_node("node", node, cache_policy=CachePolicy())
    made = built.add_edge(START, "node").compile(cache=RedisCache())
    made.clear_cache()
    show("cache", [made.invoke({"number": number}) for number in (1, 1, 2)] + ran)


def main(name: str, folder: Path) -> None:
    """Run them."""
    folder.mkdir(parents=True, exist_ok=True)
    with STORES[name](folder) as store:
        for run in (calls, graph):
            try:
                run(store)
            except Exception as error:  # noqa: BLE001 - is compared too
                show(f"{run.__name__}: failed", f"{type(error).__name__}: {error}")
    if name == "qdrant":
        cache()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], Path(sys.argv[2]))
