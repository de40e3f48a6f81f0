"""Values as JSON text: readable, and as exact as msgpack."""

import json
import math
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import ormsgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actorgraph import Codec, InvalidConfigError, SerializationError
from actorgraph.codec.json_form import as_payload, is_json, to_json, to_msgpack
from actorgraph.errors import UnknownTypeError
from tests.codec.shapes import CODEC, TYPES, VALUES, Color, Model, Note, Point, Struct, same

JSON = CODEC.in_form("json")
MODEL = (
    '{"$model":["tests.codec.shapes:Model",[{"name":"x","parts":{"$bytes":""},"given":1},'
    '["given","name","parts"],{},null]]}'
)
MARKED = st.dictionaries(
    st.sampled_from(["$tuple", "$bytes", "$dict", "$float", "$1", "$", "$sealed", "x", "crc"]),
    VALUES | st.lists(st.text()),
    max_size=3,
)


@pytest.mark.promise("C23", "T30")
@given(VALUES | MARKED)
@example([float("nan"), float("-nan"), float("inf"), float("-inf"), -0.0, 1e300, 5e-324])
@example([2**63, -(2**63), 2**64, 2**64 - 1, -(2**200), 0, 5])
@example({1: "int", "1": "text", (1,): "tuple", None: "none", b"1": "bytes"})
@example({"$tuple": [1], "x": {"$dict": [["$float", "nan"]]}, "$": {"$sealed": "aGk="}})
@example(["\x00", "\u2028", "\U0001f600", '"', "\\", "$tuple"])
def test_decoded_values_are_equal_and_of_the_same_type(value):
    """
    Every value comes back from JSON equal and of the same type, dicts that look like the
    library's own marks too.
    """
    payload = JSON.encode(value)

    json.loads(payload)
    assert same(JSON.decode(payload), value)


@given(VALUES | MARKED)
def test_every_codec_reads_each_form(value):
    """
    A codec of one form reads what one of the other has written, and no payload is of both.
    """
    assert same(CODEC.decode(JSON.encode(value)), value)
    assert same(JSON.decode(CODEC.encode(value)), value)
    assert (is_json(JSON.encode(value)), is_json(CODEC.encode(value))) == (True, False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, "b", None, True, 1.5]}, '{"a":[1,"b",null,true,1.5]}'),
        ((1, 2), '{"$tuple":[1,2]}'),
        (b"hi", '{"$bytes":"aGk="}'),
        (math.inf, '{"$float":"inf"}'),
        ({"$x": 1}, '{"$dict":[["$x",1]]}'),
        (7, " 7"),
        (Color.RED, '{"$enum":["tests.codec.shapes:Color","RED"]}'),
        (-math.inf, '{"$float":"-inf"}'),
        ([-math.nan, math.nan], '[{"$float":"-nan"},{"$float":"nan"}]'),
        ([-0.0, 1e300], "[-0.0,1e300]"),
        (Note("x"), '{"$dataclass":["tests.codec.shapes:Note",{"text":"x","tags":[]}]}'),
        (Struct("x"), '{"$struct":["tests.codec.shapes:Struct",{"name":"x","parts":null}]}'),
        (Point(1, 2), '{"$namedtuple":["tests.codec.shapes:Point",[1,2]]}'),
        (Model(name="x", parts=b"", given=1), MODEL),
        ({1: (2,)}, '{"$pairs":[[1,{"$tuple":[2]}]]}'),
        ({"$": {"$a": 1, "b": 2}}, '{"$dict":[["$",{"$dict":[["$a",1],["b",2]]}]]}'),
        ({"a": 1, "$b": b"hi"}, '{"$dict":[["a",1],["$b",{"$bytes":"aGk="}]]}'),
        ([{"a$": 1}], '[{"a$":1}]'),
        (np.int8(1), '{"$scalar":["|i1",{"$bytes":"AQ=="}]}'),
        (np.zeros(1, "i1"), '{"$array":["|i1",[1],"C",{"$bytes":"AA=="}]}'),
        (5, " 5"),
        (12, "12"),
    ],
)
def test_the_text(value, text):
    """
    Plain data is plain JSON; what JSON lacks is an object with one key that begins with `$`.
    """
    assert JSON.encode(value).decode() == text
    assert repr(JSON.decode(text.encode())) == repr(value)


@pytest.mark.promise("T30")
@pytest.mark.parametrize("value", [object(), {"a": [lambda: 0]}, "\ud800", {1: object()}])
def test_the_same_is_refused(value):
    """
    JSON refuses the values that msgpack refuses, in the same words.
    """
    with pytest.raises(SerializationError) as plain:
        CODEC.encode(value, "state")
    with pytest.raises(SerializationError) as error:
        JSON.encode(value, "state")

    assert str(error.value) == str(plain.value)


