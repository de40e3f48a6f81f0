"""Rows that no request reaches, because a key is damaged, are removed by a vacuum, and named."""

import sqlite3
from contextlib import closing, contextmanager

import pytest
from structlog.testing import capture_logs

from actorgraph import PostgresSaver, SqliteSaver, StorageError
from actorgraph.savers.judge import epoch_after, next_of_emptied
from tests.support.graphs import at
from tests.support.structlog_setup import configured
from tests.web.apps import GRAPHS

__all__ = ["configured"]

TABLES = ("points", "blobs", "ranges", "writes", "runs")
"""With rows of each thread."""


def counted(table):
    return f"SELECT count(*) FROM {table}"  # noqa: S608 - a name can't be a parameter


class Place:
    """A database with two threads."""

    def __init__(self, saver, connect):
        self.saver, self._connect = saver, connect

    @contextmanager
    def connected(self):
        with self._connect() as db:
            yield db

    def changed(self, statement):
        with self.connected() as db:
            assert db.execute(statement).rowcount

    def counts(self):
        with self.connected() as db:
            there = ["checkpoints" if n == "points" and self.is_sqlite else n for n in TABLES]
            found = [db.execute(counted(n)).fetchone()[0] for n in there]
        return dict(zip(TABLES, found, strict=True))

    @property
    def is_sqlite(self):
        return isinstance(self.saver(), SqliteSaver)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """One of each database."""
    if request.param == "sqlite":
        path = tmp_path / "runs.db"
        made = Place(
            lambda: SqliteSaver(path), lambda: closing(sqlite3.connect(path, isolation_level=None))
        )
    else:
        server, schema = (request.getfixturevalue(n) for n in ("postgres", "schema"))
        made = Place(
            lambda: PostgresSaver(server.url, schema=schema), lambda: server.connect(schema)
        )
    return made


async def fill(place):
    async with place.saver() as saver:
        graph = GRAPHS["log"].compile(checkpointer=saver)
        for thread in ("good", "bad"):
            await graph.ainvoke({"foo": thread + 100 * "x", "log": [thread]}, at(thread))


@pytest.mark.every_saver
@pytest.mark.usefixtures("configured")
async def test_rows_of_a_lost_thread(place):
    """
    Rows of a thread whose key is damaged are removed by a vacuum, which names them table by table;
    the other thread keeps its own.
    """
    await fill(place)
    whole = place.counts()
    place.changed("UPDATE threads SET thread = 77, run = NULL WHERE thread_id = 'bad'")

    with capture_logs() as logged:
        async with place.saver() as saver:
            await saver.avacuum()
            found = await GRAPHS["log"].compile(checkpointer=saver).aget_state(at("good"))
    half = {table: rows // 2 for table, rows in whole.items()}
    assert place.counts() == half
    lost = [one for one in logged if one["event"] == "orphans.removed"]
    assert {one["table"].replace("checkpoints", "points"): one["rows"] for one in lost} == half
    assert {key for one in lost for key in one["keys"]} == {"2"}
    assert "good" in found.values["log"]


@pytest.mark.usefixtures("configured")
async def test_a_vacuum_of_sound_rows_names_none(place):
    """
    A vacuum says nothing of rows that are reached.
    """
    await fill(place)
    whole = place.counts()

    with capture_logs() as logged:
        async with place.saver() as saver:
            await saver.avacuum()
    assert place.counts() == whole
    assert [one for one in logged if one["event"] == "orphans.removed"] == []


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("stored", ["CAST(x'fffe' AS TEXT)", "x'01'"])
async def test_ids_that_are_not_text(tmp_path, stored):
    """
    A vacuum removes a thread whose id isn't text, which no caller can name.
    """
    path = tmp_path / "runs.db"
    place = Place(
        lambda: SqliteSaver(path), lambda: closing(sqlite3.connect(path, isolation_level=None))
    )
    await fill(place)
    whole = place.counts()
    place.changed(f"UPDATE threads SET thread_id = {stored} WHERE thread_id = 'bad'")  # noqa: S608

    with capture_logs() as logged:
        async with place.saver() as saver:
            await saver.avacuum()
            left = await saver.alist_threads()
    assert left == ["good"]
    assert place.counts() == {table: rows // 2 for table, rows in whole.items()}
    assert [one["rows"] for one in logged if one.get("table") == "threads"] == [1]


@pytest.mark.every_saver
@pytest.mark.one_loop
@pytest.mark.parametrize("column", ["epoch", "next_seq"])
@pytest.mark.parametrize("stored", ["'bad'", "-7", "9223372036854775807"])
async def test_a_damaged_number_of_a_thread(place, column, stored):
    """
    A thread whose epoch or sequence is damaged can be deleted, and used again afterwards.
    """
    await fill(place)
    if place.is_sqlite or stored != "'bad'":
        change = f"UPDATE threads SET {column} = {stored}"  # noqa: S608
        place.changed(f"{change} WHERE thread_id = 'bad'")

    async with place.saver() as saver:
        await saver.adelete_thread("bad")
        graph = GRAPHS["log"].compile(checkpointer=saver)
        found = await graph.ainvoke({"foo": "x", "log": ["again"]}, at("bad"))
    assert found["log"][0] == "again"
    assert len(found["log"]) < 4


@pytest.mark.parametrize("stored", [1, 5, 0, -7, "bad", None, True, 1 << 61, 1 << 62, 2**63 - 1])
def test_an_epoch_of_its_own(stored):
    """
    A deletion's epoch differs from the stored one, and fits the column, whatever was stored.
    """
    assert epoch_after(stored) != stored
    assert 0 < epoch_after(stored) < 2**63 - 1
    assert 0 < next_of_emptied(stored) < 2**63 - 1


async def test_a_thread_named_by_its_remains(place):
    """
    A thread whose id has become one with a control character is deleted by that.
    """
    await fill(place)
    half = {table: rows // 2 for table, rows in place.counts().items()}
    with place.connected() as db:
        db.execute(
            "UPDATE threads SET thread_id = 'b' || chr(1) WHERE thread_id = 'bad'"
            if not place.is_sqlite
            else "UPDATE threads SET thread_id = 'b' || char(1) WHERE thread_id = 'bad'"
        )

    async with place.saver() as saver:
        with pytest.raises(StorageError):
            await saver.avacuum()
        await saver.adelete_thread("b\x01")
        await saver.avacuum()
    assert place.counts() == half
