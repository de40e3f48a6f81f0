"""Alarms in SQLite files: the table, files without it, backups, and rows that no saver writes."""

import sqlite3
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from actorgraph import InMemorySaver, SqliteSaver
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.savers.sqlite import system_schema
from actorgraph.testing.conformance.builders import RUN, Ids
from actorgraph.values.alarms import Alarm, AlarmRow, ListAlarms, TakeAlarm
from actorgraph.values.commits import Committed, ListCheckpoints
from actorgraph.values.retention import DeleteCheckpoints
from tests.support.graphs import ab, at
from tests.support.structlog_setup import configured

__all__ = ["configured"]

ALL = ListAlarms(("g", "h"), 9)
BAD = {
    "a time before all": "at = -7",
    "a time after all": "at = 4611686018427387904",
    "a text for a number": "at = 'soon'",
    "an id that is not UTF-8": "thread_id = CAST(x'fffe' AS TEXT)",
    "an id in bytes": "thread_id = x'01'",
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def changed(path, statement):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        return db.execute(statement).rowcount


async def fill(saver, *threads, **more):
    """Threads with alarms, one microsecond after another."""
    ids = Ids()
    for number, thread in enumerate(threads, 1):
        claim = ids.claim(RUN, None, ids.point(number), thread_id=thread, **more)
        alarm = {"alarm": Alarm(number, "g")}
        end = ids.save(RUN, number, thread_id=thread, ends="success", **alarm)
        for commit in (claim, end):
            (outcome,) = await saver.commit([commit])
            assert isinstance(outcome, Committed)


async def alarms(saver, limit=9):
    """The threads of the first alarms."""
    return [row.thread_id for row in await host_of(saver).reader.ask(ListAlarms(("g",), limit))]


class TestTheTable:
    def test_the_first_alarms_are_read_along_an_index(self, path):
        """
        However many there are: of each graph no more rows are read than are asked for, in order.
        """
        SqliteSaver(path).set_up()
        where = {"graphs": '["g", "h"]', "limit": 2}
        with closing(sqlite3.connect(path)) as db:
            found = db.execute("EXPLAIN QUERY PLAN " + system_schema.SELECT_ALARMS, where)
            plan = [row[3] for row in found]
        assert any("COVERING INDEX idx_alarms_first (graph=?)" in line for line in plan)
        assert [line for line in plan if line.startswith("SCAN a")] == []
        assert len([line for line in plan if "TEMP B-TREE FOR ORDER BY" in line]) <= 1

    async def test_a_run_without_times_never_asks_about_alarms(self, path, monkeypatch):
        """
        No statement of a run names the table.
        """
        async with SqliteSaver(path) as saver:
            said: list[str] = []
            await saver._writer.run(lambda db: db.set_trace_callback(said.append))  # noqa: SLF001
            await ab(saver).ainvoke({"foo": "x"}, at())
        assert len(said) > 10
        assert [text for text in said if "alarms" in text] == []

    async def test_a_file_of_an_earlier_version(self, path):
        """
        One without the table has no alarms for a saver that only reads; one that writes makes it.
        """
        async with SqliteSaver(path) as saver:
            await ab(saver).ainvoke({"foo": "x"}, at())
        changed(path, "DROP TABLE alarms")

        async with SqliteSaver(path, read_only=True) as saver:
            assert await saver.query([ALL]) == [[]]
        async with SqliteSaver(path) as saver:
            await fill(saver, "u")
            assert await alarms(saver) == ["u"]


@pytest.mark.parametrize("kind", [SqliteSaver, InMemorySaver])
async def test_a_backup_has_them(kind, path, tmp_path):
    """
    A copy of a file, and a file with what a saver in memory has, hold each thread's alarm.
    """
    async with kind(*[path] * (kind is SqliteSaver)) as saver:
        await fill(saver, "a", "b")
        await saver.abackup(tmp_path / "copy.db")
    async with SqliteSaver(tmp_path / "copy.db") as copy:
        assert await copy.query([ALL]) == [[AlarmRow("a", 1, "g"), AlarmRow("b", 2, "g")]]


class TestDamage:
    @pytest.mark.parametrize("damage", BAD)
    async def test_a_damaged_row_hides_no_other(self, path, damage):
        """
        It is logged, leaves its room to those that can be read, and each of these can be taken.
        """
        async with SqliteSaver(path) as saver:
            await fill(saver, "bad", "c", "d")
            changed(path, f"UPDATE alarms SET {BAD[damage]} WHERE thread_id = 'bad'")  # noqa: S608

            with capture_logs() as log:
                assert await alarms(saver) == ["c", "d"]
                assert await alarms(saver, limit=1) == ["c"]
                assert await alarms(saver, limit=2) == ["c", "d"]
            told = [one["error"] for one in log if one["event"] == "row.damaged"]
            assert told
            assert all("alarms" in text for text in told)
            taken = await saver.commit([TakeAlarm("bad", 1, 9), TakeAlarm("c", 2, 9)])
            assert [outcome.sequence for outcome in taken] == [0, 1]
            await saver.adelete_thread("c")
            assert await alarms(saver) == ["d"]

    async def test_a_new_alarm_replaces_a_damaged_one(self, path):
        """
        The next commit that sets the thread's alarm writes the row anew.
        """
        ids = Ids()
        async with SqliteSaver(path) as saver:
            first = ids.claim(RUN, None, ids.point(1), alarm=Alarm(5, "g"))
            await saver.commit([first])
            changed(path, "UPDATE alarms SET at = 'soon'")
            await saver.commit([ids.save(RUN, 1, ids.point(2, 1), alarm=Alarm(6, "g"))])
            assert await saver.query([ALL]) == [[AlarmRow("t", 6, "g")]]


@pytest.mark.usefixtures("configured")
class TestVacuum:
    @pytest.mark.parametrize("stored", ["'nobody'", "CAST(x'fffe' AS TEXT)", "x'01'"])
    async def test_an_alarm_of_no_thread(self, path, stored):
        """
        It is removed, and named; those of the other threads stay.
        """
        async with SqliteSaver(path) as saver:
            await fill(saver, "bad", "c")
            changed(path, f"UPDATE alarms SET thread_id = {stored} WHERE at = 1")  # noqa: S608
            with capture_logs() as log:
                await saver.avacuum()
            assert await alarms(saver) == ["c"]
        assert [(o["table"], o["rows"]) for o in log if o["event"] == "orphans.removed"] == [
            ("alarms", 1)
        ]

    async def test_a_thread_that_has_nothing_else(self, path):
        """
        With the last of a thread its alarm is forgotten, and a vacuum says nothing about it.
        """
        async with SqliteSaver(path) as saver:
            await fill(saver, "bad", "c")
            (points,) = await saver.query([ListCheckpoints("bad")])
            gone = frozenset(point.row.id for point in points)
            await saver.commit([DeleteCheckpoints("bad", "", gone)])
            with capture_logs() as log:
                await saver.avacuum()
            assert await alarms(saver) == ["c"]
        assert [one for one in log if one["event"] == "orphans.removed"] == []
