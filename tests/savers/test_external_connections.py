"""Savers and stores over connections that the program brings: SQLite's, and PostgreSQL's."""

import contextlib
import sqlite3
import sys
import threading
from typing import Any

import aiosqlite
import anyio
import anyio.to_thread
import psycopg
import psycopg_pool
import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer as TheirEncrypted
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver as TheirSaver

from actorgraph import (
    AsyncPostgresSaver,
    AsyncSqliteSaver,
    Codec,
    EncryptedSerializer,
    InMemorySaver,
    PostgresSaver,
    SqliteSaver,
)
from actorgraph.checkpoints import empty_checkpoint
from actorgraph.codec.encryption import AesCipher
from actorgraph.codec.serializers import SerializerCodec
from actorgraph.errors import (
    EncryptionError,
    InvalidConfigError,
    SaverBrokenError,
    StorageBusyError,
    StorageError,
)
from actorgraph.storage.sqlite import external_connections
from actorgraph.stores import InMemoryStore, SqliteStore
from tests.support.graphs import AB, at, in_a_row, writer


def graph(saver: Any, **options: Any) -> Any:
    """A graph of two nodes over a saver."""
    nodes = {"a": writer("a"), "b": writer("b")}
    return in_a_row(nodes, schema=AB, checkpointer=saver, **options)


def memory(**options: Any) -> sqlite3.Connection:
    """A connection to a database in memory, as LangGraph's documents make it."""
    return sqlite3.connect(":memory:", check_same_thread=False, **options)


def tables(connection: sqlite3.Connection) -> set[str]:
    """The tables of a database."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {row[0] for row in rows}


MODES: list[dict[str, Any]] = [
    {},
    {"isolation_level": None},
    {"isolation_level": "IMMEDIATE"},
    {"isolation_level": "EXCLUSIVE"},
    {"detect_types": sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES},
    {"cached_statements": 0},
    {"uri": True},
]
"""How programs open a connection; each of these can be used in memory too."""
INSIDE: list[dict[str, Any]] = []
"""And so that it is always inside a transaction: of these only a file's can be used."""
if sys.version_info >= (3, 12):
    MODES += [
        {"autocommit": True},
        {"autocommit": True, "isolation_level": None},
        {"autocommit": sqlite3.LEGACY_TRANSACTION_CONTROL},
    ]
    INSIDE += [{"autocommit": False}, {"autocommit": False, "isolation_level": None}]


def use(saver: Any, store: SqliteStore) -> None:
    """Run a graph, read its state and an item, each as a blocking program does."""
    plain = in_a_row({"a": lambda _: {"foo": "a"}}, checkpointer=saver, store=store)
    plain.invoke({"foo": "", "bar": []}, at())
    store.put(("n",), "k", {"v": 1})
    assert plain.get_state(at()).values["foo"] == "a"
    assert store.search(("n",))[0].value == {"v": 1}


class TestModes:
    """Each mode that this Python has, of connections of `sqlite3` and of aiosqlite."""

    @pytest.mark.parametrize("options", MODES)
    def test_in_memory(self, options):
        """
        A connection in memory is used in every mode, and has its mode afterwards.
        """
        with contextlib.closing(memory(**options)) as connection:
            before = connection.isolation_level, getattr(connection, "autocommit", None)
            use(SqliteSaver(connection), SqliteStore(connection))

            assert {"checkpoints", "memory_items"} <= tables(connection)
            after = connection.isolation_level, getattr(connection, "autocommit", None)
            assert after == before

    @pytest.mark.parametrize("options", [*MODES, *INSIDE])
    def test_of_a_file(self, tmp_path, options):
        """
        Of a connection to a file the path is taken, whatever its mode.
        """
        with contextlib.closing(sqlite3.connect(tmp_path / "db", **options)) as connection:
            use(SqliteSaver(connection), SqliteStore(connection))

            assert {"checkpoints", "memory_items"} <= tables(connection)

    @pytest.mark.parametrize("options", MODES)
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_of_aiosqlite(self, options):
        """
        A connection of aiosqlite, which only its thread may ask, is used in every mode.
        """
        async with aiosqlite.connect(":memory:", **options) as connection:
            async with AsyncSqliteSaver(connection) as saver:
                await graph(saver).ainvoke({"foo": "", "bar": []}, at())
                assert (await graph(saver).aget_state(at())).values["foo"] == "b"
            await SqliteStore(connection).aput(("n",), "k", {"v": 1})
            async with connection.execute("SELECT count(*) FROM checkpoints") as cursor:
                assert (await cursor.fetchone()) == (4,)

    @pytest.mark.parametrize("options", INSIDE)
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_always_inside_a_transaction(self, options):
        """
        One that is always inside a transaction is refused in memory, with the argument to change.
        """
        async with aiosqlite.connect(":memory:", **options) as connection:
            for kind in (AsyncSqliteSaver, SqliteStore):
                with pytest.raises(InvalidConfigError, match="autocommit=False") as refused:
                    kind(connection)
                assert "autocommit=True" in refused.value.do

    @pytest.mark.skipif(not INSIDE, reason="Python has autocommit since 3.12")
    def test_a_mode_that_changes(self):
        """
        One that the program changes so later is refused at its next use, with the same advice.
        """
        with contextlib.closing(memory()) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            connection.autocommit = False  # pyright: ignore[reportAttributeAccessIssue]

            with pytest.raises(StorageBusyError) as refused:
                saver.get_tuple(at())

            assert "autocommit=True" in str(refused.value)


