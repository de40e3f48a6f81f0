"""PostgreSQL behind PgBouncer, and databases with settings of their own."""

import anyio
import psycopg
import pytest

from actorgraph import PostgresSaver
from actorgraph.errors import InvalidConfigError
from actorgraph.stores import PostgresStore
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, history
from tests.support.poolers import pooled
from tests.support.postgres_clusters import clusters

__all__ = ["clusters"]

RUNS = 20


async def run_all(saver: PostgresSaver, start: int = 0) -> list[int]:
    """Run threads at once; how many checkpoints each of them has afterwards."""
    threads = [f"t{number}" for number in range(start, start + RUNS)]
    async with anyio.create_task_group() as runs:
        for thread in threads:
            runs.start_soon(ab(saver).ainvoke, {}, at(thread))
    return [len(await history(ab(saver), at(thread))) for thread in threads]


class TestPgBouncer:
    """The long form is tests/faults/test_poolers.py."""

    @pytest.mark.one_loop
    @pytest.mark.parametrize("mode", ["session", "transaction"])
    async def test_runs_go_on_when_it_is_killed(self, clusters, mode):
        """
        Savers work behind it in either mode, several at once, and connect again when it is killed.
        """
        with pooled(clusters.server(), mode) as pooler, anyio.fail_after(PATIENCE_S):
            async with PostgresSaver(pooler.url) as one, PostgresSaver(pooler.url) as other:
                before = [await run_all(one), await run_all(other, RUNS)]
                pooler.kill()
                pooler.start()
                after = [await run_all(one, 2 * RUNS), await run_all(other, 3 * RUNS)]

        assert before == after == [[4] * RUNS] * 2

    @pytest.mark.parametrize("mode", ["session", "transaction"])
    def test_a_store(self, clusters, mode):
        """
        A store works behind it in either mode.
        """
        with pooled(clusters.server(), mode) as pooler:
            store = PostgresStore(pooler.url)
            for number in range(RUNS):
                store.put(("a",), str(number), {"n": number})
            found = store.search(("a",), limit=2 * RUNS)

        assert sorted(item.value["n"] for item in found) == [*range(RUNS)]

    @pytest.mark.one_loop
    async def test_a_pooler_for_single_statements_is_refused(self, clusters):
        """
        Opening refuses a pooler in statement mode by an error that names the mode to set.
        """
        with pooled(clusters.server(), "statement") as pooler:
            with pytest.raises(InvalidConfigError, match="pool_mode = transaction"):
                async with PostgresSaver(pooler.url):
                    pass
            with pytest.raises(InvalidConfigError, match="pool_mode = transaction"):
                PostgresStore(pooler.url).get(("a",), "b")

    @pytest.mark.one_loop
    async def test_a_connection_of_the_program(self, clusters):
        """
        Over a program's connection no statement is prepared behind it, and the program's threshold
        is as before afterwards.
        """
        with (
            pooled(clusters.server(), "transaction") as pooler,
            psycopg.connect(pooler.url) as mine,
            psycopg.connect(pooler.url) as other,
        ):
            async with PostgresSaver(mine) as one, PostgresSaver(other) as two:
                found = [await run_all(one), await run_all(two, RUNS)]

            assert found == [[4] * RUNS] * 2
            assert mine.prepare_threshold == 5


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
    async def test_a_database_that_cannot_store_every_text_is_refused(self, clusters, encoding):
        """
        A database in another encoding than UTF8 is refused when a saver or a store is opened, by
        an error that names the encoding and says how to make another one.
        """
        url = clusters.server(encoding=encoding).url
        with pytest.raises(InvalidConfigError, match=f"{encoding}.*every text"):
            async with PostgresSaver(url):
                pass
        with pytest.raises(InvalidConfigError, match="ENCODING 'UTF8'"):
            PostgresStore(url).get(("a",), "b")

    @pytest.mark.parametrize("kind", ["address", "connection"])
    async def test_the_encoding_of_a_client(self, postgres, lent, monkeypatch, kind):
        """
        Every text is stored also if the environment sets another encoding for clients, and a
        program's connection has its own one afterwards.
        """
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
        with psycopg.connect(postgres.url) as mine:
            conn = postgres.url if kind == "address" else mine
            async with PostgresSaver(conn, schema=lent) as saver:
                await ab(saver).ainvoke({"bar": ["日本 € ü"]}, at("日本"))
                found = await ab(saver).aget_state(at("日本"))
            encoding = mine.info.parameter_status("client_encoding")

        assert found.values["bar"] == ["日本 € ü", "a", "b"]
        assert encoding == "LATIN1"


@pytest.mark.parametrize("style", ["ISO, DMY", "SQL, DMY", "Postgres, MDY", "German"])
class TestDateStyles:
    async def test_savers_and_stores(self, postgres, lent, monkeypatch, style):
        """
        Savers and stores work in every style of dates, and connect again when their sessions are
        ended.
        """
        monkeypatch.setenv("PGDATESTYLE", style)
        async with PostgresSaver(postgres.url, schema=lent) as saver:
            await ab(saver).ainvoke({}, at())
            store = PostgresStore(postgres.url, schema=lent)
            store.put(("a",), "b", {"n": 1})
            with postgres.connect() as db:
                db.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'actorgraph' AND pid <> pg_backend_pid()"
                )
            await ab(saver).ainvoke({}, at("u"))
            found = [len(await history(ab(saver), at(thread))) for thread in "tu"]

        assert found == [4, 4]
        assert store.get(("a",), "b").value == {"n": 1}
