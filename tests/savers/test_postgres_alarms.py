"""Alarms in PostgreSQL: what they cost, who waits for whom, and what becomes of their rows."""

import anyio
import pytest
from structlog.testing import capture_logs

from actorgraph import PostgresSaver, SqliteSaver
from actorgraph.savers.postgres import alarms as sql
from actorgraph.savers.postgres import schema as tables
from actorgraph.testing.conformance.builders import Ids, outside
from actorgraph.values.alarms import Alarm, AlarmRow, ListAlarms, TakeAlarm
from actorgraph.values.commits import Committed
from actorgraph.values.retention import DeleteCheckpoints, Vacuum
from tests.savers.test_postgres_plans import Noting, counted, made
from tests.support.structlog_setup import configured

__all__ = ["configured"]

pytestmark = pytest.mark.one_loop
LOCK = "SELECT FROM threads WHERE thread_id = 't' FOR UPDATE"
MANY = """
INSERT INTO threads (thread_id) SELECT 'many' || n FROM generate_series(1, 5000) n;
INSERT INTO alarms SELECT thread_id, 'g', 1000 FROM threads;
ALTER TABLE alarms SET (autovacuum_enabled = off);
"""
BEFORE_ALARMS = 11
"""Migrations of the versions without alarms."""


async def alarms(saver, limit: int = 9) -> list[AlarmRow]:
    """The first alarms of the graph."""
    (found,) = await saver.query([ListAlarms(("g", "h"), limit)])
    return found


def begun(ids: Ids, thread: str, alarm: Alarm | None, number: int = 1, **more):
    """A thread's first save; `number` is that of its checkpoint."""
    run = number.to_bytes(16, "big")
    return ids.claim(run, None, ids.point(number), thread_id=thread, alarm=alarm, **more)


class TestCosts:
    async def test_commits_without_an_alarm_send_nothing_about_alarms(self, postgres, schema):
        """
        A batch without alarms names their table in no statement, and one with many in one alone.
        """
        ids = Ids()
        await made(postgres, schema)

        def asked() -> list[str]:
            return [text for text in Noting.asked if "alarms" in text]

        async def work(saver) -> None:
            Noting.asked = set()
            await saver.commit([begun(ids, f"t{n}", None, n) for n in range(3)])
            assert Noting.asked
            assert asked() == []
            await saver.commit([begun(ids, f"u{n}", Alarm(n, "g"), n) for n in range(4, 7)])
            assert asked() == [sql.SET]

        await counted(postgres, schema, work)

    @pytest.mark.parametrize("analyzed", [False, True])
    async def test_the_first_alarms_are_read_without_the_others(self, postgres, schema, analyzed):
        """
        Of 5,000 at one time the first ones by thread are read alone, however fresh the table is.
        """
        await made(postgres, schema)
        with postgres.connect(schema) as db:
            db.execute(MANY)
            if analyzed:
                db.execute("ANALYZE")

        async def work(saver) -> None:
            found = await alarms(saver, limit=3)
            assert [row.thread_id for row in found] == ["many1", "many10", "many100"]

        assert await counted(postgres, schema, work) < 50


class TestTaking:
    async def test_of_many_savers_one_takes_an_alarm(self, postgres, schema):
        """
        Of savers that take the same alarms at once, each in an order of its own, while commits set
        some of them anew, one gets each; none waits for another in a circle.
        """
        ids, names = Ids(), [f"t{n}" for n in range(6)]
        taken: list[str] = []

        async def take(saver, order: list[str]) -> None:
            outcomes = await saver.commit([TakeAlarm(name, 5, 20) for name in order])
            taken.extend(n for n, o in zip(order, outcomes, strict=True) if o == Committed(1))

        async with (
            PostgresSaver(postgres.url, schema=schema) as one,
            PostgresSaver(postgres.url, schema=schema) as two,
            PostgresSaver(postgres.url, schema=schema) as three,
        ):
            await one.commit([begun(ids, t, Alarm(5, "g"), n) for n, t in enumerate(names)])
            async with anyio.create_task_group() as group:
                for saver, order in ((one, names), (two, names[::-1]), (three, names[3:])):
                    group.start_soon(take, saver, order)
            while left := [row.thread_id for row in await alarms(one) if row.at == 5]:
                await take(one, left)
            assert {row.at for row in await alarms(one)} == {20}
        assert sorted(taken) == names

    async def test_a_take_waits_for_no_commit(self, postgres, schema):
        """
        While another transaction has the thread nothing is taken; afterwards it is.
        """
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            await saver.commit([begun(Ids(), "t", Alarm(5, "g"))])
            with postgres.connect(schema) as db, db.transaction():
                db.execute(LOCK)
                assert await saver.commit([TakeAlarm("t", 5, 20)]) == [Committed()]
            assert await saver.commit([TakeAlarm("t", 5, 20)]) == [Committed(1)]
            assert await alarms(saver) == [AlarmRow("t", 20, "g")]

    async def test_a_thread_that_is_not_there_gets_no_row(self, postgres, schema):
        """
        A look at the alarm of a thread that has none, or can have none, stores nothing.
        """
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            assert await saver.commit([TakeAlarm("unknown", 5, 20)]) == [Committed()]
            with postgres.connect(schema) as db:
                assert db.execute("SELECT FROM threads").fetchall() == []


