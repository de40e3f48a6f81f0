"""Lines of a thread's file and of the file of runs, as JSON objects.

A thread's line is one save, or what removals have left of it. A line of the file of runs is one
request of an ActorSystem, or a note about one of its runs. Both have `line`, their number in the
file from 1, and at the end `crc`, the CRC-32 of all bytes before it: a line that was damaged, lost,
doubled or moved is detected, and a save is there completely or not at all. Values are the JSON text
of the codec; other bytes (encrypted, compressed) are `{"$sealed": "<base64>"}`.
"""

import zlib
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Iterator
from contextlib import suppress

import msgspec
from msgspec import Raw

from actorgraph.codec.json_form import as_payload, is_json
from actorgraph.codec.records import frame, frames
from actorgraph.errors import FormatVersionError
from actorgraph.savers.judge import ThreadState
from actorgraph.values.alarms import Alarm
from actorgraph.values.commits import CheckpointRow, Commit, LedgerRow
from actorgraph.values.ids import as_bytes, as_text
from actorgraph.values.systems import SYSTEM_REQUESTS, SystemRequest

FORMAT = 1
_CRC = b',"crc":"%08x"}'
_CRC_LENGTH = len(_CRC % 0)
_SEALED = b'{"$sealed":"'


class ValueEntry(msgspec.Struct, omit_defaults=True):
    """The value of a channel at a version."""

    channel: str
    version: int
    value: Raw


class ListEntry(msgspec.Struct, omit_defaults=True):
    """Items added to a growing list; or, with `end`, a merge of its rows of `start <= s < end`.

    Attributes:
        start: position of the row's first item in the list.
        before: number of items that the row has already.
        count: number of new items.
        items: lists of items, `count` altogether.
        end: see above; 0 for items.
    """

    channel: str
    lineage: int
    start: int
    before: int = 0
    count: int = 0
    items: list[Raw] = []
    end: int = 0

    @property
    def position(self) -> int:
        """Position of the first new item in the list."""
        return self.start + self.before

    @property
    def payload(self) -> bytes:
        """The items as frames, as the codec reads them."""
        return b"".join(frame(payload_of(raw)) for raw in self.items)


class WritesEntry(msgspec.Struct, omit_defaults=True):
    """Pending writes of one task."""

    base: str
    task: str
    path: str
    index: int
    writes: Raw
    generation: int = 0
    asks: bool = False

    @property
    def key(self) -> tuple[bytes, int, int]:
        """Task, index and generation: unique beside a checkpoint."""
        return (as_bytes(self.task), self.index, self.generation)

    @property
    def row(self) -> LedgerRow:
        """The row as readers get it."""
        return LedgerRow(
            base=as_bytes(self.base),
            task=as_bytes(self.task),
            path=self.path,
            index=self.index,
            generation=self.generation,
            payload=payload_of(self.writes),
            asks=self.asks,
        )


class ClaimEntry(msgspec.Struct, omit_defaults=True):
    """A run's claim.

    Attributes:
        head: the checkpoint that the run begins with.
        input: of the run, in a list of one; empty where a checkpoint has it.
        resumes: ids of the interrupts that the run answers, comma separated.
    """

    mode: str
    head: str | None = None
    input: list[Raw] = []
    resumes: str = ""


class JsonCheckpoint(msgspec.Struct, omit_defaults=True):
    """A checkpoint."""

    id: str
    sequence: int
    step: int
    source: str
    next: Raw
    metadata: Raw
    record: Raw
    parent: str | None = None
    run: str | None = None

    @property
    def row(self) -> CheckpointRow:
        """The row as readers get it, without the values that are new with it."""
        return CheckpointRow(
            id=as_bytes(self.id),
            parent=_bytes(self.parent),
            step=self.step,
            source=self.source,
            run=_bytes(self.run),
            next=text_of(self.next),
            record=text_of(self.record),
            metadata=text_of(self.metadata),
        )


class Line(msgspec.Struct, omit_defaults=True):
    """A line of a thread's file.

    Attributes:
        v: format of the line.
        line: its number in the file, from 1.
        epoch: the thread's epoch when it was stored.
        run: the run that it belongs to; None for an operation from outside a run.
        number: the run's number of this save.
        ends: the status with which the run ends; None while it goes on.
        unsynced: number of lines before it that may not have been on the disk when it was written.
        alarm: the thread's alarm from then on; None leaves the one that it has.
    """

    v: int
    thread_id: str
    line: int
    epoch: int = 1
    namespace: str = ""
    run: str | None = None
    number: int = 0
    claim: ClaimEntry | None = None
    checkpoints: list[JsonCheckpoint] = []
    values: list[ValueEntry] = []
    lists: list[ListEntry] = []
    ledger: list[WritesEntry] = []
    ends: str | None = None
    unsynced: int = 0
    alarm: Alarm | None = None

    @property
    def has_rows(self) -> bool:
        """Whether anything in it is to be stored."""
        rows = self.checkpoints or self.values or self.lists or self.ledger
        return bool(rows or self.claim or self.ends or self.alarm)


