"""Servers that have lost what they had acknowledged: what is stored afterwards can be read."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import anyio.to_thread
import psycopg
import psycopg_pool
import pytest

from actorgraph import PostgresSaver, SqliteSaver
from actorgraph.errors import DamagedRowError
from actorgraph.stores import PostgresStore
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, history
from tests.support.postgres_clusters import address, catches_up, clusters, lags, wait_for

__all__ = ["clusters"]


@contextmanager
def connected(kind: str, url: str) -> Iterator[object]:
    """An address, a connection or a pool of the program, to make a saver with."""
    if kind == "address":
        yield url
    elif kind == "connection":
        with psycopg.connect(url) as connection:
            yield connection
    else:
        with psycopg_pool.ConnectionPool(url, min_size=1, max_size=2) as pool:
            yield pool


COMMITTING = """
SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'actorgraph'
"""


async def holds_commits(primary) -> None:
    """Let a server acknowledge no commit from now on, since it waits for a replica."""
    primary.set(synchronous_standby_names="nobody")
    primary.reload()


async def lengths(saver, *threads: str) -> list[int]:
    """How many checkpoints of each thread can be read."""
    return [len(await history(ab(saver), at(thread))) for thread in threads]


class TestLostShapes:
    @pytest.mark.parametrize("kind", ["address", "connection", "pool"])
    async def test_checkpoints_stored_afterwards_are_whole(self, postgres, lent, kind):
        """
        Shapes that the server has lost under an open saver are stored again: each checkpoint that
        is acknowledged later can be read, and no run fails.
        """
        with connected(kind, postgres.url) as conn:
            async with PostgresSaver(conn, schema=lent) as saver:
                for turn in range(3):
                    await ab(saver).ainvoke({}, at(f"before{turn}"))
                with postgres.connect(lent) as db:
                    known = db.execute("SELECT count(*) FROM shapes").fetchone()[0]
                    db.execute("DELETE FROM points")
                    db.execute("DELETE FROM shapes")
                for turn in range(3):
                    await ab(saver).ainvoke({}, at(f"t{turn}"))
                found = await lengths(saver, "t0", "t1", "t2")
        with postgres.connect(lent) as db:
            again = db.execute("SELECT count(*) FROM shapes").fetchone()[0]

        assert known > 0
        assert again > 0
        assert found == [4, 4, 4]

    async def test_a_backup_names_what_is_damaged_and_goes_on(
        self, postgres, lent, tmp_path, capsys
    ):
        """
        A checkpoint without its shape is named by the backup and is damaged in the copy as well;
        the others are whole there.
        """
        async with PostgresSaver(postgres.url, schema=lent) as saver:
            for thread in "abc":
                await ab(saver).ainvoke({}, at(thread))
            with postgres.connect(lent) as db:
                db.execute(
                    "UPDATE points SET shape = 7 WHERE (thread, seq) IN (SELECT thread, max(seq) "
                    "FROM points JOIN threads USING (thread) WHERE thread_id = 'c' GROUP BY 1)"
                )
            await saver.abackup(tmp_path / "copy.db")
        told = capsys.readouterr().err
        async with SqliteSaver(tmp_path / "copy.db") as copy:
            found = await lengths(copy, "a", "b")
            with pytest.raises(DamagedRowError, match="thread 'c'"):
                await ab(copy).aget_state(at("c"))

        assert found == [4, 4]
        assert "backup.damaged" in told
        assert "of thread 'c' is damaged" in told

    async def test_a_damaged_thread_can_be_pruned_around_and_deleted(self, postgres, lent):
        """
        A thread with a damaged checkpoint can be deleted, and others are pruned as before.
        """
        async with PostgresSaver(postgres.url, schema=lent) as saver:
            for thread in "ab":
                await ab(saver).ainvoke({}, at(thread))
            with postgres.connect(lent) as db:
                db.execute(
                    "UPDATE points SET shape = 7 FROM threads t "
                    "WHERE t.thread = points.thread AND thread_id = 'a'"
                )
            await saver.aprune(["b"])
            await saver.adelete_thread("a")
            found = await lengths(saver, "a", "b")

        assert found == [0, 1]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
class TestFailover:
    """The long form is tests/faults/test_postgres_failover.py."""

    async def test_to_a_replica_that_lags(self, clusters):
        """
        After a replica without the newest rows was promoted, an open saver goes on over it, and
        each thread can be read there.
        """
        primary = clusters.server()
        async with PostgresSaver(address(primary), schema="warm") as saver:
            await ab(saver).ainvoke({}, at())  # makes the tables before the copy is made
        replica = primary.replica()
        with anyio.fail_after(PATIENCE_S):
            async with PostgresSaver(address(primary, replica), schema="warm") as saver:
                catches_up(primary, replica)
                lags(primary, replica)
                for turn in range(3):
                    await ab(saver).ainvoke({}, at(f"lost{turn}"))
                primary.kill()
                replica.promote()
                for turn in range(3):
                    await ab(saver).ainvoke({}, at(f"t{turn}"))
                found = await lengths(saver, "t", "lost0", "t0", "t1", "t2")

        assert found == [4, 0, 4, 4, 4]
        assert replica.sql("SELECT count(*) FROM warm.checkpoints WHERE record IS NULL") == [(0,)]

    async def test_a_crash_that_loses_commits(self, clusters):
        """
        With `synchronous_commit="off"` a crash may lose what was stored last, and what the open
        saver stores afterwards can be read.
        """
        server = clusters.server(wal_writer_delay="10s", synchronous_commit="off")
        with anyio.fail_after(PATIENCE_S):
            async with PostgresSaver(server.url, synchronous_commit="off") as saver:
                server.sql("CHECKPOINT")
                for turn in range(3):
                    await ab(saver).ainvoke({}, at(f"lost{turn}"))
                server.kill()
                server.start()
                for turn in range(3):
                    await ab(saver).ainvoke({}, at(f"t{turn}"))
                found = await lengths(saver, "t0", "t1", "t2")

        assert found == [4, 4, 4]

    async def test_to_a_replica_that_knows_nothing_of_the_saver(self, clusters):
        """
        A commit without an answer is sent again to a server that took over before it had the
        saver's tables: they are made there, for the store as well.
        """
        primary = clusters.server()
        replica = primary.replica()
        lags(primary, replica)
        url = address(primary, replica)
        with anyio.fail_after(PATIENCE_S):
            async with PostgresSaver(url) as saver, anyio.create_task_group() as runs:
                store = PostgresStore(url)
                store.put(("a",), "b", {"n": 1})
                await ab(saver).ainvoke({}, at("lost"))
                await holds_commits(primary)
                runs.start_soon(ab(saver).ainvoke, {}, at())
                await anyio.to_thread.run_sync(wait_for, lambda: primary.sql(COMMITTING))
                primary.kill()
                replica.promote()
            async with PostgresSaver(url) as saver:
                found = await lengths(saver, "lost", "t")
        store.put(("a",), "c", {"n": 2})

        assert found == [0, 4]
        assert [item.key for item in store.search(("a",))] == ["c"]

    async def test_a_commit_in_doubt(self, clusters):
        """
        A commit without an answer is sent again to a replica that has the saver's tables and not
        the saver, which was opened later.
        """
        primary = clusters.server()
        async with PostgresSaver(primary.url) as saver:
            await ab(saver).ainvoke({}, at())
        replica = primary.replica()
        catches_up(primary, replica)
        lags(primary, replica)
        url = address(primary, replica)
        with anyio.fail_after(PATIENCE_S):
            async with PostgresSaver(url) as saver:
                async with anyio.create_task_group() as runs:
                    await holds_commits(primary)
                    runs.start_soon(ab(saver).ainvoke, {}, at("u"))
                    await anyio.to_thread.run_sync(wait_for, lambda: primary.sql(COMMITTING))
                    primary.kill()
                    replica.promote()
                found = await lengths(saver, "t", "u")

        assert found == [4, 4]
