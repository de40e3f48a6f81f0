"""Where items are: files, processes, threads, event loops, a database of one's own."""

import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from textwrap import dedent

import anyio
import pytest
from anyio.lowlevel import checkpoint

from actorgraph import SqliteSaver
from actorgraph.errors import FormatVersionError, InvalidConfigError, StorageBusyError, StorageError
from actorgraph.stores import AsyncPostgresStore, PostgresStore, SqliteStore
from tests.support.graphs import ab, at

pytestmark = pytest.mark.every_loop


class TestEveryKind:
    def test_stored_items_outlive_the_store(self, shelf):
        """
        A store made anew finds what an earlier one stored, where the kind lasts.
        """
        if not shelf.lasts:
            pytest.skip("it ends with the store")
        with shelf.open() as store:
            store.put(("a",), "k", {"n": 1})

        assert shelf.open().get(("a",), "k").value == {"n": 1}

    def test_a_closed_store_opens_again(self, shelf):
        """
        Closing releases connections; the next use opens what it needs.
        """
        store = shelf.open()
        store.put(("a",), "k", {})
        store.close()

        assert store.get(("a",), "k") is not None

    def test_threads_and_loops_of_each_kind(self, shelf):
        """
        Threads, asyncio's and trio's loops use one store at the same time, and lose nothing.
        """
        store, count = shelf.open(), 10

        async def crowd(name):
            async with anyio.create_task_group() as group:
                for number in range(count):
                    group.start_soon(store.aput, (name,), str(number), {"n": number})

        def plain():
            for number in range(count):
                store.put(("plain",), str(number), {"n": number})

        threads = [
            threading.Thread(target=anyio.run, args=(crowd, "asyncio")),
            threading.Thread(target=lambda: anyio.run(crowd, "trio", backend="trio")),
            threading.Thread(target=plain),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert len(store.search((), limit=99)) == 3 * count
        assert store.list_namespaces() == [("asyncio",), ("plain",), ("trio",)]

    async def test_a_blocking_method_in_a_loop_works(self, store):
        """
        It blocks the loop while the storage works, and no longer.
        """
        store.put(("a",), "k", {"n": 1})

        assert (await store.aget(("a",), "k")).value == store.get(("a",), "k").value

    @pytest.mark.langgraph("F-I10")
    async def test_setup_may_be_awaited(self, store):
        """
        `store.setup()` and `await store.setup()` both make what is missing.
        """
        store.setup()
        assert await store.setup() == 0

    def test_each_number_is_put_once(self, shelf):
        """
        Batches of several threads over the same keys leave one value of each, all of one batch.
        """
        store, names = shelf.open(), [str(number) for number in range(8)]

        def write(order, mark):
            for _ in range(5):
                store.batch([_put(name, mark) for name in order])

        threads = [
            threading.Thread(target=write, args=(order, mark))
            for mark, order in enumerate([names, names[::-1], names[4:] + names[:4]])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        found = store.search(("a",), limit=99)
        assert sorted(item.key for item in found) == names
        assert len({item.value["mark"] for item in found}) == 1


def _put(name, mark):
    from actorgraph.stores import PutOp

    return PutOp(("a",), name, {"mark": mark})


class TestSqlite:
    @pytest.mark.langgraph("F-I10")
    def test_the_file_is_the_owners(self, tmp_path):
        """
        A new file has mode 0600; WAL is on.
        """
        path = tmp_path / "items.db"
        with SqliteStore(path) as store:
            store.put(("a",), "k", {})
            modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
            with sqlite3.connect(path) as connection:
                (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            connection.close()

        assert modes == {0o600}
        assert mode == "wal"

    def test_another_process_sees_it(self, tmp_path):
        """
        Processes share a file.
        """
        path = tmp_path / "items.db"
        program = """
        import sys
        from actorgraph.stores import SqliteStore
        with SqliteStore(sys.argv[1]) as store:
            store.put(("a",), "there", {"n": store.get(("a",), "here").value["n"] + 1})
        """
        with SqliteStore(path) as store:
            store.put(("a",), "here", {"n": 1})
            subprocess.run([sys.executable, "-c", dedent(program), str(path)], check=True)

            assert store.get(("a",), "there").value == {"n": 2}

    def test_a_forked_process_has_a_connection_of_its_own(self, tmp_path):
        """
        After a fork both processes go on.
        """
        program = """
        import os, sys
        from actorgraph.stores import SqliteStore
        store = SqliteStore(sys.argv[1])
        store.put(("a",), "parent", {})
        child = os.fork()
        store.put(("a",), str(child == 0), {})
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(sorted(item.key for item in store.search(())))
        """
        command = [sys.executable, "-c", dedent(program), str(tmp_path / "items.db")]
        run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

        assert run.stdout.strip() == "['False', 'True', 'parent']"

    def test_a_reader_waits_for_no_writer(self, tmp_path):
        """
        Reads need no write lock; a put says that another process has it.
        """
        path = tmp_path / "items.db"
        with SqliteStore(path, busy_timeout_s=0.01) as store:
            store.put(("a",), "k", {})
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")

            assert store.get(("a",), "k") is not None
            with pytest.raises(StorageBusyError):
                store.put(("a",), "k", {})
            other.close()
            store.put(("a",), "k", {"n": 2})

    @pytest.mark.parametrize(
        "arguments", [{"path": ""}, {"path": "x", "busy_timeout_s": -1}, {"path": 7}]
    )
    def test_impossible_settings_are_refused(self, arguments):
        """
        An empty path and a negative time are refused at once.
        """
        with pytest.raises(InvalidConfigError):
            SqliteStore(**arguments)

    async def test_beside_checkpoints(self, tmp_path):
        """
        A store and a saver may have one file; each finds its own.
        """
        path = tmp_path / "all.db"
        async with SqliteSaver(path) as saver, SqliteStore(path) as store:
            graph = ab(saver, store=store)
            await graph.ainvoke({}, at("t"))
            await store.aput(("a",), "k", {"n": 1})
            await graph.ainvoke({}, at("t"))
        async with SqliteSaver(path) as saver, SqliteStore(path) as store:
            assert (await ab(saver).aget_state(at("t"))).values["bar"] == ["a", "b"] * 2
            assert (await store.aget(("a",), "k")).value == {"n": 1}

    async def test_a_cancelled_put_is_over_when_it_returns(self, tmp_path):
        """
        Either the item is there when a cancelled caller returns, or it never comes.
        """
        async with SqliteStore(tmp_path / "items.db") as store:
            for number in range(20):
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as group:
                        group.start_soon(store.aput, ("a",), str(number), {})
                        group.start_soon(store.aput, ("a",), str(number), {"later": True})
                        await checkpoint()
                        scope.cancel()
                there = await store.aget(("a",), str(number))
                await checkpoint()
                assert await store.aget(("a",), str(number)) == there

    def test_unusable_files_are_typed_errors(self, tmp_path):
        """
        A missing folder, a file that isn't a database, a newer version: typed errors.
        """
        (tmp_path / "text").write_text("no database, and long enough to be seen as none" * 50)
        newer = tmp_path / "newer.db"
        SqliteStore(newer).setup()
        with sqlite3.connect(newer) as connection:
            connection.execute("UPDATE memory_format SET version = 99")
        connection.close()

        for path, kind in [
            (tmp_path / "no" / "x.db", StorageError),
            (tmp_path / "text", StorageError),
            (newer, FormatVersionError),
        ]:
            with pytest.raises(kind):
                SqliteStore(path).put(("a",), "k", {})

    @pytest.mark.langgraph("F-I10")
    async def test_its_other_name(self):
        """
        A program written for LangGraph's asynchronous class opens it from a string.
        """
        from actorgraph.stores import AsyncSqliteStore

        async with AsyncSqliteStore.from_conn_string(":memory:") as store:
            await store.setup()
            await store.aput(("a",), "k", {})
            assert await store.aget(("a",), "k") is not None


class Pool:
    """The least that is a pool."""

    def __init__(self, connect) -> None:
        self._connect = connect

    @contextmanager
    def connection(self):
        with self._connect() as connection:
            yield connection


class TestPostgres:
    @pytest.mark.langgraph("F-I10")
    def test_a_connection_or_a_pool_of_the_programs(self, postgres, schema):
        """
        Both work, autocommit or not, keep their settings, and are not closed.
        """
        import psycopg

        with psycopg.connect(postgres.url) as connection:
            for source in (connection, Pool(lambda: psycopg.connect(postgres.url))):
                store = PostgresStore(source, schema=schema)
                store.put(("a",), "k", {"kind": type(source).__name__})
                assert store.get(("a",), "k").value == {"kind": type(source).__name__}
                store.close()
            assert not connection.closed
            (path,) = connection.execute("SHOW search_path").fetchone()
        assert schema not in path

    def test_another_object_than_a_connection_is_refused(self):
        """
        Neither address nor connection nor pool.
        """
        with pytest.raises(InvalidConfigError):
            PostgresStore(7)
        with pytest.raises(InvalidConfigError):
            PostgresStore("postgresql://", schema="")

    @pytest.mark.langgraph("F-I10")
    async def test_its_other_name(self, postgres):
        """
        A program written for LangGraph's asynchronous class opens it from a string.
        """
        url = f"{postgres.url}&options=-c%20lock_timeout%3D5s"
        async with AsyncPostgresStore.from_conn_string(url, pool_config={"max_size": 4}) as store:
            await store.setup()
            await store.aput(("a",), "k", {"n": 1})
            assert (await store.aget(("a",), "k")).value == {"n": 1}
        postgres.drop("actorgraph")

    def test_a_lost_connection_is_made_anew(self, postgres, schema):
        """
        A connection that the server ends between two batches is not noticed by the caller.
        """
        with PostgresStore(postgres.url, schema=schema) as store:
            store.put(("a",), "k", {"n": 1})
            with postgres.connect() as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND query LIKE '%memory_items%' "
                    "OR query = 'COMMIT' AND pid <> pg_backend_pid()"
                )

            store.put(("a",), "k", {"n": 2})
            assert store.get(("a",), "k").value == {"n": 2}

    def test_a_server_that_is_not_there(self, tmp_path):
        """
        The error is typed, and the next use tries again.
        """
        store = PostgresStore(f"postgresql:///x?host={tmp_path}")

        for _ in range(2):
            with pytest.raises(StorageError, match="can't be reached"):
                store.get(("a",), "k")

    def test_stores_that_begin_at_once(self, postgres, schema):
        """
        Several make the tables at the same moment, and a newer version is refused.
        """
        stores = [PostgresStore(postgres.url, schema=f'{schema}"; x') for _ in range(4)]
        threads = [threading.Thread(target=store.setup) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for store in stores:
            store.put(("a",), "k", {})
        with postgres.connect(f'"{schema}""; x"') as connection:
            connection.execute("INSERT INTO memory_migrations VALUES (99)")
        for store in stores:
            store.close()

        with pytest.raises(FormatVersionError):
            PostgresStore(postgres.url, schema=f'{schema}"; x').setup()
        postgres.drop(f'{schema}"; x')

    def test_transactions_that_meet_are_carried_out_again(self, postgres, schema):
        """
        Batches that lock the same keys in opposite orders all end well.
        """
        stores = [PostgresStore(postgres.url, schema=schema) for _ in range(2)]
        names = [str(number) for number in range(40)]
        stores[0].setup()
        failed = []

        def write(store, order):
            try:
                for mark in range(2):
                    store.batch([_put(name, mark) for name in order])
            except StorageError as error:
                failed.append(error)

        threads = [
            threading.Thread(target=write, args=(stores[0], names)),
            threading.Thread(target=write, args=(stores[1], names[::-1])),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for store in stores:
            store.close()

        assert failed == []
