"""Copy, prune, delete and reseal threads in memory, as `savers.retention` decides."""

import msgspec

from actorgraph.savers.judge import ThreadState
from actorgraph.savers.memory.schema import CheckpointEntry, MemoryThread
from actorgraph.savers.retention import (
    RemovalPlan,
    RetentionPoint,
    held_whole,
    plan_removal,
    stored_by,
)
from actorgraph.values.commits import Committed
from actorgraph.values.retention import DeleteRuns, HoldWhole, ListThreads, Removal, Resealer


def copied(source: MemoryThread, thread_id: str, target: MemoryThread | None) -> MemoryThread:
    """A copy of `source` under another id, with the target's own epoch; runs are not copied."""
    epoch = 1 if target is None else target.state.epoch
    heads = dict(source.state.heads)
    state = ThreadState(thread_id, epoch=epoch, next_seq=source.state.next_seq, heads=heads)
    thread = MemoryThread(
        state,
        blobs=dict(source.blobs),
        ranges={key: dict(rows) for key, rows in source.ranges.items()},
        ledger={key: dict(rows) for key, rows in source.ledger.items()},
    )
    # Copies of the entries: relinking one thread must not change the other.
    _set_entries(thread, [msgspec.structs.replace(entry) for entry in source.entries])
    return thread


def remove(thread: MemoryThread, removal: Removal) -> Committed:
    """Carry out a removal; see `plan_removal`."""
    state = thread.state
    rows = [(p.namespace, p.sequence, p.row) for p in thread.entries]
    points = [
        RetentionPoint(ns, seq, r.id, r.parent, r.run, r.metadata, r.record) for ns, seq, r in rows
    ]
    plan = plan_removal(removal, points, state.run)
    if plan.stops:  # the epoch fences the run, which would store the removed rows again
        state.epoch += 1
        state.run = state.owner = None
    if isinstance(removal, DeleteRuns) or state.run is None:
        thread.runs = {run: known for run, known in thread.runs.items() if run == state.run}
    before = _size(thread)
    if plan.clears:
        _take_out(thread, plan)
    freed = before - _size(thread) if plan.kept is not None else 0
    return Committed(removed=len(plan.gone), freed=freed)


def _size(thread: MemoryThread) -> int:
    """Number of rows of values and writes."""
    tables = (*thread.ranges.values(), *thread.ledger.values())
    return len(thread.blobs) + sum(map(len, tables))


def hold(thread: MemoryThread, request: HoldWhole) -> None:
    """Store values of DeltaChannels whole in a checkpoint, so that it needs no ancestors."""
    entry = thread.by_id.get((request.namespace, request.id))
    held = None if entry is None else held_whole(request, entry.row.record)
    if entry is None or held is None:
        return
    text, blobs = held
    entry.row = msgspec.structs.replace(entry.row, record=text)
    for blob in blobs:
        thread.blobs[request.namespace, blob.channel, blob.version] = blob.payload


def _take_out(thread: MemoryThread, plan: RemovalPlan) -> None:
    gone = {point.sequence for point in plan.gone}
    parents = {point.sequence: parent for point, parent in plan.parents}
    left = [entry for entry in thread.entries if entry.sequence not in gone]
    for entry in left:
        if entry.sequence in parents:
            entry.row = msgspec.structs.replace(entry.row, parent=parents[entry.sequence])
    _set_entries(thread, left)
    for key in plan.ledgers:
        thread.ledger.pop(key, None)
    if plan.kept is not None:
        thread.ledger = {base: rows for base, rows in thread.ledger.items() if base in plan.kept}
    thread.blobs = {key: blob for key, blob in thread.blobs.items() if key in plan.blobs}
    # A run that is going on may continue a list that no stored checkpoint names yet.
    if thread.state.run is None:
        thread.ranges = {
            key: {start: row for start, row in rows.items() if start < plan.lists[key]}
            for key, rows in thread.ranges.items()
            if key in plan.lists
        }
    thread.state.heads.update(plan.heads)


def _set_entries(thread: MemoryThread, entries: list[CheckpointEntry]) -> None:
    thread.entries = entries
    thread.by_id = {(entry.namespace, entry.row.id): entry for entry in entries}


def has_runs(thread: MemoryThread, query: ListThreads) -> bool:
    """Whether `ListThreads` lists the thread: by its checkpoints, or by the runs that it names."""
    if query.older is not None and all(p.row.created >= query.older for p in thread.entries):
        return False
    if query.runs is None:
        waits = query.inputs and any(run.input is not None for run in thread.runs.values())
        return bool(thread.entries) or waits
    runs = query.runs
    return stored_by(runs, thread.state.run) or any(
        stored_by(runs, entry.row.run, entry.row.metadata) for entry in thread.entries
    )


def is_left_over(thread: MemoryThread) -> bool:
    """Whether the thread was deleted and only its epoch is left."""
    return not thread.entries and not thread.ledger and thread.state.run is None


def reseal(thread: MemoryThread, resealer: Resealer) -> None:
    """Replace the payload of each row of a thread: of all rows, or of none.

    Raises: what the resealer raises; nothing has changed then.
    """
    # All new tables are built before the first is assigned, so an error changes nothing.
    blobs = {key: resealer.value(*key, payload) for key, payload in thread.blobs.items()}
    ranges = {
        key: {
            start: (count, resealer.items(*key, start, payload))
            for start, (count, payload) in rows.items()
        }
        for key, rows in thread.ranges.items()
    }
    replace = msgspec.structs.replace
    ledger = {
        (namespace, base): {
            key: replace(row, payload=resealer.writes(namespace, row)) for key, row in rows.items()
        }
        for (namespace, base), rows in thread.ledger.items()
    }
    runs = {
        key: run if run.input is None else replace(run, input=resealer.input(run.run, run.input))
        for key, run in thread.runs.items()
    }
    thread.blobs, thread.ranges, thread.ledger, thread.runs = blobs, ranges, ledger, runs
