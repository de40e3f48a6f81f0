"""Rows and commits for checks of `ports.Saver`."""

from collections.abc import Iterable
from typing import Any

from actorgraph.codec.frames import frame, frames
from actorgraph.codec.records import Record, encode_record
from actorgraph.ports import Saver
from actorgraph.runtime.clock import IDS
from actorgraph.values.commits import (
    EPOCH_ANY,
    BlobRow,
    CheckpointRow,
    Claim,
    Commit,
    CommitOutcome,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    MergeRow,
    RangeRow,
    Request,
    StoredCheckpoint,
)

RUN, OTHER = b"r" * 16, b"o" * 16
TASK = b"t" * 16
THREAD = "t"


class Ids:
    """Checkpoint ids for small numbers, in their order; the same number gives the same id."""

    def __init__(self) -> None:
        self._made: dict[int, bytes] = {}

    def __call__(self, number: int) -> bytes:
        """The id of a number."""
        while number not in self._made:
            self._made[len(self._made)] = IDS.checkpoint(len(self._made), None)
        return self._made[number]

    def point(
        self, number: int, parent: int | None = None, record: Record | None = None, **columns: Any
    ) -> CheckpointRow:
        """A checkpoint row; without a record the value of `x` is its number, as text."""
        blobs = (BlobRow("x", number, b"%d" % number),) if record is None else ()
        known = record or Record(channel_versions={"x": number}, blobs=["x"])
        columns = {"blobs": blobs, "run": RUN, "metadata": "{}", **columns}
        return CheckpointRow(
            id=self(number),
            parent=None if parent is None else self(parent),
            step=number,
            source="loop",
            next="[]",
            record=encode_record(known),
            **columns,
        )

    def claim(self, run: bytes, head: int | None, *points: CheckpointRow, **more: Any) -> Commit:
        """A run's first save: `resumes` and `mode` are the claim's, the rest the commit's."""
        known = None if head is None else self(head)
        claim = Claim(known, more.pop("mode", "sync"), resumes=more.pop("resumes", ""))
        more = {"thread_id": THREAD, "namespace": "", "epoch": 1, "number": 1, **more}
        return Commit(run=run, head=known, claim=claim, checkpoints=points, **more)

    def save(self, run: bytes, head: int | None, *points: CheckpointRow, **more: Any) -> Commit:
        """A later save of a run."""
        known = None if head is None else self(head)
        more = {"thread_id": THREAD, "namespace": "", "epoch": 1, "number": 2, **more}
        return Commit(run=run, head=known, checkpoints=points, **more)


def outside(
    *points: CheckpointRow,
    thread: str = THREAD,
    namespace: str = "",
    head: bytes | None = None,
    strict: bool = False,
) -> Commit:
    """A commit without a run, as `update_state` makes it."""
    return Commit(thread, namespace, None, EPOCH_ANY, 0, head, checkpoints=points, strict=strict)


def grown(lists: dict[str, list[tuple[int, int]]], version: int) -> Record:
    """The record of a checkpoint with growing lists."""
    return Record(channel_versions=dict.fromkeys(lists, version), lists=lists)


def items(start: int, texts: Iterable[bytes], lineage: int = 1, before: int = 0) -> RangeRow:
    """A row with items of the list `x`."""
    found = [*texts]
    return RangeRow("x", lineage, start, before, len(found), frame(b"".join(found)))


def merge(start: int, end: int, lineage: int = 1) -> MergeRow:
    """Merge rows of the list `x`."""
    return MergeRow("x", lineage, start, end)


async def commit_batch(port: Saver, *requests: Request) -> list[CommitOutcome]:
    """Commit requests as one batch."""
    return await port.commit(requests)


async def load(
    port: Saver, wanted: bytes | None = None, *, ancestors: bool = False, thread: str = THREAD
) -> Loaded:
    """Load the head, or the checkpoint with an id."""
    (found,) = await port.query([LoadCheckpoint(thread, "", wanted, ancestors)])
    return found


async def page(port: Saver, thread: str | None = THREAD, **options: Any) -> list[StoredCheckpoint]:
    """Read a page of checkpoints."""
    (found,) = await port.query([ListCheckpoints(thread, **options)])
    return found


def texts_of(found: StoredCheckpoint, lineage: int = 1) -> bytes:
    """The items of the list `x`, joined."""
    return b"".join(part for row in found.ranges["x", lineage] for part in frames(row.payload))
