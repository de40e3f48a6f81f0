"""Checksums of stored items: what has changed on the disk is refused, and hides nothing else.

An item's checksum is a CRC-32 of what one put says, plus the two times that later puts and reads
keep or move, so that a database can go on with the sum by itself. Rows of older versions have none.
"""

import struct
from contextlib import suppress
from zlib import crc32

from actorgraph.errors import StorageError
from actorgraph.stores.log import warn

_FLOAT = struct.Struct(">d")


def item_sum(
    where: tuple[str, str], text: str, ttl: float | None, times: tuple[int, int, int | None]
) -> int:
    """The checksum of an item.

    Args:
        where: namespace as text, and key.
        times: created, updated, expires.
    """
    created, updated, expires = times
    lived = b"" if ttl is None else _FLOAT.pack(float(ttl))
    key = "\n".join(where).encode()
    return crc32(text.encode(), crc32(lived, crc32(key, crc32(b"%d" % updated)))) + (
        created + (expires or 0)
    )


def vector_sum(where: tuple[str, str], path: str, vector: bytes) -> int:
    """The checksum of a vector of one of an item's texts."""
    return crc32(vector, crc32("\n".join((*where, path)).encode()))


def is_sound(where: tuple[str, str], path: str, vector: bytes, found: int | None) -> bool:
    """Whether a vector is as it was stored; a damaged one is told, and finds nothing."""
    with suppress(TypeError, ValueError):
        if type(vector) is bytes and found in (None, vector_sum(where, path, vector)):
            return True
    warn("item.damaged", error=str(damaged(*where, f"the vector of {path!r} has changed")))
    return False


def damaged(namespace: object, key: object, why: str = "its checksum is wrong") -> StorageError:
    """The error of an item, or of one of its vectors, that is not as it was put."""
    return StorageError(
        f"the item {key!r} in {namespace!r} is damaged: {why}",
        do="put it again, delete it, or restore the store from a backup",
    )
