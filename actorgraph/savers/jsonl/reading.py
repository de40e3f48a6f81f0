"""Queries: find lines by the index, read and decode them.

Durable  only synced lines are in an index, so a reader never sees a save that may be undone
Damage   fails only the query that meets it; listings of all threads leave such threads out
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Any, Self

import msgspec

from actorgraph.codec.records import Record, decode_record
from actorgraph.errors import StorageError
from actorgraph.savers.integrity import unreadable
from actorgraph.savers.jsonl.folder import Folder
from actorgraph.savers.jsonl.index import CheckpointPlace, ThreadIndex
from actorgraph.savers.jsonl.schema import Line, payload_of
from actorgraph.savers.judge import sorted_ledger
from actorgraph.savers.paging import has_fields, in_order
from actorgraph.savers.retention import stored_by
from actorgraph.values.alarms import AlarmRow, ListAlarms
from actorgraph.values.commits import (
    CheckpointRow,
    FilteredPage,
    LedgerRow,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Query,
    ReadableRows,
    StoredCheckpoint,
    StoredClaim,
    StoredRange,
)
from actorgraph.values.ids import as_bytes
from actorgraph.values.retention import CountCheckpoints, ListThreads
from actorgraph.values.systems import SYSTEM_QUERIES
from actorgraph.values.thread_rows import THREAD_QUERIES

_KEPT_BYTES_MAX = 4_000_000
"""Bytes of decoded lines that a reader keeps."""


def run_queries(folder: Folder, queries: Sequence[Query]) -> list[Any]:
    """Answer the queries, in order. The answer of a query that fails is its error."""
    with folder.reading:
        return [_answer_or_error(folder, query) for query in queries]


def _answer_or_error(folder: Folder, query: Query) -> Any:
    try:
        return _answer(folder, query)
    except OSError as error:
        return _unreadable(folder, error)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - lines that no saver has written may raise anything
        return unreadable(getattr(query, "thread_id", None), error)


def _unreadable(folder: Folder, error: OSError) -> StorageError:
    refused = StorageError(
        f"a file in {folder.path!r} can't be read: {error}",
        do="check the disk and the permissions",
    )
    refused.__cause__ = error
    return refused


def _answer(folder: Folder, query: Query) -> Any:
    if isinstance(query, LoadCheckpoint):
        return _load(folder, query)
    if isinstance(query, ListThreads):
        return _threads(folder, query)
    if isinstance(query, CountCheckpoints):
        places = folder.index(query.thread_id).places
        return sum(query.namespace in (None, place.namespace) for place in places)
    if isinstance(query, SYSTEM_QUERIES):
        log = folder.runs_if_any()
        return [] if log is None else log.memory.answer(query)
    if isinstance(query, ListAlarms):
        return _alarms(folder, query)
    assert not isinstance(query, THREAD_QUERIES), "this saver has no index of threads"
    return _page(folder, query)


def _threads(folder: Folder, query: ListThreads) -> list[str]:
    """Answer `ListThreads`; threads that can't be read are left out, with their errors."""
    thread_ids: list[str] = []
    errors: list[Exception] = []
    for thread_id in folder.threads(inputs=query.inputs, errors=errors):
        try:
            if _has_runs(folder, thread_id, query):
                thread_ids.append(thread_id)
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(unreadable(thread_id, error))
    return ReadableRows(sorted(thread_ids), errors) if errors else sorted(thread_ids)


def _alarms(folder: Folder, query: ListAlarms) -> list[AlarmRow]:
    """Answer `ListAlarms`; those of threads that can't be read are left out, with the errors."""
    alarms = folder.alarms()
    rows = alarms.first(query.graphs, query.limit)
    errors = [unreadable(None, error) for error in alarms.unread.values()]
    return ReadableRows(rows, errors) if errors else rows


def _has_runs(folder: Folder, thread_id: str, query: ListThreads) -> bool:
    """Whether a thread has the runs, or checkpoints of the age, that a query asks for."""
    if query.runs is None and query.older is None:
        return True
    index = folder.index(thread_id, keep=False)
    with _ThreadReader(folder, index) as reader:
        rows = [reader.row(place) for place in index.places]
    if query.older is not None and all(row.created >= query.older for row in rows):
        return False
    runs = query.runs
    return (
        runs is None
        or stored_by(runs, index.state.run)
        or any(stored_by(runs, row.run, row.metadata) for row in rows)
    )


