"""One thread's rows in memory: saves are encoded into them, and checkpoints are decoded of them."""

import operator
from typing import Annotated, Any, TypedDict

import msgspec

from actorgraph.channels import DeltaChannel, UntrackedValue
from actorgraph.codec import Codec
from actorgraph.codec.records import Placement, Record, decode_record, encode_record
from actorgraph.codec.restore import restore
from actorgraph.codec.save_encoder import SaveEncoder
from actorgraph.plan.plan import Plan
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commits import (
    CheckpointRow,
    Commit,
    LedgerRow,
    Loaded,
    StoredCheckpoint,
    StoredRange,
)
from actorgraph.values.constants import PULL, START
from actorgraph.values.ids import CheckpointId, TaskId, uuid6
from actorgraph.values.run import LedgerEntry, NewCheckpoint, Save
from tests.superstep.script import graph, idle

RUN = b"r" * 16
EARLIER = b"e" * 16
TASK = TaskId("00000000-0000-0000-0000-0000000000aa")
TASK_BYTES = bytes(15) + b"\xaa"
PATH = (PULL, "a")
KEYS = {"k": b"1" * 32}


def extended(value: list[Any], writes: list[Any]) -> list[Any]:
    """The value with the writes behind it."""
    return [*value, *writes]


class State(TypedDict):
    n: int
    text: str
    items: list[Any]
    log: Annotated[list[Any], operator.add]
    facts: Annotated[list[Any], DeltaChannel(extended)]
    secret: Annotated[object, UntrackedValue]


PLAN = graph(State, dict.fromkeys("abc", idle), [(START, "a"), ("a", "b"), ("b", "c")])


def checkpoint_id(number: int) -> CheckpointId:
    """The id of a thread's checkpoint, by its number from 1."""
    return uuid6(138_000_000_000_000_000 + 10 * number, number - 2, 7)


A, B, C, D = map(checkpoint_id, range(1, 5))


def point(number: int = 1, changed: dict[str, Any] | None = None, **more: Any) -> NewCheckpoint:
    """A checkpoint behind the one before it, whose channels change to version `number`."""
    changed = changed or {}
    fields = {
        "id": checkpoint_id(number),
        "parent": checkpoint_id(number - 1) if number > 1 else None,
        "step": number - 2,
        "source": "loop",
        "changed": changed,
        "versions": dict.fromkeys(changed, number),
        "seen": {},
        "updated": None,
        "next": (),
        "metadata": {},
    }
    return NewCheckpoint(**{**fields, **more})


def entry(base: bytes = A, /, *, index: int = 0, **writes: Any) -> LedgerEntry:
    """The pending writes of a task of node a."""
    return LedgerEntry(base, TASK, PATH, index, 0, tuple(writes.items()))


def save(*points: NewCheckpoint, number: int = 1, **more: Any) -> Save:
    """A save of these checkpoints."""
    return Save(number, None, checkpoints=points, **more)


def hand_off(codec: Codec | None = None, plan: Plan = PLAN, **more: Any) -> SaveEncoder:
    """The hand-off of a run of thread t."""
    settings: dict[str, Any] = {"thread_id": "t", "namespace": "", "run": RUN, "epoch": 3}
    return SaveEncoder(Codec() if codec is None else codec, plan, **{**settings, **more})


