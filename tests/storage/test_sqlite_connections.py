"""Opening an SQLite file that another connection uses: the same for savers, stores and caches."""

import sqlite3
import time

import pytest

from actorgraph.caches import SqliteCache
from actorgraph.checkpoints import SqliteSaver
from actorgraph.errors import StorageError
from actorgraph.stores import SqliteStore

OPENERS = [SqliteSaver, SqliteStore, SqliteCache]


def opened(opener, path, **options):
    with opener(path, **options) as made:
        if opener is SqliteStore:
            made.put(("a",), "k", {})
    with sqlite3.connect(path) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    connection.close()
    return mode


@pytest.fixture
def writer(tmp_path):
    """
    A connection in the middle of a transaction on a file that has a rollback journal.
    """
    connection = sqlite3.connect(
        tmp_path / "shared.db", isolation_level=None, check_same_thread=False
    )
    connection.execute("CREATE TABLE theirs (id)")
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


@pytest.mark.parametrize("opener", OPENERS)
def test_a_transaction_of_another_is_waited_for(opener, writer, tmp_path, monkeypatch):
    """
    A file is switched to WAL after another connection's transaction, though SQLite refuses to wait.
    """
    waits = []

    def ends(seconds):
        if not waits:
            writer.execute("COMMIT")
        waits.append(seconds)

    monkeypatch.setattr(time, "sleep", ends)

    mode = opened(opener, tmp_path / "shared.db")

    assert mode == "wal"
    assert len(waits) == 1


@pytest.mark.parametrize("opener", OPENERS)
def test_it_is_waited_for_no_longer_than_asked(opener, writer, tmp_path):
    """
    Opening fails after `busy_timeout_s` and says that the file is locked.
    """
    with pytest.raises(StorageError, match="locked"):
        opened(opener, tmp_path / "shared.db", busy_timeout_s=0.02)