def test_types_are_built_from_the_same_list():
    """
    A type that the program doesn't allow is named, and nothing is built.
    """
    with pytest.raises(UnknownTypeError, match="Color"):
        Codec(form="json").decode(JSON.encode(Color.RED))


@given(VALUES, st.data())
def test_damaged_text_only_raises(value, data):
    """
    Text that was cut or changed is decoded to something or raises an error of the library.
    """
    payload = bytearray(JSON.encode(value))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] = data.draw(st.integers(0, 255))

    for damaged in (bytes(payload), bytes(payload[:at])):
        with suppress(SerializationError, UnknownTypeError):
            JSON.decode(damaged)


@pytest.mark.promise("C23")
@pytest.mark.parametrize("options", [{"compress_above": 10}, {"keys": {"k": b"k" * 32}}])
def test_with_compression_and_encryption(options: Any):
    """
    JSON is compressed and encrypted as msgpack is.
    """
    if "keys" in options:
        pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")
    codec = Codec(TYPES, form="json", **options)
    value = {"text": ["x" * 100, (1, b"2")]}
    payload = codec.encode(value)

    assert not is_json(payload)
    assert codec.decode(payload) == value
    assert codec.count(codec.encode([1, 2, (3,)])) == 3


def test_an_unknown_form():
    """
    A form that there isn't is refused when the codec is made.
    """
    with pytest.raises(InvalidConfigError, match="yaml"):
        Codec(form="yaml")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("payload", "found"),
    [(b"", False), (b"7", False), (b" 7", True), (b"{}", True), (b"\x7f\x80", True)]
    + [(bytes([first, 0]), False) for first in (0x80, 0x81, 0xC1, 0xFF)],
)
def test_which_bytes_are_json(payload, found):
    """
    Two bytes and more of which the first is below 0x80 are JSON; a shorter text gets a space.
    """
    assert is_json(payload) is found
    assert is_json(as_payload(b"7"))
    assert as_payload(b"10") == b"10"


def test_extensions_of_later_versions():
    """
    An extension that this version doesn't know is converted by its number, there and back.
    """
    payload = ormsgpack.packb([ormsgpack.Ext(99, ormsgpack.packb([1]))])
    text = to_json(payload)

    assert text == b'[{"$99":[1]}]'
    assert to_msgpack(text, JSON._pack_read) == payload  # noqa: SLF001


REPAIR = "check the database's integrity, or restore it from a backup"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"$bytes":"ab"}', "Invalid base64 encoded string"),
        ('{"$bytes":"a!=="}', "Invalid base64 encoded string"),
        ('{"$float":"x"}', "could not convert string to float: 'x'"),
        ('{"$dict":[[1]]}', "not enough values to unpack (expected 2, got 1)"),
        ('{"$nope":1}', "invalid literal for int() with base 10: 'nope'"),
        ('{"a"', "Input data was truncated"),
    ],
)
def test_text_that_is_damaged_is_named(text, why):
    """
    JSON that the library hasn't written is refused with the fault.
    """
    with pytest.raises(SerializationError) as refused:
        JSON.decode(text.encode())

    what = f"a stored value is not valid JSON of this library: {why}"
    assert refused.value.what == f"a stored value can't be decoded: {what}"
    assert refused.value.do == REPAIR
    with pytest.raises(SerializationError) as inner:
        to_msgpack(text.encode(), JSON._pack_read)  # noqa: SLF001
    assert (inner.value.what, inner.value.do) == (what, REPAIR)


def test_a_value_that_is_too_deep_for_json():
    """
    Lists that are nested deeper than the stack allows are refused, with what to do; from Python
    3.12 on the stack allows as many levels as msgpack.
    """
    payload = b"\x91" * 900 + b"\x90"
    if sys.version_info >= (3, 12):
        assert to_json(payload) == b"[" * 901 + b"]" * 901
        return

    with pytest.raises(SerializationError) as refused:
        to_json(payload)

    assert refused.value.what == "a value is nested too deeply to be stored as JSON"
    assert refused.value.do == "store plain, shallow data in the state"


def test_objects_with_several_marks_are_plain():
    """
    Only an object with one key can be a mark: in text that was written by hand others are dicts.
    """
    assert JSON.decode(b'{"$tuple":[1],"x":{"$tuple":[2]}}') == {"$tuple": [1], "x": (2,)}
    assert JSON.decode(b'{"x":{"y":{"$tuple":[2]}}}') == {"x": {"y": (2,)}}
    assert JSON.decode(b'{"$dict":[["$a",{"$bytes":"aGk="}]]}') == {"$a": b"hi"}
