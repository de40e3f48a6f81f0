"""Read snapshots of a thread: one checkpoint, or its history, newest first, a page at a time."""

from collections.abc import Mapping
from typing import Any

from actorgraph.codec import Codec
from actorgraph.codec.restore import stored_write
from actorgraph.plan.graph import Plan
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.launch import Address
from actorgraph.runtime.runs import load
from actorgraph.superstep.snapshot import empty_snapshot, snapshot, unsaved_snapshot
from actorgraph.values.commits import LoadCheckpoint, StoredCheckpoint
from actorgraph.values.records import StoredWrite
from actorgraph.values.snapshot import StateSnapshot


async def read_state(
    host: Host, codec: Codec, plan: Plan, address: Address, config: Mapping[str, Any]
) -> StateSnapshot:
    """Return the snapshot of the addressed checkpoint; without one, of the thread as it is now.

    Args:
        config: becomes that of an empty snapshot, if the thread has no checkpoint.
    """
    found = await load(host, codec, plan, address, parents=True)
    restored = found.restored
    if restored is None:
        return empty_snapshot(dict(config))
    if not restored.id:
        return unsaved_snapshot(dict(config))
    parents = found.parents
    if parents is None:  # this saver can't read the parent in the same query
        parents = await ledger_of(host, codec, address, restored.parent)
    return snapshot(
        plan,
        restored,
        address.thread_id,
        live=address.checkpoint is None,
        parent_ledger=parents,
    )


async def ledger_of(
    host: Host, codec: Codec, address: Address, checkpoint: bytes | None
) -> tuple[StoredWrite, ...]:
    """Read the pending writes of a checkpoint; none for None."""
    if checkpoint is None:
        return ()
    query = LoadCheckpoint(address.thread_id, address.namespace, checkpoint)
    stored = (await host.reader.ask(query)).checkpoint
    return decoded(codec, stored) if stored else ()


def decoded(codec: Codec, stored: StoredCheckpoint) -> tuple[StoredWrite, ...]:
    """Decode the pending writes of a stored checkpoint."""
    return tuple(stored_write(codec, stored, row) for row in stored.ledger)
