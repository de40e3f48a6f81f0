"""Lines of the file of runs. Bytes are base64."""

from typing import Any

import msgspec
from msgspec import Raw

from actorgraph.errors import FormatVersionError
from actorgraph.savers.jsonl.lines import encode_line, verified
from actorgraph.values.systems import SYSTEM_REQUESTS, SystemRequest

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


class SystemLine(msgspec.Struct):
    """A line of the file of runs.

    Attributes:
        v: format of the line.
        line: its number in the file, from 1.
        kind: name of the class of `said`.
        said: the request or note.
    """

    v: int
    line: int
    kind: str
    said: Raw


_KINDS: dict[str, type[Any]] = {t.__name__: t for t in (*SYSTEM_REQUESTS, Noted, Forgotten)}
_ENTRIES = msgspec.json.Decoder(SystemLine)


def encode_system_line(number: int, record: SystemRecord) -> bytes:
    """Encode a line of the file of runs, with its checksum and a newline.

    Raises:
        ValueError, TypeError: it has text that can't be encoded.
    """
    body = Raw(msgspec.json.encode(record))
    return encode_line(SystemLine(RUNS_FORMAT, number, type(record).__name__, body))


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
        return msgspec.json.decode(entry.said, type=_KINDS[entry.kind])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
