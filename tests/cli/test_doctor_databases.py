"""The facts that doctor reads from real databases of each kind."""

import time
import uuid

import pytest

from actorgraph import ActorSystem, InMemorySaver, JsonlSaver, PostgresSaver, SqliteSaver
from actorgraph.cli.doctor.database_facts import database_facts
from actorgraph.cli.doctor.facts import Examined
from actorgraph.cli.doctor.judging import diagnose
from actorgraph.cli.doctor.program_facts import program_facts
from actorgraph.codec import Codec
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.values.systems import PutRun, RenewOwner, RunRow
from tests.cli.runs import counting
from tests.support.graphs import at

KEY = b"k" * 32


def codes(facts, program=None):
    return [found.code for found in diagnose(Examined(program, facts))]


def run_row(owner, **facts):
    known = {
        "run": uuid.uuid4().bytes,
        "thread_id": "t",
        "graph": "count",
        "status": "running",
        "attempts": 1,
        "claimed": True,
        "owner": owner,
        "metadata": "{}",
        "payload": b"",
        "created": int(time.time() * 1e6),
    }
    return RunRow(**{**known, **facts})


class TestEachKind:
    async def test_sqlite(self, tmp_path):
        """
        Version, journal, rights and the lengths of threads are read, and no file is left beside.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as saver:
            await counting(saver).ainvoke({"count": 1}, at("t"))

        facts = await database_facts(str(path))

        assert codes(facts) == []
        assert (facts.kind, facts.version, facts.journal) == ("sqlite", 2, "wal")
        assert facts.lengths == {"t": 3}
        assert [file.name for file in tmp_path.iterdir()] == ["runs.db"]

    async def test_json_lines(self, tmp_path):
        """
        A folder has no version of its own; one that a program has open can't be examined.
        """
        path = tmp_path / "threads"
        async with JsonlSaver(path) as saver:
            await counting(saver).ainvoke({"count": 1}, at("t"))

        facts = await database_facts(str(path))

        assert (facts.kind, facts.lengths, codes(facts)) == ("jsonl", {"t": 3}, [])

    @pytest.mark.one_loop
    async def test_postgres(self, postgres, schema):
        """
        Tables, rights and threads of a server are read; a wrong address is a finding.
        """
        place = f"{postgres.url}{'&' if '?' in postgres.url else '?'}schema={schema}"
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            await counting(saver).ainvoke({"count": 1}, at("doctor"))

        facts = await database_facts(place)
        gone = await database_facts("postgresql://ada:secret@localhost:1/runs")
        empty = await database_facts(f"{place}_gone")

        assert (facts.kind, facts.lengths["doctor"], codes(facts)) == ("postgres", 3, [])
        assert codes(gone) == ["saver.unreachable"]
        assert "secret" not in f"{gone}"
        assert codes(empty) == ["saver.not-a-database"]

    async def test_another_file(self, tmp_path):
        """
        A file that isn't a database, and an empty one, are different findings.
        """
        other, empty = tmp_path / "notes.db", tmp_path / "empty.db"
        other.write_text("hello")
        empty.write_bytes(b"")

        assert codes(await database_facts(str(other))) == ["saver.unreachable"]
        assert codes(await database_facts(str(empty))) == ["saver.not-a-database"]


class TestKeys:
    async def test_a_missing_key_is_found_and_the_right_one_is_not(self, tmp_path):
        """
        With the program's codec the same database has no finding.
        """
        path, codec = str(tmp_path / "runs.db"), Codec(keys={"k1": KEY})
        async with SqliteSaver(path, codec=codec) as saver:
            await counting(saver).ainvoke({"count": 1}, at("t"))

        assert codes(await database_facts(path)) == ["saver.no-key"]
        assert codes(await database_facts(path, codec)) == []


class TestRuns:
    async def test_orphans_and_unserved_runs_are_distinguished(self, tmp_path):
        """
        A run whose system has died is an orphan; one of an unknown graph is unserved.
        """
        path, dead = str(tmp_path / "runs.db"), uuid.uuid4().bytes
        async with SqliteSaver(path) as saver:
            writer = host_of(saver).writer
            await writer.store(RenewOwner(dead, -1.0))
            await writer.store(PutRun(run_row(dead), "t"))
            await writer.store(PutRun(run_row(dead, thread_id="u", graph="gone"), "u"))
        facts = await database_facts(path)
        system = ActorSystem({"count": counting(InMemorySaver())})

        found = codes(facts, program_facts("app:system", system))

        assert codes(facts) == ["runs.orphaned"]
        assert found == ["runs.unserved", "runs.orphaned"]

    async def test_living_systems_are_counted(self, tmp_path):
        """
        Two leases in one SQLite file are worth a note.
        """
        path = str(tmp_path / "runs.db")
        async with SqliteSaver(path) as saver:
            for _ in range(2):
                await host_of(saver).writer.store(RenewOwner(uuid.uuid4().bytes, 60.0))
        facts = await database_facts(path)

        assert facts.living == 2
        assert codes(facts) == ["saver.shared-sqlite"]
