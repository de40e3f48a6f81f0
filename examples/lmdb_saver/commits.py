"""Carry out the requests of a batch: commits, removals, copies, new payloads."""

from typing import Any

import msgspec

from actorgraph.savers.judge import (
    ThreadState,
    answer_rows,
    branch_base,
    fence,
    judge,
    refused_copy,
)
from actorgraph.savers.retention import RemovalPlan, RetentionPoint, held_whole, plan_removal
from actorgraph.values.alarms import TakeAlarm
from actorgraph.values.commits import (
    CheckpointRow,
    Commit,
    CommitOutcome,
    Committed,
    RangeRow,
    Refused,
    Request,
    StoredClaim,
)
from actorgraph.values.retention import (
    CopyThread,
    DeleteThread,
    HoldWhole,
    Removal,
    Reseal,
    Resealer,
    Vacuum,
)
from actorgraph.values.systems import SYSTEM_REQUESTS, AdoptRun
from actorgraph.values.thread_rows import THREAD_REQUESTS
from lmdb_saver import runs
from lmdb_saver.reading import newest, points_of, thread_of
from lmdb_saver.tables import OF_THREAD, Point, Rows, Thread, key, number_of

replace = msgspec.structs.replace
_LAST = 1 << 62


def carry_out(rows: Rows, request: Request) -> CommitOutcome:
    """Carry out one request.

    Raises: EncryptionError: a row can't be encrypted anew; the caller undoes the request.
    """
    if isinstance(request, Commit):
        return _commit(rows, request)
    if isinstance(request, SYSTEM_REQUESTS):
        outcome = runs.carry_out(rows, request)
        if isinstance(request, AdoptRun) and isinstance(outcome, Committed):
            _fence(rows, request)
        return outcome
    if isinstance(request, Vacuum):
        return _vacuum(rows)
    if isinstance(request, DeleteThread):
        return _delete(rows, request)
    if isinstance(request, CopyThread):
        return _copy(rows, request)
    thread = thread_of(rows, request.thread_id)
    if thread is None:
        return Committed()
    if isinstance(request, HoldWhole):
        _hold(rows, thread, request)
        return Committed()
    if isinstance(request, Reseal):
        _reseal(rows, thread, request.resealer)
        return Committed()
    assert not isinstance(request, TakeAlarm), "this saver keeps no alarms"
    assert not isinstance(request, THREAD_REQUESTS), "this saver has no index of threads"
    return _remove(rows, thread, request)


def _write(rows: Rows, thread: Thread) -> None:
    """Store a thread's own row; a new thread gets a number."""
    state = thread.state
    if state.row is None:
        last = next(rows.between("numbers", key(_LAST), back=True), None)
        state.row = 1 if last is None else number_of(last[0]) + 1
        rows.put("numbers", state.thread_id, state.row)
    # Heads are rows of their own; the rest is read anew each time.
    kept = replace(state, heads={}, changed=False, leased=False)
    rows.put("threads", replace(thread, state=kept), state.thread_id)


# --- commits ---


def _commit(rows: Rows, commit: Commit) -> CommitOutcome:
    thread = thread_of(rows, commit.thread_id) or Thread(ThreadState(commit.thread_id))
    if (refused := runs.refused(rows, commit)) is not None:
        return Refused(refused)
    state, number = thread.state, thread.state.row
    answered, based = False, True
    if number is not None:
        place = (number, commit.namespace)
        head = rows.get("heads", *place)
        state.heads = {commit.namespace: head and head[1]}
        answered = any(
            rows.has("ledger", *place, row.base, row.task, row.index, row.generation)
            for row in answer_rows(commit)
        )
    if (base := branch_base(commit)) is not None:
        based = number is not None and newest(rows, number, commit.namespace, base) is not None
    if commit.claim is not None and state.owner is not None:
        state.leased = runs.leases(rows, state.owner, state.thread_id)
    first, error = judge(commit, state, answered=answered, based=based)
    if error is not None:
        return Refused(error)
    if commit.claim is not None and commit.run is not None:
        claim = commit.claim
        known = commit.checkpoints[-1].id if commit.checkpoints else claim.head
        thread.claim = StoredClaim(commit.run, known, claim.mode, claim.input)
    _write(rows, thread)
    _store(rows, thread.number, commit, first)
    runs.committed(rows, commit)
    return Committed(first + len(commit.checkpoints) - 1 if commit.checkpoints else 0)


