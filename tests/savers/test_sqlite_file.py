"""The SQLite file itself: tables, indexes, settings, mode, locks, versions."""

import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from actorgraph import InvalidConfigError, SqliteSaver, interrupt
from actorgraph.errors import FormatVersionError, StorageBusyError, StorageError
from actorgraph.savers.sqlite import schema
from tests.gates import PATIENCE_S
from tests.graphs import ab, at, count, history, in_a_row, writer


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


class TestTables:
    def test_columns_of_a_checkpoint(self, path):
        """
        One row per checkpoint, its record as JSON beside projected columns.
        Promise: S095, S096, S106.
        """
        with connected(path) as db:
            columns = {row[1] for row in db.execute("PRAGMA table_info(checkpoints)")}
            records = [json.loads(r) for (r,) in db.execute("SELECT record FROM checkpoints")]
            plain = db.execute("SELECT next, metadata FROM checkpoints").fetchall()

        assert columns >= {
            *("thread", "namespace", "seq", "id", "parent", "step", "source", "run"),
            *("next", "has_interrupts", "created", "metadata", "record"),
        }
        assert all(record["v"] == 4 for record in records)
        assert all(isinstance(json.loads(text), (list, dict)) for row in plain for text in row)

    async def test_projected_columns_say_what_the_snapshots_say(self, path):
        """
        source, step, next and the interrupts flag can be read with any SQLite client.
        Promise: S096.
        """
        with connected(path) as db:
            rows = db.execute(
                "SELECT t.thread_id, c.source, c.step, c.next, c.has_interrupts "
                "FROM checkpoints c JOIN threads t USING (thread) ORDER BY t.thread_id, c.seq"
            ).fetchall()

        assert rows == [
            ("t", "input", -1, '["__start__"]', 0),
            ("t", "loop", 0, '["a"]', 0),
            ("t", "loop", 1, '["b"]', 0),
            ("t", "loop", 2, "[]", 0),
            ("w", "input", -1, '["__start__"]', 0),
            ("w", "loop", 0, '["ask"]', 1),
        ]

    def test_every_table_of_the_design_is_there(self, path):
        """
        Tables for later features exist from the first version on.
        """
        with connected(path) as db:
            tables = {n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
            threads = {row[1] for row in db.execute("PRAGMA table_info(threads)")}

        assert tables >= {
            *("threads", "runs", "checkpoints", "blobs", "ranges", "writes", "events"),
        }
        assert threads >= {"epoch", "owner", "lease_until", "next_seq", "deleted"}

    @pytest.mark.parametrize(
        ("query", "values", "index"),
        [
            (schema.SELECT_BY_ID, (1, "", b"x"), "idx_checkpoints_lookup"),
            (schema.SELECT_HEAD, (1, ""), "idx_checkpoints_thread"),
            (schema.SELECT_FLOOR, (1, ""), "idx_checkpoints_thread"),
            (schema.COUNT_CHECKPOINTS, {"thread": "t", "namespace": None}, "idx_checkpoints"),
        ],
        ids=["by id", "head", "floor", "count"],
    )
    def test_lookups_use_an_index(self, path, query, values, index):
        """
        Reading the newest checkpoint or one by its id scans no table. Promise: S097, S199.
        """
        with connected(path) as db:
            plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + query, values)]

        assert any(index in line for line in plan)
        assert not any(line.startswith("SCAN") for line in plan)

    def test_listing_uses_an_index(self, path):
        """
        A page of a thread's history is read along the index. Promise: S097, S199, S216.
        """
        names = ("thread", "namespace", "before", "step", "source", "limit")
        values = {**dict.fromkeys(names), "thread": 1, "limit": 5, "metadata": "{}"}
        with connected(path) as db:
            plan = [
                row[3]
                for row in db.execute("EXPLAIN QUERY PLAN " + schema.SELECT_PAGE[False], values)
            ]

        assert any("idx_checkpoints_thread" in line for line in plan)
        assert not any(line.startswith("SCAN c") for line in plan)

    def test_a_search_by_age_uses_an_index(self, path):
        """
        Which threads have something older than a time is asked thread by thread, along the index,
        not over all checkpoints. Promise: S199.
        """
        with connected(path) as db:
            statement = "EXPLAIN QUERY PLAN " + schema.SELECT_THREADS_OLDER
            plan = [row[3] for row in db.execute(statement, (1,))]

        assert any("SEARCH c USING INDEX idx_checkpoints" in line for line in plan)
        assert not any(line.startswith("SCAN c") for line in plan)

    def test_a_finished_run_leaves_no_input_behind(self, path):
        """
        The input of a run is kept only until the run has left.
        """
        with connected(path) as db:
            runs = db.execute("SELECT mode, status, input FROM runs ORDER BY run").fetchall()

        assert runs == [("sync", "success", None), ("sync", "interrupted", None)]

    async def test_the_newest_of_two_rows_with_one_id_counts(self, tmp_path):
        """
        Rows are ordered by the store's own counter, not by id or clock. Promise: S098, C11, D13.
        """
        file = tmp_path / "runs.db"
        async with SqliteSaver(file) as saver:
            await ab(saver).ainvoke({}, at())
        with connected(file) as db:
            seqs = [s for (s,) in db.execute("SELECT seq FROM checkpoints ORDER BY rowid")]

        assert seqs == [1, 2, 3, 4]


