"""Index of a thread's file: which line holds each row, without values; and a cache of list rows.

Built       by reading the file once; updated with every line that is appended
Torn end    after a crash a file may end in the middle of a line, or in lines with holes (see
            `lost_appends`). They were never acknowledged, and are cut off before the next line
Damage      anywhere else is an error that names the line; `Marks` detect lines that are missing
"""

import os
import sys
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from actorgraph.errors import DamagedRowError
from actorgraph.savers.jsonl.files import changed_file, check_unchanged
from actorgraph.savers.jsonl.lost_appends import is_lost_append
from actorgraph.savers.jsonl.schema import Line, ListEntry, decode_line
from actorgraph.savers.judge import ThreadState
from actorgraph.storage.holes import before_hole
from actorgraph.values.alarms import Alarm
from actorgraph.values.ids import as_bytes

_BUFFER = 1 << 18


class CheckpointPlace(msgspec.Struct, gc=False):
    """Position of a checkpoint: the `at`-th, from 0, of line number `line`."""

    sequence: int
    namespace: str
    id: bytes
    line: int
    at: int


class IndexedRow(msgspec.Struct):
    """A row of a growing list: its number of items, and the lines that hold them."""

    count: int
    lines: list[int]


class ThreadIndex:
    """Index of one file. Line numbers count from 1.

    Attributes:
        path: of the file.
        thread_id: of all of its lines.
        starts: offset of each line, in bytes.
        size: offset where the last line ends.
        unended: whether the last line has lost its newline, and nothing else.
        durable: number of lines that are known to be on the disk.
        inode: of the file; 0 if it is missing.
        tail: number of bytes behind the lines that were never acknowledged.
        state: state of the thread, for `judge`.
        run_line: number of the line with the open claim; 0 for none.
        alarm: of the thread; None for none.
        alarm_line: number of the line that set it; 0 for none.
        places: checkpoints, oldest first.
        by_id: (namespace, id) -> the newest checkpoint of that id.
        blobs: (namespace, channel, version) -> line number.
        rows: (namespace, channel, lineage) -> start of a row -> row of the list.
        ledger: (namespace, checkpoint) -> key of a task's writes -> line number.
    """

    def __init__(self, thread_id: str, path: str, epoch: int = 1) -> None:
        self.path = path
        self.thread_id = thread_id
        self.starts = array("q")
        self.size = 0
        self.unended = False
        self.durable = 0
        self.inode = 0
        self.tail = 0
        self.state = ThreadState(thread_id, epoch=epoch, heads={})
        self.run_line = 0
        self.alarm: Alarm | None = None
        self.alarm_line = 0
        self.places: list[CheckpointPlace] = []
        self.by_id: dict[tuple[str, bytes], CheckpointPlace] = {}
        self.blobs: dict[tuple[str, str, int], int] = {}
        self.rows: dict[tuple[str, str, int], dict[int, IndexedRow]] = {}
        self.ledger: dict[tuple[str, bytes], dict[tuple[bytes, int, int], int]] = {}

    def check_file(self) -> None:
        """Check that no other program has changed the file.

        Raises:
            StorageError: it was changed.
        """
        check_unchanged(self.path, self.inode, self.size, self.tail)

    def open(self) -> int:
        """Open the file for reading; return its descriptor, which the caller closes.

        Raises:
            StorageError: it was removed, replaced or shortened since it was indexed.
            OSError: it can't be opened.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise changed_file(self.path, "removed") from error
        status = os.fstat(descriptor)
        if status.st_ino == self.inode and status.st_size >= self.size:
            return descriptor
        os.close(descriptor)
        how = "replaced" if status.st_ino != self.inode else "shortened"
        raise changed_file(self.path, how)

    @property
    def row_count(self) -> int:
        """Number of rows of values and writes."""
        tables = (*self.rows.values(), *self.ledger.values())
        return len(self.blobs) + sum(map(len, tables))

    def add(self, line: Line, start: int, end: int) -> None:
        """Add the next line, which is at `start <= byte < end`."""
        number, namespace, state = line.line, sys.intern(line.namespace), self.state
        self.starts.append(start)
        self.size = end
        state.epoch = line.epoch
        if line.claim is not None and line.run is not None:
            state.run, self.run_line = as_bytes(line.run), number
        for entry in line.ledger:
            rows = self.ledger.setdefault((namespace, as_bytes(entry.base)), {})
            rows.setdefault(entry.key, number)  # the first one counts: insert-or-ignore
        for value in line.values:
            self.blobs[namespace, sys.intern(value.channel), value.version] = number
        self._add_lists(line, namespace)
        for at, point in enumerate(line.checkpoints):
            place = CheckpointPlace(point.sequence, namespace, as_bytes(point.id), number, at)
            self.places.append(place)
            self.by_id[namespace, place.id] = place
            state.heads[namespace] = place.id
            state.next_seq = max(state.next_seq, point.sequence + 1)
        if line.ends is not None and line.run is not None:
            state.run, self.run_line = None, 0
        if line.alarm is not None:
            rings = line.alarm.at != 0
            self.alarm, self.alarm_line = (line.alarm, number) if rings else (None, 0)

    def _add_lists(self, line: Line, namespace: str) -> None:
        for part in line.lists:
            key = (namespace, sys.intern(part.channel), part.lineage)
            rows = self.rows.setdefault(key, {})
            if part.end:
                merged = [rows.pop(s) for s in sorted(rows) if part.start <= s < part.end]
                numbers = dict.fromkeys(n for row in merged for n in row.lines)
                rows[part.start] = IndexedRow(sum(row.count for row in merged), list(numbers))
                continue
            row = rows.setdefault(part.start, IndexedRow(0, []))
            row.count += part.count
            if row.lines[-1:] != [line.line]:
                row.lines.append(line.line)

    def row_start(self, namespace: str, part: ListEntry) -> int:
        """Return the start of the row that holds a part's items now, after merges."""
        rows = self.rows.get((namespace, part.channel, part.lineage), {})
        return max((start for start in rows if start <= part.position), default=part.start)

    def length(self, number: int) -> int:
        """Return the size of a line in bytes."""
        end = self.starts[number] if number < len(self.starts) else self.size
        return end - self.starts[number - 1]

    def read(self, descriptor: int, number: int) -> Line:
        """Read a line of the open file.

        Raises:
            StorageError: it is damaged.
        """
        start = self.starts[number - 1]
        try:
            line = decode_line(os.pread(descriptor, self.length(number), start))
        except ValueError as error:
            raise damaged_line(self.path, number, start, error) from error
        return line

    def lines(self) -> Iterator[Line]:
        """Read every line, in order.

        Raises:
            StorageError: a line is damaged.
        """
        if not self.starts:
            return
        descriptor = self.open()
        try:
            for number in range(1, len(self.starts) + 1):
                yield self.read(descriptor, number)
        finally:
            os.close(descriptor)


