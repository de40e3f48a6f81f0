"""The size of a chat of 400 turns on the disk, in every kind of store."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actorgraph import Codec, JsonlSaver, PostgresSaver, SqliteSaver
from tests.faults.crashes import report, row
from tests.savers.test_postgres_space import SIZES, Chat, Plain, chat
from tests.support.postgres_server import PostgresServer

TURNS = 400
AT_MOST = {"sqlite": 6.0, "json lines": 8.0, "postgres": 5.8}


@pytest.fixture(params=AT_MOST)
def kind(request):
    """A kind of store."""
    return request.param


@pytest.fixture
def place(kind, tmp_path, request):
    """A place of the kind, with nothing in it."""
    if kind != "postgres":
        return Files(kind, tmp_path)
    return Schema(request.getfixturevalue("postgres"), request.getfixturevalue("schema"))


class Files:
    """A database file, or a folder of files of lines."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.before = 0
        self._kind = kind
        self._folder = folder / "stored"
        self._folder.mkdir()

    @asynccontextmanager
    async def saver(self) -> AsyncIterator[Any]:
        """A saver over it."""
        lines = self._kind == "json lines"
        made = JsonlSaver(self._folder) if lines else SqliteSaver(self._folder / "runs.db")
        async with made as saver:
            yield saver

    def taken(self) -> list[int]:
        """The bytes of all its files."""
        return [sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())]


class Schema:
    """Tables of PostgreSQL."""

    def __init__(self, postgres: PostgresServer, schema: str) -> None:
        self._postgres = postgres
        self._schema = schema
        self.before = 0

    @asynccontextmanager
    async def saver(self) -> AsyncIterator[Any]:
        """A saver over them; they are there, and empty."""
        async with PostgresSaver(self._postgres.url, schema=self._schema) as saver:
            self.before = self._size()
            yield saver

    def taken(self) -> list[int]:
        """
        The bytes that were added to all tables, with their indexes and maps: before anything was
        vacuumed, and after a plain VACUUM, which takes no file's end away but adds maps.
        """
        before = self._size() - self.before
        with self._postgres.connect(self._schema) as db:
            db.execute("VACUUM")
        return [before, self._size() - self.before]

    def _size(self) -> int:
        with self._postgres.connect(self._schema) as db:
            return db.execute(SIZES, ("%",)).fetchone()[0]


@pytest.mark.promise("C1")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("schema_of", [Plain, Chat], ids=["dicts", "message objects"])
async def test_a_chat_of_four_hundred_turns(place, kind, schema_of, request, anyio_backend):
    """
    400 turns take at most six times the bytes of the last state on SQLite and PostgreSQL, vacuumed
    or not, and eight on files of lines: compact JSON of dicts, encoded objects.
    """
    async with place.saver() as saver:
        state = await chat(saver, TURNS, schema_of)
    plain = schema_of is Plain
    size = len(json.dumps(state, separators=(",", ":")) if plain else Codec().encode(state))
    ratios = [taken / size for taken in place.taken()]

    figures = ", ".join(f"{ratio:.2f}" for ratio in ratios) + f" x {size:,} bytes"
    if place.before:
        figures += f", and {place.before:,} of empty tables"
    what = f"a chat of 400 turns, {'dicts' if plain else 'objects'}, {kind}"
    report(request.config, "many at once", row(what, anyio_backend, figures))
    assert max(ratios) <= AT_MOST[kind]
