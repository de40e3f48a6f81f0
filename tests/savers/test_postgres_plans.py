"""Reads of PostgreSQL for a batch or a read: as much with many threads as with few.

The server counts the rows that scans of tables and of indexes return, also those that a condition
leaves out afterwards. So a plan that reads more than it must shows, whichever statement it is of,
and whether the tables were ever analyzed.
"""

import time
from random import Random
from string import ascii_letters
from types import ModuleType
from typing import ClassVar

import anyio
import psycopg
import pytest

from actorgraph import ActorSystem, Command, PostgresSaver
from actorgraph.savers.postgres import alarms, queries, shapes, statements
from actorgraph.savers.postgres import statements as removals
from actorgraph.savers.postgres import statements as system_statements
from actorgraph.values.alarms import Alarm, ListAlarms, TakeAlarm
from actorgraph.values.commits import Claim, Commit, Committed
from actorgraph.values.systems import (
    AdoptRun,
    CountWaiting,
    EventRow,
    ListRuns,
    ListWaiting,
    PutRun,
    ReadEvents,
    RunRow,
    SealRun,
    SetRun,
    StoreEvents,
)
from tests.savers.test_growing_lists import growing
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, chain, history, in_a_row, writer
from tests.support.subgraphs import child, parent

READ = """
SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE schemaname = %(s)s)
     + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE schemaname = %(s)s)
"""
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'actorgraph'"
MORE = r"""
INSERT INTO threads (thread_id, head)
    SELECT 'more' || n, decode(md5(n::text), 'hex') FROM generate_series(1, 1000) n;
INSERT INTO points (thread, namespace, seq, id, step, source, next, created, metadata, record)
    SELECT thread, '', 1, head, 1, 'loop', '[]', 0, '{}', '{}' FROM threads;
INSERT INTO ranges SELECT thread, '', channel, lineage, 0, 1, ''
    FROM threads, unnest(ARRAY['bar', 'log', 'items']) channel, unnest(ARRAY[-1, 1]) lineage;
INSERT INTO blobs SELECT thread, '', 'bar', 1, '' FROM threads;
INSERT INTO writes SELECT thread, '', head, '', 0, 0, '', '' FROM threads;
INSERT INTO runs (run, thread, namespace, mode, status)
    SELECT head, thread, '', 'sync', 'success' FROM threads;
INSERT INTO system_runs SELECT head, thread_id, 'g', 'success', 1, true, NULL, 0, '{}', '', ''
    FROM threads;
INSERT INTO system_runs
    SELECT head || '\x01', thread_id, 'g', 'running', 1, true, '\xff', 0, '{}', '', ''
    FROM threads;
INSERT INTO owners VALUES ('\xff', now() + interval '1 day');
INSERT INTO events SELECT head, 1, 0, '' FROM threads;
INSERT INTO alarms SELECT thread_id, 'g', 1::bigint << 55 FROM threads;
"""
NEVER_ANALYZED = """
ALTER TABLE threads SET (autovacuum_enabled = off);
ALTER TABLE points SET (autovacuum_enabled = off);
ALTER TABLE ranges SET (autovacuum_enabled = off);
ALTER TABLE blobs SET (autovacuum_enabled = off);
ALTER TABLE writes SET (autovacuum_enabled = off);
ALTER TABLE runs SET (autovacuum_enabled = off);
ALTER TABLE events SET (autovacuum_enabled = off);
ALTER TABLE system_runs SET (autovacuum_enabled = off);
ALTER TABLE alarms SET (autovacuum_enabled = off);
"""
LONG = """
INSERT INTO points (thread, namespace, seq, id, step, source, next, created, metadata, shape,
                    record)
SELECT thread, '', 1000 + n, decode(md5(n::text), 'hex'), n, 'loop', '[]', 0, '{}', shape, record
FROM (SELECT * FROM points ORDER BY seq LIMIT 1) AS first, generate_series(1, 2000) n
"""

MOVED = "UPDATE threads SET next_seq = 3001, head = decode(md5('2000'), 'hex'), crc = NULL"


@pytest.fixture(scope="module", params=["asyncio"])
def anyio_backend(request):
    """
    Plans are the server's: on either loop the same statements reach it.
    """
    return request.param


class Noting(psycopg.Cursor):
    """A cursor that notes what it is asked."""

    asked: ClassVar[set[str]] = set()

    def execute(self, query, params=None, **options):
        Noting.asked.add(str(query))
        return super().execute(query, params, **options)


