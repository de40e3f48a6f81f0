"""Saves that a blocking call commits itself: who has the turn, and what waits meanwhile."""

import random
import signal
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from actorgraph import MeteredSaver, SqliteSaver
from actorgraph.api.savers.wrappers.wrapped import WrappedSaver
from actorgraph.errors import (
    ConflictError,
    SaverBrokenError,
    SaverClosedError,
    StorageBusyError,
    StorageError,
)
from actorgraph.runtime.saver import persistence
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.persistence import PersistenceActor
from actorgraph.savers.sqlite.batch import run_batch
from actorgraph.storage.sqlite.connections import HopConnection
from actorgraph.testing import FaultySaver
from actorgraph.values.commits import Committed
from tests.runtime.saves import Answers, Sink, full, save, serving
from tests.support.gates import settled
from tests.support.graphs import at, in_a_row


class Leadable(Sink):
    """A saver with `commit_here`, during which something may happen."""

    def __init__(self, *outcomes: Any, during: Callable[[], object] = int, **more: Any) -> None:
        super().__init__(*outcomes, **more)
        self.led: list[list[Any]] = []
        self.during = during

    def commit_here(self, batch: Any, durable: list[Any]) -> list[Any]:
        during, self.during = self.during, int
        error = during()
        if isinstance(error, BaseException):
            raise error
        self.led.append(list(batch))
        durable.append([Committed() for _ in batch])
        return durable[0]


def numbers(batches: list[list[Any]]) -> list[list[int]]:
    """The numbers of the saves in each batch."""
    return [[request.number for request in batch] for batch in batches]


class TestTurn:
    async def test_a_free_turn_is_taken(self):
        """
        A sender that may lead commits its save itself, and has its answer when `post` returns.
        """
        saver, answers = Leadable(), Answers()
        async with serving(PersistenceActor(saver)) as actor:
            await settled()
            actor.post(save(), answers.receipts, may_lead=True)
            heard = list(answers)
            figures = actor.statistics()

        assert (heard, numbers(saver.led), saver.batches) == ([1], [[1]], [])
        assert (figures.messages, figures.commits, sum(figures.commits_s.counts)) == (1, 1, 1)

    async def test_it_is_not_free_before_the_saver_is_open(self):
        """
        Saves that come before the actor serves wait for it, also those that may lead.
        """
        saver, answers = Leadable(), Answers()
        actor = PersistenceActor(saver)
        actor.post(save(), answers.receipts, may_lead=True)
        before = list(answers)
        async with serving(actor):
            await settled()

        assert (before, answers, numbers(saver.batches)) == ([], [1], [[1]])

    async def test_no_save_overtakes_one_that_waits(self):
        """
        While a save waits in the mailbox the next one waits behind it, in the same batch.
        """
        saver, answers = Leadable(), Answers()
        async with serving(PersistenceActor(saver)) as actor:
            await settled()
            actor.post(save(1), answers.receipts)
            actor.post(save(2), answers.receipts, may_lead=True)
            await settled()

        assert (answers, numbers(saver.batches), saver.led) == ([2], [[1, 2]], [])

    async def test_saves_that_come_meanwhile_share_the_next_batch(self):
        """
        Saves of others that come during a leader's commit wait for that one, then share a batch.
        """
        others = [Answers() for _ in range(3)]

        def crowd() -> None:
            for n, other in enumerate(others):
                request = save(thread=f"t{n}", run=bytes([n]) * 16)
                actor.post(request, other.receipts, may_lead=True)
            assert actor.waiting == 3

        saver, answers = Leadable(during=crowd), Answers()
        async with serving(PersistenceActor(saver)) as actor:
            await settled()
            actor.post(save(), answers.receipts, may_lead=True)
            actor.post(save(2), answers.receipts, may_lead=True)  # `serve` has the turn now
            await settled()
            actor.post(save(3), answers.receipts, may_lead=True)

        assert numbers(saver.led) == [[1], [3]]
        assert numbers(saver.batches) == [[1, 1, 1, 2]]
        assert (answers, others) == ([1, 2, 3], [[1]] * 3)
        assert (actor.waiting, actor.waiting_bytes) == (0, 0)

    async def test_serve_waits_for_a_leader_in_another_thread(self):
        """
        If the actor is woken during a leader's commit, it commits when that has ended.
        """
        inside, out = threading.Event(), threading.Event()

        def slow() -> None:
            inside.set()
            assert out.wait(10)

        saver, answers, other = Leadable(during=slow), Answers(), Answers()
        async with serving(PersistenceActor(saver)) as actor:
            await settled()
            leader = threading.Thread(
                target=lambda: actor.post(save(), answers.receipts, may_lead=True)
            )
            leader.start()
            await anyio.to_thread.run_sync(inside.wait)
            actor.post(save(thread="u", run=b"u" * 16), other.receipts)
            actor._inbox.wake()  # noqa: SLF001 - as a late wake-up does
            await settled()
            during = (actor.statistics().age_s > 0, list(answers), list(saver.batches))
            out.set()
            await anyio.to_thread.run_sync(leader.join)
            await settled()

        assert during == (True, [], [])
        assert (answers, other, len(saver.led), len(saver.batches)) == ([1], [1], 1, 1)

    async def test_a_slow_store_is_left_to_the_actor(self, monkeypatch):
        """
        After a commit that took long the next one is not made in a caller's thread.
        """
        saver, answers = Leadable(), Answers()
        async with serving(PersistenceActor(saver)) as actor:
            await settled()
            monkeypatch.setattr(persistence, "LEAD_COMMIT_MAX_S", -1.0)
            actor.post(save(), answers.receipts, may_lead=True)
            await settled()

        assert (answers, saver.led, len(saver.batches)) == ([1], [], 1)

    async def test_closing_waits_for_a_leader(self):
        """
        A saver is closed when the commit of a leader has ended, and that one is acknowledged.
        """
        inside, out, log = threading.Event(), threading.Event(), []

        class Closing(Leadable):
            async def close(self) -> None:
                log.append("closed")

        def slow() -> None:
            inside.set()
            assert out.wait(10)
            log.append("committed")

        answers, late = Answers(), Answers()
        host = Host(Closing(during=slow))
        async with anyio.create_task_group() as group:
            group.start_soon(host.serve)
            await settled()
            leader = threading.Thread(
                target=lambda: host.writer.post(save(), answers.receipts, may_lead=True)
            )
            leader.start()
            await anyio.to_thread.run_sync(inside.wait)
            host.stop(0.0)
            await settled()
            host.writer.post(save(2), late.receipts, may_lead=True)
            out.set()
        leader.join()

        assert (log, answers) == (["committed", "closed"], [1])
        assert isinstance(late[0], SaverClosedError)


