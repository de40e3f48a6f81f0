"""Each table of the two schemas is in the lists of every maintenance, or is left out for a reason.

A new table that is in none of them fails here, before its rows outlive their threads.
"""

import re
import sqlite3
from contextlib import closing

import pytest

from actorgraph import PostgresSaver, SqliteSaver
from actorgraph.savers.postgres import backup as pg_backup
from actorgraph.savers.postgres import bucket_moves, buckets
from actorgraph.savers.postgres import retention as pg_retention
from actorgraph.savers.postgres import statements as pg
from actorgraph.savers.postgres import thread_index as pg_index
from actorgraph.savers.sqlite import backup, schema, system_schema, thread_index
from actorgraph.storage.postgres.timeouts import Timeouts

LEASES = "leases of systems: no rows of threads, and their owners don't use a copy"
MADE_AGAIN = "the first search makes it again"
OF_SERVER = "about the database itself, not about threads"
SHARED = "texts that records of many threads share, without their values"

SQLITE_LISTS = {
    "deletion": (
        [
            *(*schema.DELETE_THREAD, *system_schema.DELETE_THREAD, *schema.FORGET_DELETED),
            *(thread_index.DROP, thread_index.TAKE_FACT, thread_index.DROP_FACT),
            thread_index.FORGET_MARKS,
        ],
        {"owners": LEASES},
    ),
    "backup": (
        [*backup.INSERTS.values()],
        {"owners": LEASES} | dict.fromkeys(("facts", "thread_facts", "thread_marks"), MADE_AGAIN),
    ),
}
"""List -> its statements, and the tables that it leaves out. VACUUM rewrites the whole file."""

OTHER = {"owners": LEASES, **dict.fromkeys(("writers", "buckets", "shard_name"), OF_SERVER)}
OTHER["saver_migrations"] = OF_SERVER
POSTGRES_LISTS = {
    "vacuum": ([*pg.VACUUM], {**OTHER, "shapes": SHARED}),
    "deletion": (
        [*pg_retention.DELETE_THREAD, pg.FORGET_DELETED, *pg_index.FORGET_DELETED],
        {**OTHER, "shapes": SHARED},
    ),
    "backup": (
        [f"INSERT INTO {table}" for table in pg_backup.TABLES],
        {**OTHER, "thread_marks": MADE_AGAIN, "shapes": "in the rows of the view `checkpoints`"},
    ),
    "copies of moves": (
        [*(f"INSERT INTO {table}" for table in bucket_moves.COPIED), bucket_moves.MARK_MOVED],
        OTHER,
    ),
    "deletion after moves": ([*buckets.DELETE_BUCKETS], {**OTHER, "shapes": SHARED}),
}


def named(statements):
    """The tables that statements delete from, insert into or vacuum."""
    text = "\n".join(statements)
    found = re.findall(r"(?:DELETE FROM|INSERT INTO|VACUUM \(FULL\)) (\w+)", text)
    return {"points" if name == "checkpoints" else name for name in found}


def assert_each_is_listed(tables, statements, left_out):
    listed = named(statements)
    assert tables - listed - set(left_out) == set(), "list these, or say why not"
    assert listed & set(left_out) == set(), "these are listed after all"
    assert (listed | set(left_out)) - tables == set(), "these are gone"


@pytest.fixture
def sqlite_tables(tmp_path):
    """
    The tables of a file in which everything was used.
    """
    SqliteSaver(tmp_path / "runs.db").set_up()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db:
        db.executescript(thread_index.SETUP)
        found = db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
        return {"points" if name == "checkpoints" else name for (name,) in found}


@pytest.mark.parametrize("which", SQLITE_LISTS)
def test_each_table_of_a_file(sqlite_tables, which):
    """
    SQLite: deletion and backup cover each table, or leave it out for a reason.
    """
    assert_each_is_listed(sqlite_tables, *SQLITE_LISTS[which])


def test_each_table_of_a_schema(postgres, schema):
    """
    PostgreSQL, with the tables of sharding: so do these, vacuum, and moves between databases.
    """
    PostgresSaver(postgres.url, schema=schema).setup()
    table = buckets.BucketTable("one", postgres.url, schema, Timeouts())
    table.enrol(holds=True)
    table.close()
    with postgres.connect(schema) as db:
        found = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,))
        tables = {name for (name,) in found}

    for lists in POSTGRES_LISTS.values():
        assert_each_is_listed(tables, *lists)
