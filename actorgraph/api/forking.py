"""A checkpoint's state, copied to a thread of its own."""

from typing import Any

import msgspec

from actorgraph.api.compiled import Target
from actorgraph.codec.handoff import HandOff
from actorgraph.errors import CheckpointNotFoundError, ConflictError
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.runs import Address, load
from actorgraph.superstep.chunks import address as address_config
from actorgraph.superstep.forking import fork
from actorgraph.superstep.state import RunState
from actorgraph.values.ids import as_text
from actorgraph.values.policies import Durability, RunPolicy


async def copy_to(at: Target, thread_id: str) -> dict[str, Any]:
    """Make the addressed checkpoint's state the root of a new thread.

    Raises:
        CheckpointNotFoundError: there is no such checkpoint.
        ConflictError: the new thread has checkpoints.
    """
    source = at.address
    found = await load(at.host, at.codec, at.plan, source)
    if found.restored is None or not found.restored.id:
        raise CheckpointNotFoundError(
            f"thread {source.thread_id!r} has no checkpoint to copy", do="run it first"
        )
    target = Address(thread_id, source.namespace)
    there = await load(at.host, at.codec, at.plan, target)
    if there.restored is not None:
        raise ConflictError(
            f"thread {thread_id!r} has checkpoints; a fork begins a new thread",
            do="choose another target_thread_id, or delete that thread",
        )
    state = RunState(at.plan, RunPolicy(durability=Durability.SYNC), IDS.checkpoint, has_saver=True)
    state.thread_id, state.namespace = thread_id, source.namespace
    restored = found.restored
    origin = {
        "thread": source.thread_id,
        "ns": source.namespace,
        "id": as_text(restored.id),
    }
    save = fork(state, msgspec.structs.replace(restored, claim=None), origin)
    handoff = HandOff(
        at.codec,
        at.plan,
        thread_id=thread_id,
        namespace=source.namespace,
        run=IDS.run(),
        epoch=there.epoch,
        stamped=False,
    )
    await at.host.writer.store(handoff.commit(save))
    return address_config(thread_id, source.namespace, state.checkpoint) or {}
