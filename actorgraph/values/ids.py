"""Ids as pure functions of their parts: the clock and the counter are arguments.

A checkpoint id is a UUIDv6: its bytes sort by time, and its clock sequence carries the step.
Task and interrupt ids are hashes of their place, so the same checkpoint always gives the same
ids; that is how pending writes are matched with their tasks after a crash.
Source: RFC 9562 section 5.6 (UUIDv6).
"""

from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import Any, NewType

CheckpointId = NewType("CheckpointId", bytes)
"""16 bytes of a UUIDv6."""

TaskId = NewType("TaskId", str)
"""32 hex digits with dashes, as UUID text."""

RunId = NewType("RunId", bytes)
"""16 bytes of a UUIDv7."""

GREGORIAN_OFFSET = 0x01B21DD213814000
"""100 ns intervals between 1582-10-15 and 1970-01-01."""

_STEP_MASK = 0x3FFF
_TWO_WORDS = Struct(">QQ")


_APART = 1 << 62


def version_apart(of: bytes) -> int:
    """Make a version that no run counts up to: the same for the same bytes."""
    return _APART | int.from_bytes(blake2b(of, digest_size=8).digest()) >> 2


def uuid6(ticks: int, step: int, node: int) -> CheckpointId:
    """Make the UUIDv6 of a time and a step.

    Args:
        ticks: 100 ns intervals since 1582-10-15, 60 bits.
        step: stored modulo 2^14 in the clock sequence; may be negative.
        node: 48 bits, different in each process.
    """
    high = ((ticks >> 12) << 16) | 0x6000 | (ticks & 0x0FFF)
    low = (0b10 << 62) | ((step & _STEP_MASK) << 48) | node
    made: Any = _TWO_WORDS.pack(high, low)  # Any: CheckpointId(...) would cost a call
    return made


def run_id_of(milliseconds: int, key: str) -> RunId:
    """Make the UUIDv7 of a run that is started once: the same for the same time and key.

    Args:
        milliseconds: since 1970-01-01 UTC, 48 bits.
    """
    chance = int.from_bytes(blake2b(key.encode(), digest_size=10).digest())
    high = ((milliseconds & 0xFFFFFFFFFFFF) << 16) | 0x7000 | (chance >> 68 & 0x0FFF)
    low = (0b10 << 62) | (chance & 0x3FFFFFFFFFFFFFFF)
    return RunId(_TWO_WORDS.pack(high, low))


def run_id_at(run: bytes, milliseconds: int) -> RunId:
    """Make the id of a run that begins later: with its time, so that its place is among the runs
    of that time.

    Args:
        run: the id of a run that begins at once; all but its time stays.
        milliseconds: since 1970-01-01 UTC, 48 bits.
    """
    return RunId((milliseconds & 0xFFFFFFFFFFFF).to_bytes(6) + run[6:])


def milliseconds_of(run: bytes) -> int:
    """Read the time in a UUIDv7, in milliseconds since 1970-01-01 UTC: when the run was accepted,
    or from when it may begin."""
    return int.from_bytes(run[:6])


def ticks_of(checkpoint: bytes) -> int:
    """Read the time in a UUIDv6, in 100 ns intervals since 1582-10-15."""
    high = int.from_bytes(checkpoint[:8], "big")
    return ((high >> 16) << 12) | (high & 0x0FFF)


def created_of(checkpoint: bytes) -> int:
    """Read the time in a UUIDv6, in microseconds since 1970-01-01 UTC."""
    high = int.from_bytes(checkpoint[:8], "big")
    return (((high >> 16) << 12 | (high & 0x0FFF)) - GREGORIAN_OFFSET) // 10


def as_text(identifier: bytes) -> str:
    """Format a 16-byte id as UUID text."""
    h = identifier.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def as_bytes(text: str) -> bytes:
    """Parse UUID text to its 16 bytes.

    Raises:
        ValueError: the text is not a UUID.
    """
    raw = bytes.fromhex(text.replace("-", ""))
    if len(raw) != 16:
        msg = f"{text!r} is not a UUID"
        raise ValueError(msg)
    return raw


def task_id(base: bytes, *place: str) -> TaskId:
    """Make the id of a task: a hash of its checkpoint and of its place in the next superstep.

    Args:
        base: the checkpoint, which has the step in it.
        place: namespace, node, kind of path, and the triggers or the Send's index.
    """
    h = blake2b(base + _place_bytes(place), digest_size=16).hexdigest()
    made: Any = f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
    return made


@lru_cache(maxsize=4096)
def _place_bytes(place: tuple[str, ...]) -> bytes:
    return "\0".join(place).encode("utf-8", "surrogatepass")


def interrupt_id(task_namespace: str, answered: int) -> str:
    """Make the id of a task's question number `answered` (from 0): 32 hex digits.

    Each question of a task has its own id, so that an answer can't reach the next one.
    """
    place = task_namespace if answered == 0 else f"{task_namespace}|{answered}"
    return blake2b(place.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def id_or_none(text: object) -> bytes | None:
    """Parse the UUID text of an id; None if it is none."""
    try:
        return as_bytes(text) if isinstance(text, str) else None
    except ValueError:
        return None


def made_at(run: bytes) -> int:
    """Read the time in a run's UUIDv7, in microseconds since 1970-01-01 UTC."""
    return int.from_bytes(run[:6]) * 1000


def is_interrupt_id(text: object) -> bool:
    """Whether a value has the form of an interrupt's id: 32 lower-case hex digits."""
    return isinstance(text, str) and len(text) == 32 and not set(text) - set("0123456789abcdef")