class TestSettings:
    async def test_wal_and_full_by_default(self, tmp_path):
        """
        The journal is WAL and every commit is synced. Promise: S104.
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

    @pytest.mark.parametrize("wrong", [{"synchronous": "full"}, {"busy_timeout_s": -1}])
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
        The mode of a file that somebody made is left alone.
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
        Whoever waits longer than busy_timeout_s for a lock gets StorageBusyError, unharmed.
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

    async def test_a_lock_that_is_let_go_in_time_is_waited_for(self, path):
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

    async def test_a_reader_does_not_delay_the_writer(self, path):
        """
        While another connection holds a read transaction, runs go on. Promise: S104.
        """
        async with SqliteSaver(path, busy_timeout_s=0) as saver:
            with connected(path) as other:
                other.execute("BEGIN")
                other.execute("SELECT count(*) FROM checkpoints").fetchone()
                result = await ab(saver).ainvoke({}, at("new"))
                other.execute("COMMIT")

        assert result["bar"] == ["a", "b"]

    async def test_a_writer_does_not_delay_reads(self, path):
        """
        State can be read while somebody holds the database's write lock. Promise: S104.
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

    async def test_a_newer_record_is_refused(self, path):
        """
        A checkpoint of a later format is not guessed at. Promise: S070.
        """
        with connected(path) as db:
            db.execute("UPDATE checkpoints SET record = json_set(record, '$.v', 99)")

        async with SqliteSaver(path) as saver:
            with pytest.raises(FormatVersionError, match="format 99"):
                await ab(saver).aget_state(at())

    async def test_a_file_that_is_no_database_is_refused(self, tmp_path):
        """
        Opening something else says so, and changes no byte of it.
        """
        file = tmp_path / "letter.txt"
        file.write_text("Dear reader, " * 500)

        with pytest.raises(StorageError):
            async with SqliteSaver(file):
                pass

        assert file.read_text() == "Dear reader, " * 500

    def test_in_memory_ends_with_the_saver(self):
        """
        Each ":memory:" saver is a database of its own. Promise: S094, S107.
        """
        with SqliteSaver(":memory:") as one, SqliteSaver(":memory:") as two:
            ab(one).invoke({}, at())

            assert two.get_tuple(at()) is None
        assert not os.path.exists(":memory:")  # noqa: PTH110 - a name, not a path


async def test_blobs_are_written_once_per_version(tmp_path):
    """
    A value that doesn't change is stored once, however many checkpoints name it. Promise: C1.
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
        blobs = db.execute("SELECT count(*) FROM blobs WHERE channel = 'foo'").fetchone()

    assert blobs == (1,)
    assert restored.values["foo"] == big


async def test_loading_reads_a_bounded_number_of_rows(tmp_path):
    """
    The newest of many checkpoints is read from few rows. Promise: S066, C1.
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
