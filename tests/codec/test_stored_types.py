"""The stored form of each type, which never changes, and stored data that types no longer fit."""

import dataclasses
import datetime as dt
import re
from collections import defaultdict, deque
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import TZPATH as ZONES
from zoneinfo import ZoneInfo

import msgspec
import ormsgpack
import pytest
from pydantic import BaseModel, PrivateAttr

from actorgraph.codec import Codec
from actorgraph.codec.known_types import declare, declared
from actorgraph.codec.library_types import message_type
from actorgraph.codec.stored_types import (
    PATTERN_MAX,
    SUBCLASS,
    Extension,
    Packed,
    extension_of,
    name_of,
)
from actorgraph.errors import ChangedTypeError, SerializationError
from actorgraph.messages.kinds import KINDS
from actorgraph.values.checkpoint import VersionNote
from actorgraph.values.commands import Command, Interrupt, Overwrite, Send
from actorgraph.values.commits import Shared
from actorgraph.values.policies import TimeoutPolicy
from tests.codec.shapes import (
    CODEC,
    Access,
    Color,
    Frozen,
    Level,
    Model,
    Note,
    Open,
    Point,
    Sealed,
    Struct,
    same,
)

BERLIN = ZoneInfo("Europe/Berlin")
NAME = "tests.codec.shapes:"


def stored(payload: bytes) -> Any:
    """Bytes as plain data, with (code, content) for each extension."""
    return ormsgpack.unpackb(payload, ext_hook=lambda code, data: Ext(code, stored(data)))


@dataclasses.dataclass(frozen=True)
class Ext:
    """An extension's code and content."""

    code: int
    content: Any


def opened() -> Open:
    """A model with an extra field and a private one."""
    made = Open(left=1, more=2)
    made.keep("s")
    return made


FORMS: list[tuple[Any, Any]] = [
    ((1, "a"), Ext(1, [1, "a"])),
    ({5}, Ext(2, [5])),
    (frozenset({5}), Ext(3, [5])),
    (
        dt.datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=dt.UTC),
        Ext(4, ["2024-05-06T07:08:09.000010+00:00", None, 0]),
    ),
    (
        dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
        Ext(4, ["2024-10-27T02:30:00", Ext(16, "Europe/Berlin"), 1]),
    ),
    (dt.datetime(2024, 5, 6, fold=1), Ext(4, ["2024-05-06T00:00:00", None, 1])),  # noqa: DTZ001
    (dt.date(2024, 5, 6), Ext(5, "2024-05-06")),
    (dt.time(7, 8, fold=1), Ext(6, ["07:08:00", None, 1])),
    (
        dt.time(7, 8, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        Ext(6, ["07:08:00", Ext(8, [Ext(7, [0, 3600, 0])]), 0]),
    ),
    (dt.timedelta(1, 2, 3), Ext(7, [1, 2, 3])),
    (dt.timezone(dt.timedelta(hours=1)), Ext(8, [Ext(7, [0, 3600, 0])])),
    (dt.timezone(dt.timedelta(hours=1), "CET"), Ext(8, [Ext(7, [0, 3600, 0]), "CET"])),
    (UUID(int=7), Ext(9, bytes(15) + b"\x07")),
    (Decimal("1.50"), Ext(10, "1.50")),
    (Path("a/b"), Ext(11, "a/b")),
    (PurePosixPath("a/b"), Ext(12, "a/b")),
    (2**64, Ext(13, "0x10000000000000000")),
    (-(2**64), Ext(13, "-0x10000000000000000")),
    (1 + 2j, Ext(14, [1.0, 2.0])),
    (deque([1, 2]), Ext(15, [[1, 2], None])),
    (deque([1, 2], 5), Ext(15, [[1, 2], 5])),
    (BERLIN, Ext(16, "Europe/Berlin")),
    (bytearray(b"x"), Ext(17, b"x")),
    ({1: "a", (2,): "b"}, Ext(20, [[1, "a"], [Ext(1, [2]), "b"]])),
    (Send("n", 1), Ext(30, ["n", 1, None])),
    (Send("n", 1, timeout=2.0), Ext(30, ["n", 1, [2.0, None, "auto"]])),
    (
        Send("n", 1, timeout=TimeoutPolicy(idle_timeout=3.0, refresh_on="heartbeat")),
        Ext(30, ["n", 1, [None, 3.0, "heartbeat"]]),
    ),
    (Interrupt("q", "i"), Ext(31, ["q", "i"])),
    (Interrupt("q", "i", {"type": "string"}), Ext(31, ["q", "i", {"type": "string"}])),
    (
        Command(graph="g", update={"a": 1}, resume="r", goto="n"),
        Ext(32, ["g", {"a": 1}, "r", "n"]),
    ),
    (Overwrite([1]), Ext(33, [1])),
    (Shared("s"), Ext(34, "s")),
    (VersionNote({"n": {"": "d"}}, "g:1", {"n": 1}), Ext(35, [{"n": {"": "d"}}, "g:1", {"n": 1}])),
    (Note("x", [1]), Ext(40, [NAME + "Note", {"text": "x", "tags": [1]}])),
    (Frozen(1), Ext(40, [NAME + "Frozen", {"value": 1}])),
    (Struct("x", 1), Ext(41, [NAME + "Struct", {"name": "x", "parts": 1}])),
    (Sealed(1), Ext(41, [NAME + "Sealed", {"value": 1}])),
    (
        Model(name="x"),
        Ext(42, [NAME + "Model", [{"name": "x", "parts": None, "given": 3}, ["name"], {}, None]]),
    ),
    (
        opened(),
        Ext(
            42,
            [
                NAME + "Open",
                [
                    {"left": 1, "right_": 1},
                    ["left", "more", "right_"],
                    {"more": 2},
                    {"_secret": "s"},
                ],
            ],
        ),
    ),
    (Color.RED, Ext(43, [NAME + "Color", "RED"])),
    (Level.HIGH, Ext(43, [NAME + "Level", "HIGH"])),
    (Access.READ | Access.WRITE, Ext(43, [NAME + "Access", 3])),
    (Point(1, 2), Ext(44, [NAME + "Point", [1, 2]])),
]


