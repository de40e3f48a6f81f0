"""The tables of one thread in memory, and the log of commits that are not in them yet.

A run only adds to its thread. So an accepted commit is appended to a log as it came, which costs
the run next to nothing; its rows are put into the tables at the next read, claim or removal.
"""

import msgspec

from actorgraph.savers.judge import ThreadState
from actorgraph.values.alarms import Alarm
from actorgraph.values.commits import CheckpointRow, Commit, LedgerRow, StoredClaim


class CheckpointEntry(msgspec.Struct):
    """A checkpoint of a thread with its position: its namespace and its sequence there."""

    sequence: int
    namespace: str
    row: CheckpointRow


class MemoryThread(msgspec.Struct):
    """One thread's rows, keyed like the tables of a database.

    Attributes:
        log: accepted commits whose rows are not in the tables yet, each with the sequence of its
            first checkpoint; see `settled`.
        entries: all checkpoints, oldest first.
        by_id: (namespace, id) -> checkpoint; of several with one id the newest.
        blobs: (namespace, channel, version) -> payload.
        ranges: (namespace, channel, lineage) -> start -> (count, payload).
        ledger: (namespace, base checkpoint) -> (task, index, generation) -> row.
        runs: the run that made the newest claim, also after it has ended.
        alarm: when its open questions are looked at; None for never.
    """

    state: ThreadState
    log: list[tuple[int, Commit]] = []
    entries: list[CheckpointEntry] = []
    by_id: dict[tuple[str, bytes], CheckpointEntry] = {}
    blobs: dict[tuple[str, str, int], bytes] = {}
    ranges: dict[tuple[str, str, int], dict[int, tuple[int, bytes]]] = {}
    ledger: dict[tuple[str, bytes], dict[tuple[bytes, int, int], LedgerRow]] = {}
    runs: dict[bytes, StoredClaim] = {}
    alarm: Alarm | None = None


def log(thread: MemoryThread, commit: Commit, sequence: int) -> None:
    """Append an accepted commit to the thread's log.

    Args:
        sequence: that of its first checkpoint.
    """
    if commit.claim is not None and commit.run is not None:
        claim = commit.claim
        head = commit.checkpoints[-1].id if commit.checkpoints else claim.head
        thread.runs = {commit.run: StoredClaim(commit.run, head, claim.mode, claim.input)}
    thread.log.append((sequence, commit))


def settled(thread: MemoryThread) -> MemoryThread:
    """Move the rows of all logged commits into the tables; return the thread."""
    if thread.log:
        for sequence, commit in thread.log:
            _store(thread, commit, sequence)
        thread.log.clear()
    return thread


def _store(thread: MemoryThread, commit: Commit, sequence: int) -> None:
    namespace, ledger = commit.namespace, thread.ledger
    for write in commit.ledger:
        rows = ledger.setdefault((namespace, write.base), {})
        # The first row of a key stays: saving a task's writes again changes nothing.
        rows.setdefault((write.task, write.index, write.generation), write)
    for offset, row in enumerate(commit.checkpoints):
        if row.blobs or row.ranges:
            _store_values(thread, namespace, row)
        if row.ranges:  # their bytes are in `thread.ranges` now; don't keep them twice
            row = msgspec.structs.replace(row, ranges=(), merges=())  # noqa: PLW2901
        entry = CheckpointEntry(sequence + offset, namespace, row)
        thread.entries.append(entry)
        thread.by_id[namespace, row.id] = entry


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
