"""What a removal takes away, as a decision on data: the same for every saver.

A checkpoint whose DeltaChannels are folded from its ancestors keeps them, whatever was asked for;
so does each of these, hence nothing that is left has lost a part. The parent of a checkpoint that
is gone is replaced by the nearest ancestor that is left.
"""

from collections.abc import Iterable, Sequence

import msgspec

from actorgraph.codec.records import Record, decode_metadata, decode_record, encode_record
from actorgraph.values.commits import BlobRow
from actorgraph.values.constants import NAMESPACE_END, NAMESPACE_SEPARATOR
from actorgraph.values.ids import GREGORIAN_OFFSET, as_text, ticks_of
from actorgraph.values.retention import (
    DeleteCheckpoints,
    DeleteRuns,
    Expire,
    HoldWhole,
    KeepLatest,
    Removal,
    Sweep,
)

_UUID_OF_TIME = 6


class CheckpointSummary(msgspec.Struct):
    """A stored checkpoint, as far as a removal needs it.

    Attributes:
        metadata: JSON. text: its record.
    """

    namespace: str
    sequence: int
    id: bytes
    parent: bytes | None
    run: bytes | None
    metadata: str
    text: str
    decoded: Record | None = None

    @property
    def record(self) -> Record:
        """Its record, decoded once."""
        if self.decoded is None:
            self.decoded = decode_record(self.text)
        return self.decoded

    @property
    def key(self) -> tuple[str, bytes]:
        """Namespace and id."""
        return (self.namespace, self.id)

    @property
    def created(self) -> int | None:
        """As in `CheckpointRow`; None for an id of a program's own that has no time in it."""
        if self.id[6] >> 4 != _UUID_OF_TIME:
            return None
        return (ticks_of(self.id) - GREGORIAN_OFFSET) // 10


class RemovalPlan(msgspec.Struct, frozen=True):
    """What a removal does to a thread.

    Attributes:
        gone: the checkpoints to remove.
        ledgers: `(namespace, id)` of those whose ledger goes too.
        parents: `(checkpoint, parent)` for those that get another parent.
        blobs: `(namespace, channel, version)` of the values that are still named.
        lists: (namespace, channel, lineage) -> how far the list is still named.
        heads: namespace -> the newest that is left; only namespaces that lose theirs.
        stops: whether runs that are going on must not store anything any more.
        kept: `(namespace, id)` of what is left; only of a sweep. Ledgers of others go, and no run
            is going on.
    """

    gone: list[CheckpointSummary]
    ledgers: set[tuple[str, bytes]]
    parents: list[tuple[CheckpointSummary, bytes | None]]
    blobs: set[tuple[str, str, int]]
    lists: dict[tuple[str, str, int], int]
    heads: dict[str, bytes | None]
    stops: bool
    kept: set[tuple[str, bytes]] | None = None

    @property
    def clears(self) -> bool:
        """Whether rows that no checkpoint names go."""
        return bool(self.gone) or self.kept is not None


def plan_removal(
    removal: Removal, points: Sequence[CheckpointSummary], open_run: bytes | None
) -> RemovalPlan:
    """Decide about a removal.

    Args:
        points: all checkpoints of the thread, oldest first.
        open_run: the run that holds the thread's claim.
    """
    by_key = {point.key: point for point in points}  # of several rows with one id the newest
    keeps = _with_ancestors(_wanted(removal, points, by_key), by_key)
    gone = [point for point in points if point.sequence not in keeps]
    left = [point for point in points if point.sequence in keeps]
    there = {point.key for point in left}
    heads = {point.namespace: point for point in points}
    lost = dict.fromkeys(n for n, head in heads.items() if head.sequence not in keeps)
    named = {point.namespace: point.id for point in left}
    removes = isinstance(removal, DeleteCheckpoints | DeleteRuns) or not left
    stops = isinstance(removal, DeleteRuns) and stored_by(removal.runs, open_run)
    sweeps = isinstance(removal, Sweep) and open_run is None
    named_by = _named_by(left) if gone or sweeps else (set[tuple[str, str, int]](), {})
    blobs, lists = named_by
    return RemovalPlan(
        gone=gone,
        ledgers={point.key for point in gone} - there,
        parents=list(_relinked(left, there, by_key)) if gone else [],
        blobs=blobs,
        lists=lists,
        heads={namespace: named.get(namespace) for namespace in lost},
        stops=stops or (removes and bool(lost)),
        kept=there if sweeps else None,
    )


def stored_by(runs: frozenset[str], run: bytes | None, metadata: str = "") -> bool:
    """Whether one of some runs stored a checkpoint: by its own word, or by its metadata's."""
    if run is not None and as_text(run) in runs:
        return True
    return '"run_id"' in metadata and decode_metadata(metadata).get("run_id") in runs


