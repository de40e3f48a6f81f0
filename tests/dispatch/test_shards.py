"""Threads over two PostgreSQL databases: routing, moves of buckets, processes with an old map."""

from contextlib import asynccontextmanager, nullcontext
from typing import Any, LiteralString

import anyio
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from actorgraph import ActorSystem, Command, InMemorySaver, InvalidConfigError, PostgresSaver
from actorgraph.dispatch import PGQueuerDispatcher
from actorgraph.errors import ActorGraphError, RunNotFoundError, StorageBusyError, ThreadMovedError
from actorgraph.rules.system.sharding import ChangeBucket
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.savers.postgres.buckets import MOVE_NAME, BucketTable
from actorgraph.storage.postgres.timeouts import Timeouts
from actorgraph.systems import ShardedSystem
from actorgraph.values.alarms import Alarm, AlarmRow, ListAlarms
from actorgraph.values.commits import EPOCH_ANY, Commit
from actorgraph.values.ids import as_bytes, as_text
from actorgraph.values.shards import bucket_in, bucket_of
from actorgraph.values.thread_rows import PutThread
from tests.dispatch.fleet import soon
from tests.support.gates import Turnstile
from tests.support.graphs import at, in_a_row, writer
from tests.support.subgraphs import child, parent

TABLES = ("threads", "points", "writes", "blobs", "ranges", "runs", "events", "system_runs")


@pytest.fixture(scope="module")
def urls(postgres):
    """
    Two databases of one server; name -> address.
    """
    with psycopg.connect(postgres.url, autocommit=True) as db:
        db.execute("CREATE DATABASE second")
    made = psycopg.conninfo.make_conninfo(postgres.url, dbname="second")
    yield {"one": postgres.url, "two": made}
    with psycopg.connect(postgres.url, autocommit=True) as db:
        db.execute("DROP DATABASE second")


@pytest.fixture
def places(urls, schema):
    """
    A schema in each of the databases, which is dropped afterwards.
    """
    yield {name: (url, schema) for name, url in urls.items()}
    with psycopg.connect(urls["two"], autocommit=True) as db:
        db.execute("SET client_min_messages = warning")
        db.execute(SQL("DROP SCHEMA IF EXISTS ") + Identifier(schema) + SQL(" CASCADE"))


def sharded(places, node: Any = None, *, graph: Any = None, **options: Any) -> ShardedSystem:
    """A system over all of the places, of one graph, "g"."""
    wait_s = options.pop("move_wait_s", 30.0)
    made = graph or in_a_row({"a": node or writer("a")})

    def system(url: str, schema: str) -> ActorSystem:
        dispatcher = PGQueuerDispatcher(poll_s=0.2) if "role" in options else None
        saver = PostgresSaver(url, schema=schema)
        return ActorSystem({"g": made}, saver=saver, dispatcher=dispatcher, **options)

    systems = {name: system(*place) for name, place in places.items()}
    return ShardedSystem(systems, move_wait_s=wait_s)


@asynccontextmanager
async def two_of(places, **options: Any):
    """Two processes, as it were: each has a map of its own."""
    async with sharded(places, **options) as one, sharded(places, **options) as other:
        yield one, other


def rows(place: tuple[str, str]) -> dict[str, int]:
    """Table -> how many rows of threads it has."""
    url, schema = place
    with psycopg.connect(url) as db:
        db.execute("SELECT set_config('search_path', %s, false)", (schema,))
        counts = {name: db.execute(SQL("SELECT count(*) FROM ") + SQL(name)) for name in TABLES}
        return {name: found.fetchone()[0] for name, found in counts.items()}


