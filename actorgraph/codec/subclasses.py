"""Subclasses of built-in types: the built-in value of each, and the way back.

Text, numbers, bytes, lists, dicts and tuples of a subclass are stored as the built-in type itself,
as LangGraph's serializer does, unless the program has declared the class: libraries return such
values where a program expects plain ones. Every other subclass keeps its class.

A subclass is built again by its built-in type, so its own constructor doesn't run.
"""

import datetime as dt
import struct
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import PosixPath, PurePosixPath
from types import MemberDescriptorType
from typing import Any, cast
from uuid import UUID
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

_ALL = slice(None)
_DEFAULT_FACTORY = defaultdict.__dict__["default_factory"]
"""The one slot of a built-in type below `dict`; None in it is nothing to lose."""


def _plain_dict(v: dict[Any, Any]) -> dict[Any, Any]:
    # An OrderedDict has an order of its own beside that of the dict.
    return dict(OrderedDict.items(v)) if isinstance(v, OrderedDict) else dict.copy(v)


_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: lambda v: str.__getitem__(v, _ALL),
    int: int.__int__,
    float: float.__float__,
    bytes: lambda v: bytes.__getitem__(v, _ALL),
    bytearray: lambda v: bytearray.__getitem__(v, _ALL),
    list: lambda v: list.__getitem__(v, _ALL),
    tuple: lambda v: tuple.__getitem__(v, _ALL),
    dict: _plain_dict,
}
"""Types whose subclasses are stored as plain values -> the conversion, by C code alone."""


def _plain_datetime(v: dt.datetime) -> dt.datetime:
    clock = (v.hour, v.minute, v.second, v.microsecond)
    return dt.datetime(v.year, v.month, v.day, *clock, tzinfo=v.tzinfo, fold=v.fold)


def _plain_time(v: dt.time) -> dt.time:
    return dt.time(v.hour, v.minute, v.second, v.microsecond, v.tzinfo, fold=v.fold)


_EXACT: dict[type, Callable[[Any], Any]] = {
    set: set,
    frozenset: frozenset,
    deque: lambda v: deque(deque.__iter__(v), deque.maxlen.__get__(v)),
    complex: lambda v: complex(v.real, v.imag),
    Decimal: Decimal,
    UUID: lambda v: UUID(int=v.int, is_safe=v.is_safe),
    dt.datetime: _plain_datetime,
    dt.date: lambda v: dt.date(v.year, v.month, v.day),
    dt.time: _plain_time,
    dt.timedelta: lambda v: dt.timedelta(v.days, v.seconds, v.microseconds),
    PosixPath: lambda v: PosixPath(str(v)),
    PurePosixPath: lambda v: PurePosixPath(str(v)),
    ZoneInfo: lambda v: ZoneInfo(v.key),
    **{
        kind: lambda v, kind=kind: kind(str(v))
        for kind in (
            *(IPv4Address, IPv4Interface, IPv4Network),
            *(IPv6Address, IPv6Interface, IPv6Network),
        )
    },
}
_CONVERSIONS = {**_PLAIN, **_EXACT}


def base_of(kind: type) -> type | None:
    """Return the built-in type that a class is derived from; None for any other class."""
    for base in kind.__mro__[1:]:
        if base in _CONVERSIONS:
            return base
    return None


_POINTER = struct.calcsize("P")
_SHOWN = frozenset({OrderedDict, defaultdict})
"""Classes in C below a built-in type, of which everything is known here."""


def hides_state(kind: type) -> bool:
    """Whether objects of a class may hold more than its built-in type, slots and attributes do.

    So do classes written in C, as a time with nanoseconds: nothing shows what they hold.
    """
    known = _HIDDEN.get(kind)
    if known is None:
        known = _HIDDEN[kind] = _hides_state(kind)
    return known


_HIDDEN: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _hides_state(kind: type) -> bool:
    base = base_of(kind)
    if base is None:
        return False
    return any(_adds_state(each) for each in kind.__mro__[: kind.__mro__.index(base)])


def _adds_state(kind: type) -> bool:
    """Whether a class has room for more than its slots, its attributes and its weak references."""
    if kind.__base__ is None or kind in _SHOWN:
        return False
    own = vars(kind)
    shown = sum(isinstance(member, MemberDescriptorType) for member in own.values())
    shown += ("__dict__" in own) + ("__weakref__" in own)
    return kind.__basicsize__ - kind.__base__.__basicsize__ > shown * _POINTER


def plain_value(value: Any) -> Any:
    """Return the plain value with which LangGraph's serializer replaces an object.

    That is the built-in text, number, bytes, list, dict or tuple of a subclass, and the `repr`
    of an exception.

    Returns: `value` itself for any other object.
    """
    kind = cast("type[Any]", type(value))
    base = base_of(kind)
    if base is not None:
        return _PLAIN[base](value) if base in _PLAIN else value
    return repr(value) if issubclass(kind, BaseException) else value


