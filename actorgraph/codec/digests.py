"""Digests of values: equal values have equal ones in every process, others differ.

The stored bytes of a value may depend on the order in which a dict was filled, and for a set on
the process. A digest doesn't: it is made of the packed bytes with dicts and sets sorted.
"""

from base64 import b64decode, b64encode
from hashlib import blake2b
from typing import Any

import ormsgpack

from actorgraph.codec.codec import Codec
from actorgraph.codec.stored_types import BUILTIN, PAIRS
from actorgraph.errors import CheckpointError, SerializationError

DIGEST_BYTES = 16
_UNORDERED = frozenset({BUILTIN[set].code, BUILTIN[frozenset].code, PAIRS})
_SORTED = ormsgpack.OPT_SORT_KEYS | ormsgpack.OPT_PASSTHROUGH_BIG_INT


def digest_of(codec: Codec, value: Any) -> str:
    """Return the digest of a value: 32 hex digits; "" if the value can't be encoded."""
    try:
        packed = _in_order(codec.encode_plainly(value))
    except (SerializationError, TypeError, ValueError):
        return ""  # a serializer of the program's own may store it all the same
    return blake2b(packed, digest_size=DIGEST_BYTES).hexdigest()


def _in_order(packed: bytes) -> bytes:
    """Pack a value again, with the keys of its dicts and the items of its sets sorted."""
    return ormsgpack.packb(ormsgpack.unpackb(packed, ext_hook=_extension), option=_SORTED)


def _extension(code: int, data: bytes) -> Any:
    if code not in _UNORDERED:
        return ormsgpack.Ext(code, _in_order(data))
    items: list[Any] = ormsgpack.unpackb(data, ext_hook=_extension)
    packed = sorted(ormsgpack.packb(item, option=_SORTED) for item in items)
    return ormsgpack.Ext(code, b"".join(packed))


def sealed_digest(codec: Codec, digest: str) -> str:
    """Return a digest as metadata may store it, which isn't encrypted.

    From a plain digest a value of few possibilities could be guessed. A codec that encrypts, or
    that a program has defined, encodes the digest too.
    """
    if not codec.encodes_all:
        return digest
    return b64encode(codec.encode(digest, "the digest of an input")).decode()


def opened_digest(codec: Codec, text: str) -> str:
    """Return the digest that `sealed_digest` has sealed; "" if this codec can't read it."""
    if not codec.encodes_all:
        return text
    try:
        return str(codec.decode(b64decode(text)))
    except (CheckpointError, ValueError):
        return ""