class TestRouting:
    @pytest.mark.one_loop
    async def test_runs_are_found_by_their_thread_and_by_their_id(self, places):
        """
        After a balance both databases get runs; each is found by its id, which carries the
        bucket of its thread, and all of them are listed in the order of their ids.
        """
        async with two_of(places) as (system, other):
            await system.balance()
            await other.refresh()
            runs = [await system.start("g", f"t{n}", {"bar": []}) for n in range(8)]
            for run in runs:
                assert (await run.result())["bar"] == ["a"]
                assert bucket_in(as_bytes(run.id)) == bucket_of(run.thread_id)
                assert (await (await other.run(run.id)).result())["bar"] == ["a"]
            assert [run.id for run in await other.runs()] == [run.id for run in runs]
            assert [run.id for run in await other.runs(thread_id="t3")] == [runs[3].id]
            assert len({id(system.system_of(f"t{n}")) for n in range(8)}) == 2
            with pytest.raises(RunNotFoundError):
                await other.run(as_text(bytes(16)))

    @pytest.mark.one_loop
    async def test_lost_connections_are_replaced(self, places):
        """
        When the server, or a pooler, has ended all sessions, the map is read again all the same.
        """
        async with sharded(places) as system:
            await system.refresh()
            with psycopg.connect(places["one"][0], autocommit=True) as db:
                db.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND application_name LIKE 'actorgraph%'"
                )
            await system.refresh()
            run = await system.start("g", "t", {"bar": []})

            assert (await run.result())["bar"] == ["a"]

    async def test_savers_of_other_kinds_are_refused(self):
        """
        Only PostgreSQL has the tables of buckets.
        """
        system = ActorSystem({"g": in_a_row({"a": writer("a")})}, saver=InMemorySaver())
        with pytest.raises(InvalidConfigError, match="InMemorySaver"):
            ShardedSystem({"one": system})

    async def test_a_database_keeps_its_name(self, places):
        """
        Exchanged names are refused, before a run goes to the wrong database.
        """
        async with sharded(places):
            pass
        wrong = {"one": places["two"], "two": places["one"]}
        with pytest.raises(InvalidConfigError, match="was called"):
            async with sharded(wrong):
                pass


