"""Answer queries for checkpoints and threads."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from actorgraph.codec.records import Record, decode_record
from actorgraph.savers.judge import sorted_ledger
from actorgraph.savers.paging import has_fields, in_order
from actorgraph.savers.retention import stored_by
from actorgraph.values.commits import (
    LedgerRow,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Query,
    StoredCheckpoint,
    StoredRange,
)
from actorgraph.values.retention import CountCheckpoints, ListThreads
from actorgraph.values.systems import SYSTEM_QUERIES
from lmdb_saver import runs
from lmdb_saver.tables import Point, Rows, Thread, key, number_of

replace = msgspec.structs.replace


def answer(rows: Rows, query: Query) -> Any:
    """Answer one query."""
    if isinstance(query, LoadCheckpoint):
        return _load(rows, query)
    if isinstance(query, ListCheckpoints):
        return _list(rows, query)
    if isinstance(query, ListThreads):
        return sorted(t.state.thread_id for t in _threads(rows) if _is_listed(rows, t, query))
    if isinstance(query, CountCheckpoints):
        thread = thread_of(rows, query.thread_id)
        points = points_of(rows, thread.number) if thread else ()
        return sum(1 for point in points if query.namespace in (None, point.namespace))
    assert isinstance(query, SYSTEM_QUERIES), "this saver has no index of threads"
    return runs.answer(rows, query)


def thread_of(rows: Rows, thread_id: str) -> Thread | None:
    """A thread's own row; None if it has none."""
    return rows.get("threads", thread_id)


def points_of(rows: Rows, number: int) -> Iterator[Point]:
    """A thread's checkpoints, oldest first."""
    return (point for _, point in rows.under("checkpoints", number))


def newest(rows: Rows, number: int, namespace: str, identifier: bytes) -> Point | None:
    """The checkpoint with an id: of several rows the newest; None if absent."""
    found = [at for at, _ in rows.under("ids", number, namespace, identifier)]
    return rows.get("checkpoints", number, number_of(found[-1])) if found else None


def _threads(rows: Rows) -> Iterator[Thread]:
    return (thread for _, thread in rows.under("threads"))


def _is_listed(rows: Rows, thread: Thread, query: ListThreads) -> bool:
    older, wanted = query.older, query.runs
    if older is None and wanted is None:
        waits = query.inputs and thread.claim is not None and thread.claim.input is not None
        return waits or any(True for _ in points_of(rows, thread.number))
    found = [point.row for point in points_of(rows, thread.number)]
    if older is not None and all(row.created >= older for row in found):
        return False
    if wanted is None:
        return bool(found)
    return stored_by(wanted, thread.state.run) or any(
        stored_by(wanted, row.run, row.metadata) for row in found
    )


def _load(rows: Rows, query: LoadCheckpoint) -> Loaded:
    thread = thread_of(rows, query.thread_id)
    if thread is None:
        return Loaded()
    number, namespace = thread.number, query.namespace
    _, head = rows.get("heads", number, namespace) or ("", None)
    top = newest(rows, number, namespace, head) if head else None
    point = newest(rows, number, namespace, query.id) if query.id else top
    found = None if point is None else _whole(rows, thread, point, ancestors=query.ancestors)
    if found is not None and query.parent:
        above = _ledger(rows, number, namespace, found.row.parent or b"")
        found = replace(found, parent_ledger=above)
    return Loaded(
        epoch=thread.state.epoch,
        checkpoint=found,
        head=head,
        open_run=thread.open_run,
        version_floor=decode_record(top.row.record).floor if top else 0,
    )


def _list(rows: Rows, query: ListCheckpoints) -> list[StoredCheckpoint]:
    found = islice(_of_thread(rows, query) or _of_all(rows, query), query.limit)
    if query.bare:
        return [_bare(thread, point) for thread, point in found]
    return [_whole(rows, *place, ancestors=query.ancestors) for place in found]


