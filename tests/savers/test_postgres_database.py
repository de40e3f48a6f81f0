"""The PostgreSQL database itself: tables, indexes, migrations, settings."""

import sys
import threading
import time

import anyio
import pytest

from actorgraph import AsyncPostgresSaver, InvalidConfigError, PostgresSaver, interrupt
from actorgraph.errors import FormatVersionError, MissingExtraError, StorageError
from actorgraph.savers.postgres import queries, statements
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres.schema import VERSION
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, in_a_row


@pytest.fixture
def filled(postgres, lent):
    """A schema with one finished thread, "t", and one that waits, "w"."""

    async def ask(state):
        return {"bar": [interrupt("?")]}

    with PostgresSaver(postgres.url, schema=lent) as saver:
        ab(saver).invoke({"foo": "x"}, at())
        in_a_row({"ask": ask}, checkpointer=saver).invoke({}, at("w"))
    return lent


class TestTables:
    @pytest.mark.promise("S100")
    @pytest.mark.langgraph("F-E29")
    def test_the_tables_of_the_design_are_there(self, postgres, filled):
        """
        The tables are those of the SQLite file.
        """
        with postgres.connect(filled) as db:
            columns = db.execute(
                "SELECT table_name, column_name FROM information_schema.columns "
                "WHERE table_schema = %s",
                (filled,),
            ).fetchall()

        tables = {table for table, _ in columns}
        assert tables >= {
            *("threads", "runs", "checkpoints", "blobs", "ranges", "writes", "events"),
        }
        assert {c for t, c in columns if t == "threads"} >= {"epoch", "owner", "lease_until"}
        assert {c for t, c in columns if t == "checkpoints"} >= {
            *("thread", "namespace", "seq", "id", "parent", "step", "source", "run", "next"),
            *("has_interrupts", "created", "metadata", "record"),
        }

    def test_projected_columns_say_what_the_snapshots_say(self, postgres, filled):
        """
        source, step, next, the interrupts flag and the record can be read with psql.
        """
        with postgres.connect(filled) as db:
            rows = db.execute(
                "SELECT t.thread_id, c.source, c.step, c.next, c.has_interrupts, c.record ->> 'v' "
                "FROM checkpoints c JOIN threads t USING (thread) ORDER BY t.thread_id, c.seq"
            ).fetchall()

        assert rows == [
            ("t", "input", -1, ["__start__"], False, "4"),
            ("t", "loop", 0, ["a"], False, "4"),
            ("t", "loop", 1, ["b"], False, "4"),
            ("t", "loop", 2, [], False, "4"),
            ("w", "input", -1, ["__start__"], False, "4"),
            ("w", "loop", 0, ["ask"], True, "4"),
        ]

    @pytest.mark.promise("S199")
    @pytest.mark.parametrize(
        ("statement", "values"),
        [
            (queries.SELECT_LOADS, (["t"], [""], [None])),
            (queries.SELECT_LOADS, (["t"], [""], [b"x"])),
            (sql.SELECT_HEADS, (["t"], ["ns"])),
            (sql.SELECT_BASES, (["t"], [""], [b"x"])),
            (queries.SELECT_THREAD_IDS, {"older": 1, "inputs": False}),
        ],
        ids=["head", "by id", "nested head", "base", "by age"],
    )
    def test_lookups_use_an_index(self, postgres, filled, statement, values):
        """
        Reading the newest checkpoint, one by its id, or what is older scans no table.
        """
        found = plan(postgres, filled, statement, values)

        assert "idx_checkpoints_" in found
        assert "Seq Scan on points" not in found

    @pytest.mark.promise("S199", "S216")
    def test_listing_uses_an_index(self, postgres, filled):
        """
        A page of a thread's history is read along the index.
        """
        names = ("before", "step", "source")
        values = {**dict.fromkeys(names), "thread": "t", "namespace": "", "limit": 5}
        values |= {"keys": [], "values": [], "under": 1_000, "above": -1}

        found = plan(postgres, filled, queries.SELECT_PAGE[False], values)

        assert "idx_checkpoints_thread" in found
        assert "Seq Scan on points" not in found

    def test_the_open_runs_of_a_thread_are_found_by_an_index(self, postgres, filled):
        """
        Which run has a thread is decided without a look at the runs of others.
        """
        found = plan(postgres, filled, statements.SELECT_OPEN, (["t", "u"],))
        values = {"graphs": ["g"], "builds": [""], "now": 9, "limit": 5, "owned": False}
        found += plan(postgres, filled, statements.SELECT_WAITING, values)

        assert found.count("idx_system_runs_busy") >= 2
        assert "Seq Scan on system_runs" not in found

    def test_nothing_of_a_thread_is_in_the_way_of_another_products_tables(self, postgres, filled):
        """
        The tables are in a schema of their own, so LangGraph's may be in the same database.
        """
        saver = PostgresSaver(postgres.url)
        with postgres.connect() as db:
            public = db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")

            assert (saver.schema, public.fetchone()) == ("actorgraph", (0,))


