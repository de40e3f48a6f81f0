"""Items that live for some minutes: how reads let them live anew, and how they are removed."""

import threading

import pytest

from actorgraph.stores import BaseStore, InvalidStoreOperationError, UnsupportedByStoreError
from actorgraph.stores.store import Sweeper
from tests.support.every_store import Clock


@pytest.fixture
def clock():
    return Clock()


def keys(store):
    return {item.key for item in store.search((), limit=99, refresh_ttl=False)}


class TestExpiry:
    @pytest.mark.langgraph("F-I7", "F-I8")
    async def test_an_item_lives_for_its_minutes(self, shelf, clock):
        """
        Expired items are left out by each kind of read, before any sweep.
        """
        store = shelf.open(clock=clock)
        await store.aput(("a",), "short", {}, ttl=1)
        await store.aput(("b",), "long", {}, ttl=10)

        clock.pass_minutes(0.99)
        assert await store.aget(("a",), "short", refresh_ttl=False) is not None
        clock.pass_minutes(0.02)
        assert await store.aget(("a",), "short") is None
        assert keys(store) == {"long"}
        assert await store.alist_namespaces() == [("b",)]

    @pytest.mark.langgraph("F-I7")
    def test_reads_let_an_item_live_anew(self, shelf, clock):
        """
        `get` and `search` begin its minutes again, unless the call or the setting says no.
        """
        store = shelf.open(clock=clock, ttl={"default_ttl": 2})
        for key in ("got", "found", "left"):
            store.put((key,), "k", {})

        clock.pass_minutes(1.5)
        store.get(("got",), "k")
        store.search(("found",))
        store.get(("left",), "k", refresh_ttl=False)
        clock.pass_minutes(1.5)

        assert store.list_namespaces() == [("found",), ("got",)]

    @pytest.mark.langgraph("F-I7")
    def test_refreshing_can_be_turned_off(self, shelf, clock):
        """
        `refresh_on_read=False` is for reads that don't say otherwise.
        """
        store = shelf.open(clock=clock, ttl={"default_ttl": 2, "refresh_on_read": False})
        store.put(("a",), "k", {})
        store.put(("a",), "kept", {}, ttl=None)

        for key in ("got", "found"):
            store.put((key,), key, {})

        clock.pass_minutes(1.5)
        store.get(("a",), "k")
        store.search(("a",))
        store.get(("got",), "got", refresh_ttl=True)
        store.search(("found",), refresh_ttl=True)
        clock.pass_minutes(1)

        assert keys(store) == {"kept", "got", "found"}

    @pytest.mark.langgraph("F-I7")
    def test_a_new_put_begins_a_new_life(self, shelf, clock):
        """
        The last put's minutes count, and none if it gave none.
        """
        store = shelf.open(clock=clock)
        store.put(("a",), "k", {}, ttl=1)
        store.put(("a",), "k", {}, ttl=None)

        clock.pass_minutes(5)

        assert keys(store) == {"k"}

    @pytest.mark.langgraph("F-I8")
    def test_expired_items_may_be_shown(self, shelf, clock):
        """
        With `omit_expired=False` an item is there until it is swept, as by LangGraph's default.
        """
        store = shelf.open(clock=clock, ttl={"omit_expired": False})
        store.put(("a",), "k", {}, ttl=1)
        clock.pass_minutes(2)

        assert keys(store) == {"k"}
        assert store.sweep_ttl() == 1
        assert keys(store) == set()

    def test_an_invalid_time_to_live_is_refused(self, store):
        """
        Minutes are a number from 0 on; a store without a time to live says so.
        """
        wrong: list = [-1, float("nan"), float("inf"), "1", True, 1e12]
        for ttl in wrong:
            with pytest.raises(InvalidStoreOperationError):
                store.put(("a",), "k", {}, ttl=ttl)

        class Plain(BaseStore):
            def batch(self, ops):
                return [None for _ in ops]

            async def abatch(self, ops):
                return self.batch(ops)

        with pytest.raises(UnsupportedByStoreError, match="TTL is not supported by Plain"):
            Plain().put(("a",), "k", {}, ttl=1)
        Plain().put(("a",), "k", {})


class TestSweeper:
    @pytest.mark.langgraph("F-I7")
    async def test_a_sweep_removes_what_has_expired(self, shelf, clock):
        """
        It says how many items it removed; a program written for LangGraph may await that.
        """
        index = {"dims": 1, "embed": lambda texts: [[1.0] for _ in texts]}
        store = shelf.open(clock=clock, index=index)
        for number in range(5):
            store.put(("a",), str(number), {}, ttl=number)

        clock.pass_minutes(2)

        assert store.sweep_ttl() == 3
        assert await store.sweep_ttl() == 0
        assert keys(store) == {"3", "4"}

    @pytest.mark.langgraph("F-I7")
    async def test_with_the_store_the_sweeper_ends(self, shelf, clock):
        """
        `async with` starts it where the settings name an interval, and its thread ends there.
        """
        before = threading.active_count()
        store = shelf.open(
            clock=clock, ttl={"sweep_interval_minutes": 0.0001, "omit_expired": False}
        )
        store.put(("a",), "k", {}, ttl=1)
        clock.pass_minutes(2)

        async with store:
            while await store.aget(("a",), "k") is not None:
                pass

        sweepers = [t for t in threading.enumerate() if t.name == "actorgraph-sweeper"]
        assert sweepers == []
        assert threading.active_count() <= before + 2

    def test_it_is_started_once_and_outlives_a_failure(self, capsys):
        """
        A second start changes nothing; a sweep that fails is logged and the next one is tried.
        """
        sweeper, seen, failed = Sweeper(), [], threading.Event()

        def sweep():
            seen.append(threading.get_ident())
            if len(seen) > 1:
                failed.set()
            raise OSError("disk")

        sweeper.start(sweep, interval_s=0.001)
        sweeper.start(lambda: seen.append("another"), interval_s=0.001)
        assert failed.wait(10)

        assert sweeper.stop(None)
        assert sweeper.stop(1)
        assert len(set(seen)) == 1
        assert "store.sweep_failed" in capsys.readouterr().err

    @pytest.mark.langgraph("F-I7")
    def test_it_may_be_started_by_hand(self, store):
        """
        LangGraph's two methods start and stop it; the store's end stops it too.
        """
        store.start_ttl_sweeper(sweep_interval_minutes=60)
        assert store.stop_ttl_sweeper(timeout=10) == 1
        with store:
            store.start_ttl_sweeper()

        assert [t for t in threading.enumerate() if t.name == "actorgraph-sweeper"] == []
