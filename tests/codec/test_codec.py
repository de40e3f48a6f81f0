"""Values <-> bytes: exact or refused, and damaged bytes never do anything but raise."""

import collections
import datetime as dt
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import ormsgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actorgraph.codec import Codec
from actorgraph.errors import EncryptionError, SerializationError, UnknownTypeError
from actorgraph.values.commands import Overwrite, Send
from tests.codec import shapes
from tests.codec.langgraph_values import First, Tags
from tests.codec.shapes import CODEC, TYPES, VALUES, same


@pytest.mark.langgraph("F-E18", "L102", "L117")
@given(VALUES)
@example([float("nan"), float("-inf"), -0.0])
@example({1: "int", "1": "text", (1,): "tuple", None: "none", b"1": "bytes"})
@example({"": {}, "deep": [(), [], set(), frozenset(), {}, "", b""]})
@example([True, 1, 1.0, Decimal(1), complex(1)])
@example([Decimal("NaN"), Decimal("sNaN12"), Decimal("-0"), Decimal("1.10")])
def test_decoded_values_are_equal_and_of_the_same_type(value):
    """
    Every value that can be stored comes back equal and of the same type, all the way down.
    """
    assert same(CODEC.decode(CODEC.encode(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        dt.datetime(2024, 10, 27, 2, 30, fold=0, tzinfo=ZoneInfo("Europe/Berlin")),
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1), "CET")),
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=3601, microseconds=7))),
        dt.time(1, 2, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        dt.time(1, 2, 3, 4, tzinfo=dt.UTC),
        dt.timedelta.max,
        dt.timedelta.min,
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 - a naive one
    ],
)
def test_moments_keep_their_zone_and_fold(value):
    """
    A moment comes back with its zone's name, its offset and its side of a clock change.
    """
    back = CODEC.decode(CODEC.encode(value))

    assert same(back, value)
    if isinstance(value, dt.datetime):
        assert back.utcoffset() == value.utcoffset()
        assert back.tzname() == value.tzname()


def test_a_key_may_be_longer_than_python_prints():
    """
    So may an integer that is a key of a dict; a value beside it that can't be stored is named.
    """
    codec, huge = Codec(), 10**5000
    assert codec.decode(codec.encode({huge: 1, "a": {-huge: [2]}})) == {huge: 1, "a": {-huge: [2]}}
    with pytest.raises(SerializationError, match="int that can't be shown: ValueError"):
        codec.encode({huge: object()})


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_may_be_longer_than_python_prints(sign):
    """
    Integers beyond Python's limit for decimal text are stored all the same.
    """
    number = sign * 10**5000

    assert CODEC.decode(CODEC.encode([number])) == [number]


def test_a_model_keeps_everything():
    """
    A pydantic model comes back with its extra fields, its private attributes, and the same
    fields set, whatever its aliases say.
    """
    made = shapes.Open(left=1, right_=2, more=[3])
    made.keep({"key": (1, 2)})
    back = CODEC.decode(CODEC.encode(made))

    assert same(back, made)
    assert {made.left, made.right_} == {1, 2}
    assert (back.more, back.kept()) == ([3], {"key": (1, 2)})
    assert back == made


def test_user_code_does_not_run_when_a_dataclass_is_loaded():
    """
    Loading sets fields; it calls neither __init__ nor __post_init__.
    """
    calls = []

    @dataclass
    class Counted:
        value: int

        def __post_init__(self) -> None:
            calls.append(self.value)

    codec = Codec([Counted])
    payload = codec.encode(Counted(1))

    assert codec.decode(payload) == Counted(1)
    assert calls == [1, 1], "one for each line of this test that makes one"


def test_a_new_field_with_a_default_loads():
    """
    A type that has got a field since loads with the field's default.
    """

    def make(**fields: Any) -> list[type]:
        kinds = [
            type("Old", (), {"__annotations__": dict.fromkeys(fields, int), **defaults(fields)}),
            type(
                "OldStruct",
                (msgspec.Struct,),
                {"__annotations__": dict.fromkeys(fields, int), **defaults(fields)},
            ),
        ]
        return [dataclass(kinds[0]), kinds[1]]

    def defaults(fields: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if value is not ...}

    old, new = make(a=...), make(a=..., b=7)
    for before, after in zip(old, new, strict=True):
        loaded = Codec([after]).decode(Codec([before]).encode(before(a=1)))
        assert (type(loaded), loaded.a, loaded.b) == (after, 1, 7)


class Moment(dt.datetime):
    pass


class Nowhere(dt.tzinfo):
    def utcoffset(self, when: Any) -> None:
        return None


@dataclass
class Stranger:
    value: int


