"""Names, sizes and ids of a saver's requests and queries, for limits, metrics and audit logs."""

from typing import Any

from actorgraph.values.commits import (
    CheckpointRow,
    Commit,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Query,
    Request,
    StoredCheckpoint,
)
from actorgraph.values.ids import as_text
from actorgraph.values.retention import (
    CopyThread,
    CountCheckpoints,
    DeleteCheckpoints,
    DeleteRuns,
    DeleteThread,
    Expire,
    HoldWhole,
    KeepLast,
    KeepLatest,
    ListThreads,
    Reseal,
    Sweep,
    Vacuum,
)

_NAMES: dict[type, str] = {
    LoadCheckpoint: "get",
    ListCheckpoints: "list",
    ListThreads: "list_threads",
    CountCheckpoints: "count",
    CopyThread: "copy",
    Vacuum: "vacuum",
    HoldWhole: "put",
    Reseal: "put",
    **dict.fromkeys((DeleteThread, DeleteCheckpoints, DeleteRuns), "delete"),
    **dict.fromkeys((KeepLatest, KeepLast, Expire, Sweep), "delete"),
}


def name_of(request: Request | Query) -> str:
    """Return get, list, list_threads, count; put, put_writes, end, resume; delete, copy, vacuum.

    An `end` only records that a run has ended. A claim that answers interrupts is a `resume`.
    Records of an ActorSystem about its runs are a `put_run` or `get_run`.
    """
    if isinstance(request, Commit):
        return _name_of_commit(request)
    known = _NAMES.get(type(request))
    return known or ("put_run" if hasattr(request, "size") else "get_run")


def _name_of_commit(commit: Commit) -> str:
    if commit.claim is not None and commit.claim.resumes:
        return "resume"
    if commit.checkpoints or (commit.claim is not None and not commit.ledger):
        return "put"
    return "put_writes" if commit.ledger else "end"


def ids_of(request: Request | Query) -> str:
    """Return the ids of its checkpoints or answered interrupts, separated by commas."""
    match request:
        case Commit(claim=claim) if claim is not None and claim.resumes:
            return claim.resumes
        case Commit(checkpoints=(_, *_) as rows):
            return as_text(rows[-1].id)
        case Commit(ledger=(row, *_)):
            return as_text(row.base)
        case DeleteCheckpoints(ids=ids):
            return ",".join(sorted(as_text(i) for i in ids))
        case LoadCheckpoint(id=bytes() as one) | HoldWhole(id=one):
            return as_text(one)
        case CopyThread(source=source):
            return source
        case _:
            return ""


def bytes_of(request: Request) -> int:
    """Return the bytes of a request's values, writes, records and metadata."""
    if isinstance(request, HoldWhole):
        return sum(map(len, request.values.values()))
    if not isinstance(request, Commit):
        return 0
    given = request.claim.input if request.claim is not None else None
    rows = sum(len(row.payload) for row in request.ledger) + len(given or b"")
    return rows + sum(map(_bytes_of_row, request.checkpoints))


def _bytes_of_row(row: CheckpointRow) -> int:
    texts = len(row.record) + len(row.metadata) + len(row.next)
    parts = sum(len(part.payload) for part in row.ranges)
    return texts + parts + sum(len(blob.payload) for blob in row.blobs)


def bytes_read(answer: Any) -> int:
    """Return the bytes of an answer's values, writes, records and metadata."""
    if isinstance(answer, Loaded):
        return 0 if answer.checkpoint is None else stored_bytes(answer.checkpoint)
    if isinstance(answer, list):
        points: list[Any] = answer
        return sum(stored_bytes(p) for p in points if isinstance(p, StoredCheckpoint))
    return 0


def stored_bytes(stored: StoredCheckpoint) -> int:
    """Return the bytes of a checkpoint and its ancestors; rows that it shares count in full."""
    row = stored.row
    texts = len(row.record) + len(row.metadata) + len(row.next)
    parts = [part for rows in stored.ranges.values() for part in rows]
    values = sum(map(len, stored.blobs.values())) + sum(len(part.payload) for part in parts)
    writes = sum(len(entry.payload) for entry in stored.ledger)
    return texts + values + writes + sum(map(stored_bytes, stored.ancestors))
