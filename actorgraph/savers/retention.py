"""Decide what a removal deletes from a thread, as functions over data: the same for every saver.

Invariants
    A checkpoint that is left can be read: the ancestors that its DeltaChannels are folded from stay
    too, regardless of the request, and so do theirs.
    A checkpoint that is left has a parent that is left: the nearest such ancestor, or none.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

import msgspec

from actorgraph.codec.records import Record, decode_metadata, decode_record, encode_record
from actorgraph.errors import FormatVersionError
from actorgraph.values.commits import BlobRow
from actorgraph.values.constants import NAMESPACE_END, NAMESPACE_SEPARATOR
from actorgraph.values.ids import as_text, created_of
from actorgraph.values.retention import (
    DeleteCheckpoints,
    DeleteRuns,
    Expire,
    HoldWhole,
    KeepLast,
    KeepLatest,
    Removal,
    Sweep,
)

_UUID_OF_TIME = 6


class RetentionPoint(msgspec.Struct):
    """The columns of a stored checkpoint that removals need.

    Attributes:
        metadata: a JSON object.
        text: the encoded record; see `record`.
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
        """The decoded record; decoded at the first use."""
        if self.decoded is None:
            self.decoded = decode_record(self.text)
        return self.decoded

    @property
    def key(self) -> tuple[str, bytes]:
        """Namespace and id."""
        return (self.namespace, self.id)

    @property
    def created(self) -> int | None:
        """Microseconds since 1970-01-01 UTC, from the id; None unless it is a UUID version 6."""
        if self.id[6] >> 4 != _UUID_OF_TIME:
            return None
        return created_of(self.id)


class RemovalPlan(msgspec.Struct, frozen=True):
    """The changes that a removal makes to a thread.

    Attributes:
        gone: the checkpoints to remove.
        ledgers: `(namespace, id)` of checkpoints whose ledgers are removed.
        parents: `(checkpoint, new parent)` of those whose parent is removed.
        blobs: `(namespace, channel, version)` of the values to keep.
        lists: (namespace, channel, lineage) -> number of items to keep.
        heads: namespace -> new head or None; only of namespaces whose head is removed.
        stops: whether to raise the epoch, so that a run that is going on can store nothing more.
        kept: for a sweep of a thread without a run, `(namespace, id)` of all checkpoints that
            are left: ledgers beside other ids are removed. None otherwise.
    """

    gone: list[RetentionPoint]
    ledgers: set[tuple[str, bytes]]
    parents: list[tuple[RetentionPoint, bytes | None]]
    blobs: set[tuple[str, str, int]]
    lists: dict[tuple[str, str, int], int]
    heads: dict[str, bytes | None]
    stops: bool
    kept: set[tuple[str, bytes]] | None = None

    @property
    def clears(self) -> bool:
        """Whether any rows are to be removed."""
        return bool(self.gone) or self.kept is not None


def plan_removal(
    removal: Removal, points: Sequence[RetentionPoint], open_run: bytes | None
) -> RemovalPlan:
    """Decide what a removal changes in a thread.

    Args:
        points: all checkpoints of the thread, oldest first.
        open_run: the run that holds the thread's claim; None for none.
    Raises:
        FormatVersionError: a record can't be read; it names the thread.
    """
    try:
        return _plan(removal, points, open_run)
    except FormatVersionError as error:
        raise FormatVersionError(
            f"thread {removal.thread_id!r}: {error.what}", do=error.do or ""
        ) from error


def _plan(
    removal: Removal, points: Sequence[RetentionPoint], open_run: bytes | None
) -> RemovalPlan:
    by_key = {point.key: point for point in points}  # of several rows with one id the newest
    keeps = _with_ancestors(_wanted(removal, points), by_key)
    gone = [point for point in points if point.sequence not in keeps]
    left = [point for point in points if point.sequence in keeps]
    # Several rows may have one id: its ledger stays as long as one of them does.
    left_keys = {point.key for point in left}
    heads = {point.namespace: point for point in points}
    lost = dict.fromkeys(n for n, head in heads.items() if head.sequence not in keeps)
    newest_left = {point.namespace: point.id for point in left}
    removes = _may_take_heads(removal) or not left
    stops = isinstance(removal, DeleteRuns) and stored_by(removal.runs, open_run)
    sweeps = isinstance(removal, Sweep) and open_run is None
    blobs, lists = _named_by(left) if gone or sweeps else (set[tuple[str, str, int]](), {})
    return RemovalPlan(
        gone=gone,
        ledgers={point.key for point in gone} - left_keys,
        parents=list(_relinked(left, left_keys, by_key)) if gone else [],
        blobs=blobs,
        lists=lists,
        heads={namespace: newest_left.get(namespace) for namespace in lost},
        stops=stops or (removes and bool(lost)),
        kept=left_keys if sweeps else None,
    )


