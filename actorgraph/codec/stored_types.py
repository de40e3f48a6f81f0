"""The types that can be stored besides plain data, and how: one msgpack extension code each.

Built-in types, numpy's arrays and some libraries' classes (`codec.library_types`) are always
allowed. About those of a program `codec.codec` decides, with the lists of `codec.known_types`.

Codes are part of the stored format: never reuse one. Loading imports nothing: a stored numpy array
or LangChain message is an error in a program that has not imported the package.
"""

import dataclasses
import datetime as dt
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from decimal import Decimal
from enum import Enum, Flag
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import Path, PosixPath, PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from actorgraph.codec import arrays
from actorgraph.codec.bounds import build_dict, build_set
from actorgraph.codec.library_types import (
    build_old_model,
    build_secret,
    build_slotted,
    is_old_model,
    is_secret,
    is_slotted,
    pack_old_model,
    pack_secret,
    pack_slots,
)
from actorgraph.codec.subclasses import base_of, build_subclass, hides_state, pack_subclass
from actorgraph.values.alarms import Timing
from actorgraph.values.checkpoint import VersionNote
from actorgraph.values.commands import Command, Interrupt, Overwrite, Send
from actorgraph.values.commits import Shared
from actorgraph.values.policies import TimeoutPolicy

PAIRS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Extension:
    """The stored form of a type.

    Attributes:
        code: of the msgpack extension.
        pack: value -> plain data.
        build: (type, plain data) -> value.
        named: whether the type's name is stored with the data.
    """

    code: int
    pack: Callable[[Any], Any]
    build: Callable[[Any, Any], Any]
    named: bool = False


class Packed:
    """An extension whose bytes are encoded already."""

    __slots__ = ("code", "payload")

    def __init__(self, code: int, payload: bytes) -> None:
        self.code = code
        self.payload = payload


