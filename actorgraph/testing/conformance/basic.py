"""Checks of put, get, writes and lineage, by LangGraph's methods."""

from copy import deepcopy
from typing import Any

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
from actorgraph.testing.conformance.harness import Bench, check, holds, same

VALUES: dict[str, Any] = {
    "text": "é ü 漢字 😀",
    "number": 1.5,
    "big": 2**53,
    "true": True,
    "none": None,
    "list": [1, [2, ["three"]]],
    "map": {"k": {"deep": [1, 2]}},
    "bytes": b"\x00\xff",
    "empty": {},
}


@check("basic")
async def get_returns_the_checkpoint_that_was_put(bench: Bench) -> None:
    """`get` with the config that `put` returned gives an equal checkpoint and metadata."""
    point, about = checkpoint(VALUES), metadata(0, user="ada")
    async with bench.public() as saver:
        config = await saver.put(at(), deepcopy(point), about)
        found = await saver.get(config)
    same(id_of(config), point["id"], "the id in the returned config")
    holds(found is not None, "the checkpoint that put returned isn't there")
    same(values_of(found), VALUES, "the values")
    for key in ("id", "channel_versions", "versions_seen"):
        same(found.checkpoint[key], point[key], key)
    same({k: found.metadata.get(k) for k in about}, about, "the metadata")
    holds(not found.parent_config, "a first checkpoint has no parent")
    holds(not found.pending_writes, "a checkpoint without writes has none")


@check("basic")
async def unknown_checkpoints_are_none(bench: Bench) -> None:
    """For an unknown thread, namespace or id `get` returns None and `list` nothing."""
    async with bench.public() as saver:
        same(await saver.get(at("unknown")), None, "an unknown thread")
        same(await saver.list(whole("unknown")), [], "the list of an unknown thread")
        await chain(saver, 1)
        same(await saver.get(at(checkpoint_id=new_id())), None, "an unknown checkpoint")
        same(await saver.get(at("t", "other")), None, "an unknown namespace")


@check("basic")
async def latest_and_named(bench: Bench) -> None:
    """A config without an id addresses the newest checkpoint, with an id that one."""
    async with bench.public() as saver:
        configs = await chain(saver, 3)
        same(values_of(await saver.get(at())), {"x": 2}, "the newest")
        for step, config in enumerate(configs):
            same(values_of(await saver.get(config)), {"x": step}, f"checkpoint {step}")


@check("basic")
async def threads_and_namespaces_are_separate(bench: Bench) -> None:
    """Each namespace of each thread has checkpoints of its own."""
    places = [("t", ""), ("t", "a"), ("t", "a|b"), ("t2", ""), ("T", ""), ("t", "A")]
    async with bench.public() as saver:
        for number, (thread, namespace) in enumerate(places):
            await saver.put(at(thread, namespace), checkpoint({"x": number}), metadata(number))
        for number, place in enumerate(places):
            same(values_of(await saver.get(at(*place))), {"x": number}, f"{place}")
            same(await steps(saver, at(*place)), [number], f"the list of {place}")
        same(sorted(await steps(saver, whole("t2"))), [3], "the list of a thread")


@check("basic")
async def one_id_in_two_namespaces(bench: Bench) -> None:
    """One id in two namespaces addresses two checkpoints."""
    named = new_id()
    async with bench.public() as saver:
        for namespace in ("", "a"):
            point = checkpoint({"x": namespace}, named=named)
            await saver.put(at("t", namespace), point, metadata(0))
        for namespace in ("", "a"):
            found = await saver.get(at("t", namespace, checkpoint_id=named))
            same(values_of(found), {"x": namespace}, f"namespace {namespace!r}")


@check("basic")
async def values_are_stored_as_copies(bench: Bench) -> None:
    """Mutating a checkpoint after `put`, or one that was read, changes nothing stored."""
    async with bench.public() as saver:
        point = checkpoint({"x": [1]})
        config = await saver.put(at(), point, metadata(0))
        read = await saver.get(config)
        read.checkpoint["channel_values"]["x"].append("forged")
        point["channel_values"]["x"].append("forged")
        same(values_of(await saver.get(config)), {"x": [1]}, "the value")


