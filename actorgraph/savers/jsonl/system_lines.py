"""A line of the file of runs: one request of an ActorSystem, or what became of a run, as JSON.

Numbered and closed by a checksum as the lines of threads are: see `lines`. Bytes are base64.
"""

from typing import Any

import msgspec
from msgspec import Raw

from actorgraph.errors import FormatVersionError
from actorgraph.savers.jsonl.lines import encode_line, verified
from actorgraph.values.systems import SYSTEM_REQUESTS, SystemRequest

RUNS_FORMAT = 1


class Noted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run's own save has begun it, or has ended it.

    Attributes:
        count: of its saves that did, this one included; those beyond are in its thread's file.
    """

    run: bytes
    count: int
    claimed: bool = False
    ends: str | None = None


class Forgotten(msgspec.Struct, frozen=True):
    """A thread was deleted, and its runs with it."""

    thread_id: str


SystemRecord = SystemRequest | Noted | Forgotten


class SystemLine(msgspec.Struct):
    """A line."""

    v: int
    line: int
    kind: str
    said: Raw


_KINDS: dict[str, type[Any]] = {t.__name__: t for t in (*SYSTEM_REQUESTS, Noted, Forgotten)}
_ENTRIES = msgspec.json.Decoder(SystemLine)


def encode_record(number: int, said: SystemRecord) -> bytes:
    """A line's bytes, newline included.

    Raises:
        ValueError, TypeError: it is no text.
    """
    body = Raw(msgspec.json.encode(said))
    return encode_line(SystemLine(RUNS_FORMAT, number, type(said).__name__, body))


def decode_record(text: bytes, number: int) -> SystemRecord:
    """What a line says, which must have that number.

    Raises:
        ValueError: it is damaged.
        FormatVersionError: a newer version of the library wrote it.
    """
    try:
        entry = _ENTRIES.decode(verified(text))
        if entry.v > RUNS_FORMAT or entry.kind not in _KINDS:
            raise FormatVersionError(
                f"a line of runs has format {entry.v}, {entry.kind!r}; this version reads {RUNS_FORMAT}",
                do="upgrade actorgraph",
            )
        if entry.line != number:
            msg = f"it is number {entry.line} where number {number} must be"
            raise ValueError(msg)
        return msgspec.json.decode(entry.said, type=_KINDS[entry.kind])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