def plan(postgres, schema: str, statement: str, values) -> str:
    """How the server runs a statement, when the tables are too large for scans."""
    with postgres.connect(schema) as db:
        db.execute("SET enable_seqscan = off; SET enable_sort = off")
        rows = db.execute("EXPLAIN " + statement, values).fetchall()
    return "\n".join(line for (line,) in rows)


class TestSetup:
    @pytest.mark.promise("S100", "C27")
    @pytest.mark.langgraph("F-E29")
    def test_setup_can_be_called_again_and_by_many_at_once(self, postgres, schema):
        """
        Migrations are numbered, and done once, also by concurrent savers.
        """
        url = f"{postgres.url}&application_name={schema}"
        savers = [PostgresSaver(url, schema=schema) for _ in range(6)]
        threads = [threading.Thread(target=saver.setup) for saver in savers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        end = time.monotonic() + PATIENCE_S
        while connected(postgres, schema):  # the server takes a moment to see that they have left
            assert time.monotonic() < end
        with savers[0] as saver:
            saver.setup()
            saver.setup()
        with postgres.connect(schema) as db:
            numbers = db.execute("SELECT v FROM saver_migrations ORDER BY v").fetchall()

        assert numbers == [(number,) for number in range(1, VERSION + 1)]

    @pytest.mark.promise("C27")
    @pytest.mark.langgraph("F-E29")
    async def test_one_name_serves_blocking_and_asynchronous_programs(self, postgres, lent):
        """
        `from_conn_string` opens with `with` and with `async with`, and setup() may be awaited.
        """
        url = f"{postgres.url}&options=-csearch_path%3D{lent}"
        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            await saver.setup()
            result = await ab(saver).ainvoke({}, at("conn string"))
            await saver.adelete_thread("conn string")

        def blocking():
            with PostgresSaver.from_conn_string(postgres.url) as saver:
                saver.setup()
                ab(saver).invoke({}, at("conn string"))
                saver.delete_thread("conn string")

        await anyio.to_thread.run_sync(blocking)
        assert AsyncPostgresSaver is PostgresSaver
        assert result["bar"] == ["a", "b"]

    async def test_opening_need_not_touch_the_tables(self, postgres, schema):
        """
        With migrate=False only setup() makes tables; until then the error says so.
        """
        async with PostgresSaver(postgres.url, schema=schema, migrate=False) as saver:
            with pytest.raises(StorageError, match="setup"):
                await ab(saver).ainvoke({}, at())
            await saver.setup()
            result = await ab(saver).ainvoke({}, at())

        assert result["bar"] == ["a", "b"]

    async def test_a_newer_schema_is_refused(self, postgres, schema):
        """
        Tables of a later version are left untouched, with a clear error.
        """
        await PostgresSaver(postgres.url, schema=schema).setup()
        with postgres.connect(schema) as db:
            db.execute("INSERT INTO saver_migrations (v) VALUES (99)")

        with pytest.raises(FormatVersionError, match="version 99"):
            async with PostgresSaver(postgres.url, schema=schema):
                pass

    @pytest.mark.parametrize(
        "wrong",
        [
            {"schema": ""},
            {"schema": "x" * 64},
            {"read_connections": 0},
            {"busy_timeout_s": 0},
            {"busy_timeout_s": "5"},
            {"reconnect_timeout_s": -1},
            {"answer_timeout_s": 0},
            {"synchronous_commit": "perhaps"},
            {"conn": "no = such = string"},
            {"conn": 7},
        ],
        ids=str,
    )
    def test_wrong_settings_are_refused(self, wrong):
        """
        A setting that can't be used is refused when the saver is made.
        """
        with pytest.raises(InvalidConfigError):
            PostgresSaver(**{"conn": "postgresql:///x", **wrong})

    async def test_a_server_that_is_not_there(self):
        """
        Opening fails at once when no server listens.
        """
        with pytest.raises(StorageError, match="connection to PostgreSQL"):
            async with PostgresSaver("host=/nowhere"):
                pass

    def test_psycopg_is_asked_for_by_name(self, monkeypatch):
        """
        Without psycopg the class is there, and making one names the extra.
        """
        monkeypatch.setitem(sys.modules, "actorgraph.savers.postgres.engine", None)

        with pytest.raises(MissingExtraError, match="psycopg") as caught:
            PostgresSaver("postgresql:///x")
        assert "actorgraph[postgres]" in caught.value.do


def connected(postgres, name: str) -> int:
    """How many sessions have an application's name."""
    with postgres.connect() as db:
        return db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [name]
        ).fetchone()[0]
