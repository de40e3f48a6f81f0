"""Columns of rows as PostgreSQL arrays in binary format, dumped in one pass.

psycopg's own dumper of lists looks up the type of each element, and chooses the smallest integer
type that fits: the same statement would be prepared again for each mixture of types.
"""

from collections.abc import Iterable
from struct import pack
from typing import Any

from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

_Row = tuple[Any, ...]
_NULL = pack(">i", -1)


class Numbers(list[Any]):
    """A column of type bigint."""


class Texts(list[Any]):
    """A column of type text; elements may be None."""


class Binaries(list[Any]):
    """A column of type bytea; elements may be None."""


_KINDS: dict[type, type[list[Any]]] = {str: Texts, int: Numbers, bytes: Binaries}


def arrays(rows: Iterable[_Row]) -> list[list[Any]]:
    """Transpose rows into columns, typed by their first value.

    A column of None only becomes bytea: only columns of that type may be empty.
    """
    return [_column(values) for values in zip(*rows, strict=True)]


def _column(values: _Row) -> list[Any]:
    for value in values:
        if value is not None:
            return _KINDS.get(type(value), Binaries)(values)
    return Binaries(values)


def _head(size: int, kind: int, *, nulls: bool) -> bytes:
    """The header of an array of one dimension with lower bound 1; an empty one has none.

    Args:
        size: number of elements.
        kind: OID of their type.
    """
    return pack(">iiIii", 1, nulls, kind, size, 1) if size else pack(">iiI", 0, 0, kind)


class _NumbersDumper(Dumper):
    format = Format.BINARY
    oid = 1016

    def dump(self, obj: Any) -> Buffer:
        size = len(obj)
        pairs = [8] * (2 * size)
        pairs[1::2] = obj
        return _head(size, 20, nulls=False) + pack(">" + "iq" * size, *pairs)


class _TextsDumper(Dumper):
    format = Format.BINARY
    oid = 1009

    def dump(self, obj: Any) -> Buffer:
        encoded = [None if text is None else _encoded(text) for text in obj]
        return _joined(encoded, 25)


class _BinariesDumper(Dumper):
    format = Format.BINARY
    oid = 1001

    def dump(self, obj: Any) -> Buffer:
        return _joined(obj, 17)


def _encoded(text: str) -> bytes:
    if "\0" in text:
        msg = "PostgreSQL text fields cannot contain NUL (0x00) bytes"
        raise ValueError(msg)
    return text.encode()


def _joined(values: Any, kind: int) -> bytes:
    parts = [_head(len(values), kind, nulls=None in values)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(pack(">i", len(value)))
            parts.append(value)
    return b"".join(parts)


_DUMPERS: tuple[tuple[type, type[Dumper]], ...] = (
    (Numbers, _NumbersDumper),
    (Texts, _TextsDumper),
    (Binaries, _BinariesDumper),
)


def register_dumpers(connection: Connection[Any]) -> None:
    """Register the dumpers of `Numbers`, `Texts` and `Binaries`.

    The connection may be the program's: these types are used nowhere else, so nothing changes
    for it.
    """
    for kind, dumper in _DUMPERS:
        connection.adapters.register_dumper(kind, dumper)
