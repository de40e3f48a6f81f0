"""Connections to PostgreSQL: those that a program brings, those that read, what a read asks."""

import time
from typing import ClassVar

import anyio
import psycopg
import psycopg_pool
import pytest

from actorgraph import PostgresSaver
from tests.savers.test_growing_lists import growing
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, chain, count, history


class Counting(psycopg.Cursor):
    """A cursor that notes what it is asked, and counts the rows of the answers."""

    asked: ClassVar[list[str]] = []
    rows = 0

    def execute(self, query, params=None, **options):
        Counting.asked.append(str(query).split()[0])
        return super().execute(query, params, **options)

    def fetchall(self):
        found = super().fetchall()
        Counting.rows += len(found)
        return found


async def statements_of_a_history(url: str, schema: str, steps: int) -> tuple[int, list[str]]:
    """The checkpoints of a thread with a growing list, and what reading all of them asked."""
    with psycopg.connect(url, autocommit=True, cursor_factory=Counting) as mine:
        saver = PostgresSaver(mine, schema=schema, synchronous_commit="off")
        async with saver:
            graph = growing(steps, 1, saver)
            config = {**at(), "recursion_limit": steps + 10}
            await graph.ainvoke({}, config, durability="async")
            Counting.asked = []
            found = await history(graph, at())
            asked = list(Counting.asked)
    assert [len(s.values["items"]) for s in found[:3]] == [steps, steps - 1, steps - 2]
    return len(found), asked


async def rows_of_a_load(url: str, schema: str, steps: int) -> int:
    """How many rows a load of the newest of so many checkpoints, two messages each, reads."""
    with psycopg.connect(url, autocommit=True, cursor_factory=Counting) as mine:
        saver = PostgresSaver(mine, schema=schema, synchronous_commit="off")
        async with saver:
            config = {**at(), "recursion_limit": steps + 10}
            await growing(steps, 2, saver).ainvoke({}, config, durability="async")
            Counting.rows = 0
            found = await saver.aget_tuple(at())
            rows = Counting.rows
    assert len(found.checkpoint["channel_values"]["items"]) == 2 * steps
    return rows