class Retryable(StorageError):
    """An error of a batch of which nothing is stored."""

    retryable = True


class TestFailures:
    @pytest.mark.parametrize("error", [StorageBusyError("x", do="wait"), Retryable("x", do="wait")])
    async def test_a_lock_is_waited_for_elsewhere(self, error):
        """
        A save that meets another process's lock, or may be tried again, goes to the actor, before
        all that came later.
        """
        other = Answers()

        def busy() -> StorageError:
            actor.post(save(thread="u", run=b"u" * 16, size=5), other.receipts)
            return error

        saver, answers = Leadable(during=busy), Answers()
        async with serving(PersistenceActor(saver)) as actor:
            await settled()
            actor.post(save(size=10), answers.receipts, may_lead=True)
            await settled()

        threads = [[request.thread_id for request in batch] for batch in saver.batches]
        assert (threads, saver.led, answers, other) == ([["t", "u"]], [], [1], [1])
        assert (actor.waiting_bytes, actor.statistics().refused) == (0, 0)

    @pytest.mark.parametrize("kind", [SaverClosedError, SaverBrokenError])
    async def test_a_lock_is_not_waited_for_when_the_actor_has_ended(self, kind):
        """
        A leader's save that meets a lock when the actor has ended is refused, for the reason of
        the end.
        """
        inside, out = threading.Event(), threading.Event()

        def busy() -> StorageBusyError:
            inside.set()
            assert out.wait(10)
            return StorageBusyError("locked", do="wait")

        saver, answers = Leadable(during=busy), Answers()
        actor = PersistenceActor(saver)
        async with anyio.create_task_group() as group:
            group.start_soon(actor.serve)
            await settled()
            leader = threading.Thread(
                target=lambda: actor.post(save(), answers.receipts, may_lead=True)
            )
            leader.start()
            await anyio.to_thread.run_sync(inside.wait)
            if kind is SaverBrokenError:
                actor.stop(SaverBrokenError("broken", do="reopen"))
            group.cancel_scope.cancel()
        out.set()
        leader.join()

        assert [type(answer) for answer in answers] == [kind]
        assert (saver.batches, actor.statistics().refused) == ([], 1)

    @pytest.mark.parametrize("error", [full(), SaverBrokenError("broken", do="reopen")])
    async def test_other_errors_end_the_run(self, error):
        """
        An error of the store is reported once; after one of unknown outcome all are refused.
        """
        saver, answers, other = Leadable(during=lambda: error), Answers(), Answers()
        async with serving(PersistenceActor(saver)) as actor:
            await settled()
            actor.post(save(), answers.receipts, may_lead=True)
            actor.post(save(2), answers.receipts, may_lead=True)
            actor.post(save(thread="u", run=b"u" * 16), other.receipts, may_lead=True)
            await settled()

        assert answers == [error]
        assert other == ([error] if isinstance(error, SaverBrokenError) else [1])

    async def test_a_refused_claim_does_not_reach_the_store(self):
        """
        A leader's claim on a thread that another run has is refused like any other.
        """
        saver, answers, other = Leadable(), Answers(), Answers()
        async with serving(PersistenceActor(saver)) as actor:
            await settled()
            actor.post(save(), answers.receipts, may_lead=True)
            actor.post(save(run=b"u" * 16), other.receipts, may_lead=True)

        assert (answers, len(saver.led)) == ([1], 1)
        assert isinstance(other[0], ConflictError)

    @pytest.mark.parametrize("stored", [True, False])
    async def test_a_signal_neither_loses_nor_doubles_a_save(self, stored):
        """
        If a signal's handler raises in a leader's commit, a stored save is answered, and another
        one is committed by the actor.
        """

        class Broken(Leadable):
            def commit_here(self, batch: Any, durable: list[Any]) -> list[Any]:
                if stored:
                    super().commit_here(batch, durable)
                raise KeyboardInterrupt

        saver, answers = Broken(), Answers()
        async with serving(PersistenceActor(saver)) as actor:
            await settled()
            with pytest.raises(KeyboardInterrupt):
                actor.post(save(), answers.receipts, may_lead=True)
            await settled()

        assert answers == [1]
        assert (len(saver.led), len(saver.batches)) == ((1, 0) if stored else (0, 1))


