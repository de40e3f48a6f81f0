"""Frames: encoded lists one behind the other, so that rows join without being decoded.

A frame is a length (4 bytes, big endian) and that many bytes, which decode to a list. A database's
frames are checked: the highest bit of the length is set, and the CRC-32 of the length and the bytes
stands between them (4 bytes, big endian). Rows may have frames of both kinds: those that were
written before there were checksums stay as they are.
"""

import struct
from collections.abc import Iterator
from zlib import crc32

from actorgraph.errors import SerializationError

_LENGTH = struct.Struct(">I")
_BOTH = struct.Struct(">II")
_CHECKED = 1 << 31


def frame(encoded: bytes) -> bytes:
    """One frame, without a checksum."""
    return _LENGTH.pack(len(encoded)) + encoded


def checked(payload: bytes) -> bytes:
    """Some frames with checksums.

    Raises: as `frames`.
    """
    parts: list[bytes] = []
    for encoded in frames(payload):
        size = len(encoded) | _CHECKED
        parts += (_BOTH.pack(size, _sum(size, encoded)), encoded)
    return b"".join(parts)


def plain(payload: bytes) -> bytes:
    """Some frames without their checksums, which were right.

    Raises: as `frames`.
    """
    return b"".join(map(frame, frames(payload)))


def frames(payload: bytes) -> Iterator[bytes]:
    """What the frames of a row hold, in order.

    Raises:
        SerializationError: the row ends in the middle of one, or one has changed.
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
    return crc32(encoded, crc32(_LENGTH.pack(size)))


def _broken(what: str) -> SerializationError:
    return SerializationError(
        f"a stored list {what}",
        do="check the database's integrity, or restore it from a backup",
    )