def load(thread_id: str, path: str, epoch: int, marked: int = 0) -> ThreadIndex:
    """Verify a thread's file and index it; the index is empty if the file doesn't exist.

    Args:
        epoch: the thread's epoch while it has no lines.
        marked: size of the file that was acknowledged, in bytes; 0 if unknown.
    Raises:
        StorageError: a line is damaged; the error names it.
    """
    index = ThreadIndex(thread_id, path, epoch)
    try:
        file = open(path, "rb", buffering=_BUFFER)  # noqa: PTH123, SIM115 - closed just below
    except FileNotFoundError:
        return index
    with file:
        status = os.fstat(file.fileno())
        _read_lines(index, file, marked)
    index.inode, index.tail = status.st_ino, max(0, status.st_size - index.size)
    return index


def _read_lines(index: ThreadIndex, file: BinaryIO, marked: int) -> None:
    """Verify the lines of an open file and index them; raises as `load`."""
    position = 0
    for physical, text in enumerate(file, 1):
        end = position + len(text)
        if not text.endswith(b"\n"):
            _add_tail(index, text, position)
        elif text.strip():
            try:
                line = _next(index, text, physical, position)
            except DamagedRowError:
                if not is_lost_append(text, len(index.starts) + 1, position, file, marked):
                    raise
                _add_tail(index, before_hole(text), position)
                return
            index.add(line, position, end)
            if end <= marked:
                index.durable = line.line
        position = end


