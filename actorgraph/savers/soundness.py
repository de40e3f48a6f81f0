"""Whether rows that were read are as they were written: their kinds of values, and their checksums.

Databases keep what they are given: SQLite puts text where a number belongs, and somebody's script,
or a bad disk, a row that no saver has written. Each function here takes a row with its checksum,
None for a row of a version that had none, and raises `StorageError`, which names the row.
"""

from collections.abc import Callable, Iterable
from typing import Any

from actorgraph.codec.held import lost
from actorgraph.codec.records import Record
from actorgraph.errors import ActorGraphError, StorageError
from actorgraph.savers import checksums
from actorgraph.savers.checksums import damaged, point_key
from actorgraph.savers.retention import Point
from actorgraph.values.commits import (
    CheckpointRow,
    LedgerRow,
    ReadableRows,
    StoredCheckpoint,
    StoredClaim,
)
from actorgraph.values.ids import as_text
from actorgraph.values.systems import OPEN_STATUSES, EventRow, ListRuns, ReadEvents, RunRow

_ENDED = frozenset({"success", "error", "interrupted", "cancelled", "timeout", "parked"})
_ID = 16
_STRANGE = "it has a value that no saver has written there"
_WRONG = "its checksum is wrong"


def _fits(found: int | None, made: Callable[..., int], *parts: Any) -> bool:
    """Whether a checksum is that of some parts; parts of a wrong kind have none."""
    if found is None:
        return True
    try:
        return made(*parts) == found
    except (TypeError, ValueError, AttributeError):
        return False


def _is_text(value: object) -> bool:
    """Whether it is text that has an encoding: what a database can't decode has lone surrogates."""
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_id(value: object) -> bool:
    return type(value) is bytes and len(value) == _ID


def _is_id_or_none(value: object) -> bool:
    return value is None or _is_id(value)


def check_head(columns: tuple[Any, ...], found: int | None) -> None:
    """Check a row of `threads`: thread id, epoch, run, next sequence, head."""
    thread_id, epoch, run, next_seq, head = columns
    if not _fits(found, checksums.head_sum, thread_id, next_seq, head, run):
        raise damaged(thread_id, "the head", _WRONG)
    numbers = type(epoch) is int and type(next_seq) is int
    if not (numbers and _is_id_or_none(run) and _is_id_or_none(head)):
        raise damaged(thread_id, "the head", _STRANGE)


def check_point(
    thread_id: str, namespace: str, sequence: int, row: CheckpointRow, found: int | None
) -> None:
    """Check a row of `checkpoints`."""
    why = _WRONG
    if _fits(found, checksums.checkpoint_sum, thread_id, namespace, sequence, row):
        why = _STRANGE
        ids = _is_id(row.id) and _is_id_or_none(row.parent) and _is_id_or_none(row.run)
        numbers = type(sequence) is int and type(row.step) is int
        texts = (namespace, row.source, row.next, row.metadata, row.record)
        if ids and numbers and all(map(_is_text, texts)):
            return
    raise damaged(thread_id, point_key(namespace, row.id), why)


def check_blob(
    thread_id: str, namespace: str, channel: str, version: int, columns: tuple[Any, ...]
) -> bytes:
    """The payload of a row of `blobs`; its columns are payload and checksum."""
    payload, found = columns
    if type(payload) is bytes and _fits(
        found, checksums.blob_sum, thread_id, namespace, channel, version, payload
    ):
        return payload
    what = f"the value of channel {channel!r} at version {version} in namespace {namespace!r}"
    raise damaged(thread_id, what, _WRONG if type(payload) is bytes else _STRANGE)


def check_items(
    thread_id: str, namespace: str, channel: str, columns: tuple[Any, ...]
) -> tuple[int, int, bytes]:
    """Start, count and payload of a row of `ranges`.

    The checksums are in its frames, and looked at where these are decoded: rows that are read
    again and again are compared as bytes, see `codec.remembered`.
    """
    start, count, payload = columns
    what = f"the list of channel {channel!r} from item {start} on in namespace {namespace!r}"
    if not (type(start) is int and type(count) is int and type(payload) is bytes):
        raise damaged(thread_id, what, _STRANGE)
    return start, count, payload


def check_writes(thread_id: str, namespace: str, row: LedgerRow, found: int | None) -> LedgerRow:
    """A row of `writes`."""
    why = _WRONG
    if _fits(found, checksums.writes_sum, thread_id, namespace, row):
        why = _STRANGE
        numbers = type(row.index) is int and type(row.generation) is int
        if numbers and _is_text(row.path) and type(row.payload) is bytes and _is_id(row.task):
            return row
    task = as_text(row.task) if type(row.task) is bytes else repr(row.task)[:80]
    beside = point_key(namespace, row.base)
    raise damaged(thread_id, f"row {row.index} of task {task} beside {beside}", why)


