"""What a line holds: one save, or what removals have left of one, as a JSON object.

`line` counts the lines of a file from 1, and `crc` is the CRC-32 of all that stands before it. So a
line that was damaged, lost, doubled or moved shows, and a save is there whole or not at all.
Values are the JSON text that the codec has made; other bytes (encrypted, compressed) are
`{"$sealed": "<base64>"}`.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress

import msgspec
from msgspec import Raw

from actorgraph.codec.frames import frame, frames
from actorgraph.codec.json_form import as_payload, is_json
from actorgraph.errors import FormatVersionError
from actorgraph.savers.judge import ThreadState
from actorgraph.values.commits import CheckpointRow, Commit, LedgerRow
from actorgraph.values.ids import as_bytes, as_text

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
    """Items added to a growing list; or, with `end`, its rows of `start <= s < end` become one.

    Attributes:
        start: of the row. before: items that the row has already.
        items: lists of items, `count` altogether.
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
        """Of its first item in the list."""
        return self.start + self.before

    @property
    def payload(self) -> bytes:
        """The items as the codec knows them: frames."""
        return b"".join(frame(payload_of(raw)) for raw in self.items)


class WritesEntry(msgspec.Struct, omit_defaults=True):
    """A row of the ledger."""

    base: str
    task: str
    path: str
    index: int
    writes: Raw
    generation: int = 0
    asks: bool = False

    @property
    def key(self) -> tuple[bytes, int, int]:
        """What tells it from others beside its checkpoint."""
        return (as_bytes(self.task), self.index, self.generation)

    @property
    def row(self) -> LedgerRow:
        """The row."""
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
        head: the checkpoint that it has begun with.
        input: of the run, in a list of one; empty where a checkpoint has it.
    """

    mode: str
    head: str | None = None
    input: list[Raw] = []
    resumes: str = ""


class CheckpointEntry(msgspec.Struct, omit_defaults=True):
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
        """The row, without the values that are new with it."""
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
    """A line.

    Attributes:
        epoch: the thread's, at that time.
        number: the run's number of this save.
        ends: the status with which the run leaves.
    """

    v: int
    thread_id: str
    line: int
    epoch: int = 1
    namespace: str = ""
    run: str | None = None
    number: int = 0
    claim: ClaimEntry | None = None
    checkpoints: list[CheckpointEntry] = []
    values: list[ValueEntry] = []
    lists: list[ListEntry] = []
    ledger: list[WritesEntry] = []
    ends: str | None = None

    @property
    def has_rows(self) -> bool:
        """Whether it says anything."""
        said = self.checkpoints or self.values or self.lists or self.ledger
        return bool(said or self.claim or self.ends)


class Heading(msgspec.Struct):
    """What a list of threads needs of a line."""

    v: int
    thread_id: str
    checkpoints: list[Raw] = []


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Line)
_RAW = msgspec.json.Decoder(Raw)
_HEADINGS = msgspec.json.Decoder(Heading)


def encode_line(line: msgspec.Struct) -> bytes:
    """The line's bytes, newline included."""
    body = _ENCODER.encode(line)[:-1]
    return body + _CRC % zlib.crc32(body) + b"\n"


def decode_line(text: bytes) -> Line:
    """The line of some bytes.

    Raises:
        ValueError: they are damaged.
        FormatVersionError: a newer version of the library wrote them.
    """
    decode_heading(text)
    try:
        return _DECODER.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def decode_heading(text: bytes) -> Heading:
    """What a list of threads needs of a line.

    Raises: as `decode_line`.
    """
    text = verified(text)
    try:
        heading = _HEADINGS.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    if heading.v > FORMAT:
        raise FormatVersionError(
            f"a line of thread {heading.thread_id!r} has format {heading.v}; this version reads "
            f"{FORMAT}",
            do="upgrade actorgraph",
        )
    return heading


def verified(text: bytes) -> bytes:
    """A line without what is behind it, if its checksum is right.

    Raises:
        ValueError: it isn't.
    """
    text = text.rstrip(b"\r\n \t")
    if text[-_CRC_LENGTH:] != _CRC % zlib.crc32(text[:-_CRC_LENGTH]):
        msg = "its checksum is wrong"
        raise ValueError(msg)
    return text


def line_of(commit: Commit, state: ThreadState, sequence: int, ledger: list[LedgerRow]) -> Line:
    """The line of a commit; its number comes later.

    Args:
        state: of the thread. sequence: of the first checkpoint.
        ledger: the rows of the commit's ledger that are new.
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
    )


def _claim(commit: Commit) -> ClaimEntry | None:
    claim = commit.claim
    if claim is None:
        return None
    head = commit.checkpoints[-1].id if commit.checkpoints else claim.head
    given = [] if claim.input is None else [raw_of(claim.input)]
    return ClaimEntry(claim.mode, _text(head), given, claim.resumes)


def _point(row: CheckpointRow, sequence: int) -> CheckpointEntry:
    return CheckpointEntry(
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
    """A payload as JSON: itself, if it is that; a saver stores whatever bytes it is given."""
    if is_json(payload) and not payload.startswith(_SEALED):
        with suppress(msgspec.MsgspecError):
            if payload_of(_RAW.decode(payload)) == payload:
                return Raw(payload)
    return Raw(_SEALED + b64encode(payload) + b'"}')


def payload_of(raw: Raw) -> bytes:
    """The inverse of `raw_of`."""
    text = bytes(raw)
    if text.startswith(_SEALED):
        return b64decode(text[len(_SEALED) : -2])
    return as_payload(text)


def raw_text(text: str) -> Raw:
    """JSON text as it is."""
    return Raw(text.encode())


def text_of(raw: Raw) -> str:
    """The inverse of `raw_text`."""
    return bytes(raw).decode()


def _text(identifier: bytes | None) -> str | None:
    return None if identifier is None else as_text(identifier)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else as_bytes(text)