REFUSED: list[tuple[Any, str]] = [
    (object(), "state['log'] has the type 'builtins:object'"),
    ([1, [object()]], "state['log'][1][0] has the type 'builtins:object'"),
    ({"a": {"b": {1, 2}, "c": print}}, "state['log']['a']['c'] has the type 'builtins:builtin"),
    ({1: object()}, "state['log'][1] has the type"),
    ((1, Stranger(1)), "state['log'][1] has the type 'tests.codec.test_codec:Stranger'"),
    (shapes.Note("x", [Stranger(1)]), "state['log']['tags'][0] has the type"),
    (shapes.Model(name="x", parts=Stranger(1)), "['parts'] has the type"),
    (Send("a", [lambda: 1]), "[1][0] has the type 'builtins:function'"),
    (collections.UserList(), "state['log'] has the type 'collections:UserList'"),
    (Moment(2024, 1, 1), "state['log'] has the type 'tests.codec.test_codec:Moment'"),
    (dt.time(1, tzinfo=Nowhere()), "has the type 'tests.codec.test_codec:Nowhere'"),
    (int, "state['log'] has the type 'builtins:type'"),
    (["ok", "\ud800"], "state['log'][1] holds a lone surrogate at position 0"),
    ({"x\ud800": 1}, "holds a lone surrogate at position 1"),
    ([Path("\udcff")], "state['log'][0] holds a lone surrogate"),
]


def test_the_advice_for_an_array_of_another_class():
    """
    The advice for a subclass of numpy's arrays warns of the plain array, which loses its rest.
    """
    grid = np.arange(3).view(type("Grid", (np.ndarray,), {}))
    with pytest.raises(SerializationError) as refused:
        CODEC.encode(grid, "v")

    assert refused.value.do == (
        "store what it is made of; numpy.asarray(value) alone loses what Grid adds to an array; "
        "codec=Codec(converters={Grid: (to_plain, from_plain)}) keeps the type"
    )


@pytest.mark.parametrize(("value", "text"), REFUSED)
def test_inexact_values_are_refused_with_their_path(value, text):
    """
    A value of another type fails with its place, and with advice.
    """
    with pytest.raises(SerializationError) as refused:
        Codec(TYPES, strict=True).encode(value, "state['log']")

    assert text in refused.value.what
    assert refused.value.what.startswith("state['log']")
    assert refused.value.do


BUFFER_PLACES: list[Callable[[Any], Any]] = [
    lambda v: v,
    lambda v: [v],
    lambda v: {"k": [1, {"deep": v}]},
    lambda v: {1: v},
    lambda v: ("x", v),
    lambda v: deque([[v]]),
    lambda v: Overwrite({"k": v}),
    lambda v: Send("node", {"k": v}),
]


@pytest.mark.parametrize("around", BUFFER_PLACES)
def test_a_bytearray_comes_back_as_one(around):
    """
    A bytearray doesn't come back as bytes, at any depth.
    """
    value = around(bytearray(b"x"))

    assert same(CODEC.decode(CODEC.encode(value)), value)


@pytest.mark.parametrize("around", BUFFER_PLACES)
def test_a_memoryview_is_refused(around):
    """
    A view of another object's memory is refused, with its path, rather than stored as bytes.
    """
    with pytest.raises(SerializationError, match="memoryview"):
        CODEC.encode(around(memoryview(b"x")))


@pytest.mark.parametrize("text", ["\u0119\u010d\u0161", "x" * 300, "\u0180"])
def test_text_that_looks_like_binary_data(text):
    """
    Text whose bytes look like packed binary data is stored as any other.
    """
    value = [{"k": text, "b": b"\xc4\xc5\xc6"}, -60, 0xC4]

    assert same(CODEC.decode(CODEC.encode(value)), value)


def refusal(value: Any) -> SerializationError | None:
    """Why a value is refused; one that is not refused comes back as it was."""
    try:
        payload = CODEC.encode(value)
    except SerializationError as refused:
        return refused
    assert CODEC.decode(payload) == value
    return None


@pytest.mark.parametrize("kind", [list, tuple, dict, set])
def test_recursive_and_too_deep_values_are_refused(kind):
    """
    Endless and very deep values are refused, never a crash; what is accepted can be read back.
    """
    wrap = {
        list: lambda v: [v],
        tuple: lambda v: (v,),
        dict: lambda v: {1: v},
        set: lambda v: frozenset([v]),
    }[kind]
    value: Any = 0
    for depth in range(1, 1_000):
        value = wrap(value)
        if depth % 60 == 0 and (refused := refusal(value)) is not None:
            assert "nested more than 200 levels" in refused.what
            break
    else:
        pytest.fail("1,000 levels were accepted")

    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(SerializationError, match="contains itself"):
        CODEC.encode(endless)


@pytest.mark.langgraph("F-E19")
@pytest.mark.parametrize(
    "value", [shapes.Color.RED, shapes.Note("x"), shapes.Model(name="x"), shapes.Struct("x")]
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [{1: (v,)}]])
def test_an_unknown_type_is_named_and_never_made(value, wrap):
    """
    Bytes that name a type which this program doesn't allow raise UnknownTypeError with its name,
    at any depth.
    """
    payload = CODEC.encode(wrap(value))
    with pytest.raises(UnknownTypeError, match=f"tests.codec.shapes:{type(value).__name__}") as no:
        Codec().decode(payload)

    assert f"Codec(types=[tests.codec.shapes.{type(value).__name__}])" in no.value.do