def check_run(thread_id: str, namespace: str, row: StoredClaim, found: int | None) -> StoredClaim:
    """A row of `runs` that goes on."""
    why = _WRONG
    if _fits(found, checksums.run_sum, thread_id, row.run, row.head, row.mode, row.input):
        why = _STRANGE
        given = row.input is None or type(row.input) is bytes
        if given and _is_text(row.mode) and _is_id_or_none(row.head) and _is_id(row.run):
            return row
    named = as_text(row.run) if type(row.run) is bytes else repr(row.run)[:80]
    raise damaged(thread_id, f"run {named} of namespace {namespace!r}", why)


def open_run(thread_id: str, run: bytes, columns: tuple[Any, ...] | None) -> StoredClaim | None:
    """The run that a row of `threads` names, unless it has ended.

    Args:
        columns: run, head, mode, input, namespace, status and checksum of its row; None for none.
    """
    if columns is None or columns[0] is None:
        raise damaged(thread_id, f"run {as_text(run)}", "its row is not there")
    *claim, namespace, status, crc = columns
    if status == "running":
        return check_run(thread_id, namespace, StoredClaim(*claim), crc)
    if crc is not None and status != "lost":  # one that has ended has no checksum any more
        raise damaged(thread_id, f"run {as_text(run)}", f"it has the status {status!r}")
    return None


def check_event(query: ReadEvents, columns: tuple[Any, ...], found: int | None) -> EventRow:
    """A row of `events`."""
    run = query.run
    place, created, payload = columns
    row = EventRow(place, created, payload)
    why = _WRONG
    if _fits(found, checksums.event_sum, run, row):
        why = _STRANGE
        if type(place) is int and type(created) is int and type(payload) is bytes:
            return row
    raise damaged(query.thread_id, f"event {place!r} of run {as_text(run)}", why)


def check_system_run(row: RunRow, found: int | None) -> RunRow:
    """A row of `system_runs`."""
    why = _WRONG
    if _fits(found, checksums.system_sum, row):
        why = _STRANGE
        texts = (row.thread_id, row.graph, row.metadata, row.reason)
        numbers = type(row.attempts) is int and type(row.created) is int
        held = type(row.payload) is bytes and (row.owner is None or type(row.owner) is bytes)
        status = row.status in _ENDED or row.status in OPEN_STATUSES
        if status and numbers and held and _is_id(row.run) and all(map(_is_text, texts)):
            return row
    named = as_text(row.run) if type(row.run) is bytes else repr(row.run)[:80]
    raise damaged(row.thread_id, f"the row of run {named}", why)


def whole(stored: StoredCheckpoint, record: Record) -> StoredCheckpoint:
    """A checkpoint that has all the rows which a record names.

    Raises:
        SerializationError: some are not there.
    """
    if record.parts and record.parts != record.counted:
        return stored  # who decodes it says what the record itself has lost
    for channel in record.blobs:
        if channel not in stored.blobs:
            raise lost(channel, stored)
    for channel, chain in record.lists.items():
        items = 0
        for lineage, end in chain:
            for row in stored.ranges.get((channel, lineage), ()):
                if row.start != items:
                    raise lost(channel, stored)
                items += row.count
            if items < end:
                raise lost(channel, stored)
            items = end
    return stored


def sound_runs(rows: Iterable[tuple[RunRow, int | None]], query: ListRuns) -> list[RunRow]:
    """Rows of `system_runs`. A list of many leaves the damaged ones out, and has their errors.

    Raises:
        StorageError: the one run that was asked for is damaged.
    """
    found: list[RunRow] = []
    errors: list[StorageError] = []
    for row, crc in rows:
        try:
            found.append(check_system_run(row, crc))
        except StorageError as error:
            if query.run is not None:
                raise
            errors.append(error)
    return ReadableRows(found, errors) if errors else found


def sound_points(thread_id: str, rows: Iterable[tuple[Any, ...]]) -> list[Point]:
    """The checkpoints of a thread, for a removal."""
    points: list[Point] = []
    for namespace, seq, identifier, parent, run, metadata, record, *more in rows:
        step, source, following, crc = more
        row = CheckpointRow(identifier, parent, step, source, run, following, record, metadata)
        check_point(thread_id, namespace, seq, row, crc)
        points.append(Point(namespace, seq, identifier, parent, run, metadata, record))
    return points


def sound_threads(named: Iterable[Any]) -> list[str]:
    """The ids of threads; what is no text is left out, with its error."""
    found = list(named)
    strange = [name for name in found if not _is_text(name)]
    if not strange:
        return found
    errors = [damaged(repr(name), "the row in `threads`", _STRANGE) for name in strange]
    return ReadableRows([name for name in found if _is_text(name)], errors)


def unreadable(thread_id: str | None, error: Exception) -> ActorGraphError:
    """The library's own error for whatever rows have raised that no saver has written.

    Args:
        thread_id: of the query; None for one about all threads.
    """
    if isinstance(error, ActorGraphError):
        return error
    whose = "" if thread_id is None else f" of thread {thread_id!r}"
    found = StorageError(
        f"a row{whose} can't be read: {type(error).__name__}: {error}", do=checksums.RESTORE
    )
    found.__cause__ = error
    return found
