"""Stores for long-term memory of every kind.

`shelf` is a place for items of one kind. `shelf.open()` is a store over it; `shelf.again()` is
what a new process would make.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actorgraph.stores import InMemoryStore, PostgresStore, SqliteStore
from tests.support.every_saver import Store

KINDS = ["memory", "sqlite", "sqlite-memory", "postgres"]


class Clock:
    """Seconds since 1970, moved by the test."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_minutes(self, minutes: float) -> None:
        """Let time pass."""
        self.now += minutes * 60


class Shelf:
    """A place for items, and stores over it."""

    def __init__(self, kind: str, folder: Path, address: str = "", schema: str = "") -> None:
        self.kind = kind
        self.address, self.schema = address, schema
        self.path = folder / "items.db"
        self.made: list[Any] = []

    @property
    def lasts(self) -> bool:
        """Whether what is stored outlives the store object."""
        return self.kind not in {"memory", "sqlite-memory"}

    def open(self, **settings: Any) -> Any:
        """A store over this place."""
        store = self._make(**settings)
        self.made.append(store)
        return store

    def close(self) -> None:
        """Close every store."""
        for store in self.made:
            store.close()

    def _make(self, **settings: Any) -> Any:
        if self.kind == "memory":
            return InMemoryStore(**settings)
        if self.kind == "postgres":
            return PostgresStore(self.address, schema=self.schema, **settings)
        return SqliteStore(self.path if self.lasts else ":memory:", **settings)


class Items:
    """The items of one program over a saver's place, of which versions run one after another."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf, self._first = shelf, shelf.open()

    def again(self) -> Any:
        """The store that a new process would open; the same one, if nothing of it lasts."""
        return self._shelf.open() if self._shelf.lasts else self._first


@contextmanager
def items_beside(request: pytest.FixtureRequest, store: Store, folder: Path) -> Iterator[Items]:
    """Items of the kind of a saver's place; files of SQLite beside JSON lines."""
    kind = "sqlite" if store.kind == "jsonl" else store.kind
    if kind != "postgres":
        shelf = Shelf(kind, folder)
        yield Items(shelf)
        shelf.close()
        return
    server = request.getfixturevalue("postgres")
    with server.borrow("memory") as schema:
        shelf = Shelf(kind, folder, server.url, schema)
        yield Items(shelf)
        shelf.close()
