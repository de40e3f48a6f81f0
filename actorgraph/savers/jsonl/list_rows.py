"""Cache of rows of growing lists."""

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from actorgraph.savers.jsonl.index import IndexedRow
from actorgraph.savers.jsonl.lines import Line

BYTES_MAX = 16_000_000
"""Bytes of all payloads of a folder; the least recently used go first."""

Key = tuple[str, str, str, int, int]
"""A thread, a namespace, a channel, a lineage, and where the row starts."""


class _CachedRow(msgspec.Struct):
    row: IndexedRow
    lines: int = 0
    end: int = 0
    payload: bytes = b""


class ListRowCache:
    """Payloads of list rows of one folder, so that readers don't read the same lines again.

    A list of n items is in up to n lines, those of the saves that added items. An entry is the
    payload of a row's first lines: a row that has grown is completed, and one that was merged or
    rewritten is another object and read again. Used by one thread at a time.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, _CachedRow] = OrderedDict()
        self._size = 0

    def payload(self, key: Key, row: IndexedRow, line: Callable[[int], Line]) -> bytes:
        """Return the frames of a row.

        Args:
            line: reads a line by its number.
        """
        kept = self._kept.pop(key, None)
        self._size -= 0 if kept is None else len(kept.payload)
        if kept is None or kept.row is not row:
            kept = _CachedRow(row)
        if kept.lines < len(row.lines):
            parts = _parts(key, row, line, kept.lines)
            if kept.lines and parts and min(parts) < kept.end:
                # A new line repeats items of an earlier one: read the row again, in order.
                kept = _CachedRow(row)
                parts = _parts(key, row, line, 0)
            kept.payload += b"".join(parts[position] for position in sorted(parts))
            kept.lines, kept.end = len(row.lines), key[-1] + row.count
        self._kept[key] = kept
        self._size += len(kept.payload)
        while self._size > BYTES_MAX and len(self._kept) > 1:
            self._size -= len(self._kept.popitem(last=False)[1].payload)
        return kept.payload


def _parts(key: Key, row: IndexedRow, line: Callable[[int], Line], first: int) -> dict[int, bytes]:
    """Read the frames in a row's lines from index `first` on, by position in the list."""
    _, _, channel, lineage, start = key
    return {
        part.position: part.payload
        for number in row.lines[first:]
        for part in line(number).lists
        if part.channel == channel
        and part.lineage == lineage
        and not part.end
        and start <= part.position < start + row.count
    }
