"""The persistence actor: batches, order, answers, and one active run per thread."""

import sqlite3
from itertools import pairwise

import anyio
import pytest

from actorgraph import InMemorySaver, SqliteSaver
from actorgraph.errors import SaverBrokenError, StorageError
from actorgraph.runtime.saver.hosting import living_host
from actorgraph.runtime.saver.persistence import ANSWERS_SLICE, PersistenceActor, Receipts
from actorgraph.storage.sqlite.connections import HopConnection
from actorgraph.testing import FaultPlan, FaultySaver, GatedSaver, failing_connection
from actorgraph.values.commits import Claim, Commit, DeleteThread, LoadCheckpoint
from actorgraph.values.run import Saved, SaveFailed
from tests.support.gates import Box, patient_group, settled
from tests.support.graphs import ab, at, chain, count, in_a_row, writer


def claim(thread: str, run: bytes, number: int = 1, **more) -> Commit:
    """A run's first save, on a new thread."""
    claims = Claim(None, "sync") if number == 1 else None
    return Commit(thread, "", run, 1, number, None, claims, **more)


def answers(box: list) -> list:
    """The receipts' answers: numbers of what is durable, and errors."""
    return [a.number if isinstance(a, Saved) else a.error for a in box]


class TestGroupCommit:
    async def test_waiting_saves_share_one_batch(self):
        """
        Many runs' saves that wait for one commit share the next one, first in first out.
        """
        order: list = []
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            actor = PersistenceActor(saver)
            group.start_soon(actor.serve)
            for n in range(50):
                box = Receipts(lambda answer, n=n: order.append((n, answer.number)))
                actor.post(claim(f"t{n}", bytes([n])), box)
                if n == 0:
                    await saver.waiting()
            saver.release(None)
            await settled(200)
            actor.stop()

        assert [len(batch) for batch in saver.batches] == [1, 49]
        assert [r.thread_id for batch in saver.batches for r in batch] == [
            f"t{n}" for n in range(50)
        ]
        assert order == [(n, 1) for n in range(50)]

    async def test_a_batch_is_bounded(self):
        """
        At most 512 messages, or 8 MB, go into one transaction.
        """
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            actor = PersistenceActor(saver)
            group.start_soon(actor.serve)
            deaf = Receipts(lambda _: None)
            actor.post(claim("first", b"0"), deaf)
            await saver.waiting()
            for n in range(600):
                actor.post(claim(f"t{n}", b"%d" % n), deaf)
            for n in range(20):
                actor.post(claim(f"big{n}", b"b%d" % n, size=900_000), deaf)
            saver.release(None)
            await settled(200)
            actor.stop()

        assert [len(batch) for batch in saver.batches] == [1, 512, 88 + 10, 10]

    async def test_each_run_hears_its_newest_number_once(self):
        """
        Several saves of one run in a batch are answered with the last one's number.
        """
        heard: list = []
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            actor = PersistenceActor(saver)
            group.start_soon(actor.serve)
            receipts = Receipts(heard.append)
            actor.post(DeleteThread("other"), Receipts(lambda _: None))
            await saver.waiting()
            for number in (1, 2, 3):
                actor.post(claim("t", b"r", number), receipts)
            saver.release(None)
            await settled()
            actor.stop()

        assert answers(heard) == [3]

    async def test_answers_come_in_slices(self):
        """
        Waiters do not all wake at once: others get a turn after every few answers.
        """
        heard: list = []
        turns: list[int] = []

        async def watch() -> None:
            while len(heard) < 300:
                turns.append(len(heard))
                await anyio.lowlevel.checkpoint()

        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            actor = PersistenceActor(saver)
            actor.post(DeleteThread("other"), Receipts(lambda _: None))
            group.start_soon(actor.serve)
            await saver.waiting()
            for n in range(300):
                actor.post(claim(f"t{n}", b"%d" % n), Receipts(heard.append))
            group.start_soon(watch)
            saver.release(None)
            while len(heard) < 300:
                await anyio.lowlevel.checkpoint()
            actor.stop()

        # On trio a turn comes before or after the answers of its round.
        assert all(b - a <= 2 * ANSWERS_SLICE for a, b in pairwise([*turns, 300]))

    async def test_many_runs_share_commits(self, tmp_path):
        """
        Runs at once on one file take far fewer transactions than they save.
        """
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = ab(saver)
            async with patient_group() as group:
                for n in range(200):
                    group.start_soon(graph.ainvoke, {"bar": [str(n)]}, at(f"t{n}"))
            figures = saver.statistics()
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = ab(saver)
            read = [(await graph.aget_state(at(f"t{n}"))).values["bar"] for n in range(200)]

        assert read == [[str(n), "a", "b"] for n in range(200)]
        assert figures.messages == 600
        assert figures.commits < 200

    async def test_statistics_count_operations(self):
        """
        The actor's figures count messages, commits, refusals, batches and active runs.
        """
        slow = GatedSaver(InMemorySaver(), is_open=True)
        async with slow as saver, patient_group(saver) as group:
            graph = in_a_row({"a": writer("a"), "b": _shut(saver)}, checkpointer=saver)
            group.start_soon(graph.ainvoke, {}, at())
            await saver.waiting()
            during = saver.statistics()
            saver.release(None)
            await settled()
            after = saver.statistics()

        assert (during.messages, during.commits, during.active_runs) == (2, 2, 0)
        assert (after.messages, after.refused, after.waiting, after.active_runs) == (3, 0, 0, 0)
        assert (after.batch_size_mean, after.batch_size_max) == (1.0, 1)

    async def test_the_read_actor_counts_its_own(self, tmp_path):
        """
        Its figures count queries and the batches that they were answered in.
        """
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = ab(saver)
            await graph.ainvoke({}, at())
            host = living_host(saver)
            before = host.reader.statistics()
            async with patient_group() as group:
                for _ in range(20):
                    group.start_soon(saver.aget_tuple, at())
            after = host.reader.statistics()

        assert after.queries - before.queries == 20
        assert 1 <= after.batches - before.batches <= 20
        assert after.waiting == 0

    async def test_a_query_that_has_begun_shares_the_transaction_of_the_next_one(self, tmp_path):
        """
        Two answers that belong together are read at once; the first one's error is raised alone.
        """
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            await ab(saver).ainvoke({}, at())
            reader = living_host(saver).reader
            before = reader.statistics()

            first = reader.begin(LoadCheckpoint("t", ""))
            second = await reader.ask(LoadCheckpoint("t", ""))
            after = reader.statistics()

            assert (await first()).head == second.head
            assert (after.queries - before.queries, after.batches - before.batches) == (2, 1)

    async def test_the_error_of_a_query_that_has_begun_is_its_own(self, tmp_path):
        """
        The next query, which shares its transaction, gets its answer.
        """
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            await ab(saver).ainvoke({}, at())
            reader = living_host(saver).reader

            unreadable = reader.begin(LoadCheckpoint("t", "", object()))  # type: ignore[arg-type]
            loaded = await reader.ask(LoadCheckpoint("t", ""))

            assert loaded.head is not None
            with pytest.raises(StorageError):
                await unreadable()


