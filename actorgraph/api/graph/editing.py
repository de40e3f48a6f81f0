"""Write a thread's state from outside a run: updates, and forks to another thread.

An update loads the checkpoint, runs the conditional edges of its node, folds the writes and
commits once. A fork copies a checkpoint, maybe to another saver.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from actorgraph.api.graph.addressed import AddressedGraph
from actorgraph.codec import Codec
from actorgraph.codec.records import Placement, encode_names
from actorgraph.codec.save_encoder import SaveEncoder
from actorgraph.errors import (
    CheckpointNotFoundError,
    ConflictError,
    InvalidUpdateError,
    NothingToRunWarning,
)
from actorgraph.errors.warning_places import warn
from actorgraph.loops import Turns
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.run.launch import Address
from actorgraph.runtime.run.start import LoadedThread, load
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.task.calling import branch_writes, edge_scope
from actorgraph.runtime.task.runtime import RunResources
from actorgraph.superstep import begin
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.chunks import address as address_config
from actorgraph.superstep.inputs import update_by_names
from actorgraph.superstep.nesting import PLACE_KEYS
from actorgraph.superstep.results import stamped
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.update import (
    COPY,
    NodeUpdate,
    Updating,
    checked_updates,
    clears,
    fork,
    supersteps_of,
    update_writes,
)
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import StateUpdate
from actorgraph.values.commits import Commit, ListCheckpoints, StoredCheckpoint
from actorgraph.values.constants import INPUT, NAMESPACE_END
from actorgraph.values.ids import as_text
from actorgraph.values.policies import Durability, RunPolicy
from actorgraph.values.run import Save, Write


class UpdateAuthor(msgspec.Struct, frozen=True):
    """The run that conditional edges see while an update is applied.

    Attributes:
        config: the caller's.
        supplies: the graph's stores.
        strict: refuse an update if it is not known which node it is from.
        run: the id of the update.
    """

    config: dict[str, Any]
    resources: RunResources
    strict: bool = False
    run: bytes = b""


async def write_updates(at: AddressedGraph, given: Any, author: UpdateAuthor) -> dict[str, Any]:
    """Store supersteps of updates, all or none, and return once they are durable.

    Args:
        at: the checkpoint to update.
        given: see `supersteps_of`.
        author: what conditional edges see.
    Returns: a config that addresses the last new checkpoint.
    """
    supersteps = supersteps_of(given)
    found = await load(at.host, at.codec, at.plan, at.address)
    restored = found.restored if found.restored and found.restored.id else None
    state = _state_at(at, restored)
    run = IDS.run()
    author = msgspec.structs.replace(author, run=run)
    known = pending.attempts(restored.ledger) if restored else {}
    # An update of a checkpoint that is not the newest starts a branch.
    superseded = restored is not None and restored.id != restored.head
    work = Updating(state, known, superseded=superseded)
    turns = Turns()
    for number, updates in enumerate(supersteps):
        await _superstep(work, updates, restored, f"{as_text(run)}:{number}", author)
        await turns.give()
    await at.host.writer.store(await _encoded(_save_encoder(at, found, run), work.save(), turns))
    if work.stranded is not None:
        _warn_of_end(work.stranded.name, at.address.thread_id)
    place, above = at.address, state.policy.metadata.get("parents", {})
    return address_config(place.thread_id, place.namespace, state.checkpoint, above) or {}


async def _encoded(save_encoder: SaveEncoder, save: Save, turns: Turns) -> Commit:
    """Encode a save; other tasks run between its slices."""
    slices = save_encoder.slices(save)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value
        await turns.give()


def _warn_of_end(node: str, thread_id: str) -> None:
    warn(
        f"the update as node {node!r} leaves thread {thread_id!r} with nothing to run: no edge "
        "leads on from there, and the values name no target"
        "\n  Do this: update with Command(update=values, goto=...), goto=END to end it",
        NothingToRunWarning,
    )


def _state_at(at: AddressedGraph, restored: Restored | None) -> RunState:
    known = restored.metadata if restored else {}
    place = {key: known[key] for key in PLACE_KEYS if key in known}
    policy = RunPolicy(durability=Durability.SYNC, metadata=place)
    state = RunState(at.plan, policy, IDS.checkpoint, has_saver=True)
    state.thread_id, state.namespace = at.address.thread_id, at.address.namespace
    if restored is not None:
        begin.restore(state, restored)
    return state


def _save_encoder(at: AddressedGraph, found: LoadedThread, run: bytes) -> SaveEncoder:
    return SaveEncoder(
        at.codec,
        at.plan,
        thread_id=at.address.thread_id,
        namespace=at.address.namespace,
        run=run,
        epoch=found.epoch,
        placed=found.placement,
        stamped=False,
    )


async def _superstep(
    work: Updating,
    updates: Sequence[StateUpdate],
    restored: Restored | None,
    seed: str,
    author: UpdateAuthor,
) -> None:
    only = updates[0]
    if len(updates) == 1 and clears(only):
        work.clear()
    elif len(updates) == 1 and only.as_node == INPUT:
        work.as_input(only.values)
    elif len(updates) == 1 and only.as_node == COPY:
        if restored is None:
            raise InvalidUpdateError(
                "Cannot copy a non-existent checkpoint", do="take its config from get_state()"
            )
        work.copy()
        if isinstance(only.values, (list, tuple)) and only.values:
            (inner,) = supersteps_of([list(only.values)])
            await _superstep(work, inner, restored, f"{seed}:copy", author)
    else:
        await _nodes(work, checked_updates(work.state, updates, strict=author.strict), seed, author)


async def _nodes(
    work: Updating, updates: Sequence[NodeUpdate], seed: str, author: UpdateAuthor
) -> None:
    state, plan = work.state, work.state.plan
    made: list[tuple[NodeUpdate, list[Write]]] = []
    for place, update in enumerate(updates):
        given = update_by_names(state, update.node, update.values)
        fresh = update_writes(plan, update.node, given)
        writes = stamped(plan, fresh, f"{seed}:{place}" if place else seed)
        node = update.node
        if node is not None and node.branches:
            asks = edge_scope(
                state,
                node.name,
                run=author.run,
                config=author.config,
                resources=author.resources,
            )
            with asks as scope:
                writes.extend(await branch_writes(plan, node, state.values, writes, scope))
        made.append((update, writes))
    work.fold(made)


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
    save_encoder = SaveEncoder(
        to.codec,
        at.plan,
        thread_id=to.thread_id,
        namespace=source.namespace,
        run=IDS.run(),
        epoch=there.epoch,
        placed=Placement(above=restored.above),
        stamped=False,
    )
    return save_encoder.commit(fork(state, alone, origin))


def address_of_copy(commit: Commit) -> dict[str, Any]:
    """Return a config that addresses the copy."""
    newest = commit.checkpoints[-1].id
    return address_config(commit.thread_id, commit.namespace, newest) or {}
