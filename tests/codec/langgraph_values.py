"""Values that programs put into states, and their classes: each kind that LangGraph can store."""

import collections
import dataclasses
import datetime as dt
import enum
import fractions
import ipaddress
import re
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy as np
import pydantic
import pydantic.v1
from langchain_core import messages as lc
from langchain_core.documents import Document
from langchain_core.messages.content import create_text_block
from langgraph import types as lg
from langgraph.store.base import Item as LangGraphItem
from pydantic import BaseModel, PrivateAttr, RootModel, SecretBytes, SecretStr

from actorgraph.messages.kinds import AIMessage, HumanMessage
from actorgraph.stores.operations import Item, SearchItem
from actorgraph.values.commands import Command, Interrupt, Overwrite, Send
from actorgraph.values.policies import TimeoutPolicy

T = TypeVar("T")


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Blob(bytes):
    pass


class Buffer(bytearray):
    pass


class Items(list[Any]):
    pass


class Mapped(dict[str, Any]):
    pass


class Pair(tuple[Any, ...]):
    __slots__ = ()


class Tags(set[Any]):
    pass


class Frozen(frozenset[Any]):
    pass


class Queue(deque[Any]):
    pass


class Ordered(OrderedDict[str, Any]):
    pass


class Counted(Counter[str]):
    pass


class Default(defaultdict[str, Any]):
    pass


class Moment(dt.datetime):
    pass


class Day(dt.date):
    pass


class Clock(dt.time):
    pass


class Span(dt.timedelta):
    pass


class Money(Decimal):
    pass


class Key(UUID):
    pass


class Folder(type(Path())):  # type: ignore[misc]
    pass


class Address(ipaddress.IPv4Address):
    pass


class Away(dt.tzinfo):
    """A zone of another library."""

    def utcoffset(self, when: Any) -> dt.timedelta:
        return dt.timedelta(hours=1)

    def dst(self, when: Any) -> dt.timedelta:
        return dt.timedelta(0)

    def tzname(self, when: Any) -> str:
        return "away"


class Color(enum.Enum):
    RED = "r"


class Word(enum.StrEnum):
    YES = "yes"


class Old(str, enum.Enum):  # noqa: UP042 - as programs have them
    YES = "yes"


class Level(enum.IntEnum):
    LOW = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag):
    ONE = 1


class Point(NamedTuple):
    x: int
    y: int = 2


Spot = namedtuple("Spot", "x y")  # noqa: PYI024 - as programs have them


class Typed(TypedDict):
    a: int


@dataclasses.dataclass
class Note:
    text: str
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Longer(Note):
    more: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Sealed:
    value: Any


@dataclasses.dataclass
class Made:
    value: int
    twice: int = dataclasses.field(init=False, default=0)


@dataclasses.dataclass
class Box(Generic[T]):
    value: T


@dataclasses.dataclass
class Fault(Exception):
    code: int


class Model(BaseModel):
    name: str
    parts: Any = None


class Derived(Model):
    more: int = 1


class Inner(BaseModel):
    model: Model
    models: list[Model] = []
    tags: set[str] = set()


class Hidden(BaseModel):
    """A model with a secret, an extra field and a private attribute."""

    model_config = pydantic.ConfigDict(extra="allow")
    key: SecretStr
    _seen: int = PrivateAttr(default=0)


class Named(BaseModel):
    name: str = pydantic.Field(alias="the_name")


class Rooted(RootModel[list[int]]):
    pass


class Crate(BaseModel, Generic[T]):
    value: T


@pydantic.dataclasses.dataclass
class Checked:
    value: int


class First(pydantic.v1.BaseModel):
    name: str
    parts: Any = None


class Second(First):
    more: int = 1


class Struct(msgspec.Struct):
    name: str


@attrs.define
class Attrs:
    value: int


class Password(SecretStr):
    pass


class Plain:
    """A class of no kind that can be stored."""

    def __eq__(self, other: object) -> bool:
        return type(other) is Plain

    __hash__ = object.__hash__


class Outer:
    class Nested(BaseModel):
        x: int = 1


