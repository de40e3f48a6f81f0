"""A cache of decoded lists, so that checkpoints that share a list share its decoding.

Checkpoints share the rows of a growing list: each checkpoint of a history holds the beginning of
the next one's list, and a run reads rows again that it has just stored. The cache keeps the rows'
bytes and their decoded items. Rows that were read are compared byte for byte, so that nothing
stale is returned, and readers get copies of the items, as independent as a new decoding.
"""

import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PosixPath, PurePosixPath
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from actorgraph.codec.records import frames
from actorgraph.codec.stored_types import DATACLASS, MODEL, extension_of
from actorgraph.values.commits import StoredRange

BYTES_MAX = 8_000_000
"""Bytes of the rows of all cached lists, about. A longer list is decoded each time."""

Key = tuple[str, str, str, int]
"""A thread, a namespace, a channel and a lineage."""


class _CachedList(msgspec.Struct, frozen=True):
    """One list. Immutable, because other threads may be reading it.

    Attributes:
        rows: as they were read.
        ends: number of items up to the end of each row.
        items: of all rows, in order.
        size: bytes of the rows.
        copiers: one for each item.
        copier: the copier of all items, if it is the same one.
    """

    rows: tuple[StoredRange, ...]
    ends: tuple[int, ...]
    items: list[Any]
    size: int
    copiers: list[Callable[[Any], Any]]
    copier: Callable[[Any], Any] | None

    def copies(self, count: int) -> list[Any]:
        """Copy the first items; the copies are as independent as a new decoding."""
        items = self.items if count == len(self.items) else self.items[:count]
        if self.copier is _same:
            return items.copy()
        if self.copier is not None:
            return [*map(self.copier, items)]
        return [copy(item) for copy, item in zip(self.copiers, items, strict=False)]


class ListCache:
    """The decoded lists of one codec. The least recently used are dropped first. Thread-safe."""

    def __init__(self) -> None:
        self._lists: OrderedDict[Key, _CachedList] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(
        self, key: Key, rows: Sequence[StoredRange], count: int, decode: Callable[[bytes], Any]
    ) -> list[Any] | None:
        """Return copies of the first `count` items of a list's rows, or of as many as there are.

        Rows that are not cached are decoded and cached.

        Returns: None where the caller must decode: the list is too long, or can't be copied.
        """
        known = self._lists.get(key)
        same = 0 if known is None else _count_same_rows(known, rows)
        if known is not None and same == len(rows):
            # Keep the row objects of this reader: the next one may well have the same, and
            # comparing identities is cheaper than comparing bytes.
            if same and rows[-1] is not known.rows[same - 1]:
                fresh = (*rows, *known.rows[same:])
                self._keep(key, msgspec.structs.replace(known, rows=fresh))
            return known.copies(min(count, known.ends[same - 1] if same else 0))
        size = sum(len(row.payload) for row in rows)
        if size > BYTES_MAX:
            return None
        made = _extended(known, same, rows, size, decode)
        if made is not None:
            self._keep(key, made)
        return None if made is None else made.copies(min(count, len(made.items)))

    def _keep(self, key: Key, made: _CachedList) -> None:
        with self._lock:
            before = self._lists.pop(key, None)
            self._lists[key] = made
            self._size += made.size - (before.size if before is not None else 0)
            while self._size > BYTES_MAX:
                self._size -= self._lists.popitem(last=False)[1].size


def _count_same_rows(known: _CachedList, rows: Sequence[StoredRange]) -> int:
    """Count the leading rows that are equal to the cached ones."""
    same = 0
    for row, other in zip(rows, known.rows, strict=False):
        if row is not other and (row.start != other.start or row.payload != other.payload):
            break
        same += 1
    return same


def _extended(
    known: _CachedList | None,
    same: int,
    rows: Sequence[StoredRange],
    size: int,
    decode: Callable[[bytes], Any],
) -> _CachedList | None:
    """Extend a cached list by the rows behind it; None if an item can't be copied."""
    ends = [] if known is None else [*known.ends[:same]]
    items = [] if known is None else known.items[: ends[-1] if ends else 0]
    begun = b""
    # The last row usually has new frames behind the cached ones: decode only those.
    if known is not None and same < len(known.rows) and _grows(known.rows[same], rows[same]):
        items = known.items[: known.ends[same]]
        begun = known.rows[same].payload
    old = len(items)
    for row in rows[same:]:
        for part in frames(row.payload[len(begun) :]):
            new = decode(part)
            if not all(map(can_copy, new)):
                return None
            items.extend(new)
        ends.append(len(items))
        begun = b""
    copiers = [copier_for(item) for item in items[old:]]
    if known is not None:
        copiers = known.copiers[:old] + copiers
    alike = copiers[0] if len(set(copiers)) == 1 else None
    return _CachedList(tuple(rows), tuple(ends), items, size, copiers, alike)