class TestMemory:
    @pytest.mark.parametrize("options", [{}, {"isolation_level": None}, {"uri": True}])
    async def test_its_database_is_used(self, options):
        """
        Checkpoints go into the database of the connection, which stays open and as it was.
        """
        with contextlib.closing(memory(**options)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("CREATE TABLE mine (x)")
            connection.commit()
            async with SqliteSaver(connection) as saver:
                assert await graph(saver).ainvoke({"foo": "", "bar": []}, at()) == {
                    "foo": "b",
                    "bar": ["a", "b"],
                }
            async with SqliteSaver(connection) as saver:
                assert (await graph(saver).aget_state(at())).values["foo"] == "b"

            assert {"mine", "checkpoints", "writes"} <= tables(connection)
            assert connection.row_factory is sqlite3.Row
            assert connection.isolation_level == options.get("isolation_level", "")
            assert saver.conn is connection

    def test_blocking_and_unopened(self):
        """
        A blocking program uses such a saver without opening it; the graph's state is there.
        """
        with contextlib.closing(memory()) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            plain = in_a_row({"a": lambda _: {"foo": "a"}}, checkpointer=saver)
            plain.invoke({"foo": "", "bar": []}, at())

            assert plain.get_state(at()).values["foo"] == "a"
            assert saver.get_tuple(at()) is not None
            saver.close_blocking()
            assert "checkpoints" in tables(connection)

    async def test_a_saver_and_a_store_take_turns(self):
        """
        A saver and a store over one connection share its database.
        """
        with contextlib.closing(memory()) as connection:
            store = SqliteStore(connection)

            async def remember(state: AB, store: Any) -> dict[str, Any]:
                for number in range(20):
                    await store.aput(("n",), str(number), {"v": number})
                return {"foo": "x"}

            async with SqliteSaver(connection) as saver:
                nodes = {"a": remember, "b": writer("b")}
                compiled = in_a_row(nodes, checkpointer=saver, store=store)
                await compiled.ainvoke({"foo": "", "bar": []}, at())

            assert len(SqliteStore(connection).search(("n",), limit=50)) == 20
            assert {"checkpoints", "memory_items"} <= tables(connection)
            assert connection.text_factory is str

    async def test_an_open_transaction_of_the_program(self):
        """
        Inside a transaction of the program the connection is refused; afterwards it is used.
        """
        with contextlib.closing(memory()) as connection:
            saver = SqliteSaver(connection)
            connection.execute("CREATE TABLE mine (x)")
            connection.execute("INSERT INTO mine VALUES (1)")
            with pytest.raises(StorageBusyError, match="inside a transaction"):
                async with saver:
                    pass
            connection.commit()
            async with saver:
                await graph(saver).ainvoke({"foo": "", "bar": []}, at())

    def test_a_connection_of_one_thread(self):
        """
        A connection that only its own thread may use is refused, with the argument that it needs.
        """
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            for kind in (SqliteSaver, SqliteStore):
                with pytest.raises(InvalidConfigError) as refused:
                    kind(connection)
                assert "check_same_thread=False" in refused.value.do

    def test_one_that_is_always_inside_a_transaction(self):
        """
        A connection with autocommit=False, which Python has since 3.12, is refused with advice.
        """
        kind = type("Kept", (sqlite3.Connection,), {"autocommit": False})
        with contextlib.closing(memory(factory=kind)) as connection:
            for owner in (SqliteSaver, SqliteStore):
                with pytest.raises(InvalidConfigError, match="autocommit=False") as refused:
                    owner(connection)
                assert "autocommit=True" in refused.value.do

    async def test_a_backup(self, tmp_path):
        """
        A backup of it is a file that other savers open.
        """
        path = tmp_path / "copy"
        with contextlib.closing(memory()) as connection:
            async with SqliteSaver(connection) as saver:
                await graph(saver).ainvoke({"foo": "", "bar": []}, at())
                await saver.abackup(path)
        async with SqliteSaver(path) as saver:
            assert (await graph(saver).aget_state(at())).values["foo"] == "b"

    def test_a_closed_connection(self):
        """
        A closed connection is refused.
        """
        connection = memory()
        connection.close()

        with pytest.raises(InvalidConfigError, match="closed database"):
            SqliteSaver(connection)


class TestFile:
    async def test_its_path_is_taken(self, tmp_path):
        """
        A saver over a connection to a file opens the same file, whichever threads the connection
        allows; nothing is written through it.
        """
        path = str(tmp_path / "db")
        with contextlib.closing(sqlite3.connect(path)) as connection:
            async with SqliteSaver(connection) as saver:
                await graph(saver).ainvoke({"foo": "", "bar": []}, at())
                assert saver.path == path
                assert saver.durable
            assert connection.total_changes == 0
            with SqliteStore(connection) as store:
                assert store.path == path
        async with SqliteSaver(path) as saver:
            assert (await graph(saver).aget_state(at())).values["foo"] == "b"

    def test_setup(self, tmp_path):
        """
        setup() makes the tables at once, and once more does nothing.
        """
        path = tmp_path / "db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            saver = SqliteSaver(connection)
            assert "checkpoints" not in tables(connection)
            saver.setup()
            saver.setup()
            assert "checkpoints" in tables(connection)

    async def test_setup_is_awaited_in_a_loop(self, tmp_path):
        """
        In an event loop setup() is awaited, before or while the saver is open.
        """
        saver = AsyncSqliteSaver(tmp_path / "db")
        await saver.setup()
        async with saver:
            await saver.setup()
            await graph(saver).ainvoke({"foo": "", "bar": []}, at())
            assert await saver.aget_tuple(at()) is not None

    @pytest.mark.parametrize("path", ["db", ":memory:"])
    def test_a_database_of_langgraph_s(self, tmp_path, path):
        """
        A database with LangGraph's checkpoints is refused as it is, with the command that moves it.
        """
        path = path if path == ":memory:" else str(tmp_path / path)
        with contextlib.closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            TheirSaver(connection).setup()
            connection.commit()
            before = tables(connection)
            with pytest.raises(StorageError, match="of LangGraph's SqliteSaver") as refused:
                SqliteSaver(connection).setup()
            assert tables(connection) == before
        assert "python -m actorgraph.migrate" in refused.value.do

    @pytest.mark.parametrize("wrong", [7, None, object()])
    def test_something_else(self, wrong):
        """
        Anything but a path or a connection is refused, with the arguments to pass.
        """
        for kind in (SqliteSaver, SqliteStore):
            with pytest.raises(InvalidConfigError) as refused:
                kind(wrong)
            assert "a connection of sqlite3 or aiosqlite" in refused.value.do


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the only loop that aiosqlite runs on
class TestAiosqlite:
    @pytest.mark.parametrize("path", ["db", ":memory:"])
    async def test_an_open_connection(self, tmp_path, path):
        """
        A saver over an open connection uses its file, or the connection itself in memory.
        """
        path = path if path == ":memory:" else str(tmp_path / path)
        async with aiosqlite.connect(path) as connection:
            async with AsyncSqliteSaver(connection) as saver:
                await graph(saver).ainvoke({"foo": "", "bar": []}, at())
            saver = AsyncSqliteSaver(connection)
            await saver.setup()
            assert (await graph(saver).aget_state(at())).values["foo"] == "b"
            store = SqliteStore(connection)
            await store.aput(("n",), "k", {"v": 1})
            async with connection.execute("SELECT count(*) FROM checkpoints") as cursor:
                assert (await cursor.fetchone()) == (4,)
            async with connection.execute("SELECT count(*) FROM memory_items") as cursor:
                assert (await cursor.fetchone()) == (1,)

    @pytest.mark.parametrize("path", ["db", ":memory:"])
    async def test_one_that_is_not_open_yet(self, tmp_path, path):
        """
        A connection that is not open yet, as many programs pass, is not needed.
        """
        path = path if path == ":memory:" else str(tmp_path / path)
        async with AsyncSqliteSaver(aiosqlite.connect(path)) as saver:
            await graph(saver).ainvoke({"foo": "", "bar": []}, at())
            assert saver.path == path

    async def test_a_closed_connection(self):
        """
        A connection that was closed while a saver has it is an error that says so.
        """
        connection = await aiosqlite.connect(":memory:")
        saver = AsyncSqliteSaver(connection)
        await connection.close()

        with pytest.raises(Exception, match="closed database"):
            await saver.setup()

    async def test_a_refused_turn_is_not_carried_out_later(self, monkeypatch):
        """
        A turn that is refused since the connection is busy is not carried out once it is free.
        """
        begun, free, turns = threading.Event(), threading.Event(), []
        async with aiosqlite.connect(":memory:") as connection:
            lent = external_connections.source_of(connection, "Saver")
            assert isinstance(lent, external_connections.ExternalSqliteConnection)

            def hold() -> None:
                begun.set()
                free.wait(30)

            async def execute() -> None:
                await connection.execute("SELECT hold()")

            await connection.create_function("hold", 0, hold)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(execute)
                await anyio.to_thread.run_sync(begun.wait)
                monkeypatch.setattr(external_connections, "ANSWER_TIMEOUT_S", 0.1)
                with pytest.raises(StorageBusyError, match="busy for"):
                    await lent.run(turns.append)
                free.set()
            monkeypatch.setattr(external_connections, "ANSWER_TIMEOUT_S", 30)
            await lent.run(lambda _: turns.append("next"))
        assert turns == ["next"]

    async def test_a_turn_that_does_not_end(self, monkeypatch):
        """
        The outcome of a turn that has begun and doesn't end in time is reported as unknown.
        """
        free = threading.Event()
        async with aiosqlite.connect(":memory:") as connection:
            lent = external_connections.source_of(connection, "Saver")
            assert isinstance(lent, external_connections.ExternalSqliteConnection)
            monkeypatch.setattr(external_connections, "ANSWER_TIMEOUT_S", 2)
            with pytest.raises(SaverBrokenError, match="unknown"):
                await lent.run(lambda _: free.wait(30))
            free.set()


class Other:
    """A serializer of a program's own."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode."""
        return JsonPlusSerializer().dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode."""
        return JsonPlusSerializer().loads_typed(data)


class TestSerializers:
    @pytest.mark.parametrize("make", [InMemorySaver, lambda **o: SqliteSaver(":memory:", **o)])
    async def test_each_kind(self, make):
        """
        `serde` takes None, codecs, LangGraph's default serializer and a program's own.
        """
        codec = Codec()
        assert type(make(serde=None).codec) is Codec
        assert make(serde=codec).serde is codec
        assert type(make(serde=JsonPlusSerializer()).codec) is Codec
        assert type(make(serde=Other()).codec) is SerializerCodec
        for serde in (None, codec, JsonPlusSerializer(), Other()):
            async with make(serde=serde) as saver:
                assert (await graph(saver).ainvoke({"foo": "", "bar": []}, at()))["foo"] == "b"

    async def test_encryption(self):
        """
        An encrypted serializer of either library encrypts with its cipher.
        """
        cipher = AesCipher({"k": b"1" * 32})
        for serde in (EncryptedSerializer(cipher), TheirEncrypted(cipher)):
            saver = SqliteSaver(":memory:", serde=serde)
            assert saver.codec.encrypts
            async with saver:
                await graph(saver).ainvoke({"foo": "", "bar": []}, at())
                saver.codec = Codec(keys={"other": b"2" * 32})
                with pytest.raises(EncryptionError):
                    await saver.aget_tuple(at())

    def test_an_allow_list(self):
        """
        The types that LangGraph's serializer allows become the codec's; one that isn't imported
        is an error.
        """
        theirs = JsonPlusSerializer(allowed_msgpack_modules=[("tests.codec.shapes", "Note")])
        from tests.codec.shapes import Note

        assert InMemorySaver(serde=theirs).codec.types == (Note,)
        theirs = JsonPlusSerializer(allowed_msgpack_modules=[("nowhere", "Note")])
        with pytest.raises(InvalidConfigError, match=r"nowhere\.Note, which isn't imported"):
            InMemorySaver(serde=theirs)

    @pytest.mark.parametrize(
        "options", [{"pickle_fallback": True}, {"allowed_json_modules": [("a", "B")]}]
    )
    def test_one_that_pickles(self, options):
        """
        A serializer that pickles or imports is refused, with what to pass in its place.
        """
        for make in (InMemorySaver, lambda **o: SqliteSaver(":memory:", **o)):
            with pytest.raises(InvalidConfigError, match="nothing is pickled") as refused:
                make(serde=JsonPlusSerializer(**options))
            assert "codec=Codec(types=[...])" in refused.value.do

    def test_both_arguments(self):
        """
        `codec` and `serde` together are refused.
        """
        with pytest.raises(InvalidConfigError, match="both codec= and serde="):
            InMemorySaver(codec=Codec(), serde=Codec())


class TestPostgres:
    def test_tables_over_a_connection(self, postgres, schema):
        """
        setup_tables makes the tables over a connection of the program, and a saver over the
        connection uses them.
        """
        with psycopg.connect(postgres.url) as connection:
            PostgresSaver.setup_tables(connection, schema=schema)
            saver = PostgresSaver(connection, schema=schema, migrate=False)
            with saver:
                saver.put(at(), empty_checkpoint(), {"source": "update", "step": 0}, {})
                assert saver.get_tuple(at()) is not None
            assert not connection.closed

    def test_serde_and_pipe(self, postgres):
        """
        LangGraph's positional arguments are taken: no pipeline, and a serializer.
        """
        saver = PostgresSaver(postgres.url, None, JsonPlusSerializer())
        assert type(saver.codec) is Codec
        assert len(saver.codec.encode("x" * 999)) < 100
        assert PostgresSaver.from_conn_string(postgres.url, serde=Codec([])).codec is not None
        with pytest.raises(InvalidConfigError, match="no pipeline"):
            PostgresSaver(postgres.url, object())  # pyright: ignore[reportArgumentType]

    def test_a_pool_of_asyncpg(self):
        """
        A pool of asyncpg is refused, with what to pass.
        """
        pool = type("Pool", (), {"__module__": "asyncpg.pool"})()

        with pytest.raises(
            InvalidConfigError, match="of asyncpg: its driver is psycopg"
        ) as refused:
            PostgresSaver(pool)
        assert "psycopg_pool.ConnectionPool" in refused.value.do


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the only loop of psycopg's async half
class TestAsyncPostgres:
    async def test_an_asynchronous_pool(self, postgres, schema):
        """
        Of an asynchronous pool or connection the address is taken, with its password and options.
        """
        options = {"application_name": "of-the-pool", "autocommit": True}
        pool = psycopg_pool.AsyncConnectionPool(postgres.url, kwargs=options, open=False)
        async with AsyncPostgresSaver(pool, schema=schema) as saver:
            await graph(saver).ainvoke({"foo": "", "bar": []}, at())
        connection = await psycopg.AsyncConnection.connect(postgres.url)
        async with AsyncPostgresSaver(connection, schema=schema) as saver:
            assert (await graph(saver).aget_state(at())).values["foo"] == "b"
        assert not connection.closed
        await connection.close()


def test_a_store_is_not_taken_for_a_connection():
    """
    A store is not taken for a connection.
    """
    with pytest.raises(InvalidConfigError):
        SqliteStore(InMemoryStore())  # pyright: ignore[reportArgumentType]
