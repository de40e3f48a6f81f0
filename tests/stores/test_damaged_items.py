"""Rows of a store that something else has changed: they hide nothing but themselves."""

import sqlite3
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from actorgraph.errors import DamagedRowError
from actorgraph.stores import SqliteStore
from tests.support.every_store import Shelf

AMONG = ("b", "c")
"""Neither the first nor the last of the items."""
FORMS = {
    "sqlite": {
        "value": "value = 'x'",
        "no sum": "value = '{', crc = NULL",
        "key": "key = CAST(x'fffe' AS TEXT) || key",
        "key without sum": "key = CAST(x'fffe' AS TEXT) || key, crc = NULL",
        "times": "created = 'then'",
        "order": "seq = 'last' || key",
        "minutes": "minutes = 1e300",
    },
    "postgres": {
        "value": "value = 'x'",
        "no sum": "value = '{', crc = NULL",
        "minutes": "minutes = 1e300",
    },
}
CASES = [(kind, form) for kind, forms in FORMS.items() for form in forms]


def of_two(damage):
    """A statement that changes two items."""
    return f"UPDATE memory_items SET {damage} WHERE key IN ('b', 'c')"  # noqa: S608


@pytest.fixture
def damaging(request, tmp_path):
    """A function that fills a store of a kind with items a to f, and damages some of them."""

    def damage(kind, form, **options):
        change = of_two(FORMS[kind][form])
        if kind == "sqlite":
            shelf = Shelf(kind, tmp_path)
        else:
            server = request.getfixturevalue("postgres")
            shelf = Shelf(kind, tmp_path, server.url, request.getfixturevalue("schema"))
        request.addfinalizer(shelf.close)
        store = shelf.open(**options)
        for key in "abcdef":
            store.put(("n",), key, {"key": key})
        if kind == "sqlite":
            with closing(sqlite3.connect(shelf.path, isolation_level=None)) as db:
                db.execute(change)
        else:
            with server.connect(shelf.schema) as db:
                db.execute(change)
        return store

    return damage


def paged(store, **options):
    """The keys of all items, read in pages of two: a page that is not full is the last."""
    found = []
    while True:
        page = store.search(("n",), limit=2, offset=len(found), **options)
        found += [item.key for item in page]
        if len(page) < 2:
            return found


@pytest.mark.parametrize(("kind", "form"), CASES)
class TestSearches:
    def test_pages_are_full(self, damaging, kind, form):
        """
        A page of a search has as many items as were asked for, unless it is the last: damaged
        ones count neither for the limit nor for the offset.
        """
        store = damaging(kind, form)

        with capture_logs():
            found = paged(store)
        assert [key for key in found if len(key) == 1 and key not in AMONG] == ["f", "e", "d", "a"]

    def test_filters_find_the_others(self, damaging, kind, form):
        """
        A filter finds what it fits, by text or by similarity, beside an item that isn't JSON.
        """
        index = {"dims": 1, "embed": lambda texts: [[1.0]] * len(texts), "fields": ["key"]}
        store = damaging(kind, form, index=index)

        with capture_logs():
            found = [store.search(("n",), filter={"key": "d"}, query=q) for q in (None, "x")]
        assert [[item.key for item in some if item.key not in AMONG] for some in found] == [
            ["d"]
        ] * 2

    def test_the_ranking_is_full(self, damaging, kind, form):
        """
        So are the pages of a search by similarity.
        """
        index = {"dims": 1, "embed": lambda texts: [[1.0]] * len(texts), "fields": ["key"]}
        store = damaging(kind, form, index=index)

        with capture_logs():
            found = paged(store, query="x")
        assert [key for key in sorted(found) if key not in AMONG] == list("adef")

    def test_reading_renews_only_what_is_read(self, damaging, kind, form):
        """
        With a time to live that reading renews, a search answers beside a damaged item.
        """
        store = damaging(kind, form, ttl={"default_ttl": 60, "refresh_on_read": True})

        with capture_logs():
            found = store.search(("n",), limit=10)
        assert {"a", "d", "e", "f"} <= {item.key for item in found}

    def test_others_are_stored_and_removed(self, damaging, kind, form):
        """
        Items are put and deleted beside a damaged one, and so are its namespaces listed.
        """
        store = damaging(kind, form)
        store.put(("n",), "g", {})
        store.delete(("n",), "a")

        with capture_logs():
            found = {item.key for item in store.search(("n",), limit=10)}
        assert {"g", "d"} <= found
        assert "a" not in found
        assert store.list_namespaces() == [("n",)]


class TestOneItem:
    @pytest.mark.parametrize("kind", FORMS)
    def test_it_is_named_and_can_be_removed(self, damaging, kind):
        """
        Reading a damaged item by its key is an error that names it; deleting it removes it.
        """
        store = damaging(kind, "value")

        with pytest.raises(DamagedRowError, match=r"the item 'b' in \('n',\) is damaged"):
            store.get(("n",), "b")
        store.delete(("n",), "b")
        assert store.get(("n",), "b") is None

    def test_a_namespace_in_bytes_is_left_out(self, damaging, tmp_path):
        """
        A namespace that isn't valid UTF-8 is not listed, and the log names it.
        """
        store = damaging("sqlite", "value")
        with closing(sqlite3.connect(tmp_path / "items.db", isolation_level=None)) as db:
            db.execute("UPDATE memory_items SET namespace = CAST(x'ff' AS TEXT) WHERE key = 'a'")

        with capture_logs() as log:
            found = SqliteStore(store.path).list_namespaces()
        assert found == [("n",)]
        assert [one["event"] for one in log if r"\udcff" in one["error"]] == ["item.damaged"]