@pytest.mark.langgraph("F-E19")
@pytest.mark.parametrize("name", ["os:system", "builtins:eval", "tests.codec.shapes:Nope"])
@pytest.mark.parametrize("code", [40, 41, 42, 43, 44])
def test_a_name_in_bytes_imports_nothing(name, code):
    """
    A forged type name is an unknown type, whatever it names.
    """
    forged = ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb([name, {}])))

    with pytest.raises(UnknownTypeError, match=name):
        CODEC.decode(forged)


def test_an_unknown_extension_asks_for_an_upgrade():
    """
    An extension code that this version doesn't know is an error that says so.
    """
    newer = ormsgpack.packb([ormsgpack.Ext(99, b"")])

    with pytest.raises(UnknownTypeError, match="extension code 99") as refused:
        CODEC.decode(newer)
    assert "upgrade actorgraph" in refused.value.do


FORGED: list[tuple[int, Any]] = [
    (10, "xyz"),
    (7, [10**12, 0, 0]),
    (2, [[1]]),
    (16, "No/Zone"),
    (15, [[1], -1]),
    (20, 7),
    (20, [[[1], 2]]),
    (4, ["2020-01-01", None, 5]),
    (13, "not a number"),
    (43, ["tests.codec.shapes:Color", "GREEN"]),
    (40, ["tests.codec.shapes:Note", {"tags": []}]),
    (41, ["tests.codec.shapes:Color", {}]),
    (42, ["tests.codec.shapes:Note", [{}, [], {}, None]]),
    (44, ["tests.codec.shapes:Point", [1]]),
    (21, [1]),
    (22, "x"),
    (23, ["eval", {}]),
    (23, [["list"], {}]),
    (23, [None, 7]),
    (24, 7),
    (29, "10.0.0.0/8"),
    (45, ["tests.codec.shapes:Point", [1, 2]]),
    (45, ["tests.codec.shapes:Note", "x"]),
    (45, ["tests.codec.langgraph_values:Tags", [1]]),
    (46, ["tests.codec.shapes:Note", "x"]),
    (46, ["pydantic.types:SecretStr", 7]),
    (47, ["tests.codec.shapes:Model", [{}, [], {}]]),
    (47, ["tests.codec.langgraph_values:First", [{"gone": 1}, [], {}]]),
    (48, ["tests.codec.shapes:Note", {"text": "x", "tags": []}]),
    (48, ["actorgraph.stores.operations:Item", {"key": "k"}]),
    (49, ["tests.codec.shapes:Note", ["a", 0]]),
    (49, ["re:Pattern", ["a" * 10_001, 0]]),
    (49, ["re:Pattern", ["a", 128]]),
    (49, ["re:Pattern", ["[\0-\uffff]" * 40, 2]]),
]


@pytest.mark.parametrize(("code", "data"), FORGED)
def test_an_extension_with_wrong_data_is_damaged(code, data):
    """
    Data that doesn't fit its extension raises SerializationError, whatever the type raised.
    """
    payload = ormsgpack.packb([ormsgpack.Ext(code, ormsgpack.packb(data))])

    with pytest.raises(SerializationError, match="can't be decoded"):
        CODEC.with_types([Tags, First, re.Pattern]).decode(payload)


def test_an_expression_that_is_slow_to_compile_is_refused():
    """
    A regular expression that reading would refuse is refused when it is stored.
    """
    with pytest.raises(SerializationError, match="32 character classes"):
        Codec([re.Pattern]).encode(re.compile("[a-\u0180]" * 33))
    wide = re.compile("[a-\u0180]" * 32)
    codec = Codec([re.Pattern])
    assert codec.decode(codec.encode(wide)) == wide


@given(VALUES, st.data())
def test_damaged_bytes_raise_the_codecs_errors_only(value, data):
    """
    Bytes that are cut or changed anywhere either decode to something or raise SerializationError
    or UnknownTypeError: nothing else.
    """
    payload = bytearray(CODEC.encode(value))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] = data.draw(st.integers(0, 255))
    del payload[data.draw(st.integers(place, len(payload))) :]

    with suppress(SerializationError, UnknownTypeError, EncryptionError):
        CODEC.decode(bytes(payload))


@given(st.binary(max_size=60))
def test_noise_raises_the_codecs_errors_only(noise):
    """
    Bytes that were never a value are refused in the same way.
    """
    with suppress(SerializationError, UnknownTypeError, EncryptionError):
        CODEC.decode(noise)


@pytest.mark.parametrize("kind", [int, object, str, dict, Nowhere])
def test_only_data_types_can_be_allowed(kind):
    """
    The list takes dataclasses, models, Structs, enums and named tuples, and no other class.
    """
    with pytest.raises(SerializationError, match="can't be put on the codec's allow-list"):
        Codec([kind])


def test_a_codec_with_more_types_leaves_the_first_as_it_was():
    """
    with_types gives a new codec, or the same one when it knows them all.
    """
    first = Codec([shapes.Color], strict=True)
    second = first.with_types(TYPES)

    assert second.decode(second.encode(shapes.Level.HIGH)) is shapes.Level.HIGH
    with pytest.raises(SerializationError):
        first.encode(shapes.Level.HIGH)
    assert second.with_types(TYPES) is second