class ItsError(Exception):
    pass


NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC)
ZONE = ZoneInfo("Europe/Berlin")
BERLIN = NOW.astimezone(ZONE)
AI = lc.AIMessage("hello", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "1"}], id="m")


def _hidden() -> Hidden:
    made = Hidden.model_validate({"key": "k", "more": 1})
    made._seen = 7  # noqa: SLF001 - its own
    return made


EXACT, PLAIN, REFUSED = "exact", "plain", "refused"


@dataclasses.dataclass(frozen=True)
class Row:
    """A value, and what becomes of it.

    Attributes:
        as_: EXACT: it comes back equal and of its type. PLAIN: as the plain value that LangGraph
            makes of it. REFUSED: as by LangGraph.
        needs: the types that a program which reads it after a restart has to declare.
        why: the reason for which it isn't as with LangGraph.
    """

    name: str
    value: Any
    as_: str = EXACT
    needs: tuple[type, ...] = ()
    why: str = ""


ROWS: list[Row] = [
    Row("None", None),
    Row("bool", value=True),
    Row("int", 7),
    Row("big int", 2**80),
    Row("float", 1.5),
    Row("inf", float("inf")),
    Row("complex", 1 + 2j),
    Row("str", "ü"),
    Row(
        "surrogate", "a\ud800", as_=REFUSED, why="LangGraph writes '?' for what UTF-8 can't encode"
    ),
    Row("bytes", b"x"),
    Row("bytes in list", [b"x"]),
    Row("bytearray", bytearray(b"x")),
    Row("bytearray in list", [bytearray(b"x")]),
    Row(
        "memoryview",
        memoryview(b"x"),
        as_=REFUSED,
        why="the memory is another object's: bytes(view) is a copy",
    ),
    Row("list", [1, "a", None]),
    Row("dict", {"a": {"b": [1]}}),
    Row("int keys", {1: "a", 2: "b"}),
    Row("tuple keys", {(1, 2): "a"}),
    Row("enum keys", {Color.RED: 1}, needs=(Color,)),
    Row("str subclass keys", {Text("k"): 1}, as_=PLAIN),
    Row("tuple", (1, (2,))),
    Row("set", {1, 2}),
    Row("frozenset", frozenset("ab")),
    Row("deque", deque([1, 2])),
    Row("deque maxlen", deque([1, 2], 3)),
    Row("range", range(3), as_=REFUSED),
    Row("OrderedDict", OrderedDict(b=1, a=2)),
    Row("Counter", Counter("aab")),
    Row("defaultdict list", defaultdict(list, a=[1])),
    Row("defaultdict lambda", defaultdict(lambda: 7, a=[1]), as_=PLAIN),
    Row("UserDict", collections.UserDict(a=1), as_=REFUSED),
    Row("ChainMap", collections.ChainMap({"a": 1}), as_=REFUSED),
    Row("mappingproxy", types.MappingProxyType({"a": 1}), as_=REFUSED),
    Row("SimpleNamespace", types.SimpleNamespace(a=1), as_=REFUSED),
    Row("TypedDict", Typed(a=1)),
    Row("Text", Text("x"), as_=PLAIN),
    Row("AIMessage.text", AI.text, as_=PLAIN),
    Row("Text in dict", {"a": [Text("x")]}, as_=PLAIN),
    Row("Number", Number(7), as_=PLAIN),
    Row("Real", Real(1.5), as_=PLAIN, why="LangGraph refuses it"),
    Row("Blob", Blob(b"x"), as_=PLAIN, why="bytes, as LangGraph reads them from a store"),
    Row("Blob in list", [Blob(b"x")], as_=PLAIN, why="LangGraph refuses it"),
    Row("Buffer", Buffer(b"x"), as_=PLAIN),
    Row("Items", Items([1, [2]]), as_=PLAIN),
    Row("Mapped", Mapped(a=1), as_=PLAIN),
    Row("Mapped int keys", Mapped({1: 2}), as_=PLAIN),
    Row("Pair", Pair((1, 2)), as_=PLAIN, why="LangGraph refuses it"),
    Row("Tags", Tags([1]), needs=(Tags,)),
    Row("Frozen", Frozen([1]), needs=(Frozen,)),
    Row("Queue", Queue([1], 3), needs=(Queue,)),
    Row("Ordered", Ordered(b=1, a=2), as_=PLAIN),
    Row("Counted", Counted("aab"), as_=PLAIN),
    Row("Default", Default(list, a=[1]), as_=PLAIN),
    Row("datetime", dt.datetime(2026, 1, 2)),  # noqa: DTZ001 - a naive one
    Row("datetime utc", NOW),
    Row("datetime offset", NOW.astimezone(dt.timezone(dt.timedelta(hours=2)))),
    Row("datetime zone", BERLIN),
    Row("datetime away", NOW.astimezone(Away()), as_=PLAIN),
    Row("date", dt.date(2026, 1, 2)),
    Row("time", dt.time(1, 2, 3, 4)),
    Row("time zone", dt.time(1, 2, tzinfo=dt.UTC, fold=1)),
    Row("timedelta", dt.timedelta(1, 2, 3)),
    Row("timezone", dt.timezone(dt.timedelta(hours=1), "CET")),
    Row("ZoneInfo", ZONE),
    Row("Moment", Moment(2026, 1, 2, tzinfo=dt.UTC), needs=(Moment,)),
    Row("Day", Day(2026, 1, 2), needs=(Day,)),
    Row("Clock", Clock(1, 2), needs=(Clock,)),
    Row("Span", Span(1), needs=(Span,)),
    Row("Decimal", Decimal("1.50")),
    Row("Money", Money("1.50"), needs=(Money,)),
    Row("Fraction", fractions.Fraction(1, 3), as_=REFUSED),
    Row("UUID", UUID(int=7)),
    Row("Key", Key(int=7), needs=(Key,)),
    Row("Path", Path("a/b")),
    Row("PurePosixPath", PurePosixPath("a/b")),
    Row("Folder", Folder("a/b"), needs=(Folder,)),
    Row("Pattern", re.compile("a+", re.IGNORECASE), needs=(re.Pattern,)),
    Row("Pattern bytes", re.compile(b"a+"), needs=(re.Pattern,)),
    Row("IPv4Address", ipaddress.ip_address("1.2.3.4")),
    Row("IPv4Interface", ipaddress.ip_interface("1.2.3.4/24")),
    Row("IPv4Network", ipaddress.ip_network("10.0.0.0/8")),
    Row("IPv6Address", ipaddress.ip_address("fe80::1%eth0")),
    Row("IPv6Interface", ipaddress.ip_interface("::1/64")),
    Row("IPv6Network", ipaddress.ip_network("fe80::/10")),
    Row("Address", Address("1.2.3.4"), needs=(Address,)),
    Row("Color", Color.RED, needs=(Color,)),
    Row("Word", Word.YES, needs=(Word,)),
    Row("Old", Old.YES, needs=(Old,)),
    Row("Level", Level.LOW, needs=(Level,)),
    Row("Access", Access.READ | Access.WRITE, needs=(Access,)),
    Row("Bits", Bits.ONE, needs=(Bits,)),
    Row("Point", Point(1), needs=(Point,)),
    Row("Spot", Spot(1, 2), needs=(Spot,)),
    Row("Note", Note("x", ["t"]), needs=(Note,)),
    Row("Longer", Longer("x"), needs=(Longer,)),
    Row("Sealed", Sealed(1), needs=(Sealed,)),
    Row("Made", Made(1), needs=(Made,)),
    Row("Box", Box([1]), needs=(Box,)),
    Row("Checked", Checked(1), needs=(Checked,)),
    Row("Model", Model(name="x", parts=[1]), needs=(Model,)),
    Row(
        "Model with Model",
        Model(name="x", parts=Note("y")),
        needs=(
            Model,
            Note,
        ),
    ),
    Row("Derived", Derived(name="x"), needs=(Derived,)),
    Row(
        "Inner",
        Inner(model=Derived(name="x"), models=[Model(name="y")], tags={"t"}),
        needs=(
            Inner,
            Derived,
            Model,
        ),
    ),
    Row("Hidden", _hidden(), needs=(Hidden,)),
    Row("Named", Named(the_name="x"), needs=(Named,)),
    Row("Rooted", Rooted([1, 2]), needs=(Rooted,)),
    Row("Crate[int]", Crate[int](value=1), needs=(Crate[int],)),
    Row("Nested", Outer.Nested(), needs=(Outer.Nested,)),
    Row("First", First(name="x", parts=[1]), needs=(First,)),
    Row("Second", Second(name="x"), needs=(Second,)),
    Row("SecretStr", SecretStr("x")),
    Row("SecretBytes", SecretBytes(b"x")),
    Row("v1 SecretStr", pydantic.v1.SecretStr("x")),
    Row("Password", Password("x"), needs=(Password,)),
    Row("HttpUrl", pydantic.HttpUrl("https://a.b/c"), as_=REFUSED),
    Row("ByteSize", pydantic.ByteSize(7), as_=PLAIN),
    Row("Struct", Struct("x"), needs=(Struct,)),
    Row("Attrs", Attrs(1), needs=(Attrs,)),
    Row("ndarray", np.arange(3)),
    Row("ndarray F", np.asfortranarray(np.ones((2, 2)))),
    Row("np.float64", np.float64(1.5)),
    Row("np.int64", np.int64(1)),
    Row("np.bool", np.bool_(1)),
    Row("np.str_", np.str_("x")),
    Row("np.datetime64", np.datetime64("2026-01-02")),
    Row("masked array", np.ma.masked_array([1, 2]), as_=REFUSED, why="LangGraph drops the mask"),
    Row(
        "matrix",
        np.zeros((1, 1)).view(np.matrix),
        as_=REFUSED,
        why="LangGraph makes it an array, whose operators differ",
    ),
    Row("Item", Item(value={"a": 1}, key="k", namespace=("n",), created_at=NOW, updated_at=NOW)),
    Row("SearchItem", SearchItem(("n",), "k", {"a": 1}, NOW, NOW, 0.5)),
    Row(
        "LangGraph's Item",
        LangGraphItem(value={"a": 1}, key="k", namespace=("n",), created_at=NOW, updated_at=NOW),
    ),
    Row("HumanMessage", lc.HumanMessage("hi", id="1")),
    Row("AIMessage", AI),
    Row("AIMessageChunk", lc.AIMessageChunk("hi", id="1")),
    Row("ToolMessage", lc.ToolMessage("x", tool_call_id="1", artifact={"a": (1,)})),
    Row("SystemMessage", lc.SystemMessage([create_text_block("x")])),
    Row("RemoveMessage", lc.RemoveMessage(id="1")),
    Row("messages of ours", [HumanMessage("hi"), AIMessage("x")]),
    Row("Document", Document("text", metadata={"a": 1})),
    Row("Send", Send("n", {"a": 1}, timeout=2.0)),
    Row("Command", Command(update={"a": 1}, goto="n")),
    Row("Interrupt", Interrupt("q", "i")),
    Row("Overwrite", Overwrite([1])),
    Row("TimeoutPolicy", TimeoutPolicy(idle_timeout=2.0)),
    Row("LangGraph's Send", lg.Send("n", {"a": 1})),
    Row("LangGraph's Command", lg.Command(update={"a": 1}, goto="n")),
    Row("LangGraph's Interrupt", lg.Interrupt(value="q", id="i")),
    Row(
        "LangGraph's Overwrite",
        lg.Overwrite([1]),
        as_=REFUSED,
        why="it is no Overwrite to a channel of this library, and would become its value",
    ),
    Row("ValueError", ValueError("x", 1), as_=PLAIN),
    Row("ItsError", ItsError("x"), as_=PLAIN),
    Row("Fault", Fault(1), needs=(Fault,)),
    Row("function", len, as_=REFUSED),
    Row("type", int, as_=REFUSED),
    Row("object", Plain(), as_=REFUSED),
    Row("iterator", iter([1]), as_=REFUSED),
]
