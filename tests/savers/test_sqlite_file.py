"""The SQLite file itself: settings, mode, locks, versions, and databases in memory."""

import copy
import gc
import json
import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from actorgraph import Codec, InvalidConfigError, SqliteSaver, interrupt
from actorgraph.errors import FormatVersionError, StorageBusyError, StorageError
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, count, history, in_a_row, writer


@contextmanager
def connected(path) -> Iterator[sqlite3.Connection]:
    """A plain connection to the file, closed at the end."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path):
    """A file with one finished thread, "t", and one that waits, "w"."""

    async def ask(state):
        return {"bar": [interrupt("?")]}

    file = tmp_path / "runs.db"
    with SqliteSaver(file) as saver:
        ab(saver).invoke({"foo": "x"}, at())
        in_a_row({"ask": ask}, checkpointer=saver).invoke({}, at("w"))
    return file


class TestSettings:
    @pytest.mark.promise("S104")
    async def test_wal_and_full_by_default(self, tmp_path):
        """
        The journal is WAL and every commit is synced.
        """
        found: dict[str, object] = {}
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            await _pragmas(saver, found)

        assert found == {"journal_mode": "wal", "synchronous": 2}

    @pytest.mark.parametrize(
        ("setting", "number"), [("OFF", 0), ("NORMAL", 1), ("FULL", 2), ("EXTRA", 3)]
    )
    async def test_synchronous_can_be_chosen(self, tmp_path, setting, number):
        """
        `synchronous=` takes each of SQLite's settings.
        """
        found: dict[str, object] = {}
        async with SqliteSaver(tmp_path / "runs.db", synchronous=setting) as saver:
            await _pragmas(saver, found)

        assert found["synchronous"] == number

    @pytest.mark.parametrize(
        "wrong",
        [
            {"synchronous": "full"},
            {"busy_timeout_s": -1},
            {"busy_timeout_s": "5"},
            {"codec": 5},
            {"codec": Codec},
        ],
    )
    def test_wrong_settings_are_refused(self, tmp_path, wrong):
        """
        A setting that doesn't exist is refused when the saver is made.
        """
        with pytest.raises(InvalidConfigError):
            SqliteSaver(tmp_path / "runs.db", **wrong)

    def test_the_file_is_its_owners_alone(self, path):
        """
        A new database has mode 0600.
        """
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    async def test_a_file_that_exists_keeps_its_mode(self, tmp_path):
        """
        The mode of a file that existed before is left alone.
        """
        file = tmp_path / "runs.db"
        file.touch()
        file.chmod(0o640)

        async with SqliteSaver(file) as saver:
            await ab(saver).ainvoke({}, at())

        assert stat.S_IMODE(file.stat().st_mode) == 0o640


async def _pragmas(saver, found) -> None:
    """Look at the writing connection's settings, from its own thread."""

    def look(connection: sqlite3.Connection) -> None:
        (found["journal_mode"],) = connection.execute("PRAGMA journal_mode").fetchone()
        (found["synchronous"],) = connection.execute("PRAGMA synchronous").fetchone()

    await saver._writer.run(look)  # noqa: SLF001


class TestLocks:
    async def test_a_lock_of_another_process_is_an_error_in_time(self, path):
        """
        A caller that waits longer than busy_timeout_s for a lock gets StorageBusyError, unharmed.
        """
        async with SqliteSaver(path, busy_timeout_s=0.05) as saver:
            graph = ab(saver)
            with connected(path) as other:
                other.execute("BEGIN IMMEDIATE")
                began = time.monotonic()
                with pytest.raises(StorageBusyError, match="locked"):
                    await graph.ainvoke({}, at("new"))
                took = time.monotonic() - began
                other.execute("ROLLBACK")
            result = await graph.ainvoke({}, at("new"))

        assert took < PATIENCE_S / 2
        assert result["bar"] == ["a", "b"]

    async def test_a_lock_that_is_released_in_time_is_waited_for(self, path):
        """
        A short lock delays a save and harms nothing.
        """
        async with SqliteSaver(path, busy_timeout_s=PATIENCE_S) as saver:
            with connected(path) as other:
                other.execute("BEGIN IMMEDIATE")
                timer = threading.Timer(0.05, lambda: None)
                timer.start()
                async with anyio.create_task_group() as group:
                    group.start_soon(ab(saver).ainvoke, {}, at("new"))
                    await anyio.to_thread.run_sync(timer.join)
                    other.execute("ROLLBACK")
            rows = await count(ab(saver), at("new"))

        assert rows == 4

    @pytest.mark.promise("S104")
    async def test_a_reader_does_not_delay_the_writer(self, path):
        """
        While another connection holds a read transaction, runs go on.
        """
        async with SqliteSaver(path, busy_timeout_s=0) as saver:
            with connected(path) as other:
                other.execute("BEGIN")
                other.execute("SELECT count(*) FROM checkpoints").fetchone()
                result = await ab(saver).ainvoke({}, at("new"))
                other.execute("COMMIT")

        assert result["bar"] == ["a", "b"]

    @pytest.mark.promise("S104")
    async def test_a_writer_does_not_delay_reads(self, path):
        """
        State can be read while another process holds the database's write lock.
        """
        async with SqliteSaver(path, busy_timeout_s=0) as saver:
            with connected(path) as other:
                other.execute("BEGIN IMMEDIATE")
                state = await ab(saver).aget_state(at())
                rows = await history(ab(saver), at())
                other.execute("ROLLBACK")

        assert (state.values["foo"], len(rows)) == ("b", 4)

    async def test_two_savers_of_one_file(self, tmp_path):
        """
        Two savers of a file see each other's threads, and write in turns.
        """
        file = tmp_path / "runs.db"
        async with SqliteSaver(file) as one, SqliteSaver(file) as two:
            await ab(one).ainvoke({}, at("by one"))
            await ab(two).ainvoke({}, at("by two"))
            async with anyio.create_task_group() as group:
                for n in range(10):
                    group.start_soon(ab(one if n % 2 else two).ainvoke, {}, at(f"t{n}"))
            rows = [await count(ab(one), at(t)) for t in ("by one", "by two", "t0", "t1")]

        assert rows == [4, 4, 4, 4]


