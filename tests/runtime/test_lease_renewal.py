"""Leases under load: renewals reach the store past the saves that wait; what is over is over."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from actorgraph import ActorSystem, InMemorySaver, PostgresSaver, SqliteSaver
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.runtime.saver.persistence import PersistenceActor, Receipts
from actorgraph.runtime.system import leases
from actorgraph.runtime.system.leases import LeaseActor
from actorgraph.runtime.task.calling import InContext
from actorgraph.testing import GatedSaver
from actorgraph.values.commits import Claim, Commit, Committed
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import AskCancel, RenewOwner
from tests.support.every_saver import stored_in
from tests.support.gates import PATIENCE_S, Turnstile, patient_group, settled
from tests.support.graphs import in_a_row, writer
from tests.support.systems import system_of, turnstile_first

OWNER = b"o" * 16
SAVES = 1_500
LEASE_S = 1.0
HANGS_S = 0.1
LOCK_THREADS = "LOCK TABLE threads IN ACCESS EXCLUSIVE MODE"
LOCK_OWNERS = "LOCK TABLE owners IN ACCESS EXCLUSIVE MODE"


def save(number: int) -> Commit:
    """The first save of a run on a thread of its own."""
    return Commit(f"t{number}", "", number.to_bytes(16), 1, 1, None, Claim(None, "sync"))


@contextmanager
def locked(postgres, schema: str, lock: str) -> Iterator[None]:
    """Another transaction has locked a table."""
    with postgres.connect(schema) as db, db.transaction(force_rollback=True):
        db.execute(lock)
        yield


class TestOrder:
    async def test_a_renewal_goes_before_the_saves_that_wait(self):
        """
        Renewals, and requests to cancel, are the next batch, alone, whatever waits.
        """
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            actor = PersistenceActor(saver)
            group.start_soon(actor.serve)
            for number in range(SAVES):
                actor.post(save(number), Receipts(lambda _: None))
            await saver.waiting()
            actor.post(RenewOwner(OWNER, 1.0), Receipts(lambda _: None))
            actor.post(AskCancel(OWNER, "t0", "why"), Receipts(lambda _: None))
            saver.release(None)
            await settled(400)
            actor.stop()

        sizes = [len(batch) for batch in saver.batches]
        assert sizes[1:3] == [1, 1]
        assert {type(batch[0]) for batch in saver.batches[1:3]} == {RenewOwner, AskCancel}
        assert sum(sizes) == SAVES + 2

    @pytest.mark.one_loop
    @pytest.mark.parametrize("kind", ["sqlite", "postgres"])
    async def test_a_lease_is_renewed_while_its_loop_is_busy(self, kind, request, tmp_path):
        """
        On a saver with a connection for it, a node that holds the loop costs no lease.
        """

        async def busy(state) -> None:
            threading.Event().wait(1.5 * LEASE_S)

        graph = in_a_row({"a": busy, "b": writer("b")})
        with stored_in(request, kind, tmp_path) as place, capture_logs() as logs:
            async with system_of(place, graph, lease_s=LEASE_S) as system:
                status = await (await system.start("g", "t", {"bar": []})).wait()

        assert status == "success"
        assert "lease.lost" not in [entry["event"] for entry in logs]

    @pytest.mark.one_loop
    async def test_a_loop_that_hangs_loses_its_lease(self, tmp_path):
        """
        A process whose loop does not come round for five leases leaves its runs to others.
        """
        saver = SqliteSaver(tmp_path / "runs.db")
        calls: list[str] = []

        async def hangs(state) -> None:
            calls.append("a")
            threading.Event().wait(8 * HANGS_S)
            await anyio.sleep_forever()

        with capture_logs() as logs, anyio.fail_after(PATIENCE_S):
            async with ActorSystem(
                {"g": in_a_row({"a": hangs})}, saver=saver, lease_s=HANGS_S
            ) as system:
                status = await (await system.start("g", "t", {"bar": []})).wait()

        assert "lease.lost" in [entry["event"] for entry in logs]
        assert (calls, status) == (["a"], "pending")

    async def test_a_batch_that_waits_for_a_lock_holds_up_no_renewal(self, postgres, schema):
        """
        On PostgreSQL a lease is renewed while a batch is blocked.
        """
        answers: list[Saved | SaveFailed] = []
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            with locked(postgres, schema, LOCK_THREADS):
                host_of(saver).writer.post(save(1), Receipts(answers.append))
                renewed = await anyio.to_thread.run_sync(
                    saver.renew_beside, [RenewOwner(OWNER, 9.0)]
                )
                waited = list(answers)
            with anyio.fail_after(PATIENCE_S):
                while not answers:
                    await checkpoint()

        assert (waited, renewed) == ([], [Committed()])
        assert isinstance(answers[0], Saved)


async def test_a_system_closes_while_the_threads_of_its_program_hang(tmp_path):
    """
    The end of a lease needs none of the worker threads that a program may use up.
    """
    out = threading.Event()
    limiter = anyio.to_thread.current_default_thread_limiter()

    graph = in_a_row({"a": writer("a")})
    release = threading.Timer(PATIENCE_S, out.set)  # else a test that fails would never end
    release.start()
    try:
        async with anyio.create_task_group() as group:
            system = ActorSystem({"g": graph}, saver=SqliteSaver(tmp_path / "runs.db"))
            with anyio.fail_after(PATIENCE_S):
                async with system:
                    for _ in range(int(limiter.total_tokens)):
                        group.start_soon(partial(anyio.to_thread.run_sync, out.wait))
                    while limiter.available_tokens:
                        await checkpoint()
                    await (await system.start("g", "t", {"bar": []})).result()
            held = limiter.borrowed_tokens
            out.set()
    finally:
        release.cancel()
        out.set()

    assert held == limiter.total_tokens


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class TestFencing:
    async def test_a_lease_that_could_not_be_renewed_is_lost(self, postgres, schema):
        """
        While renewals can't be stored the lease runs out: its runs end, and are left to others.
        """
        slow = Turnstile({"bar": ["s"]})
        saver = PostgresSaver(postgres.url, schema=schema)
        graph = turnstile_first(slow)
        with capture_logs() as logs, anyio.fail_after(PATIENCE_S):
            async with ActorSystem({"g": graph}, saver=saver, lease_s=0.4) as system:
                await system.start("g", "t", {"bar": []})
                await slow.entered.wait()
                with locked(postgres, schema, LOCK_OWNERS):
                    while not slow.closed:
                        await checkpoint()
        with postgres.connect(schema) as db:
            rows = db.execute("SELECT status, attempts FROM system_runs").fetchall()

        assert "lease.lost" in [entry["event"] for entry in logs]
        assert rows == [("pending", 1)]

    async def test_no_task_of_an_old_lease_begins(self, monkeypatch):
        """
        When a lease is lost, all tasks of its runs that are ready wait, not only the first; those
        of runs that begin under the new owner go on.
        """
        clock, began, new = Clock(), list[str](), b"n" * 16
        monkeypatch.setattr(leases, "time", clock)

        async def task(owner: bytes, name: str) -> None:
            await lease.hold(owner)
            began.append(name)

        async with (
            GatedSaver(InMemorySaver(), is_open=True) as saver,
            patient_group(saver) as group,
        ):
            lease = LeaseActor(host_of(saver), OWNER, 1.0, lambda: new)
            await task(OWNER, "before")
            clock.now += 1.5
            group.start_soon(task, OWNER, "first")
            group.start_soon(task, OWNER, "second")
            await settled()
            await task(new, "after")
            group.cancel_scope.cancel()

        assert began == ["before", "after"]

    async def test_a_renewal_counts_from_when_it_was_handed_over(self, monkeypatch):
        """
        However late it is acknowledged: the store may have counted from then on.
        """
        clock, lost = Clock(), anyio.Event()
        monkeypatch.setattr(leases, "time", clock)

        def lose() -> bytes:
            lost.set()
            return OWNER

        async with (
            GatedSaver(InMemorySaver(), is_open=True) as saver,
            patient_group(saver) as group,
        ):
            lease = LeaseActor(host_of(saver), OWNER, 0.06, lose)
            await lease.take()
            saver.hold()
            group.start_soon(lease.serve)
            await saver.waiting()
            clock.now += 0.05
            saver.release(1)
            await saver.waiting()
            early = lost.is_set()
            clock.now += 0.02
            with anyio.fail_after(PATIENCE_S):
                await lost.wait()
            saver.release(None)
            group.cancel_scope.cancel()

        assert not early

    async def test_a_lease_that_is_over_is_not_renewed(self, monkeypatch):
        """
        A process that was stopped past its lease does not renew it before its loop has noticed.
        """
        clock, lost = Clock(), anyio.Event()
        monkeypatch.setattr(leases, "time", clock)

        def lose() -> bytes:
            lost.set()
            return OWNER

        gated = GatedSaver(InMemorySaver(), is_open=True)
        async with gated as saver, patient_group(saver) as group:
            lease = LeaseActor(host_of(saver), OWNER, 0.06, lose)
            await lease.take()
            group.start_soon(lease.serve)
            await settled()
            clock.now += 0.12
            threading.Event().wait(0.12)  # the loop stands; the thread that renews does not
            with anyio.fail_after(PATIENCE_S):
                await lost.wait()
            group.cancel_scope.cancel()


class TestTheCheckBeforeATask:
    """The lease is asked for right before a task's first line, after all preparations."""

    async def test_a_task_begins_when_the_lease_has_been_looked_at(self):
        """
        Nothing of the task has run before; its context is its own.
        """
        seen: list[str] = []

        async def lease() -> None:
            await checkpoint()
            seen.append("lease")

        async def task() -> str:
            seen.append("task")
            return "done"

        assert await InContext(copy_context(), task(), None, lease) == "done"
        assert seen == ["lease", "task"]

    async def test_a_task_without_a_lease_never_begins(self):
        """
        It is cancelled while it waits, and closed: Python warns of coroutines that are not.
        """
        seen: list[str] = []

        async def task() -> None:
            seen.append("task")

        with anyio.move_on_after(0.01) as scope:
            await InContext(copy_context(), task(), None, anyio.sleep_forever)

        assert scope.cancelled_caught
        assert seen == []

    async def test_a_task_that_is_next_after_a_pause_does_not_begin(self, monkeypatch):
        """
        The process was paused past its lease between two nodes: the second one never begins.
        """
        clock, began = Clock(), list[str]()
        monkeypatch.setattr(leases, "time", clock)

        async def first(_state: Any) -> dict[str, Any]:
            began.append("first")
            clock.now += 100.0
            return {}

        async def second(_state: Any) -> dict[str, Any]:
            began.append("second")
            return {}

        graph = in_a_row({"first": first, "second": second})
        async with ActorSystem({"g": graph}, saver=InMemorySaver(), lease_s=30.0) as system:
            run = await system.start("g", "t", {"bar": []})
            status = await run.wait()

        assert (began, status) == (["first"], "pending")
