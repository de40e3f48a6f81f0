"""Integrity of stored rows: checksums when they are written, checks when they are read.

A database may return what no saver has written: SQLite stores text in a number's column, and a
script or a bad disk changes rows. The functions `check_...` take a row with its stored checksum,
compare both and the types of the columns, and raise a StorageError that names a damaged row.

A row's checksum is a CRC-32 of its text and bytes, XORed with the CRC-32 of its thread's id and
with those of the parts that may be replaced later (parent, record). So a statement can give a row
another parent, or copy it to another thread, and correct its checksum without reading the row: a
row that was damaged before stays damaged. The integer keys of threads in a store are not part of
it, so the same row has the same checksum in every store.

Rows of versions without checksums have None, which fits any row. This detects accidents, not
tampering: an attacker can recompute a CRC. Against that, see `Codec(keys=...)`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, cast, get_args
from zlib import crc32

import msgspec

from actorgraph.codec.records import Record, with_checksums
from actorgraph.codec.restore import missing_rows_error
from actorgraph.errors import ActorGraphError, DamagedRowError, StorageError
from actorgraph.savers.retention import RetentionPoint
from actorgraph.values.alarms import AlarmRow
from actorgraph.values.commits import (
    CheckpointRow,
    LedgerRow,
    ReadableRows,
    StoredCheckpoint,
    StoredClaim,
)
from actorgraph.values.ids import as_text
from actorgraph.values.retention import Resealer
from actorgraph.values.systems import OPEN_STATUSES, EventRow, ReadEvents, RunRow
from actorgraph.values.thread_phase import ThreadPhase
from actorgraph.values.thread_rows import ThreadMark, ThreadRow, ThreadStatus

_PARENT, _RECORD, _POINT, _BLOB, _WRITES, _RUN, _HEAD, _EVENT, _SYSTEM = range(1, 10)
"""Start values of the CRCs, one per part: equal bytes in two parts must not cancel out by XOR."""
RESTORE = "restore it from a backup, or delete the thread if you can: delete_thread(thread_id)"


_SIGN = 1 << 31
"""`(crc ^ _SIGN) - _SIGN` is an unsigned CRC-32 as a signed integer, as databases store it."""


@lru_cache(maxsize=1024)
def thread_sum(thread_id: str) -> int:
    """The part of a thread's id in the checksum of each of its rows."""
    return (crc32(thread_id.encode()) ^ _SIGN) - _SIGN


def parent_sum(parent: bytes | None) -> int:
    """The part of a checkpoint's parent."""
    return (crc32(parent or b"", _PARENT) ^ _SIGN) - _SIGN


def record_sum(record: str) -> int:
    """The part of a checkpoint's record."""
    return (crc32(record.encode(), _RECORD) ^ _SIGN) - _SIGN


def checkpoint_sum(thread_id: str, namespace: str, sequence: int, row: CheckpointRow) -> int:
    """The checksum of a row of `checkpoints`."""
    source = row.source
    if type(source) is not str:  # the text that is stored: that of a member of a str Enum is plain
        source = str.__str__(source) if isinstance(source, str) else str(source)
    text = f"{sequence},{row.step}\n{namespace}\n{source}\n{row.next}\n{row.metadata}"
    own = crc32(text.encode(), _POINT)
    own = crc32(row.run or b"", crc32(row.id, own))
    # The parts of parent and record, as in `parent_sum` and `record_sum`. The sign is a bit like
    # the others, so it doesn't matter whether it is set before or after the XOR.
    own ^= crc32(row.parent or b"", _PARENT) ^ crc32(row.record.encode(), _RECORD)
    return ((own ^ _SIGN) - _SIGN) ^ thread_sum(thread_id)


def blob_sum(thread_id: str, namespace: str, channel: str, version: int, payload: bytes) -> int:
    """The checksum of a row of `blobs`."""
    key = f"{version}\n{namespace}\n{channel}"
    crc = crc32(payload, crc32(key.encode(), _BLOB))
    return ((crc ^ _SIGN) - _SIGN) ^ thread_sum(thread_id)


