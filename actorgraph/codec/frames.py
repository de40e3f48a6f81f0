"""Frames: encoded lists one behind the other; see `codec.records`."""

import struct
from collections.abc import Iterator
from zlib import crc32

from actorgraph.errors import SerializationError

_LENGTH = struct.Struct(">I")
_BOTH = struct.Struct(">II")
_CHECKED = 1 << 31


def frame(encoded: bytes) -> bytes:
    """Put encoded items into a frame without a checksum."""
    return _LENGTH.pack(len(encoded)) + encoded


def with_checksums(payload: bytes) -> bytes:
    """Return the same frames, each with a checksum.

    Raises: as `frames`.
    """
    parts: list[bytes] = []
    for encoded in frames(payload):
        size = len(encoded) | _CHECKED
        parts += (_BOTH.pack(size, _sum(size, encoded)), encoded)
    return b"".join(parts)


def without_checksums(payload: bytes) -> bytes:
    """Verify the checksums and return the frames without them.

    Raises: as `frames`.
    """
    return b"".join(map(frame, frames(payload)))


def frames(payload: bytes) -> Iterator[bytes]:
    """Iterate over the contents of a row's frames, in order, verifying those with a checksum.

    Raises:
        SerializationError: the row ends in the middle of a frame, or a checksum is wrong.
    """
    position, whole = 0, len(payload)
    while position < whole:
        if position + 4 > whole:
            raise _broken("ends in the middle of its items")
        (size,) = _LENGTH.unpack_from(payload, position)
        start = position + (8 if size & _CHECKED else 4)
        end = start + (size & ~_CHECKED)
        if end > whole:
            raise _broken("ends in the middle of its items")
        encoded = payload[start:end]
        if size & _CHECKED and _BOTH.unpack_from(payload, position)[1] != _sum(size, encoded):
            raise _broken("has a wrong checksum")
        yield encoded
        position = end


def _sum(size: int, encoded: bytes) -> int:
    # The length is in the sum: a flipped bit in it would otherwise read as another frame.
    return crc32(encoded, crc32(_LENGTH.pack(size)))


def _broken(what: str) -> SerializationError:
    return SerializationError(
        f"a stored list {what}",
        do="check the database's integrity, or restore it from a backup",
    )
