"""AsyncBatchedBaseStore: operations of many tasks travel together."""

import asyncio

import anyio
import pytest
from anyio.lowlevel import checkpoint

from actorgraph.errors import RunningLoopError
from actorgraph.stores import AsyncBatchedBaseStore, InMemoryStore


class Slow(AsyncBatchedBaseStore):
    """Counts what reaches it; each batch waits for the test."""

    def __init__(self, *, opened=True) -> None:
        super().__init__()
        self.inner, self.batches = InMemoryStore(), []
        self.gate, self.arrived = anyio.Event(), anyio.Event()
        if opened:
            self.gate.set()

    def batch(self, ops):
        return self.inner.batch(ops)

    async def abatch(self, ops):
        self.batches.append(list(ops))
        self.arrived.set()
        await self.gate.wait()
        return self.inner.batch(self.batches[-1])


@pytest.mark.langgraph("F-I9")
async def test_tasks_of_one_moment_share_a_batch():
    """
    Twenty tasks that ask at once make one batch; equal reads are one, the last put counts.
    """
    store, seen = Slow(), []

    async def ask(number):
        await store.aput(("a",), "k", {"n": number})
        seen.append(await store.aget(("a",), "k"))

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(ask, number)

    assert len(store.batches) <= 4
    assert sum(map(len, store.batches)) <= 6
    assert {item.value["n"] for item in seen} <= set(range(20))
    assert len(await store.asearch(("a",))) == 1
    assert await store.alist_namespaces() == [("a",)]


@pytest.mark.langgraph("F-I9")
async def test_waiting_operations_share_the_next_batch():
    """
    While a batch is away the others wait, and then go together.
    """
    store = Slow(opened=False)

    async with anyio.create_task_group() as group:
        group.start_soon(store.aput, ("a",), "first", {})
        await store.arrived.wait()
        for number in range(10):
            group.start_soon(store.aput, ("a",), str(number), {})
        for _ in range(5):
            await checkpoint()
        store.gate.set()

    assert [len(ops) for ops in store.batches] == [1, 10]


async def test_one_that_waits_may_be_cancelled():
    """
    A cancelled caller whose turn has not come takes its operation back; the others go on.
    """
    store = Slow(opened=False)

    async with anyio.create_task_group() as group:
        group.start_soon(store.aput, ("a",), "first", {})
        await store.arrived.wait()
        with anyio.CancelScope() as scope:
            group.start_soon(store.aput, ("a",), "third", {})
            scope.cancel()
            await store.aput(("a",), "second", {})
        await checkpoint()
        store.gate.set()

    assert sorted(item.key for item in store.inner.search(())) == ["first", "third"]


async def test_one_whose_batch_is_away_waits_for_it():
    """
    A cancelled caller whose batch is away returns when it is done, so nothing happens later.
    """
    store = Slow(opened=False)

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(_open_later, store, scope)
            await store.aput(("a",), "k", {})

    assert store.inner.get(("a",), "k") is not None


async def _open_later(store, scope):
    await store.arrived.wait()
    scope.cancel()
    await checkpoint()
    store.gate.set()


def test_a_cancelled_task_leaves_the_others_of_its_batch_alone():
    """
    `task.cancel()` of the task that leads a batch ends that task, when the batch is done.
    """

    async def main():
        store = Slow(opened=False)
        tasks = [asyncio.create_task(store.aput(("a",), key, {})) for key in "abc"]
        await store.arrived.wait()
        tasks[0].cancel()
        await asyncio.sleep(0)
        store.gate.set()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        return [type(end) for end in ends], len(store.inner.search(("a",)))

    none = type(None)
    assert asyncio.run(main()) == ([asyncio.CancelledError, none, none], 3)


async def test_a_failure_reaches_every_caller():
    """
    The error of a batch goes to all of its callers, and the next batch is tried.
    """

    class Failing(Slow):
        async def abatch(self, ops):
            self.batches.append(list(ops))
            if len(self.batches) == 1:
                raise OSError("away")
            return self.inner.batch(ops)

    store, failed = Failing(), []

    async def ask(number):
        try:
            await store.aget(("a",), str(number))
        except OSError:
            failed.append(number)

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(ask, number)

    assert sorted(failed) == [0, 1, 2]
    assert await store.aget(("a",), "k") is None


@pytest.mark.langgraph("F-I9")
async def test_blocking_methods_in_its_loop():
    """
    In the loop that it was made in they are refused; in a thread they work.
    """
    store = Slow()

    with pytest.raises(RunningLoopError, match="aget"):
        store.get(("a",), "k")
    await anyio.to_thread.run_sync(store.put, ("a",), "k", {})
    assert (await store.aget(("a",), "k")).value == {}
