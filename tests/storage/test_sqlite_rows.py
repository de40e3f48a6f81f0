"""Tables of SQLite with values of any size."""

import sqlite3
from contextlib import closing

from actorgraph import SqliteSaver
from actorgraph.caches import SqliteCache
from actorgraph.stores import SqliteStore

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