class _ThreadReader:
    """Reads checkpoints from a thread's open file; keeps lines, as one holds several rows."""

    def __init__(self, folder: Folder, index: ThreadIndex) -> None:
        self.index = index
        self._rows = folder.list_rows
        self._lists: dict[tuple[str, str, int], list[StoredRange]] = {}
        self._descriptor = index.open() if index.starts else -1
        self._lines: dict[int, Line] = {}
        self._kept_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def line(self, number: int) -> Line:
        """Read a line by its number, from 1."""
        line = self._lines.get(number)
        if line is None:
            line = self.index.read(self._descriptor, number)
            self._kept_bytes += self.index.length(number)
            if self._kept_bytes > _KEPT_BYTES_MAX:
                self._lines.clear()
                self._kept_bytes = 0
            self._lines[number] = line
        return line

    def row(self, place: CheckpointPlace) -> CheckpointRow:
        """Read the row of a checkpoint."""
        return self.line(place.line).checkpoints[place.at].row

    def bare(self, place: CheckpointPlace) -> StoredCheckpoint:
        """Read a checkpoint without its values and pending writes."""
        where = (self.index.thread_id, place.namespace, place.sequence)
        return StoredCheckpoint(*where, self.row(place), {}, {}, {}, ())

    def loaded(self, place: CheckpointPlace, query: LoadCheckpoint) -> StoredCheckpoint:
        """Read a checkpoint, with ancestors and its parent's pending writes if asked for."""
        stored = self.whole(place, ancestors=query.ancestors)
        if not query.parent:
            return stored
        rows = self._ledger(place.namespace, self.row(place).parent or b"")
        return msgspec.structs.replace(stored, parent_ledger=sorted_ledger(list(rows)))

    def whole(self, place: CheckpointPlace, *, ancestors: bool) -> StoredCheckpoint:
        """Read a checkpoint and, if asked for, the ancestors that its deltas need."""
        row = self.row(place)
        record = decode_record(row.record)
        stored = self._stored(place, row, record)
        if not ancestors or not record.deltas:
            return stored
        left, chain, at = set(record.deltas), list[StoredCheckpoint](), row
        for _ in range(record.depth):
            above = self.index.by_id.get((place.namespace, at.parent or b""))
            if above is None:
                break
            at = self.row(above)
            held = decode_record(at.record)
            ends = left.difference(held.deltas)
            left -= ends
            chain.append(self._stored(above, at, held.only(ends)))
        return msgspec.structs.replace(stored, ancestors=tuple(chain))

    def _stored(
        self, place: CheckpointPlace, row: CheckpointRow, record: Record
    ) -> StoredCheckpoint:
        ranges: dict[tuple[str, int], list[StoredRange]] = {}
        ends: dict[tuple[str, int], int] = {}
        for channel, chain in record.lists.items():
            for lineage, end in chain:
                rows = self._list(place.namespace, channel, lineage)
                ends[channel, lineage] = rows[-1].start + rows[-1].count if rows else 0
                ranges[channel, lineage] = rows[: bisect_left(rows, end, key=_start)]
        return StoredCheckpoint(
            thread_id=self.index.thread_id,
            namespace=place.namespace,
            sequence=place.sequence,
            row=row,
            blobs=dict(self._blobs(place.namespace, record)),
            ranges=ranges,
            ends=ends,
            ledger=sorted_ledger(list(self._ledger(place.namespace, place.id))),
        )

    def _blobs(self, namespace: str, record: Record) -> Iterable[tuple[str, bytes]]:
        for channel in record.blobs:
            version = record.version_of(channel)
            number = self.index.blobs.get((namespace, channel, version))
            if number is not None:
                key = (channel, version)
                values = self.line(number).values
                raw = next(v.value for v in reversed(values) if (v.channel, v.version) == key)
                yield channel, payload_of(raw)

    def _list(self, namespace: str, channel: str, lineage: int) -> list[StoredRange]:
        """Read the rows of a list, once for all checkpoints that share them."""
        ranges = self._lists.get((namespace, channel, lineage))
        if ranges is None:
            ranges = []
            rows = self.index.rows.get((namespace, channel, lineage), {})
            for start in sorted(rows):
                key = (self.index.thread_id, namespace, channel, lineage, start)
                payload = self._rows.payload(key, rows[start], self.line)
                ranges.append(StoredRange(start, rows[start].count, payload))
            self._lists[namespace, channel, lineage] = ranges
        return ranges

    def _ledger(self, namespace: str, point: bytes) -> Iterable[LedgerRow]:
        rows = self.index.ledger.get((namespace, point), {})
        for number in dict.fromkeys(rows.values()):
            for entry in self.line(number).ledger:
                if as_bytes(entry.base) == point and rows.get(entry.key) == number:
                    yield entry.row

    def open_run(self) -> StoredClaim | None:
        """Read the run that holds the thread's claim; None if no run is open."""
        run = self.index.state.run
        if run is None:
            return None
        claim = self.line(self.index.run_line).claim
        assert claim is not None
        head = None if claim.head is None else as_bytes(claim.head)
        input_payload = payload_of(claim.input[0]) if claim.input else None
        return StoredClaim(run, head, claim.mode, input_payload)


