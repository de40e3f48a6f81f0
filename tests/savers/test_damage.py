"""Damaged rows: refused with their place, while everything else of the store goes on."""

import random
import sqlite3
from contextlib import closing

import pytest

from actorgraph import Codec, JsonlSaver, SqliteSaver, StorageError
from actorgraph.caches import SqliteCache
from actorgraph.codec.records import frame, frames, with_checksums
from actorgraph.errors import ActorGraphError, DamagedRowError, SerializationError
from actorgraph.stores.sqlite.store import SqliteStore
from actorgraph.values.systems import EventRow, ListRuns, PutRun, ReadEvents, RunRow, StoreEvents
from tests.codec import hostile
from tests.savers.damage import (
    HEALTHY,
    MOVING,
    VICTIM,
    WRITES,
    Judge,
    Tables,
    changed,
    fill,
    graph,
    reads_of,
    tried,
)
from tests.support.graphs import at, history, side_by_side

pytestmark = pytest.mark.every_saver

SEED = 15
PAYLOADS = (("blobs", "payload"), ("ranges", "payload"), ("writes", "payload"))
TEXTS = (("checkpoints", "metadata"), ("checkpoints", "record"), ("checkpoints", "next"))


@pytest.fixture
def tables(store, request):
    """The tables of the store's database."""
    postgres = request.getfixturevalue("postgres") if store.kind == "postgres" else None
    return Tables(store, postgres)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
class TestRows:
    async def test_a_changed_column_is_reported(self, store, tables):
        """
        Whichever column that a checksum covers is changed, each read of the thread answers as
        before or names the thread, and the other thread's reads and the lists of all go on.
        """
        async with store.again() as saver:
            await fill(saver)
            judge = Judge()
            await judge.learn(saver)
            chance = random.Random(SEED)
            for place in tables.covered():
                undo = tables.plant(place, lambda v: changed(v, chance), chance.choice)
                if undo is not None:
                    wrong = await judge.wrong(saver, moved=place in MOVING)
                    assert wrong == [], (SEED, place)
                    undo()
            assert await judge.wrong(saver) == []

        assert judge.told > len(tables.covered())

    async def test_operations_on_a_damaged_thread_raise_own_errors(self, store, tables):
        """
        Runs, updates, copies, removals and sweeps over a damaged thread raise errors of the
        library's own, the healthy thread runs, and the damaged one can be deleted.
        """
        for place in (*PAYLOADS, ("threads", "head"), (tables.tables[2], "source")):
            async with store.again() as saver:
                await fill(saver)
                assert tables.plant(place, lambda v: changed(v, random.Random(2)), lambda r: r[-1])
                for name, write in WRITES.items():
                    answer = await tried(write, saver)
                    own = not isinstance(answer, Exception) or isinstance(answer, ActorGraphError)
                    assert own, (name, place, answer)
                assert await saver.acount(VICTIM) == 0
                ended = await graph(saver).ainvoke({"bar": ["on"]}, at(HEALTHY))
                assert "on" in ended["bar"]
                await saver.adelete_thread(HEALTHY)
                await saver.adelete_thread("copy")

    async def test_planted_bytes_raise_own_errors(self, store, tables):
        """
        Payloads that were made to do harm, in rows without a checksum, come back as errors of the
        library's own from each read.
        """
        payloads = hostile.mutated(seed=SEED, count=20)
        async with store.again() as saver:
            await fill(saver)
            with tables.connected() as db:
                db.execute("UPDATE blobs SET crc = NULL")
                db.execute("UPDATE writes SET crc = NULL")
            for number, payload in enumerate(payloads):
                place = PAYLOADS[number % 3]
                made = frame(payload) if place[0] == "ranges" else payload
                chance = random.Random(number)
                tables.plant(place, lambda _, made=made: made, chance.choice)
                for name, read in reads_of(VICTIM).items():
                    answer = await tried(read, saver)
                    own = not isinstance(answer, Exception) or isinstance(answer, ActorGraphError)
                    assert own, (SEED, number, name, answer)
            for read in reads_of(HEALTHY).values():
                await read(saver)