def _store(rows: Rows, number: int, commit: Commit, first: int) -> None:
    namespace = commit.namespace
    for row in commit.ledger:
        where = (number, namespace, row.base, row.task, row.index, row.generation)
        rows.put("ledger", (namespace, row), *where, new=True)  # the first row of a key stays
    for sequence, point in enumerate(commit.checkpoints, first):
        _store_values(rows, number, namespace, point)
        bare = replace(point, blobs=(), ranges=(), merges=())
        rows.put("checkpoints", Point(namespace, sequence, bare), number, sequence)
        rows.put("ids", None, number, namespace, point.id, sequence)
    if commit.checkpoints:
        head = commit.checkpoints[-1].id
        rows.put("heads", (namespace, head), number, namespace)


def _store_values(rows: Rows, number: int, namespace: str, point: CheckpointRow) -> None:
    for blob in point.blobs:
        rows.put("blobs", (namespace, blob), number, namespace, blob.channel, blob.version)
    for part in point.ranges:
        where = (number, namespace, part.channel, part.lineage, part.start)
        known = rows.get("ranges", *where)
        merged = part if known is None else _joined(known[1], part)
        rows.put("ranges", (namespace, replace(merged, before=0)), *where)
    for merge in point.merges:
        place = (number, namespace, merge.channel, merge.lineage)
        found = [(at, row) for at, (_, row) in rows.under("ranges", *place)]
        inside = [(at, row) for at, row in found if merge.start <= row.start < merge.end]
        rows.drop("ranges", [at for at, _ in inside])
        whole = inside[0][1]
        for _, row in inside[1:]:
            whole = _joined(whole, row)
        rows.put("ranges", (namespace, replace(whole, start=merge.start)), *place, merge.start)


def _joined(first: RangeRow, second: RangeRow) -> RangeRow:
    count, payload = first.count + second.count, first.payload + second.payload
    return replace(first, count=count, payload=payload)


def _fence(rows: Rows, request: AdoptRun) -> None:
    thread = thread_of(rows, request.thread_id)
    if thread is not None and fence(thread.state, request):
        _write(rows, thread)


# --- removals ---


def _remove(rows: Rows, thread: Thread, removal: Removal) -> Committed:
    state = thread.state
    points = [
        RetentionPoint(p.namespace, p.sequence, r.id, r.parent, r.run, r.metadata, r.record)
        for p in points_of(rows, thread.number)
        for r in (p.row,)
    ]
    plan = plan_removal(removal, points, state.run)
    if plan.stops:  # the run would store the removed rows again
        state.epoch += 1
        state.run = state.owner = None
    freed = _take_out(rows, thread, plan) if plan.clears else 0
    if state.run is None:
        thread.claim = None
    _write(rows, thread)
    return Committed(removed=len(plan.gone), freed=freed if plan.kept is not None else 0)


def _take_out(rows: Rows, thread: Thread, plan: RemovalPlan) -> int:
    """Remove rows of checkpoints, values and writes; return how many of the last two kinds."""
    number, freed = thread.number, 0
    for point in plan.gone:
        rows.delete("checkpoints", number, point.sequence)
        rows.delete("ids", number, point.namespace, point.id, point.sequence)
    for point, parent in plan.parents:
        known: Point = rows.get("checkpoints", number, point.sequence)
        moved = replace(known, row=replace(known.row, parent=parent))
        rows.put("checkpoints", moved, number, point.sequence)
    for namespace, head in plan.heads.items():
        if head is None:
            rows.delete("heads", number, namespace)
        else:
            rows.put("heads", (namespace, head), number, namespace)
    gone = [
        at
        for at, (namespace, row) in rows.under("ledger", number)
        if (namespace, row.base) in plan.ledgers
        or (plan.kept is not None and (namespace, row.base) not in plan.kept)
    ]
    freed += rows.drop("ledger", gone)
    gone = [
        at
        for at, (namespace, row) in rows.under("blobs", number)
        if (namespace, row.channel, row.version) not in plan.blobs
    ]
    freed += rows.drop("blobs", gone)
    if thread.state.run is None:  # an open run may go on with a list that no checkpoint names yet
        gone = [
            at
            for at, (namespace, row) in rows.under("ranges", number)
            if row.start >= plan.lists.get((namespace, row.channel, row.lineage), 0)
        ]
        freed += rows.drop("ranges", gone)
    return freed


