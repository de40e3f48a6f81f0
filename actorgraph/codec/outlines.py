"""Outlines of stored values: read without the values of types that msgpack doesn't have.

A page of a thread's timeline needs the times in the row of a task's result, and none of the
thousand messages beside them.
"""

from typing import Any

import ormsgpack

from actorgraph.codec.codec import Codec
from actorgraph.codec.encryption import NOWHERE, Place


def outline(codec: Codec, payload: bytes, place: Place = NOWHERE) -> Any:
    """Decode an encoded list; values of types that msgpack doesn't have may be None.

    Args:
        place: the one that the value was encoded for.
    Raises: as `Codec.decode`; not for a type that is not on the allow-list.
    """
    if type(codec).decode is Codec.decode and not codec.encrypts:
        try:
            found = ormsgpack.unpackb(payload, ext_hook=lambda _code, _data: None)
        except ValueError:  # compressed, or damaged
            found = None
        if type(found) is list:
            return found
    return codec.decode(payload, place)