@pytest.mark.parametrize(("value", "form"), FORMS, ids=range(len(FORMS)))
def test_the_stored_form_of_each_type(value, form):
    """
    Each type has one form, by which values that were stored once are read.
    """
    assert stored(CODEC.encode([value])) == [form]
    assert same(CODEC.decode(ormsgpack.packb(packed(form))), value)


def packed(form: Any) -> Any:
    """Plain data with extensions for ormsgpack."""
    if isinstance(form, Ext):
        return ormsgpack.Ext(form.code, ormsgpack.packb(packed(form.content)))
    if isinstance(form, list):
        return [packed(each) for each in form]
    return form


@dataclasses.dataclass
class Grown:
    """A dataclass with defaults of each kind."""

    first: int
    second: int = 7
    third: list[int] = dataclasses.field(default_factory=lambda: [8])


class Days(Enum):
    """Days."""

    MONDAY = 1


NO_MORE = "any more"
HERE = "tests.codec.test_stored_types:"
WRONG: list[tuple[int, Any, str]] = [
    (40, [HERE + "Grown", {}], f"{HERE}Grown has no stored value for its field 'first'"),
    (
        40,
        [HERE + "Grown", {"first": 1, "old": 2, "older": 3}],
        f"{HERE}Grown has no field 'old' {NO_MORE}",
    ),
    (
        42,
        [NAME + "Model", [{"name": "x", "gone": 1}, [], {}, None]],
        f"{NAME}Model has no field 'gone' {NO_MORE}",
    ),
    (43, [HERE + "Days", "SUNDAY"], f"{HERE}Days has no member 'SUNDAY' {NO_MORE}"),
    (10, 7, "str was expected, not int"),
    (13, b"7", "str was expected, not bytes"),
    (17, 10**9, "bytes was expected, not int"),
    (49, ["re:Pattern", ["a" * (PATTERN_MAX + 1), 32]], "a regular expression was expected"),
    (49, ["re:Pattern", ["a", int(re.DEBUG)]], "a regular expression was expected"),
]


@pytest.mark.parametrize(("code", "content", "why"), WRONG, ids=range(len(WRONG)))
def test_data_that_a_type_does_not_fit(code, content, why):
    """
    Data of removed fields and members, and of another kind, is refused with the type and part;
    for a class of the program with the Migration to write.
    """
    with pytest.raises(SerializationError) as refused:
        CODEC.with_types([Grown, Days, re.Pattern]).decode(
            ormsgpack.packb(packed(Ext(code, content)))
        )

    if isinstance(refused.value, ChangedTypeError):
        name = content[0]
        assert refused.value.type_name == name
        assert refused.value.what == (
            f"a stored value can't be decoded as {name!r} any more: {why}"
        )
        assert f"Migration(types={{{name!r}: " in refused.value.do
    else:
        assert refused.value.what == f"a stored value can't be decoded: {why}"


class Loud:
    """A dataclass's base that reports how it is built."""

    def __new__(cls, *given: Any, **named: Any) -> Any:
        """Fail if there are arguments: the constructor is called with a row's data."""
        assert not given
        assert not named
        return super().__new__(cls)


@dataclasses.dataclass
class Guarded(Loud):
    first: int = 1


@pytest.mark.parametrize(
    ("code", "content"), [(41, {"first": 2}), (44, [2]), (45, {}), (46, "a"), (48, {}), (43, 1)]
)
def test_a_row_does_not_choose_how_a_class_is_built(code, content):
    """
    Data under the code of another kind than the class's is refused; its constructor doesn't run.
    """
    payload = ormsgpack.packb(packed(Ext(code, [HERE + "Guarded", content])))
    with pytest.raises(ChangedTypeError, match=f"Guarded.* isn't stored with .* code {code}"):
        Codec([Guarded]).decode(payload)


