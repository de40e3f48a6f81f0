"""PostgreSQL's connections and transactions come to harm: no run fails, nothing is stored twice."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import psycopg
import pytest

from actorgraph import PostgresSaver
from actorgraph.errors import SaverBrokenError, StorageBusyError, StorageError
from actorgraph.savers.postgres.buckets import MOVE_NAME
from actorgraph.storage.postgres import timeouts
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, chain
from tests.support.tcp_proxy import proxied

STEPS = "abcdef"
TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = 'actorgraph' AND pid <> pg_backend_pid()
"""


def saver_of(url: str, schema: str, **options) -> PostgresSaver:
    """A saver that gives up within a test's patience."""
    return PostgresSaver(url, schema=schema, **{"reconnect_timeout_s": PATIENCE_S, **options})


async def run_some(saver, count: int = 4) -> list[list[str]]:
    """Run graphs of six nodes on some threads at once; what each thread's list has in the end."""
    graph = chain(STEPS, checkpointer=saver)
    found: dict[int, list[str]] = {}

    async def run(number: int) -> None:
        found[number] = (await graph.ainvoke({}, at(f"t{number}")))["bar"]

    async with anyio.create_task_group() as runs:
        for number in range(count):
            runs.start_soon(run, number)
    return [found[number] for number in range(count)]


def stored(postgres, schema: str) -> list[tuple]:
    """For each thread: rows, different rows, whether its sequence has no gap."""
    with postgres.connect(schema) as db:
        return db.execute(
            "SELECT t.thread_id, count(*), count(DISTINCT c.id), max(seq) = count(*) "
            "FROM checkpoints c JOIN threads t USING (thread) GROUP BY 1 ORDER BY 1"
        ).fetchall()


def whole(count: int = 4) -> list[tuple]:
    """The result of `stored` when every checkpoint is there once."""
    rows = len(STEPS) + 2
    return [(f"t{number}", rows, rows, True) for number in range(count)]


@contextmanager
def meanwhile(work) -> Iterator[None]:
    """Repeat something in a thread while the block runs, and once at least."""
    over = threading.Event()

    def repeat() -> None:
        work()
        while not over.wait(0.01):
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class TestLostConnections:
    """The long form is tests/faults/test_postgres_losses.py."""

    async def test_the_server_ends_the_connections(self, postgres, lent):
        """
        Connections that the server ends in the middle of batches are replaced.
        """
        ended: list[int] = []

        def end() -> None:
            if len(ended) < 6:
                with postgres.connect() as db:
                    ended.append(db.execute(TERMINATE).fetchone()[0])

        async with saver_of(postgres.url, lent) as saver:
            with meanwhile(end):
                found = await run_some(saver)

        assert sum(ended) > 0
        assert found == [[*STEPS]] * 4
        assert stored(postgres, lent) == whole()

    async def test_the_server_stops_and_comes_back(self, postgres, lent):
        """
        Runs wait for a server that is away, and go on when it is back.
        """

        def restart() -> None:
            postgres.stop()
            postgres.start()

        async with saver_of(postgres.url, lent) as saver:
            await chain("ab", checkpointer=saver).ainvoke({}, at("before"))
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, restart)
                found = await run_some(saver)
            state = await chain("ab", checkpointer=saver).aget_state(at("before"))

        assert found == [[*STEPS]] * 4
        assert state.values["bar"] == ["a", "b"]
        assert stored(postgres, lent)[1:] == whole()

    @pytest.mark.parametrize("count", [1, 7])
    async def test_the_answer_to_a_commit_is_lost(self, postgres, lent, count):
        """
        A batch whose COMMIT was done and not answered isn't stored a second time.
        """
        with proxied(postgres.socket) as proxy:
            async with saver_of(proxy.url, lent) as saver:
                proxy.swallow_commits(count)
                found = await run_some(saver)

        assert proxy.swallowed == count
        assert found == [[*STEPS]] * 4
        assert stored(postgres, lent) == whole()

    async def test_connections_break_at_any_moment(self, postgres, lent):
        """
        Connections that break while they carry a batch or a read cost nothing but time.
        """
        resets: list[int] = []
        with proxied(postgres.socket) as proxy:

            def reset() -> None:
                if len(resets) < 6:
                    resets.append(proxy.reset())

            async with saver_of(proxy.url, lent) as saver:
                with meanwhile(reset):
                    found = await run_some(saver)

        assert sum(resets) > 0
        assert found == [[*STEPS]] * 4
        assert stored(postgres, lent) == whole()

    @pytest.mark.one_loop
    async def test_a_network_that_swallows_everything(self, postgres, lent):
        """
        A connection without an answer is given up, and its transaction is ended.
        """
        with proxied(postgres.socket) as proxy:
            async with saver_of(proxy.url, lent, answer_timeout_s=0.4) as saver:
                await chain("ab", checkpointer=saver).ainvoke({}, at("before"))
                async with anyio.create_task_group() as group:
                    proxy.stall()
                    timer = threading.Timer(0.7, proxy.resume)
                    timer.start()
                    found: list[list[str]] = []

                    async def run() -> None:
                        found.extend(await run_some(saver))

                    group.start_soon(run)
                timer.join()

        assert found == [[*STEPS]] * 4
        assert stored(postgres, lent)[1:] == whole()

    async def test_a_server_that_stays_away(self, postgres, lent):
        """
        After reconnect_timeout_s the run fails, and says so.
        """
        with proxied(postgres.socket) as proxy:
            async with saver_of(proxy.url, lent, reconnect_timeout_s=0.2) as saver:
                graph = chain("ab", checkpointer=saver)
                await graph.ainvoke({}, at())
                proxy.close()
                with pytest.raises(StorageError, match="connection to PostgreSQL is lost"):
                    await graph.ainvoke({}, at())

    async def test_an_outcome_that_stays_unknown(self, postgres, lent):
        """
        If nothing says whether the last batch was stored, the saver stops.
        """
        with proxied(postgres.socket) as proxy:
            async with saver_of(proxy.url, lent, reconnect_timeout_s=0.2) as saver:
                graph = chain(STEPS, checkpointer=saver)
                await graph.ainvoke({}, at())
                proxy.swallow_commits(1, leave=True)
                with pytest.raises(SaverBrokenError, match="unknown"):
                    await graph.ainvoke({}, at())


