"""Lines of appends that no sync has covered, as a power cut leaves them: not damage.

A file system may extend a file before its blocks are on the disk: missing ones read as zeros,
also in front of a newline (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014). A
line as it is written has no zero byte. One with a hole was never acknowledged, unless the folder's
mark, or a line behind it that was written later, says that it was durable: then the disk is
damaged.
"""

from collections.abc import Iterable
from itertools import chain

import msgspec

from actorgraph.savers.jsonl.schema import verified
from actorgraph.storage.holes import has_hole


class _Position(msgspec.Struct):
    line: int
    unsynced: int = 0


_POSITIONS = msgspec.json.Decoder(_Position)


def is_lost_append(
    text: bytes, number: int, position: int, later: Iterable[bytes], marked: int
) -> bool:
    """Whether a damaged line was never acknowledged.

    Args:
        text: the line.
        number: that it should have.
        position: where it begins, in bytes.
        later: the lines behind it; read only if it has a hole.
        marked: size of the file that was acknowledged, in bytes; 0 if unknown.
    """
    if position < marked or not has_hole(text):
        return False
    # A hole that ends inside of a later line's newline, or at it, leaves that line behind it.
    behind = text[text.rfind(b"\0") + 1 :]
    return all(_durable_lines(line) < number for line in chain((behind,), later))


def _durable_lines(text: bytes) -> int:
    """Return how many lines were durable when this one was written; 0 if it is damaged."""
    try:
        position = _POSITIONS.decode(verified(text))
    except ValueError:
        return 0
    return position.line - 1 - position.unsynced