def name_of(kind: type) -> str:
    """Return the name under which a type is stored, "module:Name"."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _expect(kind: type, data: Any) -> Any:
    """Check the type of stored data: bytearray(10**10) would allocate gigabytes."""
    if type(data) is not kind:
        msg = f"{kind.__name__} was expected, not {type(data).__name__}"
        raise ValueError(msg)
    return data


def _pack_set(value: set[Any] | frozenset[Any]) -> list[Any]:
    """Return the items, if reading could build the set again within its limits."""
    items = list(value)
    build_set(items, storing=True)
    return items


def _pack_moment(value: dt.datetime | dt.time) -> list[Any]:
    """Return text, zone and fold; a zone is a value of its own."""
    if value.tzinfo is None or value.tzinfo is dt.UTC:
        return [value.isoformat(), None, value.fold]
    zone, offset = value.tzinfo, value.utcoffset()
    if type(zone) is not ZoneInfo and type(zone) is not dt.timezone and offset is not None:
        # A zone of another library: the moment stays the same with its offset, as in LangGraph.
        zone = dt.timezone(offset)
    return [value.replace(tzinfo=None).isoformat(), zone, value.fold]


def _build_moment(kind: type[dt.datetime] | type[dt.time], data: list[Any]) -> Any:
    text, zone, fold = data
    value = kind.fromisoformat(text).replace(fold=fold)
    return value if zone is None else value.replace(tzinfo=zone)


def _pack_timezone(zone: dt.timezone) -> list[Any]:
    offset, name = zone.utcoffset(None), zone.tzname(None)
    return [offset] if dt.timezone(offset).tzname(None) == name else [offset, name]


def _pack_zone(zone: ZoneInfo) -> str:
    if not isinstance(zone.key, str):
        msg = "a ZoneInfo without a key can't be stored"
        raise TypeError(msg)
    return zone.key


def _pack_fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def _removed_field_error(kind: type, stored: Iterable[str], fields: Iterable[str]) -> ValueError:
    """Error for a stored field that the type no longer has: leaving it out would lose data."""
    gone = min(set(stored).difference(fields))
    return ValueError(f"{name_of(kind)} has no field {gone!r} any more")


def _new_field_error(kind: type, field: str) -> ValueError:
    """Error for a field without a default that is newer than the stored value."""
    return ValueError(f"{name_of(kind)} has no stored value for its field {field!r}")


def _build_fields(kind: type, data: dict[str, Any]) -> Any:
    known, fields = 0, dataclasses.fields(kind)
    made: Any = (BaseException if issubclass(kind, BaseException) else object).__new__(kind)
    for f in fields:
        if f.name in data:
            value = data[f.name]
            known += 1
        elif f.default is not dataclasses.MISSING:
            value = f.default
        elif f.default_factory is not dataclasses.MISSING:
            value = f.default_factory()
        else:
            raise _new_field_error(kind, f.name)
        object.__setattr__(made, f.name, value)
    if known != len(data):
        raise _removed_field_error(kind, data, [f.name for f in fields])
    return made


def _pack_struct(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in type(value).__struct_fields__}


def _pack_model(value: Any) -> list[Any]:
    fields = {name: getattr(value, name) for name in type(value).model_fields}
    private = value.__getstate__().get("__pydantic_private__")  # a RootModel has none
    return [fields, sorted(value.model_fields_set), dict(value.__pydantic_extra__ or {}), private]


def _build_model(kind: Any, data: list[Any]) -> Any:
    fields, given, extra, private = data
    if not fields.keys() <= kind.model_fields.keys():
        raise _removed_field_error(kind, fields, kind.model_fields)
    for name, field in kind.model_fields.items():
        if name not in fields and field.is_required():
            raise _new_field_error(kind, name)
    made = kind.model_construct(_fields_set=build_set(given), **fields, **extra)
    # An alias may be another field's name, so the fields are set by their own names once more.
    made.__dict__.update(fields)
    if private:
        private = {**(made.__pydantic_private__ or {}), **private}
        object.__setattr__(made, "__pydantic_private__", private)
    return made


def _pack_attributes(value: Any) -> dict[str, Any]:
    return {a.name: getattr(value, a.name) for a in type(value).__attrs_attrs__}


def _build_attributes(kind: Any, data: dict[str, Any]) -> Any:
    attributes: Any = kind.__attrs_attrs__
    made: Any = (BaseException if issubclass(kind, BaseException) else object).__new__(kind)
    names = [a.name for a in attributes]
    if not data.keys() <= set(names):
        raise _removed_field_error(kind, data, names)
    for attribute in attributes:
        if attribute.name in data:
            value = data[attribute.name]
        else:
            value = _attribute_default(kind, attribute, made)
        object.__setattr__(made, attribute.name, value)
    if hasattr(kind, "_attrs_cached_hash"):  # a slot that its `__hash__` reads
        object.__setattr__(made, "_attrs_cached_hash", None)
    return made


def _attribute_default(kind: type, attribute: Any, made: Any) -> Any:
    """Return the default of an attribute that is newer than the stored value."""
    default = attribute.default
    if type(default).__name__ == "_Nothing":
        raise _new_field_error(kind, attribute.name)
    if not hasattr(default, "takes_self"):
        return default
    return default.factory(made) if default.takes_self else default.factory()


def _pack_send(send: Send) -> list[Any]:
    limit = TimeoutPolicy.coerce(send.timeout)
    timeout = None if limit is None else [limit.run_timeout, limit.idle_timeout, limit.refresh_on]
    return [send.node, send.arg, timeout]


def _build_send(_: Any, data: list[Any]) -> Send:
    node, arg, timeout = data
    return Send(node, arg, TimeoutPolicy(*timeout) if isinstance(timeout, list) else timeout)


def _pack_interrupt(question: Interrupt) -> list[Any]:
    schema, timing = question.response_schema, question.timing
    if timing is None:
        return [question.value, question.id, *(() if schema is None else (schema,))]
    # Not `reminded`: that is in rows of its own, which come later than the question's.
    times = [timing.asked, timing.due, list(timing.otherwise), list(timing.reminders)]
    return [question.value, question.id, schema, [*times, timing.escalate, timing.sleeps]]


def _build_interrupt(_: Any, data: Any) -> Interrupt:
    value, identifier, *more = data
    schema, times = (*more, None, None)[:2]
    if times is None:
        return Interrupt(value, identifier, schema)
    asked, due, otherwise, reminders, *rest = times
    timing = Timing(asked, due, tuple(otherwise), tuple(reminders), *rest)
    return Interrupt(value, identifier, schema, timing)


def _pack_enum(value: Enum) -> Any:
    return value.value if isinstance(value, Flag) else value.name


def _build_enum(kind: type[Enum], data: Any) -> Enum:
    if issubclass(kind, Flag):
        return kind(data)
    if data not in kind.__members__:
        msg = f"{name_of(kind)} has no member {data!r} any more"
        raise ValueError(msg)
    return kind[data]


_FACTORIES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (*(list, dict, set, tuple, frozenset), *(int, float, str, bytes, bool), deque)
}
"""Factories of a defaultdict that can be stored, by name."""


def _pack_default_dict(value: "defaultdict[Any, Any]") -> list[Any]:
    """Return the factory's name and the items; False in place of a factory of the program's own."""
    factory: Any = value.default_factory
    name = getattr(factory, "__name__", None)
    known = factory is None or _FACTORIES.get(str(name)) is factory
    return [name if known else False, dict.copy(value)]


def _build_default_dict(_: Any, data: list[Any]) -> dict[Any, Any]:
    name, items = data
    if name is False:
        return _expect(dict, items)
    return defaultdict(None if name is None else _FACTORIES[name], _expect(dict, items))


PATTERN_MAX = 10_000
"""Characters of a regular expression that can be stored: it is compiled when it is read."""
WIDE_MAX = 32
"""Character classes of one with ranges beyond Latin-1: each takes 10 to 20 ms to compile."""
_WIDE = re.compile(r"-(\\[uUN]|[^\x00-\xff])")


def _is_slow(pattern: str | bytes) -> bool:
    """Whether compiling a regular expression may take more than about a second."""
    if len(pattern) > PATTERN_MAX:
        return True
    return isinstance(pattern, str) and (
        min(pattern.count("["), len(_WIDE.findall(pattern))) > WIDE_MAX
    )


def _pack_pattern(value: "re.Pattern[Any]") -> list[Any]:
    if _is_slow(value.pattern):
        msg = (
            f"a regular expression has more than {PATTERN_MAX:,} characters, or more than "
            f"{WIDE_MAX} character classes with ranges beyond Latin-1"
        )
        raise TypeError(msg)
    return [value.pattern, int(value.flags) & ~int(re.DEBUG)]


def _build_pattern(kind: Any, data: list[Any]) -> Any:
    pattern, flags = data
    if kind is not re.Pattern or _is_slow(pattern) or flags & int(re.DEBUG):
        msg = "a regular expression was expected"
        raise ValueError(msg)
    return re.compile(pattern, flags)


DATACLASS = Extension(40, _pack_fields, _build_fields, named=True)
STRUCT = Extension(41, _pack_struct, lambda kind, data: kind(**data), named=True)
MODEL = Extension(42, _pack_model, _build_model, named=True)
ENUM = Extension(43, _pack_enum, _build_enum, named=True)
NAMED_TUPLE = Extension(44, list, lambda kind, data: kind(*data), named=True)
SUBCLASS = Extension(45, pack_subclass, build_subclass, named=True)
SECRET = Extension(46, pack_secret, build_secret, named=True)
OLD_MODEL = Extension(47, pack_old_model, build_old_model, named=True)
SLOTTED = Extension(48, pack_slots, build_slotted, named=True)
PATTERN = Extension(49, _pack_pattern, _build_pattern, named=True)
CONVERTED = Extension(50, list, lambda _, d: d[1], named=True)
"""A value of a codec's converter (`codec.converters`): the name, then version and data."""
ATTRIBUTES = Extension(51, _pack_attributes, _build_attributes, named=True)
NAMED: dict[str, Extension] = {
    "dataclass": DATACLASS,
    "struct": STRUCT,
    "model": MODEL,
    "enum": ENUM,
    "namedtuple": NAMED_TUPLE,
    "subclass": SUBCLASS,
    "secret": SECRET,
    "oldmodel": OLD_MODEL,
    "slotted": SLOTTED,
    "pattern": PATTERN,
    "converted": CONVERTED,
    "attrs": ATTRIBUTES,
}
"""Extensions that store a type's name, by the names of their JSON form."""

