"""The write-ahead log of an SQLite file: longer by many commits at once, and never less whole."""

import os
import sqlite3
from contextlib import closing

import pytest

from actorgraph import SqliteSaver
from actorgraph.storage.sqlite.log_space import LOG_BYTES_MAX, STEP_BYTES_MIN, LogSpace
from tests.faults.torn import copy, sequences
from tests.support.graphs import ab, at

RUNS = 30


async def lengths(path, runs, **settings) -> list[int]:
    """The log's length after each run, while the saver is open."""
    log, found = path.with_name(path.name + "-wal"), []
    async with SqliteSaver(path, **settings) as saver:
        for number in range(runs):
            await ab(saver).ainvoke({"foo": "x"}, at(str(number)))
            found.append(log.stat().st_size)
        copy(path, path.parent / "open")
    return found


class TestLog:
    async def test_commits_seldom_make_the_log_longer(self, tmp_path):
        """
        The log grows a few times by many commits, because each growth makes a sync slower.
        """
        found = await lengths(tmp_path / "runs.db", RUNS)

        assert len(set(found)) <= 10, found
        assert found[-1] >= STEP_BYTES_MIN

    @pytest.mark.promise("T5", "B1")
    async def test_a_log_with_space_is_read_whole_after_a_crash(self, tmp_path):
        """
        The files of an open saver have every checkpoint, although its log ends with zeros; a new
        saver over them goes on.
        """
        path = tmp_path / "runs.db"
        await lengths(path, RUNS)
        kept = tmp_path / "open" / path.name
        kept.with_name(kept.name + "-shm").unlink()
        assert kept.with_name(kept.name + "-wal").read_bytes().endswith(bytes(4096))

        assert sequences(kept) == sequences(path)
        async with SqliteSaver(kept) as saver:
            assert (await ab(saver).ainvoke({"foo": "x"}, at("more")))["foo"] == "b"

    @pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
    async def test_commits_that_sync_nothing_make_no_space(self, tmp_path, synchronous):
        """
        With a setting that doesn't sync commits the log has its frames and nothing else.
        """
        await lengths(tmp_path / "runs.db", 1, synchronous=synchronous)

        log = (tmp_path / "open" / "runs.db-wal").read_bytes()
        assert any(log[-4096:])

    async def test_a_linked_file_has_the_log_of_the_file_itself(self, tmp_path):
        """
        Where the saver's path is a link, the log that is made longer is the one beside the file.
        """
        (tmp_path / "data").mkdir()
        file = tmp_path / "data" / "runs.db"
        file.touch()
        (tmp_path / "link.db").symlink_to(file)

        async with SqliteSaver(tmp_path / "link.db") as saver:
            await ab(saver).ainvoke({"foo": "x"}, at())
            log = file.with_name("runs.db-wal").read_bytes()

        assert log.endswith(bytes(4096))


class TestSpace:
    @pytest.mark.parametrize("before", [0, 100, STEP_BYTES_MIN, LOG_BYTES_MAX // 2 + 1])
    def test_the_log_is_doubled_and_keeps_its_bytes(self, tmp_path, before):
        """
        A log is doubled, by a step at least and to its bound at most; its bytes stay.
        """
        log = tmp_path / "runs.db-wal"
        log.write_bytes(b"f" * before)

        LogSpace(str(tmp_path / "runs.db")).make()

        longer = max(2 * before, before + STEP_BYTES_MIN)
        assert log.stat().st_size == min(longer, LOG_BYTES_MAX)
        assert log.read_bytes().rstrip(b"\0") == b"f" * before

    def test_space_that_is_left_is_enough(self, tmp_path):
        """
        Nothing is added while SQLite has not passed the end of the space.
        """
        log = tmp_path / "runs.db-wal"
        log.write_bytes(b"f")
        space = LogSpace(str(tmp_path / "runs.db"))
        space.make()
        before = log.stat().st_size
        with log.open("r+b") as file:
            file.write(b"f" * 1000)

        space.make()

        assert log.stat().st_size == before

    def test_a_long_log_is_left_alone(self, tmp_path):
        """
        A log at its bound gets no space, then or later, and its file is closed.
        """
        log = tmp_path / "runs.db-wal"
        log.touch()
        os.truncate(log, LOG_BYTES_MAX)
        space = LogSpace(str(tmp_path / "runs.db"))

        space.make()
        os.truncate(log, 0)
        space.make()

        assert log.stat().st_size == 0

    def test_a_database_without_a_log_gets_none(self, tmp_path):
        """
        Where no log is, none is made and nothing is raised.
        """
        space = LogSpace(str(tmp_path / "runs.db"))

        space.make()
        space.close()

        assert list(tmp_path.iterdir()) == []

    def test_sqlite_reads_on_in_a_log_with_space(self, tmp_path):
        """
        A log that was made longer between two commits has the rows of both, in a copy too.
        """
        path = tmp_path / "runs.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE t (n)")
            LogSpace(str(path)).make()
            database.execute("INSERT INTO t VALUES (1)")
            kept = copy(path, tmp_path / "kept")

        kept.with_name(kept.name + "-shm").unlink()
        with closing(sqlite3.connect(kept)) as database:
            assert database.execute("SELECT n FROM t").fetchall() == [(1,)]