class Noting(HopConnection):
    """A connection that notes the threads of its commits."""

    threads: list[str] = []  # noqa: RUF012 - of one test
    patience: set[tuple[str, int]] = set()  # noqa: RUF012 - milliseconds of each thread

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if sql == "COMMIT":
            name = threading.current_thread().name
            self.threads.append(name)
            self.patience.add((name, *super().execute("PRAGMA busy_timeout").fetchone()))
        return super().execute(sql, parameters)


@pytest.fixture
def threads(monkeypatch):
    """The names of the threads that have committed."""
    monkeypatch.setattr(SqliteSaver, "connection_class", Noting)
    monkeypatch.setattr(Noting, "threads", [])
    monkeypatch.setattr(persistence, "LEAD_COMMIT_MAX_S", 60.0)  # however busy the machine is
    return Noting.threads


def plain(saver: Any, *nodes: Callable[[Any], Any]) -> Any:
    """A graph of plain functions in a row."""
    return in_a_row({f"n{n}": node for n, node in enumerate(nodes)}, checkpointer=saver)


def nothing(_: Any) -> dict[str, Any]:
    return {"bar": ["x"]}


MAIN = threading.main_thread().name


class TestBlockingCalls:
    def test_sync_saves_are_committed_where_the_call_was_made(self, tmp_path, threads):
        """
        `invoke` with `sync` makes each commit in its own thread; another saver reads them all.
        """
        with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = plain(saver, nothing, nothing, nothing)
            graph.invoke({}, at("first"), durability="sync")
            threads.clear()
            graph.invoke({}, at(), durability="sync")
            figures = saver.statistics()
        with SqliteSaver(tmp_path / "runs.db") as saver:
            state = plain(saver, nothing, nothing, nothing).get_state(at())

        assert set(threads) == {MAIN}
        assert len(threads) == figures.commits / 2
        assert state.values["bar"] == ["x"] * 3

    def test_saves_beside_functions_are_not(self, tmp_path, threads):
        """
        In `async` mode functions run while saves are committed, in another thread.
        """
        with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = plain(saver, nothing, nothing, nothing)
            graph.invoke({}, at("first"), durability="async")
            threads.clear()
            graph.invoke({}, at(), durability="async")

        assert threads[0] == MAIN  # no function runs before the claim is stored
        assert threads[1] != MAIN

    def test_so_are_saves_of_nested_graphs(self, tmp_path, threads):
        """
        A subgraph's saves are committed where it runs too.
        """
        names = []

        def note(_: Any) -> dict[str, Any]:
            names.append(len(threads))
            return {"bar": ["x"]}

        inner = plain(None, note, note)
        with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = plain(saver, nothing)
            outer = in_a_row({"a": nothing, "inner": inner}, checkpointer=saver)
            graph.invoke({}, at("first"), durability="sync")
            outer.invoke({}, at(), durability="sync")

        inside = threads[names[0] : names[1]]
        assert inside != []
        assert set(inside) == {MAIN}

    @pytest.mark.parametrize("kind", ["overridden", "metered", "wrapper"])
    def test_no_commit_of_a_program_is_left_out(self, kind, tmp_path, threads):
        """
        A saver whose `commit` does more than SQLite's gets every save through it.
        """
        calls: list[int] = []

        class Own(SqliteSaver):
            async def commit(self, batch: Any) -> Any:
                calls.append(len(batch))
                return await super().commit(batch)

        class Around(WrappedSaver):
            async def commit(self, batch: Any) -> Any:
                calls.append(len(batch))
                return await super().commit(batch)

        path = tmp_path / "runs.db"
        if kind == "overridden":
            saver: Any = Own(path)
        elif kind == "metered":
            saver = MeteredSaver(SqliteSaver(path), lambda call: calls.append(call.bytes))
        else:
            saver = Around(SqliteSaver(path))
        with saver:
            plain(saver, nothing, nothing).invoke({}, at(), durability="sync")

        assert MAIN not in threads
        assert len(calls) >= 3

    def test_a_bare_wrapper_passes_it_on(self, tmp_path, threads):
        """
        A wrapper that leaves `commit` alone, and one that fails as planned, lead like the saver.
        """
        for number, kind in enumerate((WrappedSaver, FaultySaver)):
            with kind(SqliteSaver(tmp_path / f"{number}.db")) as saver:
                graph = plain(saver, nothing, nothing)
                graph.invoke({}, at("first"), durability="sync")
                threads.clear()
                graph.invoke({}, at(), durability="sync")
            assert set(threads) == {MAIN}

    def test_another_process_may_hold_the_lock(self, tmp_path, threads):
        """
        While another connection writes, the save waits in the actor, and is stored afterwards.
        """
        path, log = tmp_path / "runs.db", []

        def lock(_: Any) -> dict[str, Any]:
            other.execute("BEGIN IMMEDIATE")
            log.append("locked")
            threading.Timer(0.05, lambda: (log.append("free"), other.execute("ROLLBACK"))).start()
            return {"bar": ["x"]}

        def last(_: Any) -> dict[str, Any]:
            log.append("last")
            return {"bar": ["x"]}

        with SqliteSaver(path) as saver:
            graph = plain(saver, lock, last)
            plain(saver, nothing).invoke({}, at("first"), durability="sync")
            other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            threads.clear()
            graph.invoke({}, at(), durability="sync")
            other.close()

        assert log == ["locked", "free", "last"]
        assert any(name != MAIN for name in threads)

    def test_only_a_leader_is_impatient(self, tmp_path, threads):
        """
        A caller's thread waits 0 ms for a lock of another process, the actor `busy_timeout_s`.
        """
        with SqliteSaver(tmp_path / "runs.db", busy_timeout_s=1.5) as saver:
            graph = plain(saver, nothing, nothing)
            graph.invoke({}, at("first"), durability="async")
            threads.clear()
            Noting.patience.clear()
            for n in range(3):
                graph.invoke({}, at(f"t{n}"), durability="async")

        others = set(threads) - {MAIN}
        assert others
        assert Noting.patience == {(MAIN, 0)} | {(name, 1500) for name in others}

    def test_many_threads_share_one_file(self, tmp_path):
        """
        Calls of many threads lead and follow in any order; each thread's saves are all there.
        """
        with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = plain(saver, *[nothing] * 6)

            def call(number: int) -> None:
                for turn in range(4):
                    graph.invoke({}, at(f"t{number}-{turn}"), durability="sync")

            callers = [threading.Thread(target=call, args=(n,)) for n in range(8)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join()
            left = saver.statistics()
            steps = [
                [row.metadata["step"] for row in saver.list(at(f"t{n}-{turn}"))]
                for n in range(8)
                for turn in range(4)
            ]

        assert steps == [list(range(6, -2, -1))] * 32
        assert (left.waiting, left.refused, left.active_runs, left.age_s) == (0, 0, 0, 0.0)


def test_the_moment_of_a_commit_is_known(tmp_path):
    """
    Wherever a signal's handler raises in a batch, `durable` says whether the batch is stored.
    """

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    async def schema() -> None:
        async with SqliteSaver(tmp_path / "runs.db"):
            pass

    anyio.run(schema)
    connection = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    chance, seen = random.Random(7), set()
    before = signal.signal(signal.SIGALRM, leave)
    try:
        for number in range(400):
            durable: list[Any] = []
            thread = f"t{number}"
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 4e-4))
                run_batch(connection, [save(thread=thread)], durable)
                signal.setitimer(signal.ITIMER_REAL, 0)
                seen.add("whole")
            except KeyboardInterrupt:
                seen.add(f"cut off, stored: {bool(durable)}")
            query = "SELECT count(*) FROM threads WHERE thread_id = ?"
            (stored,) = connection.execute(query, (thread,)).fetchone()
            assert stored == len(durable)
            assert not connection.in_transaction
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        connection.close()

    assert "cut off, stored: False" in seen
