"""Stores for long-term memory of every kind.

`shelf` is a place for items of one kind. `shelf.open()` is a store over it; `shelf.again()` is
what a new process would make.
"""

from pathlib import Path
from typing import Any

from actorgraph.stores import InMemoryStore, PostgresStore, SqliteStore

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