def test_missing_fields_have_their_defaults():
    """
    A dataclass that has got fields since is loaded with their defaults, anew each time.
    """
    payload = ormsgpack.packb(packed(Ext(40, [HERE + "Grown", {"first": 1}])))
    one, two = (Codec([Grown]).decode(payload) for _ in range(2))

    assert one == two == Grown(1, 7, [8])
    assert one.third is not two.third


class Private(BaseModel):
    """A model that has got a private attribute since."""

    _first: Any = PrivateAttr(default=1)
    _second: Any = PrivateAttr(default=2)


def test_new_private_attributes_have_their_defaults():
    """
    A model that has got private attributes since is loaded with their defaults.
    """
    form = Ext(42, [HERE + "Private", [{}, [], {}, {"_first": 7}]])
    made = Codec([Private]).decode(ormsgpack.packb(packed(form)))

    assert made.__pydantic_private__ == {"_first": 7, "_second": 2}


def test_the_longest_regular_expression():
    """
    One of as many characters as are allowed is stored.
    """
    codec, pattern = Codec([re.Pattern]), re.compile("a" * PATTERN_MAX)

    assert codec.decode(codec.encode(pattern)) == pattern


@pytest.mark.parametrize(
    ("factory", "kept"),
    [(None, True), (list, True), (partial(list), False), (lambda: 7, False)],
    ids=["none", "list", "partial", "lambda"],
)
def test_the_factory_of_a_default_dict(factory, kept):
    """
    Built-in factories are stored by name; a dict with one of the program's own becomes plain.
    """
    made = CODEC.decode(CODEC.encode(defaultdict(factory, {"a": [1]})))

    assert (type(made), made) == (defaultdict if kept else dict, {"a": [1]})
    assert getattr(made, "default_factory", None) is (factory if kept else None)


def test_a_zone_without_a_key():
    """
    A time zone that was read from a file has no name to store.
    """
    path = next(Path(root) / "UTC" for root in ZONES if (Path(root) / "UTC").exists())
    with path.open("rb") as file:
        zone = ZoneInfo.from_file(file)

    with pytest.raises(SerializationError) as refused:
        CODEC.encode(zone, "s")
    assert refused.value.what == (
        "s of type 'zoneinfo:ZoneInfo' can't be stored: a ZoneInfo without a key can't be stored"
    )


class TestAllowing:
    def test_kinds_of_types(self):
        """
        Data classes of each kind are stored as that kind; other classes are not.
        """
        kinds: list[Any] = [Color, Access, Struct, Model, Note, Point, object, tuple, BaseModel]
        codes = [extension_of(kind) for kind in kinds]

        assert [code and code.code for code in codes] == [43, 43, 41, 42, 40, 44, None, None, 42]
        built_in: list[Any] = [bool, int, dt.datetime, defaultdict, PurePosixPath]
        assert [extension_of(kind) for kind in built_in] == [None] * len(built_in)
        listed = dataclasses.dataclass(type("Listed", (list,), {}))
        assert [extension_of(listed), extension_of(type("Day", (dt.date,), {}))] == [SUBCLASS] * 2
        assert extension_of(type("Half", (), {"model_fields": {}})) is None
        assert extension_of(type("Fields", (), {"_fields": ()})) is None

    def test_declared_types(self):
        """
        Types that a task's signature names are allowed in every codec, while they exist.
        """

        class Declared(msgspec.Struct):
            value: int

        declare([object, Declared, int])

        assert declared(name_of(Declared)) is Declared
        assert declared("builtins:int") is None
        assert Codec().decode(Codec().encode(Declared(1))) == Declared(1)

    def test_messages(self):
        """
        The library's own message classes are found by their names, and nothing else is.
        """
        for kind in KINDS:
            assert message_type(f"{kind.__module__}:{kind.__qualname__}") is kind
        assert message_type("actorgraph.messages.kinds:Nope") is None

    @pytest.mark.parametrize(
        ("name", "found"),
        [
            ("langchain_core.messages.human:HumanMessage", True),
            ("langchain_core.messages.ai:HumanMessage", False),
            ("langchain_core.messages.human:Nope", False),
            ("langchain_core.messages.utils:convert_to_messages", False),
            ("langchain_core.messages.base:BaseMessage", True),
            ("langchain_core.messages:", False),
        ],
    )
    def test_langchain_s_messages(self, name, found):
        """
        LangChain's message classes are found by the name of their own module.
        """
        messages = pytest.importorskip(
            "langchain_core.messages", reason="langchain-core is not installed"
        )
        expected = getattr(messages, name.partition(":")[2]) if found else None

        assert message_type(name) is expected

    def test_small_parts(self):
        """
        An extension's type has no name stored with it unless it says so; encoded bytes are kept.
        """
        assert not Extension(1, list, tuple).named
        assert (Packed(3, b"x").code, Packed(3, b"x").payload) == (3, b"x")