class TestRows:
    async def test_a_refused_row_sets_no_alarm(self, postgres, schema):
        """
        Of a batch in which the server refuses a row the other commits set theirs.
        """
        ids = Ids()
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            bad = begun(ids, "bad", Alarm(5, "nul\0"), 1)
            outcomes = await saver.commit([bad, begun(ids, "good", Alarm(6, "g"), 2)])
            assert [type(outcome) is Committed for outcome in outcomes] == [False, True]
            assert await alarms(saver) == [AlarmRow("good", 6, "g")]

    @pytest.mark.usefixtures("configured")
    async def test_vacuum_removes_alarms_of_emptied_and_of_lost_threads(self, postgres, schema):
        """
        That of a thread without checkpoints goes silently, that of a thread which is not there is
        named in a warning; others stay.
        """
        ids = Ids()
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            emptied = outside(ids.point(1), thread="emptied", alarm=Alarm(5, "g"))
            await saver.commit([emptied, begun(ids, "t", Alarm(6, "g"), 2)])
            await saver.commit([DeleteCheckpoints("emptied", "", frozenset({ids(1)}))])
            with postgres.connect(schema) as db:
                db.execute("INSERT INTO alarms VALUES ('lost', 'g', 7)")
            assert len(await alarms(saver)) == 3
            with capture_logs() as logged:
                await saver.commit([Vacuum()])
            assert await alarms(saver) == [AlarmRow("t", 6, "g")]
        (warning,) = [entry for entry in logged if entry["event"] == "orphans.removed"]
        assert (warning["table"], warning["keys"]) == ("alarms", ["'lost'"])

    async def test_damaged_times_hide_no_others(self, postgres, schema):
        """
        Alarms whose times can't be are left out with an error each, and the others are found.
        """
        ids = Ids()
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            await saver.commit([begun(ids, f"t{n}", Alarm(n, "g"), n) for n in (1, 2)])
            with postgres.connect(schema) as db:
                db.execute("INSERT INTO alarms VALUES ('bad', 'g', -9), ('worse', 'g', -8)")
            found = await alarms(saver, limit=1)
            assert (found, len(found.damaged)) == ([AlarmRow("t1", 1, "g")], 2)

    async def test_a_backup_has_the_alarms(self, postgres, schema, tmp_path):
        """
        They are in the file, which SQLite opens.
        """
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            await saver.commit([begun(Ids(), "t", Alarm(5, "g"))])
            await saver.abackup(tmp_path / "copy.db")
        async with SqliteSaver(tmp_path / "copy.db") as copy:
            assert await alarms(copy) == [AlarmRow("t", 5, "g")]


async def test_a_saver_of_an_earlier_version_goes_on(postgres, schema):
    """
    One without alarms that is open while another adds their table still marks its batches.
    """
    with postgres.connect(schema) as db:
        db.execute("CREATE SCHEMA " + schema)
        db.execute(tables.CREATE_LIST)
        for number, migration in enumerate(tables.MIGRATIONS[:BEFORE_ALARMS], 1):
            db.execute(migration)
            db.execute(tables.INSERT_VERSION, (number,))
        db.execute("INSERT INTO writers (writer, version) VALUES ('old', 11)")
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            await saver.commit([begun(Ids(), "t", Alarm(5, "g"))])
            assert await alarms(saver) == [AlarmRow("t", 5, "g")]
        assert db.execute("UPDATE writers SET batch = 2 WHERE writer = 'old'").rowcount == 1