def writes_sum(thread_id: str, namespace: str, row: LedgerRow) -> int:
    """The checksum of a row of `writes`."""
    key = f"{row.index},{row.generation}\n{namespace}\n{row.path}"
    crc = crc32(row.task, crc32(row.base, crc32(key.encode(), _WRITES)))
    return ((crc32(row.payload, crc) ^ _SIGN) - _SIGN) ^ thread_sum(thread_id)


def run_sum(
    thread_id: str, run: bytes, head: bytes | None, mode: str, input_payload: bytes | None
) -> int:
    """The checksum of a row of `runs`, until the run ends."""
    crc = crc32(head or b"", crc32(run, crc32(mode.encode(), _RUN)))
    if input_payload is not None:
        crc = crc32(input_payload, crc32(b"input", crc))
    return ((crc ^ _SIGN) - _SIGN) ^ thread_sum(thread_id)


def head_sum(thread_id: str, next_seq: int, head: bytes | None, run: bytes | None) -> int:
    """The checksum of a row of `threads`."""
    if head is None:
        crc = crc32(b"%d,1" % next_seq, _HEAD)
    else:
        crc = crc32(head, crc32(b"%d,0" % next_seq, _HEAD))
    if run is not None:
        crc = crc32(run, crc)
    return ((crc ^ _SIGN) - _SIGN) ^ thread_sum(thread_id)


def event_sum(run: bytes, row: EventRow) -> int:
    """The checksum of a row of `events`."""
    key = b"%d,%d" % (row.place, row.created)
    return (crc32(row.payload, crc32(run, crc32(key, _EVENT))) ^ _SIGN) - _SIGN


def system_sum(row: RunRow) -> int:
    """The checksum of those columns of a row of `system_runs` that never change."""
    key = f"{row.created}\n{row.graph}\n{row.metadata}"
    crc = crc32(row.payload, crc32(row.run, crc32(key.encode(), _SYSTEM)))
    return ((crc ^ _SIGN) - _SIGN) ^ thread_sum(row.thread_id)


def point_key(namespace: str, identifier: object) -> str:
    """Name a checkpoint in the text of an error."""
    named = as_text(identifier) if isinstance(identifier, bytes) else repr(identifier)[:80]
    return f"checkpoint {named} of namespace {namespace!r}"


def damaged(thread_id: str, what: str, why: str = "its checksum is wrong") -> DamagedRowError:
    """Error for a row that is not as it was written.

    Args:
        what: names the row by its key.
    """
    return DamagedRowError(f"{what} of thread {thread_id!r} is damaged: {why}", do=RESTORE)


_ENDED = frozenset({"success", "error", "interrupted", "cancelled", "timeout", "parked"})
_ID = 16
_WRONG_TYPE = "a column has a value of a type that no saver writes"
_WRONG_SUM = "its checksum is wrong"


def _fits(checksum: int | None, compute: Callable[..., int], *parts: Any) -> bool:
    """Whether a stored checksum is that of the parts; parts of a wrong type have none.

    Args:
        checksum: the stored checksum; None is not checked.
        compute: computes the checksum of `parts`.
    """
    if checksum is None:
        return True
    try:
        return compute(*parts) == checksum
    except (TypeError, ValueError, AttributeError):
        return False


def _are_texts(*values: object) -> bool:
    """Whether all are str that can be encoded: undecodable bytes are read as surrogates."""
    for value in values:
        if type(value) is not str:
            return False
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return False
    return True


def _are_ids(*values: object, or_none: tuple[object, ...] = ()) -> bool:
    """Whether all are ids; those of `or_none` may be None."""
    for value in values:
        if type(value) is not bytes or len(value) != _ID:
            return False
    for value in or_none:
        if value is not None and (type(value) is not bytes or len(value) != _ID):
            return False
    return True