class Heading(msgspec.Struct):
    """The fields of a line that listings of threads decode."""

    v: int
    thread_id: str
    checkpoints: list[Raw] = []


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Line)
_RAW = msgspec.json.Decoder(Raw)
_HEADINGS = msgspec.json.Decoder(Heading)


def encode_line(line: msgspec.Struct) -> bytes:
    """Encode a line, with its checksum and a newline."""
    body = _ENCODER.encode(line)
    # Without a copy: a line is as large as the values in it.
    with memoryview(body) as whole, whole[:-1] as view:
        return b"".join((view, _CRC % zlib.crc32(view), b"\n"))


def decode_line(text: bytes) -> Line:
    """Verify and decode a line.

    Raises:
        ValueError: it is damaged.
        FormatVersionError: a newer version of the library wrote them.
    """
    try:
        line = _DECODER.decode(verified(text))
    except msgspec.MsgspecError as error:
        decode_heading(text)  # a newer version's line is not damaged
        raise ValueError(str(error)) from error
    _check_format(line)
    return line


def decode_heading(text: bytes) -> Heading:
    """Verify a line and decode its heading.

    Raises:
        ValueError: it is damaged.
        FormatVersionError: a newer version of the library wrote it.
    """
    text = verified(text)
    try:
        heading = _HEADINGS.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    _check_format(heading)
    return heading


def _check_format(line: Line | Heading) -> None:
    if line.v > FORMAT:
        raise FormatVersionError(
            f"a line of thread {line.thread_id!r} has format {line.v}; this version reads "
            f"up to {FORMAT}",
            do="upgrade actorgraph",
        )


def verified(text: bytes) -> bytes:
    """Return a line if its checksum is right. JSON allows the whitespace at its end.

    Raises:
        ValueError: the checksum is wrong.
    """
    # Without a copy: a line is as large as the values in it.
    end = len(text) - text.endswith(b"\n")
    if text[max(end - 1, 0) : end].isspace():
        end = len(text.rstrip(b"\r\n \t"))
    start = max(end - _CRC_LENGTH, 0)
    with memoryview(text) as view, view[:start] as body:
        if text[start:end] != _CRC % zlib.crc32(body):
            msg = "its checksum is wrong"
            raise ValueError(msg)
    return text


def line_of(commit: Commit, state: ThreadState, sequence: int, ledger: list[LedgerRow]) -> Line:
    """Make the line of a commit; the caller sets its number.

    Args:
        state: of the thread, after the commit.
        sequence: of the commit's first checkpoint.
        ledger: the commit's pending writes that are not stored yet.
    """
    return Line(
        v=FORMAT,
        thread_id=commit.thread_id,
        line=0,
        epoch=state.epoch,
        namespace=commit.namespace,
        run=_text(commit.run),
        number=commit.number,
        claim=_claim(commit),
        checkpoints=[
            _point(row, sequence + offset) for offset, row in enumerate(commit.checkpoints)
        ],
        values=[
            ValueEntry(b.channel, b.version, raw_of(b.payload))
            for row in commit.checkpoints
            for b in row.blobs
        ],
        lists=[part for row in commit.checkpoints for part in _parts(row)],
        ledger=[_writes(row) for row in ledger],
        ends=commit.ends,
        alarm=commit.alarm,
    )


def _claim(commit: Commit) -> ClaimEntry | None:
    claim = commit.claim
    if claim is None:
        return None
    head = commit.checkpoints[-1].id if commit.checkpoints else claim.head
    input_values = [] if claim.input is None else [raw_of(claim.input)]
    return ClaimEntry(claim.mode, _text(head), input_values, claim.resumes)


def _point(row: CheckpointRow, sequence: int) -> JsonCheckpoint:
    return JsonCheckpoint(
        id=as_text(row.id),
        sequence=sequence,
        step=row.step,
        source=row.source,
        next=raw_text(row.next),
        metadata=raw_text(row.metadata),
        record=raw_text(row.record),
        parent=_text(row.parent),
        run=_text(row.run),
    )