ARRAY = Extension(18, arrays.pack_array, arrays.build_array)
SCALAR = Extension(19, arrays.pack_scalar, arrays.build_scalar)

BUILTIN: dict[type, Extension] = {
    tuple: Extension(1, list, lambda _, d: tuple(d)),
    set: Extension(2, _pack_set, lambda _, d: build_set(d)),
    frozenset: Extension(3, _pack_set, lambda _, d: frozenset(build_set(d))),
    dt.datetime: Extension(4, _pack_moment, lambda _, d: _build_moment(dt.datetime, d)),
    dt.date: Extension(5, dt.date.isoformat, lambda _, d: dt.date.fromisoformat(d)),
    dt.time: Extension(6, _pack_moment, lambda _, d: _build_moment(dt.time, d)),
    dt.timedelta: Extension(
        7, lambda v: [v.days, v.seconds, v.microseconds], lambda _, d: dt.timedelta(*d)
    ),
    dt.timezone: Extension(8, _pack_timezone, lambda _, d: dt.timezone(*d)),
    UUID: Extension(9, lambda v: v.bytes, lambda _, d: UUID(bytes=d)),
    Decimal: Extension(10, str, lambda _, d: Decimal(_expect(str, d))),
    PosixPath: Extension(11, str, lambda _, d: Path(d)),
    PurePosixPath: Extension(12, str, lambda _, d: PurePosixPath(d)),
    int: Extension(13, hex, lambda _, d: int(_expect(str, d), 16)),
    complex: Extension(14, lambda v: [v.real, v.imag], lambda _, d: complex(*d)),
    deque: Extension(15, lambda v: [list(v), v.maxlen], lambda _, d: deque(d[0], d[1])),
    ZoneInfo: Extension(16, _pack_zone, lambda _, d: ZoneInfo(d)),
    bytearray: Extension(17, bytes, lambda _, d: bytearray(_expect(bytes, d))),
    OrderedDict: Extension(
        21, lambda v: dict(v.items()), lambda _, d: OrderedDict(_expect(dict, d))
    ),
    Counter: Extension(22, dict.copy, lambda _, d: Counter(_expect(dict, d))),
    defaultdict: Extension(23, _pack_default_dict, _build_default_dict),
    IPv4Address: Extension(24, str, lambda _, d: IPv4Address(_expect(str, d))),
    IPv4Interface: Extension(25, str, lambda _, d: IPv4Interface(_expect(str, d))),
    IPv4Network: Extension(26, str, lambda _, d: IPv4Network(_expect(str, d))),
    IPv6Address: Extension(27, str, lambda _, d: IPv6Address(_expect(str, d))),
    IPv6Interface: Extension(28, str, lambda _, d: IPv6Interface(_expect(str, d))),
    IPv6Network: Extension(29, str, lambda _, d: IPv6Network(_expect(str, d))),
    Send: Extension(30, _pack_send, _build_send),
    Interrupt: Extension(31, _pack_interrupt, _build_interrupt),
    Command: Extension(
        32,
        lambda v: [v.graph, v.update, v.resume, v.goto],
        lambda _, d: Command(graph=d[0], update=d[1], resume=d[2], goto=d[3]),
    ),
    Overwrite: Extension(33, lambda v: v.value, lambda _, d: Overwrite(d)),
    Shared: Extension(34, lambda v: v.name, lambda _, d: Shared(d)),
    VersionNote: Extension(
        35, lambda v: [v.converted, v.graph, v.value], lambda _, d: VersionNote(*d)
    ),
}

