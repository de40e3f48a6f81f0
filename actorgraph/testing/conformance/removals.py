"""Checks of removals and copies: delete_thread, delete_for_runs, copy_thread, prune ..."""

from typing import Any
from uuid import uuid4

from actorgraph.testing.conformance.builders import (
    at,
    chain,
    checkpoint,
    id_of,
    metadata,
    new_id,
    new_task,
    steps,
    values_of,
    whole,
)
from actorgraph.testing.conformance.harness import Bench, Public, check, holds, same


async def _seen(saver: Public, thread: str) -> list[Any]:
    """Everything that a list of a thread shows, except the thread id."""
    return [
        (
            found.config["configurable"]["checkpoint_ns"],
            id_of(found.config),
            found.parent_config and id_of(found.parent_config),
            values_of(found),
            found.metadata,
            [tuple(write) for write in found.pending_writes],
        )
        for found in await saver.list(whole(thread))
    ]


@check("removals")
async def deleting_a_thread(bench: Bench) -> None:
    """Deleting a thread removes all its namespaces and writes, and nothing else."""
    async with bench.public() as saver:
        saver.require_methods("delete_thread")
        for thread in ("t", "t2", "T"):
            configs = [*await chain(saver, 2, at(thread)), *await chain(saver, 1, at(thread, "n"))]
            await saver.put_writes(configs[0], [("x", 1)], new_task())
        before = await _seen(saver, "t2"), await _seen(saver, "T")
        await saver.call("delete_thread", "t")
        await saver.call("delete_thread", "unknown")
        same(await saver.list(whole("t")), [], "the deleted thread")
        same(await saver.get(at("t", "n")), None, "its namespace")
        same((await _seen(saver, "t2"), await _seen(saver, "T")), before, "the other threads")
        point = checkpoint({"x": "new"}, named=id_of(configs[0]))
        again = await saver.put(at("t"), point, metadata(0))
        holds(not (await saver.get(again)).pending_writes, "writes of the deleted thread are back")


@check("removals")
async def deleting_runs(bench: Bench) -> None:
    """Deleting runs removes their checkpoints from every thread; the rest can be read."""
    one, two = str(uuid4()), str(uuid4())
    async with bench.public() as saver:
        saver.require_methods("delete_for_runs")
        for thread in ("t", "t2"):
            first = await chain(saver, 2, at(thread), run_id=one)
            await chain(saver, 2, first[-1], run_id=two)
        await saver.call("delete_for_runs", [one, str(uuid4())])
        for thread in ("t", "t2"):
            left = await saver.list(whole(thread))
            same([t.metadata["run_id"] for t in left], [two, two], "the runs that are left")
            same([values_of(t) for t in left], [{"x": 1}, {"x": 0}], "their values")
            holds(not left[-1].parent_config, "the oldest that is left names a parent that is gone")


@check("removals")
async def deleting_checkpoints(bench: Bench) -> None:
    """Ids are deleted in one namespace; children get the nearest remaining ancestor as parent."""
    async with bench.public() as saver:
        saver.require_methods("delete_checkpoints")
        configs = await chain(saver, 4)
        middle = id_of(configs[1])
        point = checkpoint({"x": "other"}, named=middle)
        other = await saver.put(at("t", "n"), point, metadata(9))
        count = await saver.call("delete_checkpoints", "t", [middle, middle, new_id()])
        same(count, 1, "how many were removed")
        same(await steps(saver, at()), [3, 2, 0], "the remaining steps")
        same(values_of(await saver.get(other)), {"x": "other"}, "the id in the other namespace")
        parent = (await saver.get(configs[2])).parent_config
        same(id_of(parent), id_of(configs[0]), "the parent of the child")


@check("removals")
async def copying(bench: Bench) -> None:
    """A copy has everything of its source, under the same ids, and is independent of it."""
    async with bench.public() as saver:
        saver.require_methods("copy_thread")
        configs = await chain(saver, 3)
        await chain(saver, 1, at("t", "n"))
        for config in configs:
            await saver.put_writes(config, [("x", [1]), ("y", 2)], new_task())
        await saver.call("copy_thread", "t", "copy")
        await saver.call("copy_thread", "unknown", "copy of nothing")
        same(await _seen(saver, "copy"), await _seen(saver, "t"), "the copy")
        same(await saver.list(whole("copy of nothing")), [], "the copy of nothing")
        before = await _seen(saver, "t")
        await chain(saver, 1, at("copy"))
        same(await _seen(saver, "t"), before, "the source, after the copy went on")


@check("removals")
async def pruning(bench: Bench) -> None:
    """A prune keeps the newest checkpoint of each namespace of the named threads, or nothing."""
    async with bench.public() as saver:
        saver.require_methods("prune")
        for thread in ("t", "t2", "t3"):
            await chain(saver, 3, at(thread))
            await chain(saver, 2, at(thread, "n"))
        untouched = await _seen(saver, "t3")
        await saver.call("prune", ["t", "unknown"], strategy="keep_latest")
        await saver.call("prune", ["t2"], strategy="delete")
        same(await steps(saver, at("t", "")), [2], "the thread's own namespace")
        same(await steps(saver, at("t", "n")), [1], "the other namespace")
        same(values_of(await saver.get(at("t"))), {"x": 2}, "the value that is left")
        same(await saver.list(whole("t2")), [], "the pruned thread")
        same(await _seen(saver, "t3"), untouched, "the thread that wasn't named")


@check("removals")
async def listing_threads(bench: Bench) -> None:
    """`list_threads` returns the threads that have checkpoints, sorted."""
    async with bench.public() as saver:
        saver.require_methods("list_threads", "delete_thread")
        for thread in ("b", "a", "c"):
            await chain(saver, 1, at(thread))
        await saver.call("delete_thread", "b")
        same(await saver.call("list_threads"), ["a", "c"], "the threads")
