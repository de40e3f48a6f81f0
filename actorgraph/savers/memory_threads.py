"""A thread in memory, and what copies and removals do to one."""

import msgspec

from actorgraph.savers.judge import ThreadState
from actorgraph.savers.retention import Cut, Point, cut, held_whole, stored_by
from actorgraph.values.commits import CheckpointRow, Commit, Committed, LedgerRow, StoredClaim
from actorgraph.values.retention import DeleteRuns, HoldWhole, ListThreads, Removal


class Place(msgspec.Struct):
    """A checkpoint and where it stands."""

    sequence: int
    namespace: str
    row: CheckpointRow


class MemoryThread(msgspec.Struct):
    """One thread's rows, keyed as the tables of a database would be.

    Attributes:
        log: accepted commits with the sequence of their first checkpoint, whose rows are not in
            the tables yet: see `memory_log`.
    """

    state: ThreadState
    log: list[tuple[int, Commit]] = []
    places: list[Place] = []
    by_id: dict[tuple[str, bytes], Place] = {}
    blobs: dict[tuple[str, str, int], bytes] = {}
    ranges: dict[tuple[str, str, int], dict[int, tuple[int, bytes]]] = {}
    ledger: dict[tuple[str, bytes], dict[tuple[bytes, int, int], LedgerRow]] = {}
    runs: dict[bytes, StoredClaim] = {}


def copied(source: MemoryThread, thread_id: str, target: MemoryThread | None) -> MemoryThread:
    """A thread with the rows of another one, and its own epoch; runs are not copied."""
    epoch = 1 if target is None else target.state.epoch
    heads = dict(source.state.heads)
    state = ThreadState(thread_id, epoch=epoch, next_seq=source.state.next_seq, heads=heads)
    thread = MemoryThread(
        state,
        blobs=dict(source.blobs),
        ranges={key: dict(rows) for key, rows in source.ranges.items()},
        ledger={key: dict(rows) for key, rows in source.ledger.items()},
    )
    _put(thread, [msgspec.structs.replace(place) for place in source.places])
    return thread


def remove(thread: MemoryThread, removal: Removal) -> Committed:
    """Carry out a removal."""
    state = thread.state
    rows = [(p.namespace, p.sequence, p.row) for p in thread.places]
    points = [Point(ns, seq, r.id, r.parent, r.run, r.metadata, r.record) for ns, seq, r in rows]
    found = cut(removal, points, state.run)
    if found.stops:
        state.epoch += 1
        state.run = state.owner = None
    if isinstance(removal, DeleteRuns) or state.run is None:
        thread.runs = {run: known for run, known in thread.runs.items() if run == state.run}
    before = _size(thread)
    if found.clears:
        _take_out(thread, found)
    freed = before - _size(thread) if found.kept is not None else 0
    return Committed(removed=len(found.gone), freed=freed)


def _size(thread: MemoryThread) -> int:
    """How many rows of values and writes it has."""
    tables = (*thread.ranges.values(), *thread.ledger.values())
    return len(thread.blobs) + sum(map(len, tables))


def hold(thread: MemoryThread, request: HoldWhole) -> None:
    """Let a checkpoint hold values whole."""
    place = thread.by_id.get((request.namespace, request.id))
    held = None if place is None else held_whole(request, place.row.record)
    if place is None or held is None:
        return
    text, blobs = held
    place.row = msgspec.structs.replace(place.row, record=text)
    for blob in blobs:
        thread.blobs[request.namespace, blob.channel, blob.version] = blob.payload


def _take_out(thread: MemoryThread, found: Cut) -> None:
    gone = {point.sequence for point in found.gone}
    parents = {point.sequence: parent for point, parent in found.parents}
    left = [place for place in thread.places if place.sequence not in gone]
    for place in left:
        if place.sequence in parents:
            place.row = msgspec.structs.replace(place.row, parent=parents[place.sequence])
    _put(thread, left)
    for key in found.ledgers:
        thread.ledger.pop(key, None)
    if found.kept is not None:
        thread.ledger = {base: rows for base, rows in thread.ledger.items() if base in found.kept}
    thread.blobs = {key: blob for key, blob in thread.blobs.items() if key in found.blobs}
    if thread.state.run is None:  # a run may go on with a list that only it remembers
        thread.ranges = {
            key: {start: row for start, row in rows.items() if start < found.lists[key]}
            for key, rows in thread.ranges.items()
            if key in found.lists
        }
    thread.state.heads.update(found.heads)


def _put(thread: MemoryThread, places: list[Place]) -> None:
    thread.places = places
    thread.by_id = {(place.namespace, place.row.id): place for place in places}


def has_runs(thread: MemoryThread, query: ListThreads) -> bool:
    """Whether a thread has checkpoints, or something of the runs that a query names."""
    if query.older is not None and all(p.row.created >= query.older for p in thread.places):
        return False
    if query.runs is None:
        waits = query.inputs and any(run.input is not None for run in thread.runs.values())
        return bool(thread.places) or waits
    runs = query.runs
    return stored_by(runs, thread.state.run) or any(
        stored_by(runs, place.row.run, place.row.metadata) for place in thread.places
    )


def is_left_over(thread: MemoryThread) -> bool:
    """Whether only the epoch of a deleted thread is left."""
    return not thread.places and not thread.ledger and thread.state.run is None
