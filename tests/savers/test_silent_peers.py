"""A peer that says nothing, or keeps what is asked for to itself: an error in time, and no harm.

The whole form, each operation alone in each phase of its work, is in tests/faults.
"""

import sqlite3
from contextlib import closing, contextmanager

import anyio.to_thread
import pytest

from actorgraph import PostgresSaver, SqliteSaver
from actorgraph.caches import SqliteCache
from actorgraph.stores import PostgresStore, SqliteStore
from tests.support.graphs import ab, at
from tests.support.storage_operations import (
    LIMITS,
    WAIT_MAX_S,
    all_work,
    of_a_saver,
    of_a_store,
    together,
)
from tests.support.tcp_proxy import mute, proxied

LONGER = {"reconnect_timeout_s": 10.0}
PHASES = [(b"BEGIN\0", True), (b"quiet", False), (b"COMMIT\0", True)]
"""A text, and whether the server says it: the network stalls there."""
LOCK_ALL = """
LOCK TABLE saver_migrations, threads, runs, points, blobs, ranges, writes, events, writers, shapes,
    system_runs, cancels, owners, memory_items, memory_vectors IN ACCESS EXCLUSIVE MODE
"""


@contextmanager
def locked(postgres, schema: str):
    """Another transaction has locked all tables of a schema; the pid of its session."""
    with postgres.connect(schema) as db, db.transaction(force_rollback=True):
        db.execute(LOCK_ALL)
        yield db.info.backend_pid


@contextmanager
def written(path):
    """Another process is in the middle of writing to an SQLite file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def stalled(proxy):
    """The network swallows what is sent, and takes no new connections."""
    proxy.stall(refuses=True)
    yield
    proxy.resume()


class TestPostgres:
    @pytest.mark.one_loop
    async def test_a_server_that_never_speaks(self):
        """
        Opening a saver, and the first use of a store, fail in time and say that nothing came.
        """
        with mute() as url:

            async def opened() -> None:
                async with PostgresSaver(url, **LIMITS):
                    pass

            store = PostgresStore(url, **LIMITS)
            found = await together({"saver": opened, "store": lambda: store.aput(("a",), "k", {})})

        assert all("no connection in time" in said for said, _ in found.values())
        assert max(seconds for _, seconds in found.values()) < WAIT_MAX_S

    @pytest.mark.one_loop
    async def test_a_server_that_falls_silent(self, postgres, schema, tmp_path):
        """
        Every operation of a saver and of a store fails in time, and works when the server is back.
        """
        with proxied(postgres.socket) as proxy:
            async with PostgresSaver(proxy.url, schema=schema, **LIMITS) as saver:
                with PostgresStore(proxy.url, schema=schema, **LIMITS) as store:
                    operations = of_a_saver(saver, tmp_path) | {
                        f"store {name}": one for name, one in of_a_store(store).items()
                    }
                    assert await all_work(operations)
                    with stalled(proxy):
                        found = await together(operations)
                    assert await all_work(operations)

        assert {name for name, (said, _) in found.items() if said == "ok"} == set()
        assert max(seconds for _, seconds in found.values()) < WAIT_MAX_S

    @pytest.mark.one_loop
    @pytest.mark.parametrize("phase", PHASES)
    async def test_a_connection_that_falls_silent_is_replaced(self, postgres, schema, phase):
        """
        Silence in the midst of a save costs its time limit, whatever was sent last.
        """
        with proxied(postgres.socket) as proxy:
            async with PostgresSaver(proxy.url, schema=schema, **(LIMITS | LONGER)) as saver:
                with PostgresStore(proxy.url, schema=schema, **(LIMITS | LONGER)) as store:
                    graph = ab(saver)
                    await graph.ainvoke({}, at("quiet"))
                    await store.aput(("a",), "quiet", {"n": 1})
                    proxy.stall_at(*phase)
                    async with anyio.create_task_group() as group:
                        group.start_soon(graph.ainvoke, {}, at("quiet"))
                        group.start_soon(store.aput, ("a",), "quiet", {"n": 2})
                        assert await anyio.to_thread.run_sync(proxy.stalled.wait, WAIT_MAX_S)
                        proxy.let_new_ones_in()
                    state = (await graph.aget_state(at("quiet"))).values["bar"]
                    item = await store.aget(("a",), "quiet")

        assert (state, item.value) == (["a", "b"] * 2, {"n": 2})

    @pytest.mark.one_loop
    async def test_locked_tables(self, postgres, schema, tmp_path):
        """
        Every operation fails in time, and says which table is locked by which session.
        """
        async with PostgresSaver(postgres.url, schema=schema, **LIMITS) as saver:
            with PostgresStore(postgres.url, schema=schema, **LIMITS) as store:
                operations = of_a_saver(saver, tmp_path) | {
                    f"store {name}": one for name, one in of_a_store(store).items()
                }
                assert await all_work(operations)
                with locked(postgres, schema) as pid:
                    found = await together(operations)
                assert await all_work(operations)

        free = {name for name, (said, _) in found.items() if "Busy" not in said}
        assert free <= {"store setup"}  # its tables are there: nothing of them is needed
        assert f"with pid {pid} " in found["state"][0]
        assert f"with pid {pid} " in found["run"][0]


class TestSqlite:
    async def test_a_file_that_another_process_writes(self, tmp_path):
        """
        Savers, stores and caches wait for as long as they are set to, and then name the writer.
        """
        paths = {name: tmp_path / f"{name}.db" for name in ("saver", "store", "cache")}
        store = SqliteStore(paths["store"], busy_timeout_s=0.2)
        cache = SqliteCache(paths["cache"], busy_timeout_s=0.2)
        async with SqliteSaver(paths["saver"], busy_timeout_s=0.2) as saver:
            graph = ab(saver)
            operations = {
                "saver": lambda: graph.ainvoke({}, at()),
                "store": lambda: store.aput(("a",), "k", {}),
                "cache": lambda: cache.aset({(("a",), "k"): (1, None)}),
                "clear": cache.aclear,
            }
            assert await all_work(operations)
            with written(paths["saver"]), written(paths["store"]), written(paths["cache"]):
                found = await together(operations)
            assert await all_work(operations)
        cache.close()
        store.close()

        assert all("locked by another process" in said for said, _ in found.values()), found
        assert max(seconds for _, seconds in found.values()) < WAIT_MAX_S
