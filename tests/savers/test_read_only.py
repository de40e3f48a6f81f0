"""Savers that only read: beside a writer, without a trace, and every write is refused."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from actorgraph import ActorSystem, InvalidConfigError, PostgresSaver, SqliteSaver
from actorgraph.errors import FormatVersionError, StorageError
from tests.savers.test_langgraph_methods import checkpoint, metadata
from tests.support.graphs import ab, at, history

KINDS = ["sqlite", "postgres"]
TASK = "1f000000-0000-6000-8000-000000000001"


def reading(store):
    """Another saver over a store, which only reads."""
    if store.kind == "postgres":
        return PostgresSaver(store.url, schema=store.schema, read_only=True)
    return SqliteSaver(store.path, read_only=True)


COUNTS = {
    "owners": "SELECT count(*) FROM owners",
    "system_runs": "SELECT count(*) FROM system_runs",
    "writers": "SELECT count(*) FROM writers",
}


def counted(store):
    """How many rows there are of systems, their runs, and savers of PostgreSQL that write."""
    if store.kind == "postgres":
        import psycopg

        path = f"-csearch_path={store.schema}"
        with psycopg.connect(store.url, autocommit=True, options=path) as db:
            return [db.execute(statement).fetchone()[0] for statement in COUNTS.values()]
    with closing(sqlite3.connect(store.path)) as db:
        return [db.execute(COUNTS[name]).fetchone()[0] for name in ("owners", "system_runs")]


@pytest.mark.every_saver
@pytest.mark.every_loop
@pytest.mark.parametrize("store", KINDS, indirect=True)
class TestReading:
    async def test_everything_is_read_beside_a_writer(self, store, tmp_path):
        """
        States, histories, listings, counts and runs, those included that a writer stores
        meanwhile; so is a backup.
        """
        async with store.saver() as writer, reading(store) as saver:
            graph = ab(writer)
            await graph.ainvoke({"foo": "x"}, at())
            assert await history(ab(saver), at()) == await history(graph, at())
            await graph.ainvoke({"foo": "y"}, at())
            assert (await ab(saver).aget_state(at())).values["bar"] == ["a", "b"] * 2
            assert await saver.alist_threads() == ["t"]
            assert await saver.acount("t") == len(await saver.alist_metadata("t")) == 8
            assert [p async for p in saver.alist(at())] == [p async for p in writer.alist(at())]
            await saver.abackup(tmp_path / "copy.db")
        async with SqliteSaver(tmp_path / "copy.db", read_only=True) as copy:
            assert await copy.acount("t") == 8

    async def test_every_write_is_refused(self, store):
        """
        A checkpoint, a deletion, a vacuum, a run, a system and the making of tables; nothing has
        changed, and no system or writer is registered.
        """
        point = checkpoint(0)
        async with store.saver() as writer:
            await ab(writer).ainvoke({"foo": "x"}, at())
            before = counted(store)
            points = await history(ab(writer), at())
            async with reading(store) as saver:
                graph = ab(saver)
                writes = [
                    lambda: saver.aput(at(), point, metadata(0), point["channel_versions"]),
                    lambda: saver.aput_writes(points[0].config, [("foo", 1)], TASK),
                    lambda: saver.adelete_thread("t"),
                    lambda: saver.aprune(["t"]),
                    saver.avacuum,
                    lambda: graph.ainvoke({"foo": "y"}, at()),
                    lambda: graph.aupdate_state(at(), {"foo": "y"}),
                    lambda: started(saver),
                ]
                for write in writes:
                    with pytest.raises(StorageError, match="read_only=True"):
                        await write()
                with pytest.raises(StorageError, match="read_only=True"):
                    await saver.setup()
                assert counted(store) == before
            assert counted(store) == before
            assert await history(ab(writer), at()) == points

    async def test_an_older_schema_is_refused(self, store):
        """
        Tables of an older version, or none: the error says to open it once to write.
        """
        async with store.saver():
            pass
        if store.kind == "postgres":
            with pytest.raises(FormatVersionError, match="none"):
                await entered(PostgresSaver(store.url, schema="no_such", read_only=True))
            return
        with closing(sqlite3.connect(store.path)) as db:
            db.execute("PRAGMA user_version = 1")
        with pytest.raises(FormatVersionError, match="without read_only=True"):
            await entered(reading(store))
        empty = store.path.with_name("empty.db")
        sqlite3.connect(empty).close()
        empty.touch()
        with pytest.raises(FormatVersionError, match="without read_only=True"):
            await entered(SqliteSaver(empty, read_only=True))


async def started(saver):
    async with ActorSystem({"g": ab()}, saver=saver) as system:
        await system.start("g", "u", {"foo": "x"})


async def entered(saver):
    async with saver:
        pass


class TestFiles:
    async def test_no_file_is_left_behind(self, tmp_path):
        """
        Neither a log nor its index stays beside a file that no one writes, and no file is made
        where none is; a read-only saver may be opened again.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as writer:
            await ab(writer).ainvoke({"foo": "x"}, at())
        before = path.read_bytes()
        saver = SqliteSaver(path, read_only=True)
        for _ in range(2):
            async with saver:
                assert await saver.acount("t") == 4
        with pytest.raises(StorageError):
            await entered(SqliteSaver(tmp_path / "none.db", read_only=True))

        assert [one.name for one in tmp_path.iterdir()] == ["runs.db"]
        assert path.read_bytes() == before

    async def test_the_log_of_a_writer_stays(self, tmp_path):
        """
        A reader that ends first leaves the writer its log, and all that is in it.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as writer:
            async with SqliteSaver(path, read_only=True):
                await ab(writer).ainvoke({"foo": "x"}, at())
            await ab(writer).ainvoke({"foo": "y"}, at())
            assert (tmp_path / "runs.db-wal").exists()

        async with SqliteSaver(path, read_only=True) as saver:
            assert await saver.acount("t") == 8

    def test_only_a_file_can_be_read_so(self):
        """
        A database in memory, and a connection of the program to one, are refused.
        """
        lent = sqlite3.connect(":memory:", check_same_thread=False)
        for given in (":memory:", lent):
            with pytest.raises(InvalidConfigError, match="needs a file"):
                SqliteSaver(given, read_only=True)
        lent.close()


MOUNTED = """
import os, subprocess, sys
from pathlib import Path
from actorgraph import SqliteSaver
folder, place = Path(sys.argv[1]), Path(sys.argv[1]) / "mount"
if os.geteuid() == 0:
    for command in (["--bind", folder / "data", place], ["-o", "remount,ro,bind", place]):
        subprocess.run(["mount", *command], check=True)
else:
    (folder / "data").chmod(0o555)
    place = folder / "data"
with SqliteSaver(place / "a.db", read_only=True) as saver:
    print(saver.list_threads(), os.listdir(place))
    try:
        os.utime(folder / "data" / "a.db", ns=(1, 1))
        saver.list_threads()
    except Exception as error:
        print(type(error).__name__, "has changed" in str(error))
"""


def test_a_closed_database_is_read_where_nothing_can_be_written(tmp_path):
    """
    On a read-only mount a closed database is read whole, and a change through another mount is
    noticed.
    """
    (tmp_path / "data").mkdir()
    (tmp_path / "mount").mkdir()
    with SqliteSaver(tmp_path / "data" / "a.db") as saver:
        ab(saver).invoke({"foo": "x"}, at())
    own = [] if os.geteuid() else ["unshare", "--mount"]
    program = [*own, sys.executable, "-c", MOUNTED, str(tmp_path)]

    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if "mount" in done.stderr and "permi" in done.stderr.lower():
        pytest.skip("mounts aren't allowed here")

    assert done.stdout.splitlines() == ["['t'] ['a.db']", "StorageError True"], done.stderr