def _shut(saver):
    async def node(state):
        saver.hold()

    return node


class SmallRows(HopConnection):
    """A connection that refuses values above 50,000 bytes, as SQLite does above a billion."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 50_000)


class SmallSaver(SqliteSaver):
    connection_class = SmallRows


class TestPoison:
    async def test_a_refused_row_fails_its_run_only(self, tmp_path):
        """
        In a batch with a value that the database refuses, every other run is stored.
        """
        poison = {"bar": ["x" * 60_000]}
        async with (
            GatedSaver(SmallSaver(tmp_path / "runs.db"), is_open=True) as saver,
            patient_group(saver) as group,
        ):
            graph = ab(saver)
            await graph.ainvoke({}, at("warm"))
            saver.hold()
            boxes = [Box() for _ in range(6)]
            group.start_soon(graph.ainvoke, {}, at("first"))
            await saver.waiting()
            for n, box in enumerate(boxes):
                given = poison if n == 3 else {"bar": [str(n)]}
                group.start_soon(box.fill, graph.ainvoke, given, at(f"t{n}"))
            while saver.statistics().waiting < len(boxes):
                await anyio.lowlevel.checkpoint()
            saver.release(None)

        together = max(saver.batches, key=len)
        assert len(together) == 6
        assert isinstance(boxes[3].error, StorageError)
        assert [b.value["bar"][0] for b in boxes if b.error is None] == ["0", "1", "2", "4", "5"]

    async def test_a_value_that_cannot_be_stored_fails_its_run_only(self, saver):
        """
        A value of a type that no codec knows ends its run with the value's path in the error.
        """
        graph = ab(saver)

        with pytest.raises(TypeError, match=r"writes of __start__: foo has the type"):
            await graph.ainvoke({"foo": object()}, at("bad"))
        await graph.ainvoke({"foo": "x"}, at("good"))

        assert (await graph.aget_state(at("good"))).values["foo"] == "b"
        assert await count(graph, at("bad")) == 0


class TestFailures:
    async def test_a_failed_save_stops_the_run_before_its_next_node(self, saver):
        """
        The caller gets the saver's error, and no node starts after the save that failed.
        """
        log: list[str] = []
        plan = FaultPlan(fail_at=4, error=lambda: OSError("disk on fire"), lasting=False)
        async with FaultySaver(saver, plan, immediate=False) as faulty:
            graph = chain("abcd", log, checkpointer=faulty)
            with pytest.raises(OSError, match="disk on fire"):
                await graph.ainvoke({}, at())

        assert plan.operations[:4] == ["open", "query", "commit", "commit"]
        assert log == ["a"]

    async def test_a_node_error_is_not_masked_by_a_later_one(self, saver):
        """
        A run whose node fails and whose farewell can't be saved says both.
        """

        async def bad(state):
            raise ValueError("boom")

        plan = FaultPlan(fail_at=4, error=lambda: OSError("disk on fire"), lasting=True)
        async with FaultySaver(saver, plan, immediate=False) as faulty:
            graph = in_a_row({"a": bad}, checkpointer=faulty)
            with pytest.raises(OSError, match="disk on fire") as raised:
                await graph.ainvoke({}, at())

        assert "boom" in "".join(raised.value.__notes__)

    async def test_a_broken_saver_fails_all_who_wait(self, tmp_path):
        """
        After a COMMIT of unknown outcome every caller gets SaverBrokenError, until it is reopened.
        """
        path = tmp_path / "runs.db"
        plan = FaultPlan(fail_at=10_000, lasting=True)

        class Failing(SqliteSaver):
            connection_class = failing_connection(plan)

        errors = []
        async with Failing(path) as saver, patient_group() as group:
            graph = ab(saver)
            await graph.ainvoke({}, at("before"))
            plan.fail_at = len(plan.operations) + 1
            boxes = [Box() for _ in range(5)]
            for n, box in enumerate(boxes):
                group.start_soon(box.fill, graph.ainvoke, {}, at(f"t{n}"))
            for box in boxes:
                await box.done.wait()
                errors.append(box.error)
            plan.fail_at = None
            plan.fired = False
            with pytest.raises(SaverBrokenError):
                await graph.ainvoke({}, at("late"))
        async with SqliteSaver(path) as saver:
            result = await ab(saver).ainvoke({}, at("t0"))

        assert [type(e) for e in errors] == [SaverBrokenError] * 5
        assert result["bar"] == ["a", "b"]

    async def test_a_broken_saver_is_not_asked_again(self):
        """
        After SaverBrokenError the actor refuses every later save by itself, until reopened.
        """
        plan = FaultPlan(fail_at=4, lasting=False)
        inner = InMemorySaver()
        async with FaultySaver(inner, plan, immediate=False) as saver:
            for thread in ("breaks", "refused"):
                with pytest.raises(SaverBrokenError):
                    await ab(saver).ainvoke({}, at(thread))
        asked = list(plan.operations)
        async with FaultySaver(inner, plan, immediate=False) as saver:
            result = await ab(saver).ainvoke(None, at("breaks"))

        assert asked == ["open", "query", "commit", "commit", "query"]
        assert result["bar"] == ["a", "b"]

    async def test_an_error_is_delivered_once(self):
        """
        Of a run's refused saves the first is reported; later ones don't replace its error.
        """
        heard: list = []
        plan = FaultPlan(fail_at=1, error=lambda: OSError("no"), lasting=False)
        saver = FaultySaver(InMemorySaver(), plan, immediate=False)
        async with patient_group() as group:
            actor = PersistenceActor(saver)
            receipts = Receipts(heard.append)
            actor.post(claim("t", b"r", 1), receipts)
            actor.post(claim("t", b"r", 2), receipts)
            group.start_soon(actor.serve)
            await settled()
            actor.post(claim("t", b"r", 3), receipts)
            await settled()
            actor.stop()

        assert [type(answer) for answer in heard] == [SaveFailed]
        assert heard[0].number == 1
        assert str(heard[0].error) == "no"