class TestVersions:
    async def test_a_newer_schema_is_refused(self, path):
        """
        A file of a later version is left untouched, with a clear error.
        """
        with connected(path) as db:
            db.execute("PRAGMA user_version = 99")

        with pytest.raises(FormatVersionError, match="schema version 99"):
            async with SqliteSaver(path):
                pass

        with connected(path) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (99,)

    async def test_another_file_than_a_database_is_refused(self, tmp_path):
        """
        Opening something else says so, and changes no byte of it.
        """
        file = tmp_path / "letter.txt"
        file.write_text("Dear reader, " * 500)

        with pytest.raises(StorageError):
            async with SqliteSaver(file):
                pass

        assert file.read_text() == "Dear reader, " * 500


class TestInMemory:
    @pytest.mark.promise("S107")
    def test_it_ends_with_the_saver(self):
        """
        Each ":memory:" saver is a database of its own, which goes with it.
        """
        with SqliteSaver(":memory:") as one, SqliteSaver(":memory:") as two:
            ab(one).invoke({}, at())

            assert two.get_tuple(at()) is None
        assert not os.path.exists(":memory:")  # noqa: PTH110 - a name, not a path
        freed = threading.Event()
        gone = weakref.ref(one, lambda _: freed.set())
        del one
        deadline = time.monotonic() + PATIENCE_S
        # The background thread may still be on its way out of the block.
        while not freed.wait(0.01) and time.monotonic() < deadline:
            gc.collect()

        assert gone() is None
        with SqliteSaver(":memory:") as new:
            assert new.list_threads() == []

    @pytest.mark.promise("S094")
    def test_clones_share_it(self, tmp_path):
        """
        A clone of a saver has what the other one stores, in memory too, and may go before it.
        """
        for path in (":memory:", tmp_path / "runs.db"):
            with SqliteSaver(path) as one:
                two = copy.copy(one)
                ab(one).invoke({}, at("by one"))
                ab(two).invoke({}, at("by two"))
                assert two.list_threads() == one.list_threads() == ["by one", "by two"]
            two.close_blocking()
            del two
            gc.collect()
            with one:
                assert one.list_threads() == ["by one", "by two"]


@pytest.mark.promise("C1")
async def test_blobs_are_written_once_per_version(tmp_path):
    """
    A value that doesn't change is stored once, however many checkpoints name it.
    """
    big = "x" * 10_000

    async def tick(state):
        return {"bar": ["t"]}

    file = tmp_path / "runs.db"
    async with SqliteSaver(file) as saver:
        graph = in_a_row({f"n{i}": tick for i in range(20)}, checkpointer=saver)
        await graph.ainvoke({"foo": big}, at())
        restored = await graph.aget_state(at())
    with connected(file) as db:
        blobs = db.execute("SELECT count(*) FROM blobs WHERE length(payload) > 9000").fetchone()

    assert blobs == (1,)
    assert restored.values["foo"] == big


@pytest.mark.promise("S066", "C1")
async def test_loading_reads_a_bounded_number_of_rows(tmp_path):
    """
    The newest of many checkpoints is read from few rows.
    """
    file = tmp_path / "runs.db"
    async with SqliteSaver(file) as saver:
        graph = in_a_row({f"n{i}": writer(f"n{i}") for i in range(300)}, checkpointer=saver)
        await graph.ainvoke({}, at(), durability="async")
    with connected(file) as db:
        (record,) = db.execute("SELECT record FROM checkpoints ORDER BY seq DESC").fetchone()
        ranges = db.execute("SELECT count(*) FROM ranges WHERE channel = 'bar'").fetchone()[0]

    rows = 1 + len(json.loads(record)["blobs"]) + ranges
    assert rows <= 20
