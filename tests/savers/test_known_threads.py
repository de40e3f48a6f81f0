"""Threads that a saver need not read before each commit, and when it must."""

import sqlite3

import anyio
import pytest

from actorgraph import ConflictError, SqliteSaver
from actorgraph.savers.judge import ThreadState
from actorgraph.savers.sqlite.batch import HEADS_MAX, THREADS_MAX, KnownThreads
from actorgraph.storage.sqlite.connections import HopConnection
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import at, chain, in_a_row

NODES = "abcdefgh"


async def test_a_runs_thread_is_read_by_its_first_save_only(tmp_path, monkeypatch):
    """
    The saves of a run read their thread once: no other process has written in between.
    """
    reads: list[str] = []

    class Noting(HopConnection):
        def execute(self, sql, /, *given):
            if "FROM threads" in sql and "json_each" in sql:
                reads.append(sql)
            return super().execute(sql, *given)

    monkeypatch.setattr(SqliteSaver, "connection_class", Noting)
    async with SqliteSaver(tmp_path / "runs.db") as saver:
        graph = chain(NODES, checkpointer=saver)
        await graph.ainvoke({"foo": "x"}, at())
        await graph.ainvoke({"foo": "x"}, at())

    assert len(reads) == 2


@pytest.mark.promise("B2", "T5")
async def test_a_run_is_fenced_by_what_another_connection_did(tmp_path):
    """
    A thread that another saver deletes during a run is read again by the run's next save, which
    is refused; the run stores nothing more.
    """
    path, gate = tmp_path / "runs.db", Turnstile({"foo": "b"})

    async def first(_):
        return {"foo": "a"}

    async with SqliteSaver(path) as saver, SqliteSaver(path) as other:
        graph = in_a_row({"a": first, "b": gate}, checkpointer=saver)
        failures: list[Exception] = []

        async def call() -> None:
            try:
                await graph.ainvoke({"foo": "x"}, at())
            except ConflictError as error:
                failures.append(error)

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await gate.entered.wait()
                await other.adelete_thread("t")
                gate.out.set()

        assert "was deleted" in str(failures[0])
        assert [each async for each in other.alist(at())] == []


@pytest.fixture
def connection(tmp_path):
    """A connection inside a write transaction."""
    made = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    made.execute("PRAGMA journal_mode = WAL")
    made.execute("CREATE TABLE t (n)")
    made.execute("BEGIN IMMEDIATE")
    yield made
    made.close()


def held(**fields) -> dict[str, ThreadState]:
    """A thread whose claim a run holds."""
    return {"t": ThreadState("t", 1, run=b"r", **fields)}


class TestKnownThreads:
    def test_threads_of_active_runs_are_kept(self, connection):
        """
        After a commit the threads with an active run are known, those that a run left are not.
        """
        known = KnownThreads()
        known.keep(known.take(connection), held())
        states = known.take(connection)
        assert set(states) == {"t"}

        known.keep(states, {"t": ThreadState("t", 1)})

        assert known.take(connection) == {}

    def test_a_batch_that_failed_leaves_nothing_known(self, connection):
        """
        Threads that were taken for a batch are not known until the batch gives them back.
        """
        known = KnownThreads()
        known.keep(known.take(connection), held())
        known.take(connection)

        assert known.take(connection) == {}

    def test_another_connections_commit_ends_the_knowledge(self, connection, tmp_path):
        """
        Nothing is known any more once another connection has written to the file.
        """
        known = KnownThreads()
        known.keep(known.take(connection), held())
        connection.execute("COMMIT")
        other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        other.execute("INSERT INTO t VALUES (1)")
        other.close()
        connection.execute("BEGIN IMMEDIATE")

        assert known.take(connection) == {}

    def test_own_commits_leave_it(self, connection):
        """
        Known threads outlive the commits of their own connection.
        """
        known = KnownThreads()
        known.keep(known.take(connection), held())
        for number in range(3):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")

        assert set(known.take(connection)) == {"t"}

    def test_the_number_of_threads_and_heads_is_bounded(self, connection):
        """
        More threads than `THREADS_MAX`, and a thread with more heads than `HEADS_MAX`, are read.
        """
        known = KnownThreads()
        heads = {str(n): None for n in range(HEADS_MAX + 1)}
        known.keep(known.take(connection), held(heads=heads))
        assert known.take(connection) == {}

        many = {str(n): ThreadState(str(n), n, run=b"r") for n in range(THREADS_MAX + 1)}
        known.keep({}, many)

        assert known.take(connection) == {}
