"""Columns of rows as PostgreSQL's arrays in its binary format: a batch is dumped once, quickly.

psycopg's own dumper of lists asks for the type of each element, and takes the smallest integer
type that fits: then the same statement is prepared for each mixture of types.
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
    """A column of type text; may have None."""


class Binaries(list[Any]):
    """A column of type bytea; may have None."""


_KINDS: dict[type, type[list[Any]]] = {str: Texts, int: Numbers, bytes: Binaries}


def arrays(rows: Iterable[_Row]) -> list[list[Any]]:
    """Rows as columns. A column without any value is bytea: only such ones may be empty."""
    return [_column(values) for values in zip(*rows, strict=True)]


def _column(values: _Row) -> list[Any]:
    for value in values:
        if value is not None:
            return _KINDS.get(type(value), Binaries)(values)
    return Binaries(values)


def _head(size: int, kind: int, *, nulls: bool) -> bytes:
    """An array of one dimension that begins at 1; one without elements has no dimension."""
    return pack(">iiIii", 1, nulls, kind, size, 1) if size else pack(">iiI", 0, 0, kind)


class _Numbers(Dumper):
    format = Format.BINARY
    oid = 1016

    def dump(self, obj: Any) -> Buffer:
        """The array's bytes."""
        size = len(obj)
        pairs = [8] * (2 * size)
        pairs[1::2] = obj
        return _head(size, 20, nulls=False) + pack(">" + "iq" * size, *pairs)


class _Texts(Dumper):
    format = Format.BINARY
    oid = 1009

    def dump(self, obj: Any) -> Buffer:
        """The array's bytes."""
        encoded = [None if text is None else _checked(text) for text in obj]
        return _joined(encoded, 25)


class _Binaries(Dumper):
    format = Format.BINARY
    oid = 1001

    def dump(self, obj: Any) -> Buffer:
        """The array's bytes."""
        return _joined(obj, 17)


def _checked(text: str) -> bytes:
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
    (Numbers, _Numbers),
    (Texts, _Texts),
    (Binaries, _Binaries),
)


def register_dumpers(connection: Connection[Any]) -> None:
    """Let a connection dump columns. They are types of this file's own: nothing else changes."""
    for kind, dumper in _DUMPERS:
        connection.adapters.register_dumper(kind, dumper)
