"""Errors that programs get: passing failures, closed savers, no such thread."""

import threading

import anyio
import anyio.to_thread
import pytest

from actorgraph import EmptyInputError, InMemorySaver, RetryingSaver, SqliteSaver
from actorgraph.errors import (
    CheckpointNotFoundError,
    SaverBrokenError,
    SaverClosedError,
    StorageBusyError,
    StorageError,
)
from actorgraph.savers.jsonl.files import Files
from actorgraph.testing import FaultPlan, FaultySaver, GatedSaver, failing_connection
from actorgraph.values.policies import RetryPolicy
from tests.savers.test_langgraph_methods import put
from tests.savers.test_postgres_connections import waiting
from tests.savers.test_removals_log import log
from tests.support.gates import PATIENCE_S, patient_group, settled
from tests.support.graphs import ab, at, chain, count
from tests.support.stored_bytes import KINDS

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

__all__ = ["log"]
AT_ONCE = RetryPolicy(0, 1, 0, 3, jitter=False, retry_on=StorageBusyError)
LOST = "1f000000-0000-6000-8000-000000000000"


def busy() -> StorageBusyError:
    return StorageBusyError("the database is locked", do="wait")


def full() -> StorageError:
    return StorageError("the disk refuses", do="buy another")


class TestPassingFailures:
    @pytest.mark.promise("S204")
    @pytest.mark.parametrize("fail_at", range(2, 7))
    async def test_they_are_tried_again(self, store, fail_at):
        """
        A run whose store fails once in passing, at whichever operation, ends as if it had not.
        """
        plan = FaultPlan(fail_at, error=busy, lasting=False)
        faulty = FaultySaver(store.saver(), plan, immediate=False)
        async with RetryingSaver(faulty, AT_ONCE) as saver:
            assert (await ab(saver).ainvoke({"foo": "x"}, at()))["bar"] == ["a", "b"]
            assert await count(ab(saver), at()) == 4

        assert plan.fired

    @pytest.mark.promise("S202", "S204")
    @pytest.mark.parametrize(
        ("error", "attempts"), [(busy, 3), (full, 1), (None, 1)], ids=["busy", "full", "broken"]
    )
    async def test_lasting_ones_fail_the_run(self, store, error, attempts):
        """
        After the last attempt, or at once where another one can't help, the run fails; the last
        checkpoint can be gone on with.
        """
        plan = FaultPlan(4, error=error)
        faulty = FaultySaver(store.saver(), plan, immediate=False)
        ran: list[str] = []
        async with RetryingSaver(faulty, AT_ONCE) as saver:
            kind = SaverBrokenError if error is None else type(error())
            with pytest.raises(kind):
                await chain("abc", checkpointer=saver).ainvoke({"foo": "x"}, at())
        tried = plan.operations[3:].count("commit")

        async with RetryingSaver(FaultySaver(store.again())) as saver:
            assert (await chain("abc", ran, checkpointer=saver).ainvoke(None, at()))["bar"] == [
                *"abc"
            ]
        assert tried == attempts
        assert ran[0] == "a"


@pytest.mark.promise("S215")
async def test_a_failed_save_is_one_record(store, log):
    """
    A save that the store doesn't take is logged once, with its thread, checkpoint and step.
    """
    faulty = FaultySaver(store.saver(), FaultPlan(4, error=full), immediate=False)
    async with faulty as saver:
        with pytest.raises(StorageError):
            await chain("abc", checkpointer=saver).ainvoke({"foo": "x"}, at())

    (entry,) = [e for e in log if e["event"] == "save.failed"]
    assert (entry["thread_id"], entry["step"], entry["log_level"]) == ("t", 1, "error")
    assert len(entry["checkpoint_id"]) == len(entry["run_id"]) == 36
    assert entry["error"] == "the disk refuses"


class TestClosed:
    @pytest.mark.promise("S212")
    async def test_every_operation_says_so(self, store):
        """
        After its block a saver raises SaverClosedError, whatever is asked of it; one that lives in
        the program's memory has nothing to close, and goes on.
        """
        async with store.saver() as saver:
            point = await put(saver, at(), 0)
            graph = ab(saver)
        if saver.immediate:
            assert await saver.acount("t") == 1
            return
        for call in (
            lambda: saver.aget_tuple(at()),
            lambda: anext(saver.alist(at())),
            lambda: put(saver, at(), 1),
            lambda: saver.aput_writes(point, [("foo", 1)], LOST),
            lambda: saver.adelete_thread("t"),
            lambda: saver.acount("t"),
            saver.avacuum,
            lambda: graph.ainvoke({"foo": "x"}, at()),
            lambda: graph.aget_state(at()),
        ):
            with pytest.raises(SaverClosedError):
                await call()