def _parts(row: CheckpointRow) -> Iterator[ListEntry]:
    for part in row.ranges:
        items = [raw_of(payload) for payload in frames(part.payload)]
        where = (part.channel, part.lineage, part.start)
        yield ListEntry(*where, part.before, part.count, items)
    for merge in row.merges:
        yield ListEntry(merge.channel, merge.lineage, merge.start, end=merge.end)


def _writes(row: LedgerRow) -> WritesEntry:
    return WritesEntry(
        base=as_text(row.base),
        task=as_text(row.task),
        path=row.path,
        index=row.index,
        writes=raw_of(row.payload),
        generation=row.generation,
        asks=row.asks,
    )


def raw_of(payload: bytes) -> Raw:
    """Return a payload as JSON: itself if it is JSON text that survives decoding, else sealed."""
    if is_json(payload) and not payload.startswith(_SEALED):
        with suppress(msgspec.MsgspecError), memoryview(_RAW.decode(payload)) as text:
            # Decoding drops the whitespace around a value, and nothing else.
            if len(text) == len(payload) or as_payload(bytes(text)) == payload:
                return Raw(payload)
    return Raw(b"".join((_SEALED, b64encode(payload), b'"}')))


def payload_of(raw: Raw) -> bytes:
    """Return the payload that `raw_of` encoded."""
    # Without a copy of the text: it is larger than the payload. A Raw that was decoded is a view.
    with memoryview(raw) as view:
        if view[: len(_SEALED)] == _SEALED:
            with view[len(_SEALED) : -2] as sealed:
                return a2b_base64(sealed)
    return as_payload(bytes(raw))


def raw_text(text: str) -> Raw:
    """Wrap JSON text."""
    return Raw(text.encode())


def text_of(raw: Raw) -> str:
    """Return the JSON text that `raw_text` wrapped."""
    return bytes(raw).decode()


def _text(identifier: bytes | None) -> str | None:
    return None if identifier is None else as_text(identifier)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else as_bytes(text)


RUNS_FORMAT = 1


class Noted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A note that a save of a run has begun or ended it. The class's name is stored.

    Attributes:
        count: number of such saves of the run, this one included; later ones are only in its
            thread's file.
        claimed: whether the save has begun the run.
        ends: the status with which the save has ended the run.
    """

    run: bytes
    count: int
    claimed: bool = False
    ends: str | None = None


class Forgotten(msgspec.Struct, frozen=True):
    """A note that a thread was deleted, and its runs with it. The class's name is stored."""

    thread_id: str


SystemRecord = SystemRequest | Noted | Forgotten


class SystemLine(msgspec.Struct, omit_defaults=True):
    """A line of the file of runs.

    Attributes:
        v: format of the line.
        line: its number in the file, from 1.
        kind: name of the class of `said`.
        said: the request or note.
        unsynced: number of lines before it that may not have been on the disk when it was written.
    """

    v: int
    line: int
    kind: str
    said: Raw
    unsynced: int = 0


_KINDS: dict[str, msgspec.json.Decoder[SystemRecord]] = {
    kind.__name__: msgspec.json.Decoder(kind) for kind in (*SYSTEM_REQUESTS, Noted, Forgotten)
}
_ENTRIES = msgspec.json.Decoder(SystemLine)


def encode_system_line(number: int, record: SystemRecord, unsynced: int = 0) -> bytes:
    """Encode a line of the file of runs, with its checksum and a newline.

    Args:
        number: of the line.
        unsynced: see `SystemLine`.
    Raises:
        ValueError, TypeError: it has text that can't be encoded.
    """
    body = Raw(msgspec.json.encode(record))
    return encode_line(SystemLine(RUNS_FORMAT, number, type(record).__name__, body, unsynced))


def decode_system_line(text: bytes, number: int) -> SystemRecord:
    """Verify and decode a line of the file of runs.

    Args:
        number: that the line must have.
    Raises:
        ValueError: it is damaged.
        FormatVersionError: a newer version of the library wrote it.
    """
    try:
        entry = _ENTRIES.decode(verified(text))
        if entry.v > RUNS_FORMAT or entry.kind not in _KINDS:
            raise FormatVersionError(
                f"a line of runs has format {entry.v}, {entry.kind!r}; this version reads "
                f"up to {RUNS_FORMAT}",
                do="upgrade actorgraph",
            )
        if entry.line != number:
            msg = f"it has number {entry.line}, expected {number}"
            raise ValueError(msg)
        return _KINDS[entry.kind].decode(entry.said)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