def _delete(rows: Rows, request: DeleteThread) -> Committed:
    runs.forget_thread(rows, request.thread_id)
    thread = thread_of(rows, request.thread_id)
    if thread is None:
        return Committed()
    removed = sum(1 for _ in rows.under("checkpoints", thread.number))
    for table in OF_THREAD:
        rows.clear(table, thread.number)
    # The epoch outlives the rows: a run that is still going on can't bring them back.
    state = ThreadState(request.thread_id, row=thread.number, epoch=thread.state.epoch + 1)
    _write(rows, Thread(state))
    return Committed(removed=removed)


def _vacuum(rows: Rows) -> Committed:
    """Remove the epochs of deleted threads."""
    for _, thread in [*rows.under("threads")]:
        kept = any(True for t in ("checkpoints", "ledger") for _ in rows.under(t, thread.number))
        if not kept and thread.state.run is None:
            rows.delete("threads", thread.state.thread_id)
            rows.delete("numbers", thread.number)
    return Committed()


# --- copies and new payloads ---


def _copy(rows: Rows, request: CopyThread) -> CommitOutcome:
    source = thread_of(rows, request.source)
    target = thread_of(rows, request.thread_id)
    if target is not None and any(True for _ in points_of(rows, target.number)):
        return Refused(refused_copy(request))
    if source is None or not any(True for _ in points_of(rows, source.number)):
        return Committed()
    made = Thread(ThreadState(request.thread_id, next_seq=source.state.next_seq))
    if target is not None:
        made.state.row, made.state.epoch = target.number, target.state.epoch
        for table in OF_THREAD:
            rows.clear(table, target.number)
    _write(rows, made)
    own = len(key(source.number))
    for table in OF_THREAD:
        for found, row in [*rows.under(table, source.number)]:
            rows.put(table, row, made.number, found[own:])
    if request.resealer is not None:
        _reseal(rows, made, request.resealer)
    return Committed()


def _hold(rows: Rows, thread: Thread, request: HoldWhole) -> None:
    point = newest(rows, thread.number, request.namespace, request.id)
    held = None if point is None else held_whole(request, point.row.record)
    if point is None or held is None:
        return
    record, blobs = held
    point = replace(point, row=replace(point.row, record=record))
    rows.put("checkpoints", point, thread.number, point.sequence)
    for blob in blobs:
        place = (thread.number, request.namespace, blob.channel, blob.version)
        rows.put("blobs", (request.namespace, blob), *place)


def _reseal(rows: Rows, thread: Thread, resealer: Resealer) -> None:
    number = thread.number

    def store(table: str, at: bytes, namespace: str, row: Any, payload: bytes) -> None:
        rows.put(table, (namespace, replace(row, payload=payload)), at)

    for at, (namespace, row) in [*rows.under("blobs", number)]:
        made = resealer.value(namespace, row.channel, row.version, row.payload)
        store("blobs", at, namespace, row, made)
    for at, (namespace, row) in [*rows.under("ranges", number)]:
        made = resealer.items(namespace, row.channel, row.lineage, row.start, row.payload)
        store("ranges", at, namespace, row, made)
    for at, (namespace, row) in [*rows.under("ledger", number)]:
        store("ledger", at, namespace, row, resealer.writes(namespace, row))
    claim = thread.claim
    if claim is not None and claim.input is not None:
        thread.claim = replace(claim, input=resealer.input(claim.run, claim.input))
        _write(rows, thread)
