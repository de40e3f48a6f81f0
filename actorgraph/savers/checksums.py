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
tampering: whoever edits a file can recompute a CRC. Against that, see `Codec(keys=...)`.
"""

from functools import lru_cache
from zlib import crc32

from actorgraph.errors import DamagedRowError
from actorgraph.values.commits import CheckpointRow, LedgerRow
from actorgraph.values.ids import as_text
from actorgraph.values.systems import EventRow, RunRow

_PARENT, _RECORD, _POINT, _BLOB, _WRITES, _RUN, _HEAD, _EVENT, _SYSTEM = range(1, 10)
"""Start values of the CRCs, one per part: equal bytes in two parts must not cancel out by XOR."""
RESTORE = "restore it from a backup, or delete the thread if you can: delete_thread(thread_id)"


def _signed(found: int) -> int:
    """An unsigned CRC-32 as a signed integer of four bytes, as databases store it."""
    return found - (1 << 32) if found >> 31 else found


@lru_cache(maxsize=1024)
def thread_sum(thread_id: str) -> int:
    """The part of a thread's id in the checksum of each of its rows."""
    return _signed(crc32(thread_id.encode()))


def parent_sum(parent: bytes | None) -> int:
    """The part of a checkpoint's parent."""
    return _signed(crc32(parent or b"", _PARENT))


def record_sum(record: str) -> int:
    """The part of a checkpoint's record."""
    return _signed(crc32(record.encode(), _RECORD))


def checkpoint_sum(thread_id: str, namespace: str, sequence: int, row: CheckpointRow) -> int:
    """The checksum of a row of `checkpoints`."""
    source = row.source if isinstance(row.source, str) else str(row.source)  # as it is stored
    # `join`, not an f-string: that formats a member of a str Enum as another text than is stored.
    texts = "\n".join((namespace, source, row.next, row.metadata))  # noqa: FLY002
    found = crc32(b"%d,%d\n" % (sequence, row.step) + texts.encode(), _POINT)
    own = _signed(crc32(row.run or b"", crc32(row.id, found)))
    return own ^ parent_sum(row.parent) ^ record_sum(row.record) ^ thread_sum(thread_id)


def blob_sum(thread_id: str, namespace: str, channel: str, version: int, payload: bytes) -> int:
    """The checksum of a row of `blobs`."""
    key = f"{version}\n{namespace}\n{channel}"
    return _signed(crc32(payload, crc32(key.encode(), _BLOB))) ^ thread_sum(thread_id)


def writes_sum(thread_id: str, namespace: str, row: LedgerRow) -> int:
    """The checksum of a row of `writes`."""
    key = f"{row.index},{row.generation}\n{namespace}\n{row.path}"
    found = crc32(row.task, crc32(row.base, crc32(key.encode(), _WRITES)))
    return _signed(crc32(row.payload, found)) ^ thread_sum(thread_id)


def run_sum(thread_id: str, run: bytes, head: bytes | None, mode: str, given: bytes | None) -> int:
    """The checksum of a row of `runs`, until the run ends."""
    found = crc32(head or b"", crc32(run, crc32(mode.encode(), _RUN)))
    if given is not None:
        found = crc32(given, crc32(b"input", found))
    return _signed(found) ^ thread_sum(thread_id)


def head_sum(thread_id: str, next_seq: int, head: bytes | None, run: bytes | None) -> int:
    """The checksum of a row of `threads`."""
    found = crc32(b"%d,%d" % (next_seq, head is None), _HEAD)
    return _signed(crc32(run or b"", crc32(head or b"", found))) ^ thread_sum(thread_id)


def event_sum(run: bytes, row: EventRow) -> int:
    """The checksum of a row of `events`."""
    key = b"%d,%d" % (row.place, row.created)
    return _signed(crc32(row.payload, crc32(run, crc32(key, _EVENT))))


def system_sum(row: RunRow) -> int:
    """The checksum of those columns of a row of `system_runs` that never change."""
    key = f"{row.created}\n{row.graph}\n{row.metadata}"
    found = crc32(row.payload, crc32(row.run, crc32(key.encode(), _SYSTEM)))
    return _signed(found) ^ thread_sum(row.thread_id)


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