def check_head(columns: tuple[Any, ...], checksum: int | None) -> None:
    """Check a row of `threads`.

    Args:
        columns: thread id, epoch, run, next sequence, head.
        checksum: its stored checksum.
    Raises: StorageError: it is damaged.
    """
    thread_id, epoch, run, next_seq, head = columns
    if not _fits(checksum, head_sum, thread_id, next_seq, head, run):
        raise damaged(thread_id, "the head", _WRONG_SUM)
    numbers = type(epoch) is int and type(next_seq) is int
    if not (numbers and _are_ids(or_none=(run, head))):
        raise damaged(thread_id, "the head", _WRONG_TYPE)


def check_point(
    thread_id: str, namespace: str, sequence: int, row: CheckpointRow, checksum: int | None
) -> None:
    """Check a row of `checkpoints`."""
    why = _WRONG_SUM
    if _fits(checksum, checkpoint_sum, thread_id, namespace, sequence, row):
        why = _WRONG_TYPE
        ids = _are_ids(row.id, or_none=(row.parent, row.run))
        numbers = type(sequence) is int and type(row.step) is int
        texts = (namespace, row.source, row.next, row.metadata, row.record)
        if ids and numbers and _are_texts(*texts):
            return
    raise damaged(thread_id, point_key(namespace, row.id), why)


def check_blob(
    thread_id: str, namespace: str, channel: str, version: int, columns: tuple[Any, ...]
) -> bytes:
    """Check a row of `blobs` and return its payload; `columns` are payload and checksum."""
    payload, checksum = columns
    if type(payload) is bytes and _fits(
        checksum, blob_sum, thread_id, namespace, channel, version, payload
    ):
        return payload
    what = f"the value of channel {channel!r} at version {version} in namespace {namespace!r}"
    raise damaged(thread_id, what, _WRONG_SUM if type(payload) is bytes else _WRONG_TYPE)


def check_items(
    thread_id: str, namespace: str, channel: str, columns: tuple[Any, ...]
) -> tuple[int, int, bytes]:
    """Check a row of `ranges` and return its start, count and payload.

    Only types are checked here. The checksums are in the payload's frames and are verified where
    these are decoded, once: rows that were decoded before are compared as bytes, see
    `codec.list_cache`.
    """
    start, count, payload = columns
    what = f"the list of channel {channel!r} from item {start} on in namespace {namespace!r}"
    if not (type(start) is int and type(count) is int and type(payload) is bytes):
        raise damaged(thread_id, what, _WRONG_TYPE)
    return start, count, payload


def check_writes(thread_id: str, namespace: str, row: LedgerRow, checksum: int | None) -> LedgerRow:
    """Check a row of `writes` and return it."""
    why = _WRONG_SUM
    if _fits(checksum, writes_sum, thread_id, namespace, row):
        why = _WRONG_TYPE
        numbers = type(row.index) is int and type(row.generation) is int
        if numbers and _are_texts(row.path) and type(row.payload) is bytes and _are_ids(row.task):
            return row
    task = as_text(row.task) if type(row.task) is bytes else repr(row.task)[:80]
    beside = point_key(namespace, row.base)
    raise damaged(thread_id, f"row {row.index} of task {task} beside {beside}", why)


def check_run(
    thread_id: str, namespace: str, row: StoredClaim, checksum: int | None
) -> StoredClaim:
    """Check a row of `runs` whose run has not ended, and return it."""
    why = _WRONG_SUM
    if _fits(checksum, run_sum, thread_id, row.run, row.head, row.mode, row.input):
        why = _WRONG_TYPE
        input_fits = row.input is None or type(row.input) is bytes
        if input_fits and _are_texts(row.mode) and _are_ids(row.run, or_none=(row.head,)):
            return row
    named = as_text(row.run) if type(row.run) is bytes else repr(row.run)[:80]
    raise damaged(thread_id, f"run {named} of namespace {namespace!r}", why)