def rows_read(postgres, schema: str) -> int:
    """How many rows of a schema's tables and indexes were read, in sessions that have ended."""
    with postgres.connect() as db:
        end = time.monotonic() + PATIENCE_S
        while db.execute(OPEN).fetchone()[0] and time.monotonic() < end:
            time.sleep(0.01)
        return int(db.execute(READ, {"s": schema}).fetchone()[0])


async def counted(postgres, schema: str, work, *settings: str) -> int:
    """How many rows the server reads while a saver does some work over one connection."""
    options = " ".join(f"-c {setting}" for setting in settings)
    before = rows_read(postgres, schema)
    with psycopg.connect(
        postgres.url,
        autocommit=True,
        options=options,
        cursor_factory=Noting,
        application_name="actorgraph",
    ) as mine:
        async with PostgresSaver(mine, schema=schema, migrate=False) as saver:
            await work(saver)
    return rows_read(postgres, schema) - before


async def made(postgres, schema: str) -> None:
    """Make the tables."""
    async with PostgresSaver(postgres.url, schema=schema):
        pass


async def everything(saver) -> None:
    """Use each kind of statement that takes a list of rows."""
    asking = parent([], child([], "?"), saver)
    folding = growing(40, 1, saver)
    for _ in range(2):
        await asking.ainvoke({"log": ["x"]}, at("asks"), durability="sync")
    await asking.ainvoke(Command(resume="yes"), at("asks"))
    await folding.ainvoke({}, at("t"), durability="sync")
    points = await history(folding, at("t"))
    await folding.aget_state(points[20].config)
    fork = await folding.aupdate_state(points[20].config, {"items": ["f"]}, as_node="grow")
    await folding.ainvoke(None, fork)
    await saver.acopy_thread("t", "copy")
    await saver.adelete_checkpoints("t", [points[30].config["configurable"]["checkpoint_id"]])
    await saver.aprune("copy", 2)
    await saver.adelete_thread("asks")
    graph = in_a_row({"a": writer("a"), "b": writer("b")})
    async with ActorSystem({"g": graph}, saver=saver) as system:
        run = await system.start("g", "s", {"bar": []}, resumable=True)
        await run.result()
        assert [event async for event in run.events(after=1)]
    for query in (
        ListRuns(run=b"\3" * 16),
        ListRuns(thread_id="s"),
        ListRuns(open_of=("s",)),
        ListRuns(among=(b"\3" * 16,)),
        ListRuns(orphaned=True),
        ListWaiting(("g",), (), 1, 9),
        ListWaiting(("g",), (), 1, 9, owned=True),
        CountWaiting(9, 1),
        ReadEvents(b"\3" * 16, "s", 0, 9),
        ListAlarms(("g", "h"), 1),
    ):
        await saver.query([query])
    await saver.query([ReadEvents(run * 16, "s", 0, 9) for run in (b"\3", b"\4")])
    await rarely(saver)


async def rarely(saver) -> None:
    """Use what an operator, or a crash, makes of runs and values."""
    fresh = {"claimed": False, "owner": None, "created": 1, "metadata": "{}", "payload": b""}
    left = RunRow(b"\4" * 16, "left", "g", "pending", 0, **fresh)
    await saver.commit([PutRun(left, "left"), AdoptRun(left.run, "left", b"o" * 16, None, 1)])
    texts = ["".join(Random(n).choices(ascii_letters, k=20_000)) for n in range(3)]
    large = in_a_row({t[:3]: writer(t) for t in texts}, checkpointer=saver)
    await large.ainvoke({}, at("large"))
    await saver.aprune(["large"])
    claims = [Commit("open", "", bytes([n]) * 16, 1, 1, None, Claim(None, "sync")) for n in (1, 2)]
    event = EventRow(1, 0, b"x")
    row = RunRow(
        run=b"\1" * 16,
        thread_id="open",
        graph="g",
        status="pending",
        attempts=1,
        claimed=False,
        owner=b"\2" * 16,
        created=0,
        metadata="{}",
        payload=b"",
    )
    owned = [
        PutRun(row, "open"),
        SetRun(b"\1" * 16, "open", b"\2" * 16, "cancelled", ""),
        SealRun(b"\1" * 16, "open", None, (event,)),
        Commit("open", "", None, 0, 0, None, alarm=Alarm(5, "h")),
        TakeAlarm("open", 5, 6),
    ]
    for request in (*claims, *owned):
        assert isinstance((await saver.commit([request]))[0], Committed)


