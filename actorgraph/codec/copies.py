"""Copies of decoded values: equal to decoding the same bytes again, in less time.

A decoded value is a tree: no object is in it twice. Copies share its immutable parts; all other
parts are new in each copy, so that changing one copy changes no other.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from pathlib import PosixPath, PurePosixPath
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from actorgraph.codec.types import DATACLASS, MODEL, extension_of

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


def list_copier(items: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """Choose the fastest function that copies these items, all of which can be copied."""
    if all(type(item) in _IMMUTABLE for item in items):
        return list
    return _copy_dicts if all(map(_is_flat, items)) else copy_items


def _is_flat(value: Any) -> bool:
    """Whether a value is a dict of immutable keys and values, as most message dicts are."""
    if type(value) is not dict:
        return False
    flat = cast("dict[Any, Any]", value)
    return all(type(k) is str and type(v) in _IMMUTABLE for k, v in flat.items())


def _copy_dicts(items: Sequence[dict[str, Any]]) -> list[Any]:
    return [*map(dict.copy, items)]


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