def open_run(thread_id: str, run: bytes, columns: tuple[Any, ...] | None) -> StoredClaim | None:
    """The run that a row of `threads` names; None if it has ended.

    Args:
        columns: run, head, mode, input, namespace, status and checksum of its row in `runs`; None
            if the row is absent.
    Raises: StorageError: the row is missing or damaged.
    """
    if columns is None or columns[0] is None:
        raise damaged(thread_id, f"run {as_text(run)}", "its row is missing")
    *claim, namespace, status, crc = columns
    if status == "running":
        return check_run(thread_id, namespace, StoredClaim(*claim), crc)
    # Ending a run clears its checksum. So a row with one has not ended, unless another run took
    # the thread over ("lost"): any other status was changed by something else than a saver.
    if crc is not None and status != "lost":
        raise damaged(thread_id, f"run {as_text(run)}", f"it has the status {status!r}")
    return None


def check_event(query: ReadEvents, columns: tuple[Any, ...], checksum: int | None) -> EventRow:
    """Check a row of `events` and return it; its columns are place, created and payload."""
    run = query.run
    place, created, payload = columns
    row = EventRow(place, created, payload)
    why = _WRONG_SUM
    if _fits(checksum, event_sum, run, row):
        why = _WRONG_TYPE
        if type(place) is int and type(created) is int and type(payload) is bytes:
            return row
    raise damaged(query.thread_id, f"event {place!r} of run {as_text(run)}", why)


def check_system_run(row: RunRow, checksum: int | None) -> RunRow:
    """Check a row of `system_runs` and return it."""
    why = _WRONG_SUM
    if _fits(checksum, system_sum, row):
        why = _WRONG_TYPE
        texts = (row.thread_id, row.graph, row.metadata, row.reason)
        numbers = type(row.attempts) is int and _is_time(row.created) and _is_time(_due_of(row))
        held = type(row.payload) is bytes and (row.owner is None or type(row.owner) is bytes)
        status = row.status in _ENDED or row.status in OPEN_STATUSES
        if checksum is None:  # searches read no checksum, and show the metadata
            held = held and _is_object(_shown_metadata(row.metadata))
        if status and numbers and held and _are_ids(row.run) and _are_texts(*texts):
            return row
    named = as_text(row.run) if type(row.run) is bytes else repr(row.run)[:80]
    raise damaged(row.thread_id, f"the row of run {named}", why)


def whole(stored: StoredCheckpoint, record: Record) -> StoredCheckpoint:
    """Check that a checkpoint was read with all rows that its record names, and return it.

    Raises:
        SerializationError: a value, or a part of a list, is missing.
    """
    if record.parts and record.parts != record.counted:
        return stored  # the record itself is incomplete: decoding raises the more precise error
    for channel in record.blobs:
        if channel not in stored.blobs:
            raise missing_rows_error(channel, stored)
    for channel, chain in record.lists.items():
        items = 0
        for lineage, end in chain:
            for row in stored.ranges.get((channel, lineage), ()):
                if row.start != items:
                    raise missing_rows_error(channel, stored)
                items += row.count
            if items < end:
                raise missing_rows_error(channel, stored)
            items = end
    return stored


def sound_runs(rows: Iterable[tuple[RunRow, int | None]], *, one: bool) -> list[RunRow]:
    """Check rows of `system_runs`; a list of several runs is returned without the damaged ones.

    Args:
        rows: each with its stored checksum.
        one: whether a single run was asked for.
    Returns: the rows; a `ReadableRows` with the errors if some were left out.
    Raises:
        StorageError: the query asks for a single run, and its row is damaged.
    """
    sound_rows: list[RunRow] = []
    errors: list[StorageError] = []
    for row, crc in rows:
        try:
            sound_rows.append(check_system_run(row, crc))
        except StorageError as error:
            if one:
                raise
            errors.append(error)
    return ReadableRows(sound_rows, errors) if errors else sound_rows


