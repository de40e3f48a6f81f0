"""Files of an open cache that another program removes, replaces or cuts."""

import shutil
from contextlib import suppress

import pytest

from actorgraph.caches import SqliteCache
from actorgraph.errors import StorageError
from tests.savers.other_programs import CUT, DATABASE

KEY = (("a",), "key")


@pytest.mark.parametrize("done", DATABASE)
def test_a_cache_that_others_change(tmp_path, done):
    """
    A cache whose file was removed or replaced is opened anew, and serves what is set from then on;
    a file that was cut is one, or an error that names it.
    """
    action, error = DATABASE[done]
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    place, old = tmp_path / "home" / "cache.db", tmp_path / "old.db"
    with SqliteCache(place) as cache:
        cache.set({KEY: ("old", None)})
    shutil.copy(place, old)
    with SqliteCache(place) as cache:
        cache.set({(("a",), "large"): ("x" * 40_000, None)})
        action(place, old)
        if done == "folder renamed":
            with pytest.raises(StorageError, match=r"cache\.db"):
                cache.set({KEY: ("new", None)})
            return
        if error == CUT or done == "log cut":
            with suppress(StorageError):
                cache.set({KEY: ("new", None)})
                assert cache.get([KEY]) == {KEY: "new"}
            return
        cache.set({KEY: ("new", None)})
        assert cache.get([KEY]) == {KEY: "new"}

    with SqliteCache(place) as cache:
        assert cache.get([KEY]) == {KEY: "new"}
