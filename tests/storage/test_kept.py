"""Connections whose owners are freed in a cycle of garbage, before or after them."""

import gc
import sqlite3

import anyio
import pytest

from actorgraph import SqliteSaver
from actorgraph.caches import SqliteCache
from actorgraph.stores import SqliteStore


class Watched(sqlite3.Connection):
    """A connection that notes whether it is open when Python ends it, of which 3.13 warns."""

    was_open: list[bool]

    def __del__(self) -> None:
        try:
            self.execute("SELECT 1")
        except sqlite3.ProgrammingError:
            self.was_open.append(False)
        else:
            self.was_open.append(True)


@pytest.fixture
def older(monkeypatch):
    """The next connection is older than its owner, so that in a cycle its turn comes first."""
    connect, made = sqlite3.connect, [Watched(":memory:", isolation_level=None, uri=True)]
    made[0].was_open = was_open = []

    def first(*arguments, **options):
        return made.pop() if made else connect(*arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", first)
    return was_open


async def opened_and_closed(saver):
    """Open a saver, and close it."""
    async with saver:
        pass


class Tie:
    """A clock that holds what it is the clock of, so that only the collector frees the two."""

    def __init__(self) -> None:
        self.owner: object = None

    def __call__(self) -> float:
        return 0.0


class TestInACycle:
    def test_a_store(self, older):
        """
        A store that is freed in a cycle has closed its database before Python ends it.
        """
        tie = Tie()
        tie.owner = store = SqliteStore(":memory:", clock=tie)
        store.setup()
        del store, tie

        gc.collect()

        assert older == [False]

    def test_a_cache(self, older):
        """
        So has a cache.
        """
        tie = Tie()
        tie.owner = SqliteCache[int](":memory:", clock=tie)
        del tie

        gc.collect()

        assert older == [False]

    def test_a_saver(self, older):
        """
        So has a saver in memory, whose database stays when the saver is closed.
        """
        saver = SqliteSaver(":memory:")
        vars(saver)["itself"] = saver
        anyio.run(opened_and_closed, saver)
        assert older == []
        del saver

        gc.collect()

        assert True not in older  # a thread of the loop may hold the saver for a while
