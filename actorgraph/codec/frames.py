"""Frames: encoded lists one behind the other, so that rows join without being decoded.

A frame is a length (4 bytes, big endian) and that many bytes, which decode to a list.
"""

import struct
from collections.abc import Iterator

from actorgraph.errors import SerializationError

_LENGTH = struct.Struct(">I")


def frame(encoded: bytes) -> bytes:
    """One frame."""
    return _LENGTH.pack(len(encoded)) + encoded


def frames(payload: bytes) -> Iterator[bytes]:
    """The frames of a row, in order.

    Raises:
        SerializationError: the row ends in the middle of one.
    """
    position = 0
    while position < len(payload):
        start = position + 4
        end = start + _LENGTH.unpack_from(payload.ljust(start, b"\0"), position)[0]
        if end > len(payload):
            raise SerializationError(
                "a stored list ends in the middle of its items",
                do="check the database's integrity, or restore it from a backup",
            )
        yield payload[start:end]
        position = end
