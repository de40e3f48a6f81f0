"""Builders for checks: configs and checkpoints in LangGraph's form, rows and commits."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

from actorgraph.codec.records import Record, encode_record, frame, frames
from actorgraph.ports import Saver
from actorgraph.runtime.clock import IDS
from actorgraph.testing.conformance.harness import Public
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
from actorgraph.values.ids import as_text

Config = dict[str, Any]


def at(thread_id: str = "t", namespace: str = "", **more: Any) -> Config:
    """The config of a namespace of a thread; with `checkpoint_id=`, of a checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, **more}}


def whole(thread_id: str = "t") -> Config:
    """The config of a thread with all its namespaces, for lists."""
    return {"configurable": {"thread_id": thread_id}}


def new_id() -> str:
    """A checkpoint id greater than all earlier ones."""
    return as_text(IDS.checkpoint(0, None))


def new_task() -> str:
    """The id of a task."""
    return str(uuid4())


def checkpoint(values: Mapping[str, Any], *, version: int = 1, named: str | None = None) -> Any:
    """A checkpoint whose channels all have one version.

    Args:
        named: its id; default a new one.
    """
    return {
        "v": 4,
        "id": named or new_id(),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": dict.fromkeys(values, version),
        "versions_seen": {"node": dict.fromkeys(values, version)},
        "updated_channels": sorted(values),
    }


def metadata(step: int, source: str = "loop", **more: Any) -> dict[str, Any]:
    """The metadata of a checkpoint."""
    return {"source": source, "step": step, "parents": {}, **more}


async def chain(saver: Public, count: int, start: Config | None = None, **more: Any) -> list[Any]:
    """Store checkpoints, each the child of the previous one; the value of `x` is its step.

    Args:
        more: further metadata, the same for all.
    Returns: their configs, oldest first.
    """
    config: Any = start or at()
    configs = list[Any]()
    for step in range(count):
        point = checkpoint({"x": step}, version=step + 1)
        config = await saver.put(config, point, metadata(step, **more))
        configs.append(config)
    return configs


def id_of(config: Mapping[str, Any]) -> str:
    """The checkpoint that a config addresses."""
    return config["configurable"]["checkpoint_id"]


def values_of(found: Any) -> Any:
    """The channel values of a checkpoint tuple; None for None."""
    return None if found is None else found.checkpoint["channel_values"]


async def steps(saver: Public, config: Config | None, **options: Any) -> list[int]:
    """The steps of the checkpoints of a list, in its order."""
    return [found.metadata["step"] for found in await saver.list(config, **options)]


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
    **more: Any,
) -> Commit:
    """A commit without a run, as `update_state` makes it."""
    return Commit(thread, namespace, None, EPOCH_ANY, 0, head, checkpoints=points, **more)


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
