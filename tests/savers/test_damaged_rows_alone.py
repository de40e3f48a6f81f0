"""A row that no saver writes fails the request about its thread, and no other one."""

import sqlite3
from contextlib import closing

import pytest

from actorgraph import ActorGraphError, ActorSystem, SqliteSaver
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.values.commits import Committed
from actorgraph.values.retention import Sweep
from tests.support.graphs import at
from tests.web.apps import GRAPHS

UNKNOWN = b"\xc7\x03\x7fbad"
"""A value of msgpack's, of a type that no version has written."""
VALUES = """UPDATE blobs SET payload = ?, crc = NULL
    WHERE thread = (SELECT thread FROM threads WHERE thread_id = 'bad')"""
STARTS = """UPDATE ranges SET start = 'x'
    WHERE thread = (SELECT thread FROM threads WHERE thread_id = 'bad')"""
RECORDS = """UPDATE checkpoints SET record = '{', crc = NULL
    WHERE thread = (SELECT thread FROM threads WHERE thread_id = 'bad')"""
OWNERS = "UPDATE system_runs SET owner = 'x', status = 'running'"


async def fill(path):
    """Two threads; the bad one is newer."""
    async with SqliteSaver(path) as saver:
        graph = GRAPHS["log"].compile(checkpointer=saver)
        for thread in ("good", "bad"):
            await graph.ainvoke({"foo": thread + 100 * "x", "log": [thread]}, at(thread))


def changed(path, statement, *values):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(statement, values).rowcount


@pytest.mark.one_loop
class TestRows:
    async def test_a_list_of_all_threads_is_filled_with_the_others(self, tmp_path, caplog):
        """
        `alist(None)` leaves out checkpoints of unknown types, logs their thread, and its limit
        counts the others alone.
        """
        path = str(tmp_path / "runs.db")
        await fill(path)
        changed(path, VALUES, UNKNOWN)

        async with SqliteSaver(path) as saver:
            whole = [one async for one in saver.alist(None)]
            some = [one async for one in saver.alist(None, limit=2)]
        good = [one for one in whole if one.config["configurable"]["thread_id"] == "good"]
        assert len(good) == 4
        assert [one.config for one in some] == [one.config for one in whole[:2]]
        assert "thread 'bad'" in caplog.text

    async def test_a_number_that_is_text_fails_one_request(self, tmp_path):
        """
        Requests that one batch holds are stored although another one's rows have a text in the
        column of a number; its error names the thread.
        """
        path = str(tmp_path / "runs.db")
        await fill(path)
        changed(path, STARTS)

        async with SqliteSaver(path) as saver:
            good, bad = await host_of(saver).writer.store_each(Sweep("good"), Sweep("bad"))
        assert isinstance(good, Committed)
        assert isinstance(bad, ActorGraphError)
        assert "'bad'" in str(bad)

    async def test_a_record_that_is_cut_is_named(self, tmp_path):
        """
        A vacuum that can't read a checkpoint's record names its thread.
        """
        path = str(tmp_path / "runs.db")
        await fill(path)
        changed(path, RECORDS)

        async with SqliteSaver(path) as saver:
            with pytest.raises(ActorGraphError, match="'bad'"):
                await saver.avacuum()

    async def test_owners_are_listed_without_a_strange_one(self, tmp_path):
        """
        A run whose owner is text, as no saver writes it, is in no list of systems.
        """
        path = str(tmp_path / "runs.db")
        graphs = {"log": GRAPHS["log"].compile()}
        async with ActorSystem(graphs, saver=SqliteSaver(path)) as system:
            await (await system.start("log", "bad", {"log": []})).wait()
        changed(path, OWNERS)

        async with ActorSystem(graphs, saver=SqliteSaver(path)) as system:
            assert [owner.runs for owner in await system.owners() if owner.runs] == []