def pack_subclass(value: Any) -> Any:
    """Return the value of the built-in type, if the class can be built from it again.

    Raises:
        TypeError: the object has attributes, or isn't equal to one that is built again.
    """
    kind = cast("type[Any]", type(value))
    base = base_of(kind)
    assert base is not None
    plain = _CONVERSIONS[base](value)
    name = next(_own_attributes(value, kind, base, plain), None)
    if name is not None:
        msg = f"a {kind.__name__} has the attribute {name!r} besides its {base.__name__}"
        raise TypeError(msg)
    made = build_subclass(kind, plain)
    if type(made) is not kind or made != value:
        msg = f"a {kind.__name__} can't be made of the {base.__name__} that it is"
        raise TypeError(msg)
    return plain


def _own_attributes(value: Any, kind: type, base: type, plain: Any) -> Iterator[str]:
    """List attributes that the built-in value doesn't have; equality may ignore them."""
    shared = getattr(plain, "__dict__", {})
    for name in getattr(value, "__dict__", {}):
        if name not in shared and not hasattr(base, name):  # `hasattr`: a cached property
            yield name
    for owner in kind.__mro__[: kind.__mro__.index(base)]:
        for name, member in vars(owner).items():
            if isinstance(member, MemberDescriptorType) and _is_set(member, value):
                yield name


def _is_set(slot: MemberDescriptorType, value: Any) -> bool:
    try:
        held = slot.__get__(value)
    except AttributeError:
        return False
    return held is not None or slot is not _DEFAULT_FACTORY


def build_subclass(kind: Any, plain: Any) -> Any:
    """Build an object of a subclass from a value of its built-in type.

    Raises:
        ValueError: the class is not derived from the value's type.
    """
    base: Any = base_of(kind)
    if type(plain) is not base:
        msg = f"{kind.__name__} is not a subclass of {type(plain).__name__}"
        raise ValueError(msg)
    return _BUILDERS.get(base, _by_constructor)(kind, base, plain)


def _by_constructor(kind: Any, base: Any, plain: Any) -> Any:
    return base.__new__(kind, plain)


def _by_method(name: str) -> Callable[[Any, Any, Any], Any]:
    def build(kind: Any, base: Any, plain: Any) -> Any:
        made = base.__new__(kind)
        getattr(base, name)(made, plain)
        return made

    return build


def _build_dict(kind: Any, base: Any, plain: dict[Any, Any]) -> Any:
    made = base.__new__(kind)
    if not isinstance(made, OrderedDict):
        base.update(made, plain)
        return made
    for key, item in plain.items():  # its own order would miss what `dict` adds
        OrderedDict.__setitem__(made, key, item)
    return made


def _build_deque(kind: Any, base: Any, plain: deque[Any]) -> Any:
    made = base.__new__(kind)
    base.__init__(made, plain, plain.maxlen)
    return made


def _build_uuid(kind: Any, base: Any, plain: UUID) -> Any:
    made = base.__new__(kind)
    object.__setattr__(made, "int", plain.int)
    object.__setattr__(made, "is_safe", plain.is_safe)
    return made


def _build_datetime(kind: Any, base: Any, v: dt.datetime) -> Any:
    clock = (v.hour, v.minute, v.second, v.microsecond)
    return base.__new__(kind, v.year, v.month, v.day, *clock, v.tzinfo, fold=v.fold)


def _build_time(kind: Any, base: Any, v: dt.time) -> Any:
    return base.__new__(kind, v.hour, v.minute, v.second, v.microsecond, v.tzinfo, fold=v.fold)


def _build_from_text(kind: Any, _: Any, plain: Any) -> Any:
    return kind(str(plain))


_BUILDERS: dict[type, Callable[[Any, Any, Any], Any]] = {
    list: _by_method("extend"),
    bytearray: _by_method("extend"),
    dict: _build_dict,
    set: _by_method("update"),
    deque: _build_deque,
    UUID: _build_uuid,
    dt.datetime: _build_datetime,
    dt.date: lambda kind, base, v: base.__new__(kind, v.year, v.month, v.day),
    dt.time: _build_time,
    dt.timedelta: lambda kind, base, v: base.__new__(kind, v.days, v.seconds, v.microseconds),
    **dict.fromkeys(
        (
            *(PosixPath, PurePosixPath, ZoneInfo),
            *(IPv4Address, IPv4Interface, IPv4Network),
            *(IPv6Address, IPv6Interface, IPv6Network),
        ),
        _build_from_text,
    ),
}
"""Types whose objects aren't built by `base.__new__(kind, plain)` -> the builder."""