def _wanted(
    removal: Removal,
    points: Sequence[CheckpointSummary],
    by_key: dict[tuple[str, bytes], CheckpointSummary],
) -> Iterable[CheckpointSummary]:
    """What the removal leaves, but for what that needs."""
    if isinstance(removal, DeleteCheckpoints):
        ids, namespace = removal.ids, removal.namespace
        return [p for p in points if p.namespace != namespace or p.id not in ids]
    if isinstance(removal, DeleteRuns):
        return [p for p in points if not stored_by(removal.runs, p.run, p.metadata)]
    if isinstance(removal, KeepLatest):
        heads = {point.namespace: point for point in points}
        return [head for namespace, head in heads.items() if not _is_over(namespace, heads)]
    if isinstance(removal, Sweep):
        return points
    if isinstance(removal, Expire):
        return _unexpired(removal, points)
    newest: dict[str, list[CheckpointSummary]] = {}
    for point in points:
        newest.setdefault(point.namespace, []).append(point)
    found: dict[int, CheckpointSummary] = {}
    for rows in newest.values():
        for row in rows[-removal.count :]:
            at: CheckpointSummary | None = row
            while at is not None and at.sequence not in found:
                found[at.sequence] = at
                at = _parent(at, by_key)
    return found.values()


def _unexpired(removal: Expire, points: Sequence[CheckpointSummary]) -> list[CheckpointSummary]:
    """What is young enough, or among its namespace's newest; none of a call that is over."""
    young = [p for p in points if p.created is None or p.created >= removal.before]
    if not young and not removal.count:
        return []
    heads = {point.namespace: point for point in points}
    counts = {ns: 0 if _is_over(ns, heads) else max(1, removal.count) for ns in heads}
    kept = {point.sequence: point for point in young}
    for point in reversed(points):
        if counts[point.namespace]:
            counts[point.namespace] -= 1
            kept[point.sequence] = point
    return list(kept.values())


def _is_over(namespace: str, heads: dict[str, CheckpointSummary]) -> bool:
    """Whether a namespace belongs to a task whose superstep the graph above has left behind.

    A later superstep's tasks have other ids, so nobody comes back to it. A stateful graph's
    namespace has no task's id.
    """
    parts = namespace.split(NAMESPACE_SEPARATOR) if namespace else []
    head = heads[namespace]
    for depth, part in enumerate(parts):
        above = NAMESPACE_SEPARATOR.join(parts[:depth])
        if NAMESPACE_END not in part or above not in heads:
            continue
        now, then = heads[above], decode_metadata(head.metadata).get("parents", {}).get(above)
        # In exit mode the graph above stores its checkpoint after those of its tasks.
        if then is not None and then != as_text(now.id) and head.sequence < now.sequence:
            return True
    return False


def _parent(
    point: CheckpointSummary, by_key: dict[tuple[str, bytes], CheckpointSummary]
) -> CheckpointSummary | None:
    return by_key.get((point.namespace, point.parent)) if point.parent else None


def _with_ancestors(
    points: Iterable[CheckpointSummary], by_key: dict[tuple[str, bytes], CheckpointSummary]
) -> frozenset[int]:
    """The sequences of some checkpoints and of all that their values are folded from."""
    found: set[int] = set()
    waiting = list(points)
    while waiting:
        point = waiting.pop()
        if point.sequence in found:
            continue
        found.add(point.sequence)
        left, at = set(point.record.deltas), _parent(point, by_key)
        while left and at is not None:
            waiting.append(at)
            left.intersection_update(at.record.deltas)
            at = _parent(at, by_key)
    return frozenset(found)


def _relinked(
    left: Sequence[CheckpointSummary],
    there: set[tuple[str, bytes]],
    by_key: dict[tuple[str, bytes], CheckpointSummary],
) -> Iterable[tuple[CheckpointSummary, bytes | None]]:
    """The checkpoints whose parent goes, with the nearest ancestor that stays."""
    for point in left:
        at = _parent(point, by_key)
        if at is None or at.key in there:
            continue
        while at is not None and at.key not in there:
            at = _parent(at, by_key)
        yield point, None if at is None else at.id


def _named_by(
    left: Sequence[CheckpointSummary],
) -> tuple[set[tuple[str, str, int]], dict[tuple[str, str, int], int]]:
    """The blobs and the lists that some checkpoints name."""
    blobs: set[tuple[str, str, int]] = set()
    lists: dict[tuple[str, str, int], int] = {}
    for point in left:
        record, namespace = point.record, point.namespace
        blobs.update((namespace, c, record.version_of(c)) for c in record.blobs)
        for channel, chain in record.lists.items():
            for lineage, end in chain:
                key = (namespace, channel, lineage)
                lists[key] = max(end, lists.get(key, 0))
    return blobs, lists


def held_whole(request: HoldWhole, text: str) -> tuple[str, list[BlobRow]] | None:
    """The record of a checkpoint that holds some DeltaChannels whole from now on, and its blobs.

    Args:
        text: its record.
    Returns: None if it holds all of them already.
    """
    record = decode_record(text)
    versions = record.channel_versions
    channels = sorted(set(request.values).intersection(record.deltas, versions))
    if not channels:
        return None
    left = {c: counts for c, counts in record.deltas.items() if c not in channels}
    blobs = sorted({*record.blobs, *channels})
    stands = {**record.stands, **dict.fromkeys(channels, request.version)}
    whole = msgspec.structs.replace(record, deltas=left, blobs=blobs, stands=stands)
    whole.parts = whole.counted if record.parts else 0
    rows = [BlobRow(c, request.version, request.values[c]) for c in channels]
    return encode_record(whole), rows