def _start(row: StoredRange) -> int:
    return row.start


def _load(folder: Folder, query: LoadCheckpoint) -> Loaded:
    index = folder.index(query.thread_id)
    head = index.state.heads.get(query.namespace)
    newest = index.by_id.get((query.namespace, head)) if head else None
    place = index.by_id.get((query.namespace, query.id)) if query.id else newest
    with _ThreadReader(folder, index) as reader:
        floor = decode_record(reader.row(newest).record).floor if newest else 0
        return Loaded(
            epoch=index.state.epoch,
            checkpoint=None if place is None else reader.loaded(place, query),
            head=head,
            open_run=reader.open_run(),
            version_floor=floor,
        )


def _page(folder: Folder, query: ListCheckpoints) -> list[StoredCheckpoint]:
    if query.thread_id is not None:
        with _ThreadReader(folder, folder.index(query.thread_id)) as reader:
            return [_read(reader, p, query) for p in islice(_places(reader, query), query.limit)]
    places: dict[bytes, list[tuple[str, CheckpointPlace]]] = {}
    errors: list[Exception] = []
    for thread_id in sorted(folder.threads(errors=errors)):
        try:
            with _ThreadReader(folder, folder.index(thread_id, keep=False)) as reader:
                for place in list(_places(reader, query)):
                    places.setdefault(place.id, []).append((thread_id, place))
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(unreadable(thread_id, error))
    ids = sorted(places, reverse=not query.oldest_first)
    page = islice((one for id_ in ids for one in places[id_]), query.limit)
    rows: list[StoredCheckpoint] = []
    for thread_id, those in groupby(page, key=lambda one: one[0]):
        with _ThreadReader(folder, folder.index(thread_id, keep=False)) as reader:
            rows += [_read(reader, place, query) for _, place in those]
    return FilteredPage(rows, rows, errors) if errors else rows


def _read(
    reader: _ThreadReader, place: CheckpointPlace, query: ListCheckpoints
) -> StoredCheckpoint:
    return reader.bare(place) if query.bare else reader.whole(place, ancestors=query.ancestors)


def _places(reader: _ThreadReader, query: ListCheckpoints) -> Iterable[CheckpointPlace]:
    """Yield a thread's checkpoints that a listing asks for, in its order."""
    index = reader.index
    here = in_order(index.places, query, index.thread_id, lambda place: place.id)
    return (place for place in here if _matches(reader, place, query))


def _matches(reader: _ThreadReader, place: CheckpointPlace, query: ListCheckpoints) -> bool:
    if query.namespace not in (None, place.namespace):
        return False
    if query.before is not None:
        bound = reader.index.by_id.get((place.namespace, query.before))
        if bound is None or place.sequence >= bound.sequence:
            return False
    return not query.where or has_fields(reader.row(place), query.where)
