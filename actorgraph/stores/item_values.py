"""Values of items as JSON text, and checksums of stored items.

Exact      a value that is read is equal to the stored one: integers of any size, text with NUL and
           lone surrogates. Tuples become lists, as JSON has none. Other values are refused
Checksums  an item that has changed on the disk is an error when it is read by its key, and left
           out of searches with a warning. Rows of older versions have no checksum
"""

import json
import math
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from zlib import crc32

from actorgraph.codec.advice import shortened
from actorgraph.errors import DamagedRowError
from actorgraph.storage.logged_problems import warn
from actorgraph.stores.errors import ItemValueError

DEPTH_MAX = 500
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def to_text(value: Any, name: str) -> str:
    """Encode a value as ASCII JSON text.

    Args:
        name: of the value, for the error's text.
    Raises:
        ItemValueError: JSON can't hold it; the message names the path.
    """
    if found := find_unstorable(value):
        path, problem = found
        raise ItemValueError(
            f"{name}{shortened(path)} {problem}, so it can't be stored",
            do="store dicts with text keys, lists, text, finite numbers, bools and None",
        )
    try:
        return _encode(value)
    except ValueError as error:
        raise ItemValueError(
            f"{name} can't be written as JSON: {error}", do="store such a number as text"
        ) from error


def from_text(text: str | bytes) -> Any:
    """Decode the text of `to_text`."""
    return json.loads(text)


def to_dict(value: Mapping[str, Any] | None) -> Any:
    """Convert a mapping of any class to the dict that is stored."""
    return dict(value) if isinstance(value, Mapping) else value


def find_unstorable(value: Any, depth: int = 0) -> tuple[str, str] | None:
    """Return the path and a description of the first value that JSON can't hold; or None."""
    if value is None or isinstance(value, str | bool | int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", f"is {value!r}")
    if depth > DEPTH_MAX:
        return "", f"is more than {DEPTH_MAX} levels deep, or contains itself"
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                return "", f"has the key {key!r} of type {type(key).__name__}"
            if type(part) is not str and (found := find_unstorable(part, depth + 1)):
                return f"[{key!r}]{found[0]}", found[1]
        return None
    if isinstance(value, list | tuple):
        for index, part in enumerate(value):
            if found := find_unstorable(part, depth + 1):
                return f"[{index}]{found[0]}", found[1]
        return None
    return "", f"is of type {type(value).__name__}"


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
) -> DamagedRowError:
    """Return the error of a damaged item or vector."""
    return DamagedRowError(
        f"the item {key!r} in {namespace!r} is damaged: {why}",
        do="store it again, delete it, or restore the store from a backup",
    )
