"""Types and values for the tests of the codec: what users put into states, and how to compare."""

import dataclasses
import datetime as dt
import math
from collections import deque
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from actorgraph.codec import Codec
from actorgraph.values.commands import Command, Interrupt, Send
from actorgraph.values.policies import TimeoutPolicy


class Color(Enum):
    RED = "r"
    BLUE = "b"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"
    NO = "no"


class Access(Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Note:
    text: str
    tags: Any = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    value: Any


class Model(BaseModel):
    name: str
    parts: Any = None
    given: int = 3


class Open(BaseModel):
    """A model with extra fields, a private attribute, and aliases that name one another."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
    left: int = Field(default=0, alias="right_")
    right_: int = Field(default=0, alias="left")
    _secret: Any = PrivateAttr(default=None)

    def keep(self, secret: Any) -> None:
        self._secret = secret

    def kept(self) -> Any:
        return self._secret


class Struct(msgspec.Struct):
    name: str
    parts: Any = None


class Sealed(msgspec.Struct, frozen=True):
    value: Any


TYPES = [Color, Level, Word, Access, Point, Note, Frozen, Model, Open, Struct, Sealed]
CODEC = Codec(TYPES)
TIMEOUTS = st.builds(TimeoutPolicy, idle_timeout=st.floats(0.01, 9))
ZONES = [ZoneInfo("Europe/Berlin"), ZoneInfo("UTC"), dt.UTC, dt.timezone(dt.timedelta(hours=-3))]

NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**63, -(2**63), -(2**63) - 1, 2**64, 10**4000]),
    st.floats(),
    st.complex_numbers(),
    st.decimals(),
    st.booleans(),
)
ENUMS = st.one_of(
    st.sampled_from([*Color, *Level, *Word]),
    st.sampled_from([Access(0), Access.READ, Access.READ | Access.WRITE]),
)
MOMENTS = st.one_of(
    st.datetimes(timezones=st.none() | st.sampled_from(ZONES)),
    st.datetimes().map(lambda d: d.replace(fold=1, tzinfo=ZONES[0])),
    st.dates(),
    st.times(timezones=st.none() | st.sampled_from(ZONES)),
    st.timedeltas(),
    st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)).map(dt.timezone),
    st.just(dt.timezone(dt.timedelta(hours=1), "CET")),
    st.sampled_from(ZONES),
)
PATHS = st.lists(st.sampled_from(["a", "..", "b c", "ü", "/"]), max_size=3).flatmap(
    lambda parts: st.sampled_from([Path(*parts), PurePosixPath(*parts)])
)
LEAVES = st.one_of(st.none(), NUMBERS, st.text(), st.binary(), ENUMS, MOMENTS, PATHS, st.uuids())
HASHABLE = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.binary(), ENUMS, st.dates(), st.uuids()),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Everything that holds other values."""
    return st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(), inner, max_size=4),
        st.dictionaries(HASHABLE, inner, max_size=4),
        st.tuples(inner, inner),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
        st.builds(deque, st.lists(inner, max_size=3), st.sampled_from([None, 3])),
        st.builds(Point, inner, inner),
        st.builds(Note, st.text(), inner),
        st.builds(Frozen, inner),
        st.builds(Model, name=st.text(), parts=inner),
        st.builds(Struct, st.text(), inner),
        st.builds(Sealed, inner),
        st.builds(Send, st.text(), inner, st.none() | st.floats(0.01, 9) | TIMEOUTS),
        st.builds(Interrupt, inner, st.text()),
        st.builds(lambda u, g: Command(update=u, goto=g), inner, st.text()),
    )


VALUES = st.recursive(LEAVES, nested, max_leaves=12)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal and of the same types, all the way down; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and str(a) == str(b))
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, Decimal | UUID | str | int | bytes | Enum | Path | dt.timedelta):
        return str(a) == str(b) and repr(a) == repr(b)
    if isinstance(a, dt.tzinfo):
        return repr(a) == repr(b)
    if isinstance(a, dt.datetime | dt.time):
        return repr(a) == repr(b) and same(a.tzinfo, b.tzinfo)
    if isinstance(a, list | tuple | deque):
        bounds = [getattr(v, "maxlen", None) for v in (a, b)]
        return bounds[0] == bounds[1] and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, set | frozenset):
        return a == b and sorted(map(repr_types, a)) == sorted(map(repr_types, b))
    if isinstance(a, dict):
        return list(map(repr_types, a)) == list(map(repr_types, b)) and all(
            map(same, a.values(), b.values())
        )
    return same(fields_of(a), fields_of(b))


def repr_types(value: Any) -> str:
    """A text that differs for 1, True and 1.0, inside tuples too."""
    if isinstance(value, tuple):
        return f"{type(value).__name__}({', '.join(map(repr_types, value))})"
    if isinstance(value, frozenset):
        return f"frozenset({', '.join(sorted(map(repr_types, value)))})"
    return f"{type(value).__name__} {value!r}"


def fields_of(value: Any) -> Any:
    """The content of an object, as a dict; other objects as their text."""
    if isinstance(value, BaseModel):
        state = value.__getstate__()
        given = sorted(value.model_fields_set)
        return [
            state["__dict__"],
            given,
            state.get("__pydantic_extra__"),
            state.get("__pydantic_private__"),
        ]
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    return repr(value)