class Thread:
    """Thread t: what its saves store, and the checkpoints that are read of it."""

    def __init__(self, codec: Codec | None = None, plan: Plan = PLAN, **more: Any) -> None:
        self.codec = Codec() if codec is None else codec
        self.plan = plan
        self.hand = hand_off(self.codec, plan, **more)
        self.rows: dict[bytes, Any] = {}
        self.blobs: dict[tuple[str, int], bytes] = {}
        self.ranges: dict[tuple[str, int], dict[int, StoredRange]] = {}
        self.ledger: list[LedgerRow] = []

    def save(self, *points: NewCheckpoint, **more: Any) -> Commit:
        """Encode a save and keep its rows."""
        commit = self.hand.commit(save(*points, **more))
        self.keep(commit)
        return commit

    def keep(self, commit: Commit) -> None:
        """Keep a commit's rows as a saver would."""
        self.ledger.extend(commit.ledger)
        for row in commit.checkpoints:
            self.rows[row.id] = row
            for blob in row.blobs:
                self.blobs.setdefault((blob.channel, blob.version), blob.payload)
            for added in row.ranges:
                of = self.ranges.setdefault((added.channel, added.lineage), {})
                old = of.get(added.start, StoredRange(added.start, 0, b""))
                assert old.count == added.before
                count = added.before + added.count
                of[added.start] = StoredRange(added.start, count, old.payload + added.payload)
            for merge in row.merges:
                of = self.ranges[merge.channel, merge.lineage]
                parts = [of.pop(at) for at in sorted(of) if merge.start <= at < merge.end]
                payload = b"".join(part.payload for part in parts)
                count = sum(part.count for part in parts)
                of[merge.start] = StoredRange(merge.start, count, payload)

    def stored(self, id: bytes, *, ancestors: int = 0) -> StoredCheckpoint:
        """A checkpoint's rows, with those of so many ancestors."""
        row = self.rows[id]
        record = msgspec.json.decode(row.record)
        versions = {**record.get("channel_versions", {}), **record.get("stands", {})}
        names = record.get("blobs", ())
        above: list[StoredCheckpoint] = []
        if ancestors and row.parent is not None:
            parent = self.stored(row.parent, ancestors=ancestors - 1)
            above = [msgspec.structs.replace(parent, ancestors=()), *parent.ancestors]
        return StoredCheckpoint(
            thread_id="t",
            namespace="",
            sequence=len(self.rows),
            row=row,
            blobs={name: self.blobs[name, versions[name]] for name in names},
            ranges={of: [rows[at] for at in sorted(rows)] for of, rows in self.ranges.items()},
            ends={
                of: max(row.start + row.count for row in rows.values())
                for of, rows in self.ranges.items()
            },
            ledger=tuple(row for row in self.ledger if row.base == id),
            ancestors=tuple(above),
        )

    def restored(
        self, id: bytes, *, ancestors: int = 0, codec: Codec | None = None, **more: Any
    ) -> tuple[Restored, Placement]:
        """A checkpoint, decoded, and where its values are stored."""
        loaded = Loaded(checkpoint=self.stored(id, ancestors=ancestors), head=id, **more)
        found = restore(self.codec if codec is None else codec, self.plan, loaded)
        assert found is not None
        return found

    def values(self, id: bytes, **more: Any) -> dict[str, Any]:
        """A checkpoint's values."""
        return self.restored(id, **more)[0].values


def record_of(commit: Commit, at: int = 0) -> Record:
    """The record of one of a commit's checkpoints."""
    return decode_record(commit.checkpoints[at].record)


def stored(record: Record | None = None, **more: Any) -> StoredCheckpoint:
    """Checkpoint A with this record."""
    text = encode_record(Record() if record is None else record)
    fields: dict[str, Any] = {
        "thread_id": "t",
        "namespace": "",
        "sequence": 5,
        "row": CheckpointRow(A, None, -1, "input", RUN, "[]", text, "{}"),
        "blobs": {},
        "ranges": {},
        "ends": {},
        "ledger": (),
    }
    return StoredCheckpoint(**{**fields, **more})


def read(
    given: StoredCheckpoint, codec: Codec | None = None, **more: Any
) -> tuple[Restored, Placement]:
    """The checkpoint, decoded."""
    found = restore(codec or Codec(), PLAN, Loaded(checkpoint=given, **more))
    assert found is not None
    return found


def row(payload: bytes, *, index: int = 0, path: str = "~__pregel_pull, a") -> LedgerRow:
    """A row of pending writes beside A."""
    return LedgerRow(A, TASK_BYTES, path, index, 2, payload)