class TestWrongThreads:
    @pytest.mark.promise("S210")
    async def test_the_error_names_that_id_and_no_other(self, saver):
        """
        Going on with a thread, or reading a checkpoint of one, that doesn't exist names it and says
        what to do; ids of other threads, which may be another tenant's, are never shown, however
        similar they are.
        """
        graph = ab(saver)
        for name in ("order-1234", "order-1235", "unrelated"):
            await put(saver, at(name), 0)

        with pytest.raises(EmptyInputError, match="'Order-1234'") as nothing:
            await graph.ainvoke(None, at("Order-1234"))
        with pytest.raises(CheckpointNotFoundError, match="'order-123'") as lost:
            await graph.aget_state(at("order-123", checkpoint_id=LOST))
        with pytest.raises(EmptyInputError) as other:
            await graph.ainvoke(None, at("xyz"))
        with pytest.raises(CheckpointNotFoundError) as known:
            await graph.aget_state(at("unrelated", checkpoint_id=LOST))

        errors = [nothing.value, lost.value, other.value, known.value]
        assert nothing.value.do == other.value.do
        assert lost.value.do == known.value.do == "take an id from get_state_history()"
        for name in ("order-1234", "order-1235"):
            assert name not in "".join(map(str, errors))
        assert await saver.aget_tuple(at("order-123")) is None


class Held:
    """A place in a store where a save waits until it is released, in any thread."""

    def __init__(self) -> None:
        self.entered, self.freed = threading.Event(), threading.Event()
        self.active = False

    def stand(self) -> None:
        if self.active:
            self.entered.set()
            assert self.freed.wait(PATIENCE_S), "nobody let the save go: the loop stands too"

    async def begun(self) -> bool:
        return self.entered.is_set()

    def release(self) -> None:
        self.freed.set()


class HeldStatements(Held, FaultPlan):
    """Of SQLite: at COMMIT."""

    def __init__(self) -> None:
        Held.__init__(self)
        FaultPlan.__init__(self)

    def run(self, name, operation, default):
        if name.lower() == "commit":
            self.stand()
        return operation()


class HeldFiles(Held, Files):
    """Of files: at the sync."""

    def sync(self, descriptor):
        self.stand()
        super().sync(descriptor)


class HeldTables(Held):
    """Of PostgreSQL: at a table that another session has locked."""

    def __init__(self, postgres, schema) -> None:
        super().__init__()
        self.postgres = postgres
        self.connecting = postgres.connect(schema)
        self.session = self.connecting.__enter__()

    def lock(self) -> None:
        self.session.execute("BEGIN")
        self.session.execute("LOCK TABLE checkpoints IN ACCESS EXCLUSIVE MODE")

    async def begun(self) -> bool:
        return await anyio.to_thread.run_sync(waiting, self.postgres) > 0

    def release(self) -> None:
        self.connecting.__exit__(None, None, None)


def held(store, postgres):
    """A saver over a place, and what holds its saves up once it is `active`."""
    if store.kind == "sqlite":
        plan = HeldStatements()
        kind = type("Held", (SqliteSaver,), {"connection_class": failing_connection(plan)})
        return kind(store.path), plan
    if store.kind == "jsonl":
        saver, files = store.saver(), HeldFiles()
        saver._files = files  # noqa: SLF001 - the file system is what the test has
        return saver, files
    return store.saver(), HeldTables(postgres, store.schema)


class TestAsync:
    @pytest.mark.promise("S197", "B8")
    @pytest.mark.parametrize("store", KINDS, indirect=True)
    async def test_the_loop_goes_on_while_the_disk_takes_its_time(self, store, postgres):
        """
        While a save waits at COMMIT, at a sync, or in the server, the loop goes round.
        """
        saver, place = held(store, postgres)
        done: list[str] = []

        async def save() -> None:
            await put(saver, at(), 1)
            done.append("save")

        async with saver, anyio.create_task_group() as group:
            await put(saver, at(), 0)
            place.active = True
            if isinstance(place, HeldTables):
                place.lock()
            group.start_soon(save)
            with anyio.fail_after(PATIENCE_S):
                while not await place.begun():
                    await anyio.lowlevel.checkpoint()
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            done.append("loop")
            place.release()

        assert done == ["loop", "save"]

    @pytest.mark.promise("S197")
    async def test_the_loop_goes_on_while_a_save_is_under_way(self):
        """
        A run whose save is delayed by the store delays no other run.
        """
        gated = GatedSaver(InMemorySaver())
        graph = ab(gated)
        done: list[str] = []

        async def run() -> None:
            await graph.ainvoke({"foo": "x"}, at())
            done.append("run")

        async with patient_group(gated) as group:
            group.start_soon(run)
            await settled()
            done.append("loop")

        assert done == ["loop", "run"]