def listed(*modules: ModuleType) -> dict[str, str]:
    """The statements of some modules that take lists of rows, and their names."""
    texts = [pair for module in modules for pair in vars(module).items()]
    return {
        text: name
        for name, text in texts
        if isinstance(text, str) and ("unnest(%s" in text or "ANY(%s" in text)
    }


class TestBatches:
    async def test_rows_read_for_an_update_do_not_grow_with_the_threads(self, postgres, schema):
        """
        Batches of 200 threads read as many rows for each update as batches of 20.
        """
        await made(postgres, schema)

        async def of(count: int) -> float:
            async def work(saver) -> None:
                graph = chain("abcde", checkpointer=saver)
                async with anyio.create_task_group() as runs:
                    for number in range(count):
                        runs.start_soon(graph.ainvoke, {}, at(f"{count}-{number}"))

            return await counted(postgres, schema, work) / count

        few, many = await of(20), await of(200)

        assert 0 < many < 1.2 * few


class TestPlans:
    @pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
    @pytest.mark.parametrize("analyzed", [False, True])
    async def test_other_threads_cost_nothing(self, postgres, schema, mode, analyzed):
        """
        Each statement reads as much beside 1,000 other threads as alone, by whichever plan.
        """
        await made(postgres, schema)
        setting = f"plan_cache_mode={mode}"
        with postgres.connect(schema) as db:
            db.execute(NEVER_ANALYZED)
            alone = await counted(postgres, schema, everything, setting)
            db.execute("DELETE FROM threads")
            db.execute(MORE)
            if analyzed:
                db.execute("ANALYZE")
            beside = await counted(postgres, schema, everything, setting)

        assert 0 < beside < 1.5 * alone

    async def test_every_statement_is_looked_at(self, postgres, schema):
        """
        The work of the test above uses each statement that takes a list of rows; but for the one
        that is LOCK_THREADS where a lock is in the way, and the one that lists all runs.
        """
        await made(postgres, schema)
        Noting.asked = set()
        await counted(postgres, schema, everything)
        modules = (alarms, statements, queries, removals, shapes, system_statements)
        left_out = {n for text, n in listed(*modules).items() if text not in Noting.asked}

        assert left_out <= {"LOCK_FREE_THREADS", "SELECT_RUNS"}

    async def test_readers_of_two_runs_share_a_statement(self, postgres, schema):
        """
        Their events come by one statement, and none of it has to be asked again for one of them.
        """
        runs = (b"\3" * 16, b"\4" * 16)
        owner = b"o" * 16
        columns = {"claimed": False, "owner": owner, "created": 1, "metadata": "{}", "payload": b""}
        rows = [RunRow(run, "t", "g", "pending", 1, **columns) for run in runs]
        event = EventRow(7, 1, b"e")
        stored = [StoreEvents(row.run, "t", owner, (event,), 9, 0) for row in rows]

        async def read(saver) -> None:
            await saver.commit([PutRun(row, "t") for row in rows])
            await saver.commit(stored)
            Noting.asked = set()
            found = await saver.query([ReadEvents(run, "t", 0, 9) for run in runs])
            assert found == [[event], [event]]

        await made(postgres, schema)
        await counted(postgres, schema, read)

        assert statements.SELECT_EVENTS not in Noting.asked


class TestLongThreads:
    async def test_a_checkpoint_is_found_by_its_id(self, postgres, schema):
        """
        In a thread of 2,000 checkpoints, never analyzed, an old one is found without the others.
        """
        await made(postgres, schema)

        async def run(saver) -> None:
            await chain("ab", checkpointer=saver).ainvoke({}, at("t"))

        await counted(postgres, schema, run)
        with postgres.connect(schema) as db:
            db.execute("ALTER TABLE points SET (autovacuum_enabled = off)")
            first = db.execute("SELECT id FROM points ORDER BY seq LIMIT 1").fetchone()[0]
            db.execute(LONG)
            db.execute(MOVED)

        async def load(saver) -> None:
            place = at("t", checkpoint_id=str(first.hex()))
            found = await saver.aget_tuple(place)
            assert found is not None
            before = [one async for one in saver.alist(at("t"), before=place)]
            assert before == []

        assert await counted(postgres, schema, load) < 200