class TestMoves:
    @pytest.mark.one_loop
    async def test_a_thread_moves_with_all_that_it_has(self, places):
        """
        Checkpoints, questions, runs and events are the same in the other database, nothing is
        left in the first one, and the thread goes on.
        """
        graph = parent([], child([], "?"), None)
        async with sharded(places, graph=graph) as system:
            run = await system.start("g", "t", {"log": ["x"]}, resumable=True)
            assert await run.wait() == "interrupted"
            events = [event async for event in (await system.run(run.id)).events()]
            before, had = await state(system), rows(places["one"])
            assert await system.move([bucket_of("t")], "two") == 1

            assert await state(system) == before
            assert rows(places["two"]) == had
            assert set(rows(places["one"]).values()) == {0}
            assert [event async for event in (await system.run(run.id)).events()] == events
            answered = await system.resume("g", "t", Command(resume="yes"))
            await answered.result()
            assert await answered.wait() == "success"

    @pytest.mark.one_loop
    async def test_a_registration_moves_and_searches_find_it(self, places):
        """
        A registration is in the other database alone, and a search there finds the thread by its
        values, although that database has searched before.
        """
        async with sharded(places) as system:
            one, two = system.systems.values()
            put = PutThread("t", 1, '{"user": "ada"}')
            await host_of(one.saver).writer.store(put)
            assert await two.threads() == []
            await (await system.start("g", "t", {"bar": []})).result()
            assert len(await one.threads(values={"bar": ["a"]})) == 1
            assert await system.move([bucket_of("t")], "two") == 1

            assert await one.threads() == []
            (found,) = await two.threads(values={"bar": ["a"]}, metadata={"user": "ada"})
            assert found.thread_id == "t"

    @pytest.mark.one_loop
    async def test_an_alarm_moves_with_its_thread(self, places):
        """
        It is in the other database alone, with its time, which is to come.
        """
        async with sharded(places) as system:
            await (await system.start("g", "t", {"bar": []})).result()
            one, two = (host_of(part.saver) for part in system.systems.values())
            await one.writer.store(
                Commit("t", "", None, EPOCH_ANY, 0, None, alarm=Alarm(2**55, "g"))
            )
            assert await system.move([bucket_of("t")], "two") == 1

            assert await one.saver.query([ListAlarms(("g",), 9)]) == [[]]
            assert await two.saver.query([ListAlarms(("g",), 9)]) == [[AlarmRow("t", 2**55, "g")]]

    @pytest.mark.one_loop
    async def test_a_process_with_an_old_map_is_refused_and_goes_on(self, places):
        """
        Its database takes no run of a bucket that has left; a `ShardedSystem` finds the new
        place by itself, a plain `ActorSystem` gets an error.
        """
        async with two_of(places) as (system, old):
            first = await old.start("g", "t", {"bar": []})
            await first.result()
            await system.move([bucket_of("t")], "two")
            with pytest.raises(ThreadMovedError):
                await old.systems["one"].start("g", "t", {"bar": []})
            with pytest.raises(ThreadMovedError):
                await old.systems["one"].start("g", "t", {"bar": []}, if_busy="enqueue")
            with pytest.raises(ThreadMovedError):
                await old.systems["one"].graphs["g"].ainvoke({"bar": []}, at("t"))

            counts = old.systems["one"].statistics()
            assert (counts.started, counts.refused) == (1, 2)
            assert [run.id for run in await old.runs(thread_id="t")] == [first.id]
            again = await old.start("g", "t", {"bar": []})
            assert (await again.result())["bar"] == ["a", "a"]
            assert await old.cancel(first.id) == "success"

    async def test_active_runs_are_waited_for_and_new_ones_wait(self, places):
        """
        A bucket moves when its active run has ended; a run that is started meanwhile begins
        in the other database.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with sharded(places, slow) as system, soon():
            first = await system.start("g", "t", {"bar": []})
            await slow.entered.wait()
            async with anyio.create_task_group() as group:
                group.start_soon(system.move, [bucket_of("t")], "two")
                await leaving(places)
                slow.out.set()
                second = await system.start("g", "t", {"bar": []}, if_busy="enqueue")
            assert (await first.wait(), await second.wait()) == ("success", "success")
            assert [run.id for run in await system.systems["two"].runs()] == [first.id, second.id]

    async def test_a_run_that_takes_too_long_keeps_its_bucket(self, places):
        """
        The move is undone, and the thread goes on where it is.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with sharded(places, slow) as system, soon():
            run = await system.start("g", "t", {"bar": []})
            await slow.entered.wait()
            with pytest.raises(StorageBusyError, match="has not ended"):
                await system.move([bucket_of("t")], "two", wait_s=0.01)
            slow.out.set()
            assert await run.wait() == "success"
            assert await (await system.start("g", "t", {"bar": []})).wait() == "success"
            assert rows(places["one"])["system_runs"] == 2

    @pytest.mark.one_loop
    async def test_runs_that_wait_for_a_worker_move_with_their_threads(self, places):
        """
        A handle that was given out before the move follows its run, and gets the result of
        a worker of the other database.
        """
        async with sharded(places, role="accept") as web:
            run = await web.start("g", "t", {"bar": []})
            await web.move([bucket_of("t")], "two")
            async with sharded(places, role="work", lease_s=1.0), soon():
                assert (await run.result())["bar"] == ["a"]
            assert [event.kind async for event in run.events()][-1] == "end"

    async def test_a_move_has_a_name_of_its_own_on_the_server(self, places):
        """
        Savers, which end sessions of savers that idle with locked threads, know a move by its name.
        """
        places_table = table(places, "one")
        with (
            places_table.connected() as connection,
            places_table.transaction(connection) as cursor,
        ):
            (during,) = cursor.execute("SHOW application_name").fetchone()
        with places_table.connected() as connection:
            (after,) = connection.execute("SHOW application_name").fetchone()
        places_table.close()

        assert (during, after) == (MOVE_NAME, "actorgraph")


