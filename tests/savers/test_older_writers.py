"""Older versions that are open still: they change no row whose checksum they don't know."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from actorgraph import PostgresSaver, SqliteSaver
from actorgraph.savers.postgres import schema as tables
from actorgraph.savers.sqlite import schema
from actorgraph.stores.postgres import schema as items
from actorgraph.stores.postgres.store import PostgresStore
from actorgraph.stores.sqlite.store import SqliteStore
from tests.savers.test_damage import OLDER
from tests.support.graphs import ab, at

FIRST_WITH_CHECKSUMS = 7
PUT = """
INSERT INTO memory_items (namespace, key, value, created, updated, ttl, expires)
VALUES ('n', 'a', '{"k":2}', 1, 1, 10, 600000001)
ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, updated = excluded.updated,
    seq = excluded.seq, ttl = excluded.ttl, expires = excluded.expires
"""
TOUCH = "UPDATE memory_items SET expires = 5 WHERE namespace = 'n' AND key = 'a' AND ttl > 0"
UPDATE_THREAD = """
UPDATE threads SET next_seq = 9, head = x'00', run = NULL, deleted = 0 WHERE thread = 1
"""


def test_each_older_version_of_a_file_has_an_upgrade():
    """
    From each earlier version a function makes the next one.
    """
    assert list(schema.UPGRADES) == list(range(1, schema.SCHEMA_VERSION))


def test_a_file_of_checkpoints(tmp_path):
    """
    The commits of a saver of version 1 are refused once the file is upgraded.
    """
    path = tmp_path / "runs.db"
    with SqliteSaver(path) as saver:
        ab(saver).invoke({}, at())
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        for statement in OLDER:
            older.execute(statement)
        older.execute(UPDATE_THREAD.replace("head = x'00'", "head = head"))
        with SqliteSaver(path) as saver:
            ab(saver).invoke({}, at())
            with pytest.raises(sqlite3.OperationalError):
                older.execute(UPDATE_THREAD)
            assert saver.get_tuple(at()) is not None


@pytest.fixture
def older(postgres):
    """A schema without checksums, and with the row of a saver that is open."""
    with postgres.connect("older") as db:
        db.execute("CREATE SCHEMA older")
        db.execute(tables.CREATE_LIST)
        for number, migration in enumerate(tables.MIGRATIONS[: FIRST_WITH_CHECKSUMS - 1], 1):
            db.execute(migration)
            db.execute(tables.INSERT_VERSION, (number,))
        db.execute("INSERT INTO writers (writer) VALUES ('old')")
    yield "older"
    postgres.drop("older")


def test_a_schema_of_checkpoints(postgres, older):
    """
    Migrating removes the rows of older savers that are open, and they can't add themselves again,
    as they do in the transaction of each batch that finds none.
    """
    with PostgresSaver(postgres.url, schema=older) as saver:
        ab(saver).invoke({}, at())
        with postgres.connect(older) as db:
            assert db.execute("SELECT FROM writers WHERE writer = 'old'").fetchall() == []
            with pytest.raises(psycopg.errors.NotNullViolation):
                db.execute("INSERT INTO writers (writer) VALUES ('old')")


def test_a_schema_that_is_migrated_later(postgres, older):
    """
    A saver that migrates nothing opens older tables, and stores once `setup()` has migrated them.
    """
    with PostgresSaver(postgres.url, schema=older, migrate=False) as saver:
        saver.setup()
        ab(saver).invoke({}, at())
        assert saver.get_tuple(at()) is not None


def test_a_file_of_items(tmp_path):
    """
    A store of version 1 neither puts an item nor lets one live anew once the file is upgraded.
    """
    path = tmp_path / "items.db"
    with SqliteStore(path) as store:
        store.put(("n",), "a", {"k": 1}, ttl=10)
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        older.execute("ALTER TABLE memory_items DROP COLUMN crc")
        older.execute("ALTER TABLE memory_vectors DROP COLUMN crc")
        older.execute("ALTER TABLE memory_items RENAME COLUMN minutes TO ttl")
        older.execute("UPDATE memory_format SET version = 1")
        assert older.execute(TOUCH.replace("= 5", "= expires")).rowcount == 1
        with SqliteStore(path) as store:
            store.put(("n",), "a", {"k": 1}, ttl=10)
            for statement in (PUT, TOUCH):
                with pytest.raises(sqlite3.OperationalError):
                    older.execute(statement)
            assert store.get(("n",), "a").value == {"k": 1}


def test_a_schema_of_items(postgres):
    """
    The same in PostgreSQL.
    """
    try:
        with postgres.connect("older") as db:
            db.execute("CREATE SCHEMA older")
            for statement in items.SETUP:
                db.execute(statement)
            db.execute(PUT)
        with PostgresStore(postgres.url, schema="older") as store:
            store.put(("n",), "a", {"k": 1}, ttl=10)
            for statement in (PUT, TOUCH):
                with (
                    postgres.connect("older") as db,
                    pytest.raises(psycopg.errors.UndefinedColumn),
                ):
                    db.execute(statement)
            assert store.get(("n",), "a").value == {"k": 1}
    finally:
        postgres.drop("older")