def sound_points(thread_id: str, rows: Iterable[tuple[Any, ...]]) -> list[RetentionPoint]:
    """Check all checkpoints of a thread, for a removal.

    Args:
        rows: namespace, sequence, id, parent, run, metadata, record, step, source, next, checksum.
    Raises: StorageError: one is damaged.
    """
    points: list[RetentionPoint] = []
    for namespace, seq, identifier, parent, run, metadata, record, *more in rows:
        step, source, following, crc = more
        row = CheckpointRow(identifier, parent, step, source, run, following, record, metadata)
        check_point(thread_id, namespace, seq, row, crc)
        points.append(RetentionPoint(namespace, seq, identifier, parent, run, metadata, record))
    return points


def sound_threads(named: Iterable[Any]) -> list[str]:
    """Thread ids without those that are not text; with errors for these in a `ReadableRows`."""
    thread_ids = list(named)
    strange = [name for name in thread_ids if not _are_texts(name)]
    if not strange:
        return thread_ids
    errors = [damaged(repr(name), "the row in `threads`", _WRONG_TYPE) for name in strange]
    return ReadableRows([name for name in thread_ids if _are_texts(name)], errors)


def sound_marks(rows: Iterable[tuple[Any, Any]]) -> list[ThreadMark]:
    """Marks of changed threads without those whose thread id is not text."""
    return [ThreadMark(*row) for row in rows if _are_texts(row[0])]


def sound_alarms(rows: Iterable[AlarmRow]) -> list[AlarmRow]:
    """Alarms without those that can't be read; with errors for these in a `ReadableRows`."""
    sound_rows: list[AlarmRow] = []
    errors: list[Exception] = []
    for row in rows:
        if _are_texts(row.thread_id, row.graph) and _is_time(row.at):
            sound_rows.append(row)
        else:
            errors.append(damaged(row.thread_id, "the row in `alarms`", _WRONG_TYPE))
    return ReadableRows(sound_rows, errors) if errors else sound_rows


def sound_index(rows: Iterable[ThreadRow]) -> list[ThreadRow]:
    """Rows of an index of threads, each of which can be shown; errors are in `ReadableRows`.

    None is left out, because a search has cut its page already. Values that can't be read are
    replaced: an id by printable text, a time by 0, metadata by none.
    """
    sound_rows: list[ThreadRow] = []
    errors: list[Exception] = []
    for row in rows:
        sound = _shown_row(row)
        if sound is not row:
            named = damaged(sound.thread_id, "the row in `thread_index`", _WRONG_TYPE)
            errors.append(named)
        sound_rows.append(sound)
    return ReadableRows(sound_rows, errors) if errors else sound_rows


def _shown_row(row: ThreadRow) -> ThreadRow:
    changed: dict[str, Any] = {}
    if not (_are_texts(row.thread_id) and row.thread_id.isprintable()):
        changed["thread_id"] = repr(row.thread_id)[1:-1]
    if not _are_texts(row.graph):
        changed["graph"] = ""
    if row.status not in get_args(ThreadStatus):
        changed["status"] = "error"
    if row.phase not in ("", *get_args(ThreadPhase)):
        changed["phase"] = ""
    for name in ("created", "updated", "state_updated"):
        value = getattr(row, name)
        if not _is_time(value):
            changed[name] = 0
    if type(row.steps) is not int:
        changed["steps"] = -1
    if not _is_object(row.metadata):
        changed["metadata"] = "{}"
    return msgspec.structs.replace(row, **changed) if changed else row


_TIMES_END = 253_402_300_800_000_000
"""Microseconds since 1970 of the year 10000, which no datetime has."""


def _is_time(value: object) -> bool:
    """Whether a column has microseconds since 1970 that a datetime can have."""
    return type(value) is int and 0 <= value < _TIMES_END


