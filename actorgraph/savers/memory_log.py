"""What runs have handed over, put into a thread's tables when somebody looks.

A run only adds to its thread. So a commit is kept as it came, which costs the run nothing, and
its rows find their places at the next read, claim or removal.
"""

import msgspec

from actorgraph.savers.memory_threads import MemoryThread, Place
from actorgraph.values.commits import CheckpointRow, Commit, StoredClaim


def log(thread: MemoryThread, commit: Commit, sequence: int) -> None:
    """Keep an accepted commit.

    Args:
        sequence: that of its first checkpoint.
    """
    if commit.claim is not None and commit.run is not None:
        claim = commit.claim
        head = commit.checkpoints[-1].id if commit.checkpoints else claim.head
        thread.runs = {commit.run: StoredClaim(commit.run, head, claim.mode, claim.input)}
    thread.log.append((sequence, commit))


def settled(thread: MemoryThread) -> MemoryThread:
    """The thread, with everything that it has kept in its tables."""
    if thread.log:
        for sequence, commit in thread.log:
            _store(thread, commit, sequence)
        thread.log.clear()
    return thread


def _store(thread: MemoryThread, commit: Commit, sequence: int) -> None:
    namespace, ledger = commit.namespace, thread.ledger
    for entry in commit.ledger:
        rows = ledger.setdefault((namespace, entry.base), {})
        rows.setdefault((entry.task, entry.index, entry.generation), entry)
    for offset, row in enumerate(commit.checkpoints):
        if row.blobs or row.ranges:
            _store_values(thread, namespace, row)
        if row.ranges:  # their bytes are kept where the list is, once
            row = msgspec.structs.replace(row, ranges=(), merges=())  # noqa: PLW2901
        place = Place(sequence + offset, namespace, row)
        thread.places.append(place)
        thread.by_id[namespace, row.id] = place


def _store_values(thread: MemoryThread, namespace: str, row: CheckpointRow) -> None:
    for blob in row.blobs:
        thread.blobs[namespace, blob.channel, blob.version] = blob.payload
    for part in row.ranges:
        rows = thread.ranges.setdefault((namespace, part.channel, part.lineage), {})
        count, payload = rows.get(part.start, (0, b""))
        rows[part.start] = (count + part.count, payload + part.payload)
    for merge in row.merges:
        rows = thread.ranges[namespace, merge.channel, merge.lineage]
        parts = [rows.pop(s) for s in sorted(rows) if merge.start <= s < merge.end]
        rows[merge.start] = (sum(c for c, _ in parts), b"".join(p for _, p in parts))