class TestConnectionsOfTheProgram:
    @pytest.mark.promise("S196")
    @pytest.mark.parametrize("autocommit", [True, False])
    async def test_a_connection(self, postgres, lent, autocommit):
        """
        A program's own connection is used and left open, in the mode that it had.
        """
        with psycopg.connect(
            postgres.url, autocommit=autocommit, row_factory=psycopg.rows.dict_row
        ) as mine:
            async with PostgresSaver(mine, schema=lent) as saver:
                result = await ab(saver).ainvoke({}, at())
                rows = await count(ab(saver), at())
            after = mine.execute("SELECT current_setting('search_path') AS path").fetchone()
            mode = mine.autocommit

        assert (result["bar"], rows, mode) == (["a", "b"], 4, autocommit)
        assert lent not in after["path"]

    async def test_a_connection_inside_a_transaction_is_refused(self, postgres, lent):
        """
        The saver doesn't commit what a program has begun.
        """
        with psycopg.connect(postgres.url) as mine:
            mine.execute("SELECT 1")
            with pytest.raises(Exception, match="inside a transaction"):
                async with PostgresSaver(mine, schema=lent):
                    pass

    @pytest.mark.promise("S100", "S196")
    async def test_a_pool(self, postgres, lent):
        """
        A program's own pool is used and left open.
        """
        with psycopg_pool.ConnectionPool(postgres.url, min_size=1, max_size=3, open=True) as mine:
            async with PostgresSaver(mine, schema=lent) as saver:
                result = await ab(saver).ainvoke({}, at())
            with mine.connection() as connection:
                alive = connection.execute("SELECT 1").fetchone()

        assert (result["bar"], alive) == (["a", "b"], (1,))

    @pytest.mark.promise("S216")
    async def test_a_long_history_is_two_statements_a_page(self, postgres, lent):
        """
        250 checkpoints are read with two statements a page of 100, in a transaction that ends
        with the page.
        """
        found, asked = await statements_of_a_history(postgres.url, lent, 248)

        assert found == 250
        assert asked == ["BEGIN", "SELECT", "SELECT", "SELECT", "COMMIT"] * 3  # one: the schema

    async def test_a_page_of_history_is_two_statements(self, postgres, lent):
        """
        However many checkpoints a page has, they and their values are read with two statements.
        """
        Counting.asked = []
        with psycopg.connect(postgres.url, autocommit=True, cursor_factory=Counting) as mine:
            async with PostgresSaver(mine, schema=lent) as saver:
                graph = chain("abcdefgh", checkpointer=saver)
                await graph.ainvoke({}, at())
                Counting.asked = []
                rows = await history(graph, at())
                page = list(Counting.asked)
                Counting.asked = []
                await graph.aget_state(at())
                load = list(Counting.asked)

        assert len(rows) == 10
        assert page == ["BEGIN", "SELECT", "SELECT", "SELECT", "COMMIT"]  # one sets the schema
        assert load == page * (len(load) // 5)


class TestReads:
    @pytest.mark.promise("S196")
    async def test_reads_go_on_at_the_same_time(self, postgres, lent):
        """
        Reads that wait for the server don't wait for each other.
        """
        async with PostgresSaver(postgres.url, schema=lent, read_connections=3) as saver:
            graph = ab(saver)
            await graph.ainvoke({}, at())
            with postgres.connect(lent) as db, db.transaction():
                db.execute("LOCK TABLE checkpoints IN ACCESS EXCLUSIVE MODE")
                async with anyio.create_task_group() as reads:
                    with anyio.fail_after(PATIENCE_S):
                        for number in (1, 2, 3):
                            reads.start_soon(graph.aget_state, at())
                            while await anyio.to_thread.run_sync(waiting, postgres) < number:
                                await anyio.lowlevel.checkpoint()
                    db.execute("ROLLBACK")

    async def test_a_paused_reader_delays_no_others(self, postgres, lent):
        """
        While a listing is paused in its middle, runs of the same thread go on.
        """
        async with PostgresSaver(postgres.url, schema=lent, busy_timeout_s=0.2) as saver:
            graph = ab(saver)
            await graph.ainvoke({}, at())
            seen = []
            async for item in saver.alist(at()):
                seen.append(item)
                if len(seen) == 2:
                    await graph.ainvoke({}, at())
            rows = await count(graph, at())

        assert (len(seen), rows) == (4, 8)

    async def test_reads_never_wait_for_the_writer(self, postgres, lent):
        """
        State can be read while a batch waits for a lock.
        """
        async with PostgresSaver(postgres.url, schema=lent, busy_timeout_s=PATIENCE_S) as saver:
            graph = ab(saver)
            await graph.ainvoke({}, at())
            with postgres.connect(lent) as db, db.transaction():
                db.execute("SELECT 1 FROM threads FOR UPDATE")
                async with anyio.create_task_group() as runs:
                    runs.start_soon(graph.ainvoke, {}, at())
                    with anyio.fail_after(PATIENCE_S / 2):
                        while not await anyio.to_thread.run_sync(waiting, postgres):
                            await anyio.lowlevel.checkpoint()
                        state = await graph.aget_state(at())
                    db.execute("ROLLBACK")
            after = await graph.aget_state(at())

        assert (state.values["bar"], after.values["bar"]) == (["a", "b"], ["a", "b", "a", "b"])


def waiting(postgres) -> int:
    """How many of the savers' sessions wait for a lock."""
    time.sleep(0.01)
    with postgres.connect() as db:
        return db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'actorgraph' "
            "AND wait_event_type = 'Lock'"
        ).fetchone()[0]


@pytest.mark.promise("S066", "C1")
async def test_loading_the_newest_of_many_reads_few_rows(postgres, lent):
    """
    The newest of 200 checkpoints of a list of 400 items comes from at most 20 rows, as the server
    sends them; tests/faults has 5,000 checkpoints.
    """
    assert await rows_of_a_load(postgres.url, lent, 200) <= 20
