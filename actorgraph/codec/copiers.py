"""Copies of decoded values, as independent of each other as if each had been decoded anew.

A value is prepared once, when it is cached, and then copied at each reading. Preparation looks at
the types of all its parts; the copies don't. Types whose copies aren't known to be exact are
refused: those values are decoded each time.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PosixPath, PurePosixPath
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from actorgraph.codec.stored_types import DATACLASS, MODEL, extension_of
from actorgraph.messages.kinds import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

Copier = Callable[[Any], Any]
"""Makes a copy of the argument that it was prepared with."""

_IMMUTABLE = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes),
        *(dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone, ZoneInfo),
        *(UUID, Decimal, PosixPath, PurePosixPath),
    )
)
_PLAIN = frozenset((dict, list))
_MODEL_PARTS = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_COPIERS: dict[type, Copier] = {}
_new: Callable[[Any], Any] = object.__new__
_assign: Callable[[Any, str, Any], None] = object.__setattr__


class UncopiableError(Exception):
    """A value that can only be copied by decoding its bytes again."""


def prepare(value: Any) -> tuple[Copier, Any]:
    """Choose the fastest function that copies a value.

    Returns: the function and its argument, which nothing may change from now on.
    Raises:
        UncopiableError: a part of the value has a type whose copies aren't known to be exact.
    """
    kind = type(value)
    if kind in _IMMUTABLE:
        return same_value, value
    if _is_flat(value):
        return dict.copy, value
    try:
        copy_value(value)
    except (AttributeError, TypeError, RecursionError) as error:
        raise UncopiableError from error
    if kind in _MESSAGES:
        copier, parts = _MESSAGES[kind]
        values = _message_values(value.__dict__, parts)
        return (copy_value, value) if values is None else (copier, values)
    if extension_of(kind) is MODEL:
        return _copy_model, _model_parts(value)
    if extension_of(kind) is not DATACLASS:
        return copy_value, value
    fields: dict[str, Any] = value.__dict__
    empty = tuple((n, type(v)) for n, v in fields.items() if type(v) in _PLAIN and not v)
    others = len(fields) - len(empty)
    if others != sum(type(each) in _IMMUTABLE for each in fields.values()):
        return copy_value, value
    return _object_copier(kind, empty), value


@lru_cache(maxsize=256)
def _object_copier(kind: type, empty: tuple[tuple[str, type], ...]) -> Copier:
    """Make the copier of objects with immutable fields, but for the empty lists and dicts named.

    The types of the fields are looked at once, not for each copy.
    """

    def copy_object(value: Any) -> Any:
        fields = value.__dict__.copy()
        for name, plain in empty:
            fields[name] = plain()
        made = object.__new__(kind)
        object.__setattr__(made, "__dict__", fields)
        return made

    return copy_object


def _model_parts(value: Any) -> tuple[Any, ...]:
    """Return the argument of `_copy_model`: which fields need a copy is looked at once."""
    fields, given, extra, private = (getattr(value, name) for name in _MODEL_PARTS)
    mutable = [(k, *prepare(v)) for k, v in fields.items() if type(v) not in _IMMUTABLE]
    more = [
        (name, *prepare(part))
        for name, part in zip(_MODEL_PARTS[2:], (extra, private), strict=True)
        if part is not None
    ]
    return type(value), fields, mutable, given, more


def _copy_model(parts: tuple[Any, ...]) -> Any:
    kind, fields, mutable, given, more = parts
    made, fields = _new(kind), fields.copy()
    for name, copier, part in mutable:
        fields[name] = copier(part)
    # Not by assignment, which pydantic's classes check.
    _assign(made, "__dict__", fields)
    _assign(made, "__pydantic_fields_set__", given.copy())
    _assign(made, "__pydantic_extra__", None)
    _assign(made, "__pydantic_private__", None)
    for name, copier, part in more:
        _assign(made, name, copier(part))
    return made


# Each turn of a chat copies all of its messages, so their copiers are written out. Assigning the
# attributes takes half the time of making a `__dict__`, and the copies have none: one container
# less for the garbage collector. The order is that of the fields, as decoding assigns them.


def _message_copier(kind: type[BaseMessage]) -> Copier:
    """Make the copier of messages without fields of their own."""

    def copy_message(values: Any) -> Any:
        made = _new(kind)
        made.content, made.id, made.name, more, about = values
        made.additional_kwargs = {} if more is None else copy_value(more)
        made.response_metadata = {} if about is None else copy_value(about)
        return made

    return copy_message


def _copy_ai_message(values: Any) -> Any:
    made = _new(AIMessage)
    made.content, made.id, made.name, more, about, calls, invalid, usage = values
    made.additional_kwargs = {} if more is None else copy_value(more)
    made.response_metadata = {} if about is None else copy_value(about)
    made.tool_calls = [] if calls is None else copy_value(calls)
    made.invalid_tool_calls = [] if invalid is None else copy_value(invalid)
    made.usage_metadata = None if usage is None else copy_value(usage)
    return made


def _copy_tool_message(values: Any) -> Any:
    made = _new(ToolMessage)
    made.content, made.id, made.name, more, about, call, artifact, status = values
    made.additional_kwargs = {} if more is None else copy_value(more)
    made.response_metadata = {} if about is None else copy_value(about)
    made.tool_call_id = call
    made.artifact = copy_value(artifact)
    made.status = status
    return made


_Parts = dict[str, tuple[type, ...] | None]

_TEXT, _DICT, _LIST, _ANY = (str, type(None)), (dict,), (list,), None
_BASE_PARTS: _Parts = {
    "content": _TEXT,
    "id": _TEXT,
    "name": _TEXT,
    "additional_kwargs": _DICT,
    "response_metadata": _DICT,
}
_AI_PARTS: _Parts = {"tool_calls": _LIST, "invalid_tool_calls": _LIST, "usage_metadata": _ANY}
_TOOL_PARTS: _Parts = {"tool_call_id": _TEXT, "artifact": _ANY, "status": _TEXT}
_MESSAGES: dict[type, tuple[Copier, _Parts]] = {
    HumanMessage: (_message_copier(HumanMessage), _BASE_PARTS),
    SystemMessage: (_message_copier(SystemMessage), _BASE_PARTS),
    AIMessage: (_copy_ai_message, {**_BASE_PARTS, **_AI_PARTS}),
    ToolMessage: (_copy_tool_message, {**_BASE_PARTS, **_TOOL_PARTS}),
}
"""Copiers of messages, and the fields that they know, in order, with the types of each."""


def _message_values(fields: dict[str, Any], parts: _Parts) -> tuple[Any, ...] | None:
    """Return the argument of a message's copier: its fields, None for an empty list or dict.

    Returns: None if a field has a type that the copier doesn't know, as a list of content blocks.
    """
    if [*fields] != [*parts]:
        return None
    values: list[Any] = []
    for value, kinds in zip(fields.values(), parts.values(), strict=True):
        if kinds is not None and type(value) not in kinds:
            return None
        values.append(None if kinds in (_DICT, _LIST) and not value else value)
    return tuple(values)


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


def _copier_of(kind: type) -> Copier:
    if issubclass(kind, Enum):
        return same_value
    extension = extension_of(kind)
    if extension is MODEL:
        return _model
    if extension is DATACLASS and kind.__dictoffset__ and not _has_slots(kind):
        return _dataclass
    raise UncopiableError


def _has_slots(kind: type) -> bool:
    """Whether some attributes of a class's objects are outside of their `__dict__`."""
    return any(set(vars(base).get("__slots__", ())) - _NO_SLOTS for base in kind.__mro__)


_NO_SLOTS = frozenset({"__dict__", "__weakref__"})


def same_value(value: Any) -> Any:
    """Return an immutable value as its own copy."""
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


def _list(value: Sequence[Any]) -> list[Any]:
    return [item if type(item) in _IMMUTABLE else copy_value(item) for item in value]


def _tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([copy_value(item) for item in value])


def _dataclass(value: Any) -> Any:
    made = object.__new__(type(value))
    # Not by assignment, which frozen dataclasses refuse.
    object.__setattr__(made, "__dict__", _dict(value.__dict__))
    return made


def _model(value: Any) -> Any:
    made: Any = object.__new__(type(value))
    fields, given, extra, private = (getattr(value, name) for name in _MODEL_PARTS)
    object.__setattr__(made, "__dict__", _dict(fields))
    object.__setattr__(made, "__pydantic_fields_set__", set(given))
    object.__setattr__(made, "__pydantic_extra__", None if extra is None else _dict(extra))
    object.__setattr__(made, "__pydantic_private__", None if private is None else _dict(private))
    return made


_COPIERS.update({dict: _dict, list: _list, tuple: _tuple})