FAIL = """
CREATE SEQUENCE failures;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('failures') <= TG_ARGV[1]::int THEN
        RAISE EXCEPTION 'injected' USING ERRCODE = TG_ARGV[0];
    END IF;
    RETURN NEW;
END $$;
"""
TRIGGERS = {
    "40001": "CREATE TRIGGER t BEFORE INSERT ON points EXECUTE FUNCTION fail('40001', 3)",
    "40P01": "CREATE TRIGGER t BEFORE INSERT ON points EXECUTE FUNCTION fail('40P01', 3)",
    "57014": "CREATE TRIGGER t BEFORE INSERT ON points EXECUTE FUNCTION fail('57014', 3)",
    "53300": "CREATE TRIGGER t BEFORE INSERT ON points EXECUTE FUNCTION fail('53300', 3)",
    "for ever": "CREATE TRIGGER t BEFORE INSERT ON points EXECUTE FUNCTION fail('40001', 99)",
    "full": "CREATE TRIGGER t BEFORE INSERT ON points EXECUTE FUNCTION fail('53100', 1)",
}


class TestErrorsOfTheMoment:
    """Batches that the server rolled back for passing reasons."""

    @pytest.mark.one_loop
    @pytest.mark.parametrize("code", ["40001", "40P01", "57014", "53300"])
    async def test_rolled_back_batches_are_sent_again(self, postgres, schema, code):
        """
        Serialization failures, deadlocks, cancelled statements and too many connections pass.
        """
        async with saver_of(postgres.url, schema) as saver:
            with postgres.connect(schema) as db:
                db.execute(FAIL)
                db.execute(TRIGGERS[code])
            found = await run_some(saver, 2)

        assert found == [[*STEPS]] * 2
        assert stored(postgres, schema) == whole(2)

    @pytest.mark.one_loop
    @pytest.mark.parametrize(("kind", "text"), [("for ever", "busy"), ("full", "no space")])
    async def test_lasting_failures_are_errors(self, postgres, schema, kind, text):
        """
        After a bounded number of attempts the run fails; the saver stays usable.
        """
        async with saver_of(postgres.url, schema) as saver:
            graph = chain("ab", checkpointer=saver)
            with postgres.connect(schema) as db:
                db.execute(FAIL)
                db.execute(TRIGGERS[kind])
                with pytest.raises(StorageError, match=text):
                    await graph.ainvoke({}, at())
                db.execute("DROP TRIGGER t ON points")
            found = await graph.ainvoke({}, at())

        assert found["bar"] == ["a", "b"]