EXTENSIONS: dict[int, Extension] = {
    **{e.code: e for e in BUILTIN.values()},
    **{e.code: e for e in NAMED.values()},
    **{e.code: e for e in (ARRAY, SCALAR)},
    PAIRS: Extension(PAIRS, list, lambda _, d: build_dict(d)),
}


def builtin_of(kind: type) -> Extension | None:
    """Return how an always allowed type is stored; None for any other type."""
    known = BUILTIN.get(kind)
    if known is None and kind.__module__ == "numpy":
        return ARRAY if arrays.is_array(kind) else SCALAR if arrays.is_scalar(kind) else None
    return known


def extension_of(kind: type) -> Extension | None:
    """Return how a program's type is stored; None if it can't be put on the allow-list."""
    if issubclass(kind, Enum):
        return ENUM
    if issubclass(kind, msgspec.Struct):
        return STRUCT
    if hasattr(kind, "model_fields") and hasattr(kind, "model_construct"):
        return MODEL
    if dataclasses.is_dataclass(kind):
        return DATACLASS if base_of(kind) is None else SUBCLASS
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return NAMED_TUPLE
    if getattr(kind, "__attrs_attrs__", None) is not None and base_of(kind) is None:
        return ATTRIBUTES
    return _further_extension_of(kind)


def _further_extension_of(kind: type) -> Extension | None:
    if is_old_model(kind):
        return OLD_MODEL
    if is_secret(kind):
        return SECRET
    if is_slotted(kind):
        return SLOTTED
    if kind is re.Pattern:
        return PATTERN
    if kind is bool or builtin_of(kind) is not None or base_of(kind) is None:
        return None
    return None if hides_state(kind) else SUBCLASS