@check("basic")
async def channels_without_a_value_are_left_out(bench: Bench) -> None:
    """A channel that has a version but no value is read without a value."""
    async with bench.public() as saver:
        first = await saver.put(at(), checkpoint({"x": 1, "y": 2}), metadata(0))
        point = checkpoint({"x": 2}, version=2)
        point["channel_versions"]["y"] = 2
        await saver.put(first, point, metadata(1))
        same(values_of(await saver.get(at())), {"x": 2}, "the values")


@check("writes")
async def writes_belong_to_their_checkpoint(bench: Bench) -> None:
    """A task's writes are read with their checkpoint and no other one, in order."""
    one, two = sorted([new_task(), new_task()])
    async with bench.public() as saver:
        first, second = await chain(saver, 2)
        await saver.put_writes(first, [("x", 1), ("y", {"k": [2]}), ("x", 3)], one)
        await saver.put_writes(first, [("x", 4)], two)
        found = [tuple(w) for w in (await saver.get(first)).pending_writes]
        wanted = [(one, "x", 1), (one, "y", {"k": [2]}), (one, "x", 3), (two, "x", 4)]
        same(sorted(found, key=lambda w: w[0]), wanted, "the writes")
        holds(not (await saver.get(second)).pending_writes, "another checkpoint has them too")
        listed = {id_of(t.config): t.pending_writes for t in await saver.list(at())}
        same(len(listed[id_of(first)]), 4, "the writes in a list")


@check("writes")
async def writes_are_stored_once(bench: Bench) -> None:
    """Storing a task's writes again changes nothing: the first ones are kept."""
    task = new_task()
    async with bench.public() as saver:
        (config,) = await chain(saver, 1)
        for value in (1, 2):
            await saver.put_writes(config, [("x", value)], task)
        found = [tuple(w) for w in (await saver.get(config)).pending_writes]
    same(found, [(task, "x", 1)], "the writes")


@check("writes")
async def errors_and_interrupts_are_replaced(bench: Bench) -> None:
    """A task's error, interrupt or resume value replaces the previous one, and no write."""
    task = new_task()
    async with bench.public() as saver:
        (config,) = await chain(saver, 1)
        await saver.put_writes(config, [("x", 1)], task)
        for kind in ("__error__", "__interrupt__", "__resume__"):
            for value in ("old", "new"):
                await saver.put_writes(config, [(kind, value)], task)
        found = {w[1]: w[2] for w in (await saver.get(config)).pending_writes}
        count = len((await saver.get(config)).pending_writes)
    wanted = {"x": 1, "__error__": "new", "__interrupt__": "new", "__resume__": "new"}
    same((found, count), (wanted, 4), "the writes")


@check("writes")
async def writes_of_namespaces_are_separate(bench: Bench) -> None:
    """Writes of a checkpoint are not read with one that has the same id in another namespace."""
    named = new_id()
    async with bench.public() as saver:
        for namespace in ("", "a"):
            point = checkpoint({"x": 0}, named=named)
            await saver.put(at("t", namespace), point, metadata(0))
        await saver.put_writes(at("t", "a", checkpoint_id=named), [("x", 1)], new_task())
        holds(not (await saver.get(at("t", ""))).pending_writes, "the other namespace has them")
        same(len((await saver.get(at("t", "a"))).pending_writes), 1, "the namespace's own")


@check("lineage")
async def parents_lead_to_the_first(bench: Bench) -> None:
    """The parent of a checkpoint is the one that its `put` addressed; the first has none."""
    async with bench.public() as saver:
        configs = await chain(saver, 4)
        for config, parent in zip(configs, [None, *configs], strict=False):
            found = (await saver.get(config)).parent_config
            same(found and id_of(found), parent and id_of(parent), "the parent")
        listed = [t.parent_config and id_of(t.parent_config) for t in await saver.list(at())]
    same(listed, [*[id_of(c) for c in reversed(configs[:-1])], None], "the parents in a list")


@check("lineage")
async def branches_keep_their_values(bench: Bench) -> None:
    """A branch from an older checkpoint becomes the newest; the other branch is unchanged."""
    async with bench.public() as saver:
        configs = await chain(saver, 3)
        point = checkpoint({"x": "branch"}, version=9)
        branch = await saver.put(configs[0], point, metadata(1, "fork"))
        found = await saver.get(branch)
        same(id_of(found.parent_config), id_of(configs[0]), "the branch's parent")
        same(values_of(await saver.get(at())), {"x": "branch"}, "the newest")
        same(values_of(await saver.get(configs[2])), {"x": 2}, "the other branch's end")
        same(len(await saver.list(at())), 4, "checkpoints")
