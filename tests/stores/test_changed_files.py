"""Files of an open store that other programs change: the next write says so, or nothing is lost."""

import shutil
from contextlib import suppress

import pytest

from actorgraph.errors import StorageError
from actorgraph.stores import SqliteStore
from tests.savers.other_programs import DATABASE


@pytest.fixture
def place(tmp_path):
    """A store's file below a link to a folder; beside it an older copy."""
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    file = tmp_path / "home" / "store.db"
    with SqliteStore(file) as store:
        store.put(("a",), "first", {"n": 0})
    shutil.copy(file, tmp_path / "old.db")
    with SqliteStore(file) as store:
        store.put(("a",), "large", {"text": "x" * 40_000})
    return file


@pytest.mark.promise("B2", "B3")
@pytest.mark.parametrize("done", DATABASE)
def test_a_store_that_others_change(place, done):
    """
    A put into a file that was removed, replaced or cut, or whose log was, is an error that says
    how; after what harms nothing all items are there.
    """
    action, error = DATABASE[done]
    store = SqliteStore(place)
    with suppress(StorageError), store:
        store.put(("a",), "acked", {"n": 1})
        action(place, place.parent.parent / "old.db")
        if error:
            with pytest.raises(StorageError, match=error):
                store.put(("a",), "lost", {"n": 2})
        else:
            store.put(("a",), "after", {"n": 2})

    if not error:
        with SqliteStore(place) as store:
            keys = {item.key for item in store.search(("a",))}
        assert keys == {"first", "large", "acked", "after"}
