"""Savers of every kind, as fixtures: `store` is a place for checkpoints, `saver` is open.

A conftest.py of the folder imports the fixtures. `store.saver()` opens nothing; `store.again()` is
what a new process would make. Which kinds and event loops a test runs on is said by the markers
`every_saver` and `every_loop` (tests/support/saver_markers.py).
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actorgraph import InMemorySaver, JsonlSaver, PostgresSaver, SqliteSaver
from tests.support.postgres_server import PostgresServer

KINDS = ["memory", "sqlite", "sqlite-memory", "jsonl", "postgres"]


class Store:
    """A place for checkpoints, and savers over it."""

    def __init__(self, kind: str, folder: Path, url: str = "", schema: str = "") -> None:
        self.kind = kind
        self.path = folder / "runs.db"
        self.url = url
        self.schema = schema
        self._saver: Any = None

    @property
    def on_disk(self) -> bool:
        """Whether what is stored outlives the saver object."""
        return self.kind in {"sqlite", "jsonl", "postgres"}

    def saver(self, **options: Any) -> Any:
        """The saver over this place, made with `options` when first asked for."""
        if self._saver is None:
            self._saver = self._make(**options)
        return self._saver

    def again(self) -> Any:
        """A new saver object over the same place, where the kind has such; else the same one."""
        return self._make() if self.on_disk else self.saver()

    def _make(self, **options: Any) -> Any:
        if self.kind == "memory":
            return InMemorySaver(**options)
        if self.kind == "jsonl":
            return JsonlSaver(self.path.with_name("threads"), **options)
        if self.kind == "postgres":
            return PostgresSaver(self.url, schema=self.schema, **options)
        return SqliteSaver(self.path if self.on_disk else ":memory:", **options)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A place for checkpoints; the test runs once per kind."""
    with stored_in(request, request.param, tmp_path) as made:
        yield made


@contextmanager
def stored_in(request: pytest.FixtureRequest, kind: str, folder: Path) -> Iterator[Store]:
    """A place of a kind; on PostgreSQL a schema that is empty and handed on afterwards."""
    if kind != "postgres":
        yield Store(kind, folder)
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.borrow("saver") as schema:
        yield Store(kind, folder, postgres.url, schema)


@pytest.fixture
async def saver(store: Store) -> AsyncIterator[Any]:
    """An open saver; the test runs once per kind."""
    async with store.saver() as opened:
        yield opened
