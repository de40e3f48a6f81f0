"""Opening an SQLite file that another connection uses: the same for savers, stores and caches."""

import sqlite3
import time

import pytest

from actorgraph.caches import SqliteCache
from actorgraph.checkpoints import SqliteSaver
from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.places import saver_at
from actorgraph.errors import InvalidConfigError, StorageError
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


ADDRESSES = [
    "file:x.db",
    "file:///tmp/x.db",
    "file::memory:",
    "file:m?mode=memory&cache=shared",
    "file:x.db?mode=ro",
    "file:x.db?immutable=1",
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("opener", OPENERS)
def test_an_address_is_refused(opener, address, tmp_path, monkeypatch):
    """
    An address of SQLite's in place of a path is refused before a file is made.
    """
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidConfigError, match=f"{opener.__name__} takes a path"):
        opener(address)
    with pytest.raises(UsageError, match="takes a path"):
        saver_at(address, read_only=False)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opener", OPENERS)
def test_a_path_may_have_the_word_in_it(opener, tmp_path, monkeypatch):
    """
    A file whose name begins with `file:` is opened by "./" before its name.
    """
    monkeypatch.chdir(tmp_path)

    opened(opener, "./file:x.db")

    assert "file:x.db" in {path.name for path in tmp_path.iterdir()}


def test_a_backup_to_an_address_is_refused(tmp_path):
    """
    A backup is made at a path, not at an address.
    """
    with SqliteSaver(tmp_path / "x.db") as saver, pytest.raises(InvalidConfigError, match="copy"):
        saver.copy_to_file("file:y.db")


@pytest.mark.parametrize(("options", "level"), [({}, 1), ({"synchronous": "FULL"}, 2)])
def test_a_store_syncs_as_it_was_asked_to(options, level, tmp_path):
    """
    A store's connection has NORMAL, or the setting that was asked for.
    """
    with SqliteStore(tmp_path / "x.db", **options) as store:
        store.put(("a",), "k", {})

        connection = store._connection  # noqa: SLF001 - no other sign of it
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


def test_an_unknown_setting_is_refused(tmp_path):
    """
    A setting that SQLite doesn't have is refused with those that it has.
    """
    with pytest.raises(InvalidConfigError, match="OFF, NORMAL, FULL, EXTRA"):
        SqliteStore(tmp_path / "x.db", synchronous="full")