class TestOlderFiles:
    async def test_a_file_of_version_1(self, tmp_path):
        """
        A file without checksums opens, reads as before, and goes on; what is written then has them.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as saver:
            await fill(saver)
            judge = Judge()
            await judge.learn(saver)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for statement in OLDER:
                db.execute(statement)
            rows = db.execute("SELECT payload FROM ranges").fetchall()
            for (payload,) in rows:
                where = (b"".join(map(frame, frames(payload))), payload)
                db.execute("UPDATE ranges SET payload = ? WHERE payload = ?", where)
        async with SqliteSaver(path) as saver:
            wrong = await judge.wrong(saver)
            # Sizes count the checksums of lists too.
            assert [one for one in wrong if not one.startswith("checkpoint_bytes of")] == []
            await graph(saver).ainvoke({"bar": ["more"]}, at(HEALTHY))
            assert (await graph(saver).aget_state(at(HEALTHY))).values["number"] == 3
            assert len(await history(graph(saver), at(VICTIM))) > 5

        with closing(sqlite3.connect(path)) as db:
            old, new = db.execute(
                "SELECT count(*) FILTER (WHERE crc IS NULL), count(crc) FROM checkpoints"
            ).fetchone()
            assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert old > 5
        assert new >= 3


OLDER = (
    *("ALTER TABLE threads DROP COLUMN crc", "ALTER TABLE runs DROP COLUMN crc"),
    *("ALTER TABLE checkpoints DROP COLUMN crc", "ALTER TABLE blobs DROP COLUMN crc"),
    *("ALTER TABLE writes DROP COLUMN crc", "ALTER TABLE events DROP COLUMN crc"),
    *("ALTER TABLE system_runs DROP COLUMN crc", "PRAGMA user_version = 1"),
    "ALTER TABLE threads RENAME COLUMN removed TO deleted",
)


class TestFrames:
    def test_checked_frames_and_older_ones_share_a_row(self):
        """
        Rows may have frames of both kinds; both come back, and a changed one of the checked is
        refused whichever bit it is.
        """
        parts = [b"", b"one", b"two" * 100]
        old = b"".join(map(frame, parts))
        row = old + with_checksums(old)
        assert [*frames(row)] == parts * 2
        assert b"".join(map(frame, frames(row))) == old * 2
        for bit in range(len(old) * 8, len(row) * 8):
            made = bytearray(row)
            made[bit // 8] ^= 1 << bit % 8
            with pytest.raises(SerializationError):
                assert [*frames(bytes(made))] == parts * 2


class TestStores:
    def test_a_damaged_item(self, tmp_path):
        """
        A changed item is refused by its key, and a search, with a filter or without, shows the
        others. One that is put again is well.
        """
        path = tmp_path / "items.db"
        with SqliteStore(path) as store:
            for key in ("a", "b"):
                store.put(("n",), key, {"kind": "x", "text": f"value {key}"}, ttl=10)
            store.get(("n",), "a")
            for statement in ITEM:
                with closing(sqlite3.connect(path, isolation_level=None)) as db:
                    assert db.execute(statement).rowcount == 1
                with pytest.raises(StorageError, match="'a' in"):
                    store.get(("n",), "a")
                assert [i.key for i in store.search(("n",))] == ["b"]
                assert [i.key for i in store.search(("n",), filter={"kind": "x"})] == ["b"]
                assert store.get(("n",), "b").value["text"] == "value b"
                store.put(("n",), "a", {"kind": "x", "text": "value a"}, ttl=10)
                assert len(store.search(("n",), filter={"kind": "x"})) == 2

    def test_a_store_of_version_1(self, tmp_path):
        """
        Items without checksums are read, and get one when they are put again.
        """
        path = tmp_path / "items.db"
        with SqliteStore(path) as store:
            store.put(("n",), "a", {"k": 1})
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("ALTER TABLE memory_items DROP COLUMN crc")
            db.execute("ALTER TABLE memory_vectors DROP COLUMN crc")
            db.execute("ALTER TABLE memory_items RENAME COLUMN minutes TO ttl")
            db.execute("UPDATE memory_format SET version = 1")
        with SqliteStore(path) as store:
            assert store.get(("n",), "a").value == {"k": 1}
            store.put(("n",), "a", {"k": 2})
            assert store.get(("n",), "a").value == {"k": 2}
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("SELECT count(crc) FROM memory_items").fetchone() == (1,)

    def test_a_clock_of_whole_seconds(self):
        """
        An entry that ends at a whole second is as it was kept.
        """
        with SqliteCache(":memory:", codec=Codec(), clock=lambda: 100) as cache:
            cache.set({(("n",), "a"): ("value", 10)})
            assert cache.get([(("n",), "a")]) == {(("n",), "a"): "value"}

    def test_a_damaged_entry_of_a_cache_is_a_miss(self, tmp_path):
        """
        A changed entry counts as none; the others are there.
        """
        path = tmp_path / "cache.db"
        with SqliteCache(path, codec=Codec()) as cache:
            cache.set({(("n",), key): (f"value {key}", None) for key in "ab"})
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                (payload,) = db.execute("SELECT payload FROM cache WHERE key = 'a'").fetchone()
                made = payload[:-1] + bytes([payload[-1] ^ 1])
                db.execute("UPDATE cache SET payload = ? WHERE key = 'a'", (made,))
            assert cache.get([(("n",), "a"), (("n",), "b")]) == {(("n",), "b"): "value b"}


ITEM = (
    "UPDATE memory_items SET value = replace(value, 'value', 'valve') WHERE key = 'a'",
    "UPDATE memory_items SET value = '{' WHERE key = 'a'",
    "UPDATE memory_items SET value = x'ff' WHERE key = 'a'",
    "UPDATE memory_items SET created = created + 1 WHERE key = 'a'",
    "UPDATE memory_items SET updated = 'soon' WHERE key = 'a'",
    "UPDATE memory_items SET expires = expires + 4096 WHERE key = 'a'",
    "UPDATE memory_items SET minutes = 11 WHERE key = 'a'",
)


class TestFiles:
    async def test_a_damaged_file_of_lines_hides_no_other(self, tmp_path):
        """
        With a changed bit in one thread's file, its reads name it, and the lists of all threads
        and sweeps go on with the other.
        """
        async with JsonlSaver(tmp_path / "threads") as saver:
            await fill(saver)
            judge = Judge()
            await judge.learn(saver)
        file = tmp_path / "threads" / f"{VICTIM}.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        for number in (0, len(lines) // 2, len(lines) - 1):
            bad = lines[number].replace(b'"crc"', b'"cRc"')
            file.write_bytes(b"".join([*lines[:number], bad, *lines[number + 1 :]]))
            async with JsonlSaver(tmp_path / "threads") as saver:
                assert await judge.wrong(saver) == []
        async with JsonlSaver(tmp_path / "threads") as saver:
            for name in ("copy", "resume", "vacuum"):
                assert isinstance(await tried(WRITES[name], saver), StorageError)
            assert await saver.aretention(0) > 0
            assert await saver.acount(HEALTHY) == 1
        assert judge.told > 10


class TestRunsOfSystems:
    async def test_a_damaged_row_of_a_run_hides_no_other(self, tmp_path):
        """
        A list of runs leaves a changed one out, with its error; asked for alone it is refused, and
        so are its changed events. The other run is read.
        """
        path = tmp_path / "runs.db"
        rows = [
            RunRow(
                *(name * 16, f"of {name!r}", "g", "pending", 1),
                claimed=False,
                owner=b"o" * 16,
                created=1,
                metadata="{}",
                payload=b"how",
            )
            for name in (b"r", b"s")
        ]
        async with SqliteSaver(path) as saver:
            await saver.commit([PutRun(row, row.thread_id) for row in rows])
            said = (EventRow(1, 5, b"said"),)
            await saver.commit(
                [StoreEvents(r.run, r.thread_id, b"o" * 16, said, 9, 0) for r in rows]
            )
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                db.execute("UPDATE system_runs SET payload = x'00' WHERE run = ?", (rows[0].run,))
                db.execute("UPDATE events SET payload = x'00' WHERE run = ?", (rows[0].run,))
            (listed,) = await saver.query([ListRuns()])
            alone, events, others = await saver.query(
                [
                    ListRuns(run=rows[0].run),
                    ReadEvents(rows[0].run, rows[0].thread_id, 0, 9),
                    ReadEvents(rows[1].run, rows[1].thread_id, 0, 9),
                ]
            )

        assert [row.run for row in listed] == [rows[1].run]
        assert rows[0].thread_id in str(listed.damaged[0])
        assert [type(alone), type(events)] == [DamagedRowError] * 2
        assert rows[0].thread_id in str(events)
        assert others == [said[0]]


CHANGES = {
    "value": "UPDATE blobs SET crc = 7",
    "write": "UPDATE writes SET crc = 7",
    "checkpoint": "UPDATE checkpoints SET crc = 7",
}


@pytest.mark.parametrize("damage", CHANGES)
async def test_an_error_that_is_kept_holds_up_no_later_read(damage, tmp_path):
    """
    While a program keeps the error of a damaged row, the saver's reads see what is stored then.
    """
    async with SqliteSaver(tmp_path / "runs.db") as saver:
        # At once, so that a checkpoint has several rows of writes.
        nodes = dict.fromkeys("ab", lambda state: {"bar": ["x"]})
        compiled = side_by_side(nodes, checkpointer=saver)
        await compiled.ainvoke({}, at("bad"))
        with closing(sqlite3.connect(saver.path)) as db, db:
            assert db.execute(CHANGES[damage]).rowcount > 0
        kept = []
        for read in (compiled.aget_state(at("bad")), history(compiled, at("bad"))):
            try:
                await read
            except ActorGraphError as error:
                kept.append(error)
        await compiled.ainvoke({}, at("good"))
        state = await compiled.aget_state(at("good"))

    assert kept
    assert state.values["bar"] == ["x", "x"]


class TestControlRows:
    async def test_a_question_without_its_value(self, tmp_path):
        """
        A row of a question whose bytes decode to nothing is an error of the library's own.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as saver:
            await fill(saver)
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                done = db.execute("UPDATE writes SET payload = x'90', crc = NULL WHERE idx < 0")
                assert done.rowcount > 0

            for thread in (VICTIM, HEALTHY):
                for read in reads_of(thread).values():
                    answer = await tried(read, saver)
                    assert not isinstance(answer, Exception) or isinstance(answer, ActorGraphError)
