"""Reading and changing a thread's state from outside a run."""

from collections.abc import Mapping
from typing import Any

from actorgraph.api.pages import Pages
from actorgraph.codec import Codec
from actorgraph.codec.handoff import HandOff
from actorgraph.codec.restore import restore, stored_write
from actorgraph.plan.graph import Plan
from actorgraph.runtime.calls import branch_writes
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.runs import Address, load
from actorgraph.superstep import begin
from actorgraph.superstep.chunks import address as address_config
from actorgraph.superstep.snapshot import empty_snapshot, snapshot, unsaved_snapshot
from actorgraph.superstep.stamps import stamped
from actorgraph.superstep.state import RunState
from actorgraph.superstep.update import apply_update, update_writes, updater
from actorgraph.values.commits import ListCheckpoints, LoadCheckpoint, Loaded, StoredCheckpoint
from actorgraph.values.ids import as_text
from actorgraph.values.policies import Durability, RunPolicy
from actorgraph.values.records import StoredWrite
from actorgraph.values.snapshot import StateSnapshot

PAGE_SIZE = 100


async def read_state(
    host: Host, codec: Codec, plan: Plan, address: Address, config: Mapping[str, Any]
) -> StateSnapshot:
    """The snapshot of the addressed checkpoint; the live view when none is named."""
    found = await load(host, codec, plan, address)
    restored = found.restored
    if restored is None:
        return empty_snapshot(dict(config))
    if not restored.id:
        return unsaved_snapshot(dict(config))
    parents = await _ledger_of(host, codec, address, restored.parent)
    return snapshot(
        plan,
        restored,
        address.thread_id,
        live=address.checkpoint is None,
        parent_ledger=parents,
    )


async def _ledger_of(
    host: Host, codec: Codec, address: Address, checkpoint: bytes | None
) -> tuple[StoredWrite, ...]:
    if checkpoint is None:
        return ()
    query = LoadCheckpoint(address.thread_id, address.namespace, checkpoint)
    stored = (await host.reader.ask(query)).checkpoint
    return _decoded(codec, stored) if stored else ()


def _decoded(codec: Codec, stored: StoredCheckpoint) -> tuple[StoredWrite, ...]:
    return tuple(stored_write(codec, row) for row in stored.ledger)


def read_history(
    host: Host,
    codec: Codec,
    plan: Plan,
    address: Address,
    *,
    where: tuple[tuple[str, object], ...],
    before: bytes | None,
    limit: int | None,
) -> Pages[StateSnapshot]:
    """The namespace's checkpoints, newest first, read a page at a time."""
    left, bound, full = limit, before, True

    async def page() -> list[StateSnapshot]:
        nonlocal left, bound, full
        size = PAGE_SIZE if left is None else min(left, PAGE_SIZE)
        if size <= 0 or not full:
            return []
        query = ListCheckpoints(
            address.thread_id, address.namespace, bound, where, size, ancestors=True
        )
        found: list[StoredCheckpoint] = await host.reader.ask(query)
        full = len(found) == size
        bound = found[-1].row.id if found else bound
        left = None if left is None else left - len(found)
        return await _records(host, codec, plan, address, found)

    return Pages(page)


async def _records(
    host: Host, codec: Codec, plan: Plan, address: Address, page: list[StoredCheckpoint]
) -> list[StateSnapshot]:
    ledgers = {stored.row.id: _decoded(codec, stored) for stored in page}
    records: list[StateSnapshot] = []
    for stored in page:
        parent = stored.row.parent
        if parent is not None and parent not in ledgers:
            ledgers[parent] = await _ledger_of(host, codec, address, parent)
        records.append(_record(codec, plan, stored, ledgers.get(parent or b"", ())))
    return records


def _record(
    codec: Codec, plan: Plan, stored: StoredCheckpoint, parents: tuple[StoredWrite, ...]
) -> StateSnapshot:
    found = restore(codec, plan, Loaded(checkpoint=stored, head=stored.row.id))
    assert found is not None
    return snapshot(plan, found[0], stored.thread_id, live=False, parent_ledger=parents)


async def write_update(
    host: Host,
    codec: Codec,
    plan: Plan,
    address: Address,
    *,
    values: Any,
    as_node: str | None,
) -> dict[str, Any]:
    """Store an update as a new checkpoint; always awaited until durable.

    Returns: a config that addresses the new checkpoint.
    """
    found = await load(host, codec, plan, address)
    restored = found.restored if found.restored and found.restored.id else None
    above = restored.metadata.get("parents") if restored else None
    metadata = {"parents": above} if above else {}
    policy = RunPolicy(durability=Durability.SYNC, metadata=metadata)
    state = RunState(plan, policy, IDS.checkpoint, has_saver=True)
    state.thread_id, state.namespace = address.thread_id, address.namespace
    if restored is not None:
        begin.restore(state, restored)
    node = updater(state, as_node)
    run = IDS.run()
    writes = stamped(plan, update_writes(plan, node, values), as_text(run))
    if node is not None:
        writes.extend(await branch_writes(plan, node, state.values, writes))
    handoff = HandOff(
        codec,
        plan,
        thread_id=address.thread_id,
        namespace=address.namespace,
        run=run,
        epoch=found.epoch,
        placed=found.placement,
        stamped=False,
    )
    save = apply_update(state, node, writes, inferred=as_node is None)
    await host.writer.store(handoff.commit(save))
    return address_config(address.thread_id, address.namespace, state.checkpoint) or {}
