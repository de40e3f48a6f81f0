"""Checksums of stored rows: a row that has changed on the disk is refused, never read.

A row's checksum is a CRC-32 of its text and its bytes, combined by exclusive or with that of its
thread's id and with those of the parts that are replaced later. So a row gets another parent, or a
copy of it another thread, without being read: what was wrong before stays wrong. The integers by
which a store finds a thread are not in it. Stores with the same row have the same checksum.

Rows that were written before there were checksums have none, and are taken as they are. This finds
accidents; who changes a file on purpose can change the checksum too (see `Codec(keys=...)`).
"""

from functools import lru_cache
from zlib import crc32

from actorgraph.errors import DamagedRowError
from actorgraph.values.commits import CheckpointRow, LedgerRow
from actorgraph.values.ids import as_text
from actorgraph.values.systems import EventRow, RunRow

_PARENT, _RECORD, _POINT, _BLOB, _WRITES, _RUN, _HEAD, _EVENT, _SYSTEM = range(1, 10)
"""What a checksum begins with, so that equal bytes in different parts don't cancel out."""
RESTORE = "restore it from a backup; or, if the thread may go, delete it: delete_thread(thread_id)"


def _signed(found: int) -> int:
    """As a database of signed integers of four bytes holds it."""
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
    # `join` and not a format: that of a name which is an Enum's is another text than is stored.
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
    """The checksum of a row of `runs`, as long as the run goes on."""
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
    """The checksum of what never changes in a row of `system_runs`."""
    key = f"{row.created}\n{row.graph}\n{row.metadata}"
    found = crc32(row.payload, crc32(row.run, crc32(key.encode(), _SYSTEM)))
    return _signed(found) ^ thread_sum(row.thread_id)


def point_key(namespace: str, identifier: object) -> str:
    """A checkpoint, in the text of an error."""
    named = as_text(identifier) if isinstance(identifier, bytes) else repr(identifier)[:80]
    return f"checkpoint {named} of namespace {namespace!r}"


def damaged(thread_id: str, what: str, why: str = "its checksum is wrong") -> DamagedRowError:
    """The error of a row that is not as it was written.

    Args:
        what: the row, by its key.
    """
    return DamagedRowError(f"{what} of thread {thread_id!r} is damaged: {why}", do=RESTORE)