def _of_all(rows: Rows, query: ListCheckpoints) -> Iterator[tuple[Thread, Point]]:
    """Checkpoints of all threads from where a page starts, by id."""
    listed: list[tuple[Thread, Point]] = []
    for thread in sorted(_threads(rows), key=lambda thread: thread.state.thread_id):
        points = [*points_of(rows, thread.number)]
        behind = in_order(points, query, thread.state.thread_id, lambda point: point.row.id)
        listed += [(thread, point) for point in behind if _fits(rows, thread, point, query)]
    listed.sort(key=lambda place: place[1].row.id, reverse=not query.oldest_first)
    return iter(listed)


def _of_thread(rows: Rows, query: ListCheckpoints) -> Iterator[tuple[Thread, Point]] | None:
    """A thread's checkpoints from where a page starts, in order; None if all threads are asked."""
    if query.thread_id is None:
        return None
    thread = thread_of(rows, query.thread_id)
    if thread is None:
        return iter(())
    number = thread.number
    if query.oldest_first:
        first = key(number, query.after[2] + 1 if query.after else 0)
    else:
        first = key(number, query.after[2]) if query.after else key(number + 1)
    found = rows.between("checkpoints", first, key(number), back=not query.oldest_first)
    return ((thread, point) for _, point in found if _fits(rows, thread, point, query))


def _fits(rows: Rows, thread: Thread, point: Point, query: ListCheckpoints) -> bool:
    if query.namespace not in (None, point.namespace):
        return False
    if query.before is not None:
        bound = newest(rows, thread.number, point.namespace, query.before)
        if bound is None or point.sequence >= bound.sequence:
            return False
    return has_fields(point.row, query.where)


def _bare(thread: Thread, point: Point) -> StoredCheckpoint:
    """A checkpoint without values and writes."""
    where = (thread.state.thread_id, point.namespace, point.sequence)
    return StoredCheckpoint(*where, point.row, {}, {}, {}, ())


def _whole(rows: Rows, thread: Thread, point: Point, *, ancestors: bool) -> StoredCheckpoint:
    """A checkpoint with its values; if asked for, with the ancestors that these are folded from."""
    record = decode_record(point.row.record)
    stored = _with_values(rows, thread, point, record)
    if not ancestors or not record.deltas:
        return stored
    left, found, at = set(record.deltas), list[StoredCheckpoint](), point
    for _ in range(record.depth):
        above = newest(rows, thread.number, point.namespace, at.row.parent or b"")
        if above is None or not at.row.parent:
            break
        at, whole = above, decode_record(above.row.record)
        ends = left.difference(whole.deltas)  # channels of which it has the whole value
        left -= ends
        found.append(_with_values(rows, thread, at, whole.only(ends)))
    return replace(stored, ancestors=tuple(found))


def _with_values(rows: Rows, thread: Thread, point: Point, record: Record) -> StoredCheckpoint:
    number, namespace = thread.number, point.namespace
    blobs: dict[str, bytes] = {}
    for channel in record.blobs:
        found = rows.get("blobs", number, namespace, channel, record.version_of(channel))
        if found is not None:
            blobs[channel] = found[1].payload
    ranges: dict[tuple[str, int], list[StoredRange]] = {}
    ends: dict[tuple[str, int], int] = {}
    for channel, chain in record.lists.items():
        for lineage, end in chain:
            place = (number, namespace, channel, lineage)
            parts = [row for _, (_, row) in rows.under("ranges", *place)]
            ranges[channel, lineage] = [
                StoredRange(row.start, row.count, row.payload) for row in parts if row.start < end
            ]
            ends[channel, lineage] = max((row.start + row.count for row in parts), default=0)
    ledger = _ledger(rows, number, namespace, point.row.id)
    bare = _bare(thread, point)
    return replace(bare, blobs=blobs, ranges=ranges, ends=ends, ledger=ledger)


def _ledger(rows: Rows, number: int, namespace: str, base: bytes) -> tuple[LedgerRow, ...]:
    if not base:
        return ()
    return sorted_ledger([row for _, (_, row) in rows.under("ledger", number, namespace, base)])