def _add_tail(index: ThreadIndex, text: bytes, position: int) -> None:
    """Add a last line without newline if it is complete otherwise: it may be acknowledged."""
    whole = text[: text.rfind(b"}") + 1]
    try:
        line = decode_line(whole)
    except ValueError:
        return
    if line.line == len(index.starts) + 1 and line.thread_id == index.thread_id:
        index.add(line, position, position + len(whole))
        index.unended = True


def _next(index: ThreadIndex, text: bytes, physical: int, position: int) -> Line:
    try:
        line = decode_line(text)
        if line.thread_id != index.thread_id:
            msg = f"it belongs to thread {line.thread_id!r}"
            raise ValueError(msg)
        if line.line != len(index.starts) + 1:
            msg = f"it has number {line.line}, expected {len(index.starts) + 1}"
            raise ValueError(msg)
    except ValueError as error:
        raise damaged_line(index.path, physical, position, error) from error
    return line


def damaged_line(path: str, number: int, position: int, error: Exception) -> DamagedRowError:
    """Return the error of a line that can't be read.

    Args:
        number: of the line in the file, from 1.
        position: where it begins, in bytes.
    """
    return DamagedRowError(
        f"line {number} of {path!r}, at byte {position}, is damaged: {error}",
        do="restore the file from a backup; or, to continue with the lines before it, "
        f"cut it there: head -c {position} FILE > NEW && mv NEW FILE",
    )


BYTES_MAX = 16_000_000
"""Bytes of all payloads of a folder; the least recently used go first."""

Key = tuple[str, str, str, int, int]
"""A thread, a namespace, a channel, a lineage, and where the row starts."""


class _CachedRow(msgspec.Struct):
    row: IndexedRow
    lines: int = 0
    end: int = 0
    payload: bytes = b""


class ListRowCache:
    """Payloads of list rows of one folder, so that readers don't read the same lines again.

    A list of n items is in up to n lines, those of the saves that added items. An entry is the
    payload of a row's first lines: a row that has grown is completed, and one that was merged or
    rewritten is another object and read again. Used by one thread at a time.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, _CachedRow] = OrderedDict()
        self._size = 0

    def payload(self, key: Key, row: IndexedRow, line: Callable[[int], Line]) -> bytes:
        """Return the frames of a row.

        Args:
            line: reads a line by its number.
        """
        cached = self._kept.pop(key, None)
        self._size -= 0 if cached is None else len(cached.payload)
        if cached is None or cached.row is not row:
            cached = _CachedRow(row)
        if cached.lines < len(row.lines):
            parts = _parts(key, row, line, cached.lines)
            if cached.lines and parts and min(parts) < cached.end:
                # A new line repeats items of an earlier one: read the row again, in order.
                cached = _CachedRow(row)
                parts = _parts(key, row, line, 0)
            cached.payload += b"".join(parts[position] for position in sorted(parts))
            cached.lines, cached.end = len(row.lines), key[-1] + row.count
        self._kept[key] = cached
        self._size += len(cached.payload)
        while self._size > BYTES_MAX and len(self._kept) > 1:
            self._size -= len(self._kept.popitem(last=False)[1].payload)
        return cached.payload


def _parts(key: Key, row: IndexedRow, line: Callable[[int], Line], first: int) -> dict[int, bytes]:
    """Read the frames in a row's lines from index `first` on, by position in the list."""
    _, _, channel, lineage, start = key
    return {
        part.position: part.payload
        for number in row.lines[first:]
        for part in line(number).lists
        if part.channel == channel
        and part.lineage == lineage
        and not part.end
        and start <= part.position < start + row.count
    }