def _grows(before: StoredRange, after: StoredRange) -> bool:
    return before.start == after.start and after.payload.startswith(before.payload)


def are_contiguous(rows: Iterable[StoredRange], start: int) -> bool:
    """Whether each row begins where the one before it ends, and the first one at `start`."""
    for row in rows:
        if row.start != start:
            return False
        start += row.count
    return True


_IMMUTABLE = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes),
        *(dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone, ZoneInfo),
        *(UUID, Decimal, PosixPath, PurePosixPath),
    )
)
_PLAIN = frozenset((dict, list))
_MODEL_PARTS = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_COPIERS: dict[type, Callable[[Any], Any]] = {}


class UncopiableError(Exception):
    """A value that can only be copied by decoding its bytes again."""


def copier_for(value: Any) -> Callable[[Any], Any]:
    """Choose the fastest function that copies a value, which can be copied."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return _same
    if _is_flat(value):
        return dict.copy
    if extension_of(kind) is not DATACLASS or not kind.__dictoffset__:
        return copy_value
    fields: dict[str, Any] = value.__dict__
    empty = tuple((n, type(v)) for n, v in fields.items() if type(v) in _PLAIN and not v)
    others = len(fields) - len(empty)
    if others != sum(type(each) in _IMMUTABLE for each in fields.values()):
        return copy_value
    return _object_copier(kind, empty)


@lru_cache(maxsize=256)
def _object_copier(kind: type, empty: tuple[tuple[str, type], ...]) -> Callable[[Any], Any]:
    """Make the copier of objects with immutable fields, but for the empty lists and dicts named.

    A message is such an object. Looking at the types of all its fields again for each copy took
    a third of a long chat's turn.
    """

    def copy_object(value: Any) -> Any:
        fields = value.__dict__.copy()
        for name, plain in empty:
            fields[name] = plain()
        made = object.__new__(kind)
        made.__dict__ = fields
        return made

    return copy_object


def _is_flat(value: Any) -> bool:
    """Whether a value is a dict of immutable keys and values, as most message dicts are."""
    if type(value) is not dict:
        return False
    flat = cast("dict[Any, Any]", value)
    return all(type(k) is str and type(v) in _IMMUTABLE for k, v in flat.items())


def copy_value(value: Any) -> Any:
    """Copy a value.

    Raises:
        UncopiableError: a part of it has a type whose copies aren't known to be exact.
    """
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    copier = _COPIERS.get(kind)
    if copier is None:
        copier = _COPIERS[kind] = _copier_of(kind)
    return copier(value)


def _copier_of(kind: type) -> Callable[[Any], Any]:
    if issubclass(kind, Enum):
        return _same
    extension = extension_of(kind)
    if extension is MODEL:
        return _model
    if extension is DATACLASS and kind.__dictoffset__:
        return _dataclass
    raise UncopiableError


def _same(value: Any) -> Any:
    return value


def _dict(value: dict[Any, Any]) -> dict[Any, Any]:
    made = value.copy()
    for key, item in value.items():
        if type(key) is not str:
            raise UncopiableError
        kind = type(item)
        if kind in _IMMUTABLE:
            continue
        # Most dicts and lists in a message are empty, and a call for each is most of its cost.
        made[key] = kind() if kind in _PLAIN and not item else copy_value(item)
    return made


def copy_items(value: Sequence[Any]) -> list[Any]:
    """Copy each item.

    Raises: as `copy_value`.
    """
    return [item if type(item) in _IMMUTABLE else copy_value(item) for item in value]


def _tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([copy_value(item) for item in value])


def _dataclass(value: Any) -> Any:
    made = object.__new__(type(value))
    made.__dict__ = _dict(value.__dict__)
    return made


def _model(value: Any) -> Any:
    made: Any = object.__new__(type(value))
    fields, given, extra, private = (getattr(value, name) for name in _MODEL_PARTS)
    object.__setattr__(made, "__dict__", _dict(fields))
    object.__setattr__(made, "__pydantic_fields_set__", set(given))
    object.__setattr__(made, "__pydantic_extra__", None if extra is None else _dict(extra))
    object.__setattr__(made, "__pydantic_private__", None if private is None else _dict(private))
    return made


_COPIERS.update({dict: _dict, list: copy_items, tuple: _tuple})


def can_copy(value: Any) -> bool:
    """Whether `copy_value` takes a value."""
    try:
        copy_value(value)
    except (UncopiableError, AttributeError, TypeError, RecursionError):
        return False
    return True
