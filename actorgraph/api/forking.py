"""Copy a checkpoint's state to a new thread, maybe in another saver."""

from typing import Any

import msgspec

from actorgraph.api.compiled import AddressedGraph
from actorgraph.codec import Codec
from actorgraph.codec.handoff import HandOff
from actorgraph.codec.records import encode_names
from actorgraph.errors import CheckpointNotFoundError, ConflictError
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.launch import Address
from actorgraph.runtime.runs import LoadedThread, load
from actorgraph.superstep.chunks import address as address_config
from actorgraph.superstep.forking import fork
from actorgraph.superstep.state import RunState
from actorgraph.values.commits import Commit, ListCheckpoints, StoredCheckpoint
from actorgraph.values.constants import NAMESPACE_END
from actorgraph.values.ids import as_text
from actorgraph.values.policies import Durability, RunPolicy

NOTHING_NEXT = encode_names(())


class ForkTarget(msgspec.Struct, frozen=True):
    """The destination of a copy.

    Attributes:
        thread_id: of the new thread.
        host: of the saver that will hold it.
        codec: of that saver.
    """

    thread_id: str
    host: Host
    codec: Codec


async def load_source(at: AddressedGraph) -> LoadedThread:
    """Load the addressed checkpoint.

    Raises:
        CheckpointNotFoundError: it doesn't exist.
    """
    found = await load(at.host, at.codec, at.plan, at.address)
    if found.restored is None or not found.restored.id:
        raise CheckpointNotFoundError(
            f"thread {at.address.thread_id!r} has no checkpoint to copy", do="run it first"
        )
    return found


async def subgraph_states_before(at: AddressedGraph, before: int) -> list[StoredCheckpoint]:
    """Find the state that stateful subgraphs had when a checkpoint of the thread was stored.

    Args:
        before: the sequence number of that checkpoint.
    Returns: for each of their namespaces the newest older row at which their run had ended,
        without values. A row with tasks to run is skipped: it belongs to a task of the parent,
        which starts again in the fork.
    """
    if at.address.namespace:
        return []
    query = ListCheckpoints(at.address.thread_id, bare=True)
    rows: list[StoredCheckpoint] = await at.host.reader.ask(query)  # newest first
    found: dict[str, StoredCheckpoint] = {}
    for row in rows:
        ended = row.sequence < before and row.row.next == NOTHING_NEXT
        # A namespace with a task id belongs to a stateless subgraph, which keeps nothing.
        if ended and row.namespace and NAMESPACE_END not in row.namespace:
            found.setdefault(row.namespace, row)
    return list(found.values())


async def copy_checkpoint(at: AddressedGraph, found: LoadedThread, to: ForkTarget) -> Commit:
    """Return the commit that stores a checkpoint as the first one of its namespace there.

    Raises:
        ConflictError: the new thread has checkpoints in that namespace.
    """
    source, restored = at.address, found.restored
    assert restored is not None
    there = await load(to.host, to.codec, at.plan, Address(to.thread_id, source.namespace))
    if there.restored is not None:
        raise ConflictError(
            f"thread {to.thread_id!r} has checkpoints; a fork begins a new thread",
            do="choose another target_thread_id, or delete that thread",
        )
    state = RunState(at.plan, RunPolicy(durability=Durability.SYNC), IDS.checkpoint, has_saver=True)
    state.thread_id, state.namespace = to.thread_id, source.namespace
    origin = {
        "thread": source.thread_id,
        "ns": source.namespace,
        "id": as_text(restored.id),
    }
    # The claim belongs to the run that holds the source thread.
    alone = msgspec.structs.replace(restored, claim=None)
    handoff = HandOff(
        to.codec,
        at.plan,
        thread_id=to.thread_id,
        namespace=source.namespace,
        run=IDS.run(),
        epoch=there.epoch,
        stamped=False,
    )
    return handoff.commit(fork(state, alone, origin))


def address_of_copy(commit: Commit) -> dict[str, Any]:
    """Return a config that addresses the copy."""
    newest = commit.checkpoints[-1].id
    return address_config(commit.thread_id, commit.namespace, newest) or {}