class TestCrashes:
    @pytest.mark.one_loop
    @pytest.mark.parametrize("at_source", ["here", "leaving"])
    async def test_a_move_whose_process_died_early_is_undone(self, places, at_source):
        """
        The next start finds out that the bucket's move was given up, and goes on.
        """
        bucket = bucket_of("t")
        async with sharded(places) as system, soon():
            one, two = table(places, "one"), table(places, "two")
            two.change([bucket], ChangeBucket("two", "arriving", "one", clear=True))
            one.change([bucket], ChangeBucket("one", at_source, "two"))
            one.close()
            two.close()
            run = await system.start("g", "t", {"bar": []})
            assert await run.wait() == "success"
            assert rows(places["one"])["system_runs"] == 1

    @pytest.mark.one_loop
    async def test_a_move_whose_process_died_late_is_completed(self, places):
        """
        After the source has given the bucket away, its rows are in the target for good.
        """
        bucket = bucket_of("t")
        async with sharded(places) as system, soon():
            await (await system.start("g", "t", {"bar": []})).wait()
            await system.move([bucket], "two")
            two = table(places, "two")
            two.change([bucket], ChangeBucket("two", "arriving", "one"))
            two.close()
            run = await system.start("g", "t", {"bar": []})
            assert (await run.result())["bar"] == ["a", "a"]
            assert rows(places["two"])["system_runs"] == 2


CHANGED: dict[str, tuple[LiteralString, str, str]] = {
    "states emptied": ("DELETE FROM buckets", "in none of the databases", "in none"),
    "states dropped": ("DROP TABLE buckets", "buckets", "buckets"),
    "states of another database": (
        "UPDATE buckets SET state = 'here' WHERE bucket = 4095",
        "",
        "in several",
    ),
    "name of another database": ("UPDATE shard_name SET name = 'one'", "", "was called"),
    "name emptied": ("DELETE FROM shard_name", "", "has lost its name"),
    "another's bucket removed": ("DELETE FROM buckets WHERE bucket = 0", "", ""),
    "vacuum": ("VACUUM buckets", "", ""),
    "states touched": ("UPDATE buckets SET other = other", "", ""),
}
"""Change -> its statement in "two", the error of the next run there, that of the next process.

"" where all goes on.
"""


class TestOtherPrograms:
    @pytest.mark.one_loop
    @pytest.mark.parametrize("done", CHANGED)
    async def test_tables_that_others_change(self, places, done, monkeypatch):
        """
        Runs in the other database go on; those in the changed one go on or get an error about it;
        a process that opens says so, or finds all runs that were acknowledged.
        """
        monkeypatch.setattr("actorgraph.api.system.sharded.LOOKS", 1)
        statement, error, at_opening = CHANGED[done]
        kept = ["t"]
        async with sharded(places, move_wait_s=0.1) as system, soon():
            await system.move([bucket_of("u")], "two")
            assert bucket_of("t") != bucket_of("u")
            change(places["two"], statement)
            await (await system.start("g", "t", {"bar": []})).result()
            with pytest.raises(ActorGraphError, match=error) if error else nullcontext():
                await (await system.start("g", "u", {"bar": []})).result()
                kept.append("u")

        with pytest.raises(ActorGraphError, match=at_opening) if at_opening else nullcontext():
            async with sharded(places) as system, soon():
                assert [run.thread_id for run in await system.runs()] == kept


def change(place: tuple[str, str], statement: LiteralString) -> None:
    """Run a statement as another program does."""
    url, schema = place
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SELECT set_config('search_path', %s, false)", (schema,))
        db.execute(statement)


async def state(system: ShardedSystem) -> Any:
    """The thread's checkpoints as programs see them."""
    graph = system.system_of("t").graphs["g"]
    return [repr(shot) async for shot in graph.aget_state_history(at("t"))]


def table(places, name: str) -> BucketTable:
    """The states of buckets in one of the places."""
    url, schema = places[name]
    return BucketTable(name, url, schema, Timeouts())


async def leaving(places) -> None:
    """Wait until the bucket of "t" is leaving its database."""
    states = table(places, "one")
    while states.states()[bucket_of("t")].state != "leaving":  # noqa: ASYNC110 - in a thread
        await anyio.sleep(0.01)
    states.close()
