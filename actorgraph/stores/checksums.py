"""Checksums of stored items and vectors."""

import struct
from contextlib import suppress
from zlib import crc32

from actorgraph.errors import StorageError
from actorgraph.stores.log import warn

_FLOAT = struct.Struct(">d")


def item_sum(
    where: tuple[str, str], text: str, ttl: float | None, times: tuple[int, int, int | None]
) -> int:
    """Return the checksum of an item: CRC-32 of the data of one put, plus `created` and `expires`.

    Later puts keep `created`, and reads move `expires`. As these two are added, the database can
    update the sum in its own statements, without reading the item.

    Args:
        where: namespace as text, and key.
        text: value as JSON.
        ttl: minutes to live.
        times: created, updated, expires; microseconds since 1970.
    """
    created, updated, expires = times
    lived = b"" if ttl is None else _FLOAT.pack(float(ttl))
    key = "\n".join(where).encode()
    return crc32(text.encode(), crc32(lived, crc32(key, crc32(b"%d" % updated)))) + (
        created + (expires or 0)
    )


def vector_sum(where: tuple[str, str], path: str, vector: bytes) -> int:
    """Return the checksum of the vector of one of an item's texts."""
    return crc32(vector, crc32("\n".join((*where, path)).encode()))


def is_sound(where: tuple[str, str], path: str, vector: bytes, found: int | None) -> bool:
    """Whether a vector is as it was stored. A damaged one is logged, and searches skip it."""
    with suppress(TypeError, ValueError):
        if type(vector) is bytes and found in (None, vector_sum(where, path, vector)):
            return True
    warn("item.damaged", error=str(damaged_item(*where, f"the vector of {path!r} has changed")))
    return False


def damaged_item(
    namespace: object, key: object, why: str = "its checksum is wrong"
) -> StorageError:
    """Return the error of a damaged item or vector."""
    return StorageError(
        f"the item {key!r} in {namespace!r} is damaged: {why}",
        do="store it again, delete it, or restore the store from a backup",
    )
