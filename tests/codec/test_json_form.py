"""Values as JSON text: readable, and as exact as msgpack."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actorgraph import Codec, InvalidConfigError, SerializationError
from actorgraph.codec.json_form import is_json
from actorgraph.errors import UnknownTypeError
from tests.codec.shapes import CODEC, TYPES, VALUES, Color, same

JSON = CODEC.in_form("json")
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
    ],
)
def test_the_text(value, text):
    """
    Plain data is plain JSON; what JSON lacks is an object with one key that begins with `$`.
    """
    assert JSON.encode(value).decode() == text


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
