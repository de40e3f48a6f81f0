"""What is remembered of a thread's file: which line has what, but no values.

Made by reading the file once, line by line, and kept up to date by every line that is added. A
file ends in the middle of a line after a crash: that line was never acknowledged, and is cut off
before the next one is written. Damage anywhere else is an error that names the line. Whether more
than such a line is missing, the folder's `marks` say.
"""

import os
import sys
from array import array
from collections.abc import Iterator

import msgspec

from actorgraph.errors import DamagedRowError
from actorgraph.savers.jsonl.lines import Line, ListEntry, decode_line
from actorgraph.savers.judge import ThreadState
from actorgraph.values.ids import as_bytes

_BUFFER = 1 << 18


class CheckpointPlace(msgspec.Struct, gc=False):
    """A checkpoint and where it stands: the `at`-th of a line."""

    sequence: int
    namespace: str
    id: bytes
    line: int
    at: int


class ListRow(msgspec.Struct):
    """A row of a growing list, and the lines that have its items."""

    count: int
    lines: list[int]


class ThreadIndex:
    """One file, without its values.

    Attributes:
        path: of the file. thread_id: of all of its lines.
        starts: where each line begins. size: where the last one ends.
        unended: whether the last line has lost its newline, and nothing else.
        state: what `judge` needs. run_line: the line of the claim that holds the thread.
        places: the checkpoints, oldest first; by_id: the newest of each id.
        blobs, rows, ledger: key -> the line that has it.
    """

    def __init__(self, thread_id: str, path: str, epoch: int = 1) -> None:
        self.path = path
        self.thread_id = thread_id
        self.starts = array("q")
        self.size = 0
        self.unended = False
        self.state = ThreadState(thread_id, epoch=epoch, heads={})
        self.run_line = 0
        self.places: list[CheckpointPlace] = []
        self.by_id: dict[tuple[str, bytes], CheckpointPlace] = {}
        self.blobs: dict[tuple[str, str, int], int] = {}
        self.rows: dict[tuple[str, str, int], dict[int, ListRow]] = {}
        self.ledger: dict[tuple[str, bytes], dict[tuple[bytes, int, int], int]] = {}

    @property
    def row_count(self) -> int:
        """How many rows of values and writes there are."""
        tables = (*self.rows.values(), *self.ledger.values())
        return len(self.blobs) + sum(map(len, tables))

    def add(self, line: Line, start: int, end: int) -> None:
        """Take in the next line, which stands in `start <= byte < end`."""
        number, namespace, state = line.line, sys.intern(line.namespace), self.state
        self.starts.append(start)
        self.size = end
        state.epoch = line.epoch
        if line.claim is not None and line.run is not None:
            state.run, self.run_line = as_bytes(line.run), number
        for entry in line.ledger:
            rows = self.ledger.setdefault((namespace, as_bytes(entry.base)), {})
            rows.setdefault(entry.key, number)
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

    def _add_lists(self, line: Line, namespace: str) -> None:
        for part in line.lists:
            key = (namespace, sys.intern(part.channel), part.lineage)
            rows = self.rows.setdefault(key, {})
            if part.end:
                merged = [rows.pop(s) for s in sorted(rows) if part.start <= s < part.end]
                numbers = dict.fromkeys(n for row in merged for n in row.lines)
                rows[part.start] = ListRow(sum(row.count for row in merged), list(numbers))
                continue
            row = rows.setdefault(part.start, ListRow(0, []))
            row.count += part.count
            if row.lines[-1:] != [line.line]:
                row.lines.append(line.line)

    def row_start(self, namespace: str, part: ListEntry) -> int:
        """Where the row begins that a part's items are in by now."""
        rows = self.rows.get((namespace, part.channel, part.lineage), {})
        return max((start for start in rows if start <= part.position), default=part.start)

    def length(self, number: int) -> int:
        """The bytes of a line."""
        end = self.starts[number] if number < len(self.starts) else self.size
        return end - self.starts[number - 1]

    def read(self, descriptor: int, number: int) -> Line:
        """A line of the open file.

        Raises:
            StorageError: it is damaged.
        """
        start = self.starts[number - 1]
        try:
            line = decode_line(os.pread(descriptor, self.length(number), start))
        except ValueError as error:
            raise damaged(self.path, number, start, error) from error
        return line

    def lines(self) -> Iterator[Line]:
        """Every line, in order.

        Raises: as `read`.
        """
        if not self.starts:
            return
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            for number in range(1, len(self.starts) + 1):
                yield self.read(descriptor, number)
        finally:
            os.close(descriptor)


def load(thread_id: str, path: str, epoch: int) -> ThreadIndex:
    """Verify a thread's file and index it; a thread without one has nothing.

    Args:
        epoch: of the thread, if it has no lines.
    Raises:
        StorageError: a line is damaged; the error names it.
    """
    index = ThreadIndex(thread_id, path, epoch)
    try:
        file = open(path, "rb", buffering=_BUFFER)  # noqa: PTH123, SIM115 - closed just below
    except FileNotFoundError:
        return index
    with file:
        position = 0
        for physical, text in enumerate(file, 1):
            end = position + len(text)
            if text.endswith(b"\n"):
                if text.strip():
                    index.add(_next(index, text, physical, position), position, end)
            else:
                _add_tail(index, text, position)
            position = end
    return index


def _add_tail(index: ThreadIndex, text: bytes, position: int) -> None:
    """Take in what has no newline, if nothing but that is missing: it may be acknowledged."""
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
            msg = f"it is number {line.line} where number {len(index.starts) + 1} must be"
            raise ValueError(msg)
    except ValueError as error:
        raise damaged(index.path, physical, position, error) from error
    return line


def damaged(path: str, number: int, position: int, error: Exception) -> DamagedRowError:
    """The error of a line that can't be read."""
    return DamagedRowError(
        f"line {number} of {path!r}, at byte {position}, is damaged: {error}",
        do="restore the file from a backup; or, to go on from what stands before that line, "
        f"cut it there: head -c {position} FILE > NEW && mv NEW FILE",
    )
