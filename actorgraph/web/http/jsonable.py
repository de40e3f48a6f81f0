"""Convert any value of a graph to JSON, for clients that read states, updates and messages.

One way only: a client's JSON reaches a graph as plain data. A value without a JSON form becomes its
`repr`, without addresses in memory, which differ from one reading to the next. One that can't even
be shown (its serializer or its `repr` raises, or it is an integer with more digits than Python
converts) becomes a text that says so: no value in a state breaks the response, or hides its
neighbours.
"""

import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import msgspec

from actorgraph.internals import plain_value, shown_times
from actorgraph.messages import BaseMessage
from actorgraph.types import Interrupt

_ADDRESSES = IPv4Address | IPv6Address | IPv4Network | IPv6Network

DEPTH_MAX = 100
"""Levels of nesting below which a value becomes its type's name."""

_INT_MAX = 2**53
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+(?=>)")
"""As at the end of the `repr` of an object whose class has none of its own, and of a function."""


def dumps(value: Any) -> bytes:
    """Encode any value as JSON.

    NaN and infinities become null; integers beyond 2**53, which JavaScript can't hold, and keys
    become text; bytes become base64; lone surrogates become "?".
    """
    return encode_plain(to_plain(value))


encode_plain = msgspec.json.Encoder().encode
"""Encode what `to_plain` has returned as JSON."""


def to_plain(value: Any, depth: int = 0) -> Any:
    """Convert to dicts with text keys, lists, text, numbers, booleans and None."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value)
    if value is None or kind is bool:
        return value
    if kind is int and -_INT_MAX <= value <= _INT_MAX:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if depth > DEPTH_MAX:
        return f"<{kind.__name__}>"
    try:
        return _to_plain_parts(value, depth)
    except Exception as error:  # noqa: BLE001 - methods of a program's class may raise anything
        return _unshown(value, error)


def _to_plain_parts(value: Any, depth: int) -> Any:
    if type(value) is int:
        return str(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value)
        plain: dict[str, Any] = {}
        for key, inner in pairs.items():
            name = key if type(key) is str and key.isascii() else _key(key, plain)
            plain[name] = to_plain(inner, depth + 1)
        return plain
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(v, depth + 1) for v in cast("Iterable[Any]", value)]
    return _to_plain_object(value, depth)


def _to_plain_object(value: Any, depth: int) -> Any:
    """Convert a value of a type that JSON doesn't have."""
    if isinstance(value, Enum):
        return to_plain(value.value, depth + 1)
    if isinstance(value, str | int | float):
        return to_plain(plain_value(value), depth + 1)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID | Decimal | PurePath | complex | _ADDRESSES):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "message": _text(str(value))}
    parts = _parts_of(value)
    return _text(_ADDRESS.sub("", repr(value))) if parts is None else to_plain(parts, depth + 1)


def _parts_of(value: Any) -> Any:
    """Return an object's fields or content; None if they are unknown."""
    if isinstance(value, Interrupt):
        return interrupt_json(value)
    if isinstance(value, BaseMessage):
        return {"type": value.type, **_fields_of(value)}
    if is_dataclass(value) and not isinstance(value, type):
        return _fields_of(value)
    if isinstance(value, msgspec.Struct):
        known = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: part for name, part in known if part is not msgspec.UNSET}
    dump = getattr(value, "model_dump", None)  # pydantic's models, LangChain's messages among them
    if callable(dump) and not isinstance(value, type):
        return dump()
    attributes: Any = getattr(type(value), "__attrs_attrs__", None)
    if attributes is not None:
        return {a.name: getattr(value, a.name, None) for a in attributes}
    tolist = getattr(value, "tolist", None)  # numpy's arrays and numbers
    if callable(tolist) and not isinstance(value, type):
        return tolist()
    return None


def interrupt_json(asked: Interrupt) -> dict[str, Any]:
    """Return an interrupt for clients: its value, its id, and what it has besides.

    Returns: `response_schema`, of its answer, and its times: see `values/alarms.py`.
    """
    shown = {"value": asked.value, "id": asked.id}
    schema = asked.response_schema
    more = {} if schema is None else {"response_schema": schema}
    return {**shown, **more, **shown_times(asked.timing)}


def _fields_of(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name, None) for f in fields(value)}


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _key(key: Any, before: Mapping[str, Any]) -> str:
    if isinstance(key, Enum):
        key = key.value
    try:
        return _text(key if isinstance(key, str) else str(key))
    except Exception as error:  # noqa: BLE001 - as in `to_plain`
        text = _unshown(key, error)
        return f"{text} {len(before)}" if text in before else text


def _unshown(value: Any, error: Exception) -> str:
    """The text in place of a value that can't be shown."""
    return f"<{type(value).__name__} that can't be shown: {type(error).__name__}>"