def _due_of(row: RunRow) -> object:
    """When a run is due; SQLite puts it before the metadata, on a line of its own."""
    due, cut, _ = row.metadata.partition("\n") if type(row.metadata) is str else ("", "", "")
    if not (cut and due.isdecimal()):
        return row.due
    return int(due) if len(due) <= len(str(_TIMES_END)) else None


def _shown_metadata(stored: object) -> object:
    """Metadata of a run without its time, which SQLite puts before them on a line of its own."""
    if not isinstance(stored, str):
        return stored
    due, cut, rest = stored.partition("\n")
    return rest if cut and due.isdecimal() else stored


def _is_object(text: object) -> bool:
    """Whether text is a JSON object."""
    try:
        return _are_texts(text) and type(msgspec.json.decode(cast("str", text))) is dict
    except msgspec.DecodeError:
        return False


def unreadable(thread_id: str | None, error: Exception) -> ActorGraphError:
    """Wrap any exception that unreadable rows raised in an error of this library.

    Args:
        thread_id: that of the query; None for a query about all threads.
    Returns: an error that names the thread; the same one if it is this library's.
    """
    if isinstance(error, ActorGraphError):
        if thread_id is not None and repr(thread_id) not in error.what:
            error.what = f"thread {thread_id!r}: {error.what}"
            error.args = (error.what,)
        return error
    whose = "" if thread_id is None else f" of thread {thread_id!r}"
    kind = StorageError if thread_id is None else DamagedRowError
    row_error = kind(f"a row{whose} can't be read: {type(error).__name__}: {error}", do=RESTORE)
    row_error.__cause__ = error
    return row_error


_Rows = Iterable[tuple[Any, ...]]


class Remaking(msgspec.Struct, frozen=True):
    """Reseals the rows of a thread.

    Each method takes rows as the statements of a backend's `resealing` select them, and yields
    tuples of payload, checksum (rows of `ranges` have none) and the row's key.

    Attributes:
        resealer: makes the new payloads.
        old: the id of the thread that the rows belong to.
        new: the id of the thread that the new rows belong to: `old`, or that of a copy.
    """

    resealer: Resealer
    old: str
    new: str

    def values(self, rows: _Rows) -> Iterator[tuple[Any, ...]]:
        """Rows of `blobs`."""
        for *key, stored, crc in rows:
            namespace, channel, version = key
            payload = check_blob(self.old, namespace, channel, version, (stored, crc))
            resealed = self.resealer.value(namespace, channel, version, payload)
            yield resealed, blob_sum(self.new, namespace, channel, version, resealed), *key

    def items(self, rows: _Rows) -> Iterator[tuple[Any, ...]]:
        """Rows of `ranges`."""
        for namespace, channel, lineage, *columns in rows:
            start, _, payload = check_items(self.old, namespace, channel, tuple(columns))
            resealed = self.resealer.items(namespace, channel, lineage, start, payload)
            yield with_checksums(resealed), namespace, channel, lineage, start

    def writes(self, rows: _Rows) -> Iterator[tuple[Any, ...]]:
        """Rows of `writes`."""
        for namespace, *columns, crc in rows:
            row = check_writes(self.old, namespace, LedgerRow(*columns), crc)
            resealed = msgspec.structs.replace(row, payload=self.resealer.writes(namespace, row))
            key = (row.base, row.task, row.index, row.generation)
            yield resealed.payload, writes_sum(self.new, namespace, resealed), namespace, *key

    def inputs(self, rows: _Rows) -> Iterator[tuple[Any, ...]]:
        """Rows of `runs` that have an input."""
        for *columns, namespace, crc in rows:
            row = check_run(self.old, namespace, StoredClaim(*columns), crc)
            resealed = self.resealer.input(row.run, columns[-1])
            yield resealed, run_sum(self.new, row.run, row.head, row.mode, resealed), row.run