def _may_take_heads(removal: Removal) -> bool:
    """Whether it must stop the run whose newest checkpoint it removes.

    The run's next save would name a parent that is gone. Prunes remove no heads but those of
    namespaces that are over, and need not stop a run.
    """
    match removal:
        case DeleteCheckpoints() | DeleteRuns():
            return True
        case KeepLatest() | KeepLast() | Expire() | Sweep():
            return False
        case _:
            assert_never(removal)


def stored_by(runs: frozenset[str], run: bytes | None, metadata: str = "") -> bool:
    """Whether one of `runs` stored a checkpoint, by its `run` column or by its metadata.

    LangGraph's programs put `run_id` into the metadata; it may be any text.
    """
    if run is not None and as_text(run) in runs:
        return True
    # Most metadata have no run id: looking for the text is cheaper than decoding the JSON.
    return '"run_id"' in metadata and decode_metadata(metadata).get("run_id") in runs


def _wanted(removal: Removal, points: Sequence[RetentionPoint]) -> Iterable[RetentionPoint]:
    """The checkpoints to keep, without the ancestors that these need."""
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
    if isinstance(removal, KeepLast):
        return _newest(removal.count, points)
    assert_never(removal)


def _newest(count: int, points: Sequence[RetentionPoint]) -> list[RetentionPoint]:
    """The newest `count` checkpoints of each namespace."""
    newest: dict[str, list[RetentionPoint]] = {}
    for point in points:
        newest.setdefault(point.namespace, []).append(point)
    return [row for rows in newest.values() for row in rows[-count:]]


def _unexpired(removal: Expire, points: Sequence[RetentionPoint]) -> list[RetentionPoint]:
    """The checkpoints young enough or among the newest `count` of their namespace.

    Of namespaces that are over only young ones are kept.
    """
    young = [p for p in points if p.created is None or p.created >= removal.before]
    if not young and not removal.count:
        return []
    heads = {point.namespace: point for point in points}
    counts = {ns: 0 if _is_over(ns, heads) else max(1, removal.count) for ns in heads}
    remaining = {point.sequence: point for point in young}
    for point in reversed(points):
        if counts[point.namespace]:
            counts[point.namespace] -= 1
            remaining[point.sequence] = point
    return list(remaining.values())


def _is_over(namespace: str, heads: dict[str, RetentionPoint]) -> bool:
    """Whether a namespace belongs to a task of a superstep that its parent graph has finished.

    Tasks of later supersteps have other ids, so such a namespace is never used again. That of a
    stateful subgraph has no task id in it, and is never over.
    """
    parts = namespace.split(NAMESPACE_SEPARATOR) if namespace else []
    head = heads[namespace]
    for depth, part in enumerate(parts):
        above = NAMESPACE_SEPARATOR.join(parts[:depth])
        if NAMESPACE_END not in part or above not in heads:
            continue
        now, then = heads[above], decode_metadata(head.metadata).get("parents", {}).get(above)
        # The superstep is finished if the parent graph has another head now than when the task
        # ran. In exit mode the parent graph stores its checkpoint only after those of its tasks:
        # then that head is newer by sequence.
        if then is not None and then != as_text(now.id) and head.sequence < now.sequence:
            return True
    return False


def _parent(
    point: RetentionPoint, by_key: dict[tuple[str, bytes], RetentionPoint]
) -> RetentionPoint | None:
    return by_key.get((point.namespace, point.parent)) if point.parent else None


def _with_ancestors(
    points: Iterable[RetentionPoint], by_key: dict[tuple[str, bytes], RetentionPoint]
) -> frozenset[int]:
    """The sequences of checkpoints and of all ancestors that their values are folded from."""
    sequences: set[int] = set()
    waiting = list(points)
    while waiting:
        point = waiting.pop()
        if point.sequence in sequences:
            continue
        sequences.add(point.sequence)
        left, at = set(point.record.deltas), _parent(point, by_key)
        while left and at is not None:
            waiting.append(at)
            left.intersection_update(at.record.deltas)
            at = _parent(at, by_key)
    return frozenset(sequences)


def _relinked(
    left: Sequence[RetentionPoint],
    there: set[tuple[str, bytes]],
    by_key: dict[tuple[str, bytes], RetentionPoint],
) -> Iterable[tuple[RetentionPoint, bytes | None]]:
    """Each checkpoint whose parent is removed, with its nearest ancestor that is left."""
    for point in left:
        at = _parent(point, by_key)
        if at is None or at.key in there:
            continue
        while at is not None and at.key not in there:
            at = _parent(at, by_key)
        yield point, None if at is None else at.id


def _named_by(
    left: Sequence[RetentionPoint],
) -> tuple[set[tuple[str, str, int]], dict[tuple[str, str, int], int]]:
    """The blobs, and the lengths of lists, that the records of checkpoints name."""
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
    """Change a checkpoint's record so that it holds some DeltaChannels whole, without ancestors.

    Args:
        text: the encoded record.
    Returns: the new encoded record and the blobs to store; None if nothing changes.
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