class TestLocks:
    async def test_a_lock_of_another_process_holds_up_its_thread_alone(self, postgres, lent):
        """
        A thread that another transaction has locked for too long fails; others of its batch are
        stored.
        """
        async with saver_of(postgres.url, lent, busy_timeout_s=0.2) as saver:
            graph = chain("ab", checkpointer=saver)
            await graph.ainvoke({}, at("locked"))
            results: dict[str, object] = {}

            async def run(thread: str) -> None:
                try:
                    results[thread] = (await graph.ainvoke({}, at(thread)))["bar"]
                except StorageBusyError as error:
                    results[thread] = error.do

            with postgres.connect(lent) as db, db.transaction():
                db.execute("SELECT 1 FROM threads WHERE thread_id = 'locked' FOR UPDATE")
                async with anyio.create_task_group() as runs:
                    for thread in ("locked", "free", "new"):
                        runs.start_soon(run, thread)
            after = await graph.ainvoke({}, at("locked"))

        assert "busy_timeout_s" in str(results.pop("locked"))
        assert results == {"free": ["a", "b"], "new": ["a", "b"]}
        assert after["bar"] == ["a", "b"] * 2

    async def test_a_suspended_saver_holds_up_nothing_for_long(self, postgres, lent, monkeypatch):
        """
        A session of a saver that has locked a thread and sends nothing more is ended long before
        `busy_timeout_s`.
        """
        monkeypatch.setattr(timeouts, "IDLE_HOLDER_S", 0.1)
        async with saver_of(postgres.url, lent, busy_timeout_s=PATIENCE_S * 100) as saver:
            graph = chain("ab", checkpointer=saver)
            await graph.ainvoke({}, at("locked"))
            with postgres.connect(lent) as db:
                db.execute("SET application_name = 'actorgraph'")
                db.execute("BEGIN")
                db.execute("SELECT 1 FROM threads WHERE thread_id = 'locked' FOR UPDATE")
                after = await graph.ainvoke({}, at("locked"))
                with pytest.raises(psycopg.OperationalError) as ended:
                    db.execute("SELECT 1")

        assert after["bar"] == ["a", "b"] * 2
        assert "terminating connection" in str(ended.value)

    @pytest.mark.parametrize("name", [MOVE_NAME, "psql"])
    async def test_other_sessions_are_never_ended(self, postgres, lent, monkeypatch, name):
        """
        A move of buckets, or a person, may idle with a locked thread: its save is refused.
        """
        monkeypatch.setattr(timeouts, "IDLE_HOLDER_S", 0.02)
        async with saver_of(postgres.url, lent, busy_timeout_s=0.1) as saver:
            graph = chain("ab", checkpointer=saver)
            await graph.ainvoke({}, at("locked"))
            with postgres.connect(lent) as db:
                db.execute("SELECT set_config('application_name', %s, false)", (name,))
                db.execute("BEGIN")
                db.execute("SELECT 1 FROM threads WHERE thread_id = 'locked' FOR UPDATE")
                with pytest.raises(StorageBusyError):
                    await graph.ainvoke({}, at("locked"))
                (alive,) = db.execute("SELECT 1").fetchone()
                db.execute("COMMIT")

        assert alive == 1

    async def test_two_savers_write_the_same_threads(self, postgres, lent):
        """
        Two processes that work on the same threads take turns, and don't lock each other out.
        """
        async with saver_of(postgres.url, lent) as one, saver_of(postgres.url, lent) as two:
            graphs = [chain("abc", checkpointer=saver) for saver in (one, two)]

            async def run(number: int) -> None:
                for turn in range(3):
                    graph = graphs[(number + turn) % 2]
                    await graph.ainvoke({}, at(f"t{number}"))

            async with anyio.create_task_group() as runs:
                for number in range(8):
                    runs.start_soon(run, number)
            states = [await graphs[0].aget_state(at(f"t{n}")) for n in range(8)]

        assert [state.values["bar"] for state in states] == [["a", "b", "c"] * 3] * 8
