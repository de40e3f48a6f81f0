"""Tables of SQLite with values of any size."""

import re
import sqlite3
from contextlib import closing

import pytest

from actorgraph import SqliteSaver
from actorgraph.caches import SqliteCache
from actorgraph.savers.sqlite import retention, schema, thread_index
from actorgraph.stores import SqliteStore
from tests.support.graphs import ab, at

SMALL = {"cancels", "owners", "thread_facts", "thread_marks", "memory_vectors"}
"""Tables WITHOUT ROWID: none of their rows has a value of a program."""


def tables(path) -> dict[str, str]:
    """Name -> statement of each table of a file."""
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))


class TestTables:
    def test_rows_with_values_are_found_by_their_keys_alone(self, tmp_path):
        """
        No table of a saver, a store or a cache that holds values is WITHOUT ROWID, where SQLite
        reads a whole row to compare its key: a neighbour of 100 MB would cost 100 MB.
        """
        paths = [tmp_path / name for name in ("saver.db", "store.db", "cache.db")]
        with SqliteSaver(paths[0]) as saver:
            saver.list_threads()
        with SqliteStore(paths[1]) as store:
            store.put(("a",), "k", {"n": 1})
        cache = SqliteCache(paths[2])
        cache.set({(("a",), "k"): (1, None)})
        cache.close()
        found = {name: text for path in paths for name, text in tables(path).items()}

        assert len(found) > 10
        assert {name for name, text in found.items() if "WITHOUT ROWID" in text} <= SMALL


OLD = {
    "runs": "SELECT * FROM runs",
    "blobs": "SELECT * FROM blobs",
    "ranges": "SELECT * FROM ranges",
    "writes": "SELECT * FROM writes",
    "events": "SELECT * FROM events",
}
"""Tables that were WITHOUT ROWID in files of older versions, and the query of their rows."""


def old_setup() -> str:
    """The statements that made the tables in older versions."""
    text = schema.SETUP.replace("{version}", str(schema.SCHEMA_VERSION))
    for name in OLD:
        text = re.sub(rf"(EXISTS {name} \(.*?\n\));", r"\1 WITHOUT ROWID;", text, flags=re.DOTALL)
    return text


def old_file(path) -> None:
    """Make a file whose tables are those of older versions."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(old_setup())
    assert {name for name, text in tables(path).items() if "WITHOUT ROWID" in text} == set(OLD)


def contents(path) -> dict[str, list[tuple]]:
    """Name -> rows of each of the old tables, and the statements of indexes and triggers."""
    with closing(sqlite3.connect(path)) as db:
        found = {name: sorted(db.execute(query)) for name, query in OLD.items()}
        named = "SELECT sql FROM sqlite_schema WHERE type != 'table' AND sql IS NOT NULL"
        return {**found, "beside": sorted(db.execute(named))}


class TestOldFiles:
    def test_vacuum_rebuilds_their_tables(self, tmp_path):
        """
        After `vacuum()` an old file has tables with a rowid, the same rows and indexes, and its
        threads go on.
        """
        path = tmp_path / "old.db"
        old_file(path)
        with SqliteSaver(path) as saver:
            graph = ab(saver)
            before = graph.invoke({"foo": "x"}, at("t"))
            with closing(sqlite3.connect(path)) as db:
                for statement in (*thread_index.STATEMENTS, *thread_index.TRACK):
                    db.execute(statement)
            rows = contents(path)
            saver.vacuum()

            assert contents(path) == rows
            assert graph.get_state(at("t")).values == before
            graph.invoke({"foo": "y"}, at("t"))
            assert len(list(graph.get_state_history(at("t")))) > 4
        assert rows["blobs"] or rows["writes"]
        found = {name for name, text in tables(path).items() if "WITHOUT ROWID" in text}
        assert found <= SMALL

    def test_a_rebuild_that_fails_changes_nothing(self, tmp_path):
        """
        All tables are rebuilt in one transaction: where one can't be, the file is as before.
        """
        path = tmp_path / "old.db"
        old_file(path)
        with SqliteSaver(path) as saver:
            ab(saver).invoke({"foo": "x"}, at("t"))
        rows, names = contents(path), tables(path)

        def refuse(action, name, *_) -> int:
            last = action == sqlite3.SQLITE_DROP_TABLE and name == "events_before"
            return sqlite3.SQLITE_DENY if last else sqlite3.SQLITE_OK

        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.set_authorizer(refuse)
            with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                retention.vacuum(db)

        assert contents(path) == rows
        assert tables(path) == names
