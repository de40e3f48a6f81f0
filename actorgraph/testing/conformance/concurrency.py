"""Checks of concurrent use, and of savers that are opened again over the same store."""

from functools import partial

import anyio

from actorgraph.testing.conformance.builders import (
    at,
    chain,
    checkpoint,
    id_of,
    metadata,
    new_task,
    steps,
    values_of,
)
from actorgraph.testing.conformance.harness import Bench, Public, check, holds, same

TASKS = 20


@check("concurrent")
async def many_threads_at_once(bench: Bench) -> None:
    """Chains stored concurrently on many threads are complete, each in its order."""
    async with bench.public() as saver:
        async with anyio.create_task_group() as group:
            for number in range(TASKS):
                group.start_soon(partial(chain, saver, 5, at(f"t{number}")))
        for number in range(TASKS):
            same(await steps(saver, at(f"t{number}")), [4, 3, 2, 1, 0], f"thread {number}")


@check("concurrent")
async def many_writes_beside_one_checkpoint(bench: Bench) -> None:
    """Concurrent writes of many tasks are all stored, each once."""
    tasks = [new_task() for _ in range(TASKS)]
    async with bench.public() as saver:
        (config,) = await chain(saver, 1)
        async with anyio.create_task_group() as group:
            for number, task in enumerate(tasks * 2):
                group.start_soon(saver.put_writes, config, [("x", number % TASKS)], task)
        found = [tuple(write) for write in (await saver.get(config)).pending_writes]
    same(sorted(found), sorted((t, "x", n) for n, t in enumerate(tasks)), "the writes")


@check("concurrent")
async def readers_see_whole_checkpoints(bench: Bench) -> None:
    """While checkpoints are stored each read returns a whole one, never older than the last."""
    async with bench.public() as saver:
        done = anyio.Event()

        async def read() -> None:
            newest = -1
            while not done.is_set():
                found = await saver.get(at())
                step = -1 if found is None else found.metadata["step"]
                if found is not None:
                    same(values_of(found), {"x": step, "y": [step] * 50}, "a read value")
                same(max(step, newest), step, "a later read")
                newest = step
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            for step in range(40):
                point = checkpoint({"x": step, "y": [step] * 50}, version=step + 1)
                await saver.put(at(), point, metadata(step))
            done.set()


@check("concurrent")
async def a_slow_reader_blocks_no_writer(bench: Bench) -> None:
    """While a list is being read slowly, checkpoints can be stored."""
    async with bench.public() as saver:
        saver.require_methods("alist")
        await chain(saver, 10)
        pages = saver.saver.alist(at())
        first = await anext(pages)
        with anyio.fail_after(10):
            await chain(saver, 3, at("other"))
        rest = [found.metadata["step"] async for found in pages]
        same([first.metadata["step"], *rest], [*range(9, -1, -1)], "the list")


@check("concurrent")
async def removals_while_others_store(bench: Bench) -> None:
    """Removals lose nothing of other threads, nor checkpoints that are stored meanwhile."""
    async with bench.public() as saver:
        await saver.call("delete_thread", "nothing")
        await saver.call("prune", ["nothing"], strategy="keep_latest")
        await chain(saver, 10, at("t"))
        stored = anyio.Event()

        async def remove() -> None:
            while not stored.is_set():
                await saver.call("prune", ["t"], strategy="keep_latest")
                await anyio.lowlevel.checkpoint()
            await saver.call("delete_thread", "t")

        async def store() -> None:
            for turn in range(20):
                (config,) = await chain(saver, 1, at("t"), turn=turn)
                await anyio.lowlevel.checkpoint()
                found = await saver.get(config)
                holds(found is not None, f"number {turn} that was stored during a prune is gone")
            stored.set()

        async with anyio.create_task_group() as group:
            group.start_soon(remove)
            group.start_soon(store)
            for number in range(5):
                group.start_soon(partial(chain, saver, 10, at(f"t{number}")))
        for number in range(5):
            same(len(await saver.list(at(f"t{number}"))), 10, f"thread {number}")
        same(await saver.list(at("t")), [], "the deleted thread")


@check("reopen")
async def everything_is_there_after_reopening(bench: Bench) -> None:
    """A new saver over the same store reads the same checkpoints, writes, parents and order."""
    task = new_task()
    bench.require_durable()
    async with bench.public() as saver:
        configs = await chain(saver, 3)
        await saver.put_writes(configs[1], [("x", {"deep": [b"1"]})], task)
        await chain(saver, 1, at("other", "n"))
    async with bench.public() as saver:
        same(await steps(saver, at()), [2, 1, 0], "the list")
        found = await saver.get(configs[1])
        same(values_of(found), {"x": 1}, "the value")
        same(id_of(found.parent_config), id_of(configs[0]), "the parent")
        same([*map(tuple, found.pending_writes)], [(task, "x", {"deep": [b"1"]})], "writes")
        same(values_of(await saver.get(at("other", "n"))), {"x": 0}, "the other thread")


@check("reopen")
async def a_reopened_saver_continues(bench: Bench) -> None:
    """Checkpoints stored after reopening are newer than older ones, regardless of their ids."""
    bench.require_durable()
    for turn in range(3):
        async with bench.public() as saver:
            await chain(saver, 2, at(), turn=turn)
    async with bench.public() as saver:
        turns = [found.metadata["turn"] for found in await saver.list(at())]
    same(turns, [2, 2, 1, 1, 0, 0], "the order")


@check("reopen")
async def removed_threads_stay_removed(bench: Bench) -> None:
    """A deleted thread is still deleted after reopening."""
    bench.require_durable()
    async with bench.public() as saver:
        saver.require_methods("delete_thread")
        await chain(saver, 2)
        await chain(saver, 2, at("other"))
        await saver.call("delete_thread", "t")
    async with bench.public() as saver:
        await _only(saver, "other")


async def _only(saver: Public, thread: str) -> None:
    names = {t.config["configurable"]["thread_id"] for t in await saver.list(None)}
    same(names, {thread}, "the threads")
