"""numpy's arrays and scalars: stored exactly, whatever their dtype, or refused with their path."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from actorgraph import Codec, SerializationError
from tests.codec.shapes import CODEC

FORMS = {"msgpack": CODEC, "json": CODEC.in_form("json"), "small": Codec(compress_above=1)}


def has_titles(dtype) -> bool:
    """Whether a field has a second name."""
    if dtype.subdtype is not None:
        return has_titles(dtype.subdtype[0])
    fields = [dtype.fields[name] for name in dtype.names or ()]
    return any(len(field) > 2 or has_titles(field[0]) for field in fields)


DTYPES = st.one_of(
    arrays.scalar_dtypes(),
    arrays.array_dtypes(),
    arrays.nested_dtypes(),
).filter(lambda dtype: dtype.itemsize > 0 and not has_titles(dtype))


def same(left, right) -> bool:
    """Whether two arrays or scalars are one as the other, bit for bit."""
    return (
        type(left) is type(right)
        and left.dtype == right.dtype
        and left.dtype.type is right.dtype.type
        and left.shape == right.shape
        and content(left) == content(right)
    )


def content(array):
    """The bytes of each field, without those between them."""
    names = array.dtype.names
    if array.dtype.char in "gG":  # ten bytes of sixteen count
        return repr(array)
    return array.tobytes() if names is None else [content(array[name]) for name in names]


@pytest.mark.promise("T30")
@settings(max_examples=50)
@given(st.data())
def test_arrays_of_any_dtype_come_back_as_they_were(data):
    """
    Arrays of every dtype that hypothesis knows, structured and nested ones too, of any shape, come
    back with the same dtype, shape and bytes, in every form.
    """
    array = data.draw(arrays.arrays(data.draw(DTYPES), arrays.array_shapes(min_dims=0, min_side=0)))

    for codec in FORMS.values():
        (found,) = codec.decode(codec.encode([array]))
        assert same(found, array)
        assert found.flags.writeable
        assert found.flags.owndata or found.base is None


@pytest.mark.promise("T30")
@settings(max_examples=50)
@given(st.data())
def test_scalars_of_any_dtype_come_back_as_they_were(data):
    """
    Scalars too, with their own type: a float64 doesn't become a float.
    """
    array = data.draw(arrays.arrays(data.draw(DTYPES), (1,)))
    scalar = array[0]

    for codec in FORMS.values():
        found = codec.decode(codec.encode({"x": scalar}))["x"]
        assert same(found, scalar)


@pytest.mark.promise("T30")
@pytest.mark.parametrize(
    "value",
    [
        *(np.dtype(letter).type(1) for letter in "?bhilqpBHILQPefdgFDG"),
        np.zeros((2, 0, 3), ">u2"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24).reshape(2, 3, 4)[:, ::2, ::-1],
        np.array("2026-11-21", "M8[D]"),
        np.datetime64("NaT", "ns"),
        np.timedelta64(3, "h"),
        np.array([("é", 1.5)], np.dtype([("name", "U3"), ("x", "f4")], align=True)),
        np.array([1], np.dtype({"names": ["a"], "formats": ["i2"], "offsets": [4], "itemsize": 9})),
        np.zeros(2, [("m", "f4", (2, 2)), ("inner", [("a", "i1")])]),
        np.array([np.nan, -0.0, np.inf]),
        np.frombuffer(b"\0\xffab", "V2"),
    ],
    ids=repr,
)
def test_special_ones(value):
    """
    Every C type, empty arrays, both orders, views, dates, NaN, padding, arrays inside of records.
    """
    for codec in FORMS.values():
        assert same(codec.decode(codec.encode(value)), value)


@pytest.mark.parametrize("text", ["", "a\0", "é", "\0"])
def test_text_and_bytes_keep_their_zeros(text):
    """
    Text and bytes of numpy come back with the NULs at their end, which arrays would drop.
    """
    for value in (np.str_(text), np.bytes_(text.encode())):
        found = CODEC.decode(CODEC.encode(value))
        assert (type(found), found) == (type(value), value)


@pytest.mark.promise("T30")
@pytest.mark.parametrize(
    "value",
    [
        np.array([print, None], dtype=object),
        np.zeros(1, [("a", "i1"), ("b", "O")]),
        np.array(["a"], dtype=np.dtypes.StringDType()),
        np.ma.masked_array([1], [True]),
        np.rec.array([(1,)], dtype=[("a", "i1")]),
        np.rec.array([(1,)], dtype=[("a", "i1")])[0],
        np.zeros(1, np.dtype("i1", metadata={"unit": "m"})),
        np.zeros(1, np.dtype([(("title", "a"), "i1")])),
    ],
    ids=repr,
)
def test_inexact_arrays_are_refused_with_their_path(value):
    """
    Arrays of objects, subclasses, titles and metadata of dtypes are refused, and the error says
    where they are.
    """
    for codec in FORMS.values():
        with pytest.raises(SerializationError, match=r"state\['a'\]\[1\] "):
            codec.encode({"a": [0, value]}, "state")


HOSTILE = {
    "objects": ["|O", [1], "C", b"\0" * 8],
    "a field of objects": [
        {"names": ["a"], "formats": ["O"], "offsets": [0], "size": 8, "aligned": False},
        *([1], "C", b"\0" * 8),
    ],
    "too few bytes": ["<f8", [10**12], "C", b"\0" * 8],
    "a product that overflows": ["<f8", [2**62, 4], "C", b""],
    "negative": ["<f8", [-1, -1], "C", b"\0" * 8],
    "another order": ["<f8", [1], "A", b"\0" * 8],
    "no dtype": ["os:system", [1], "C", b"\0"],
    "a list of dtypes": ["f8,f8", [1], "C", b"\0" * 15],
    "nothing": ["|S0", [10**15], "C", b""],
    "many dimensions": ["|i1", [1] * 100, "C", b"\0"],
    "numbers": [1, 2, 3, 4],
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("code", [18, 19])
def test_bytes_of_no_array_are_damaged(name, code):
    """
    Bytes that say they are an array and are none are a typed error; no object is made of a pointer.
    """
    import ormsgpack

    inner = ormsgpack.packb(HOSTILE[name])
    with pytest.raises(SerializationError):
        CODEC.decode(ormsgpack.packb(ormsgpack.Ext(code, inner)))


def test_reading_imports_nothing():
    """
    A program that hasn't imported numpy gets an error that says so, and numpy stays unimported.
    """
    payload = CODEC.encode(np.arange(3))
    program = f"""
import sys
from actorgraph import Codec, SerializationError
try:
    Codec().decode({payload!r})
except SerializationError as error:
    print("numpy" in sys.modules, "hasn't imported" in str(error))
"""
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True
    )
    assert found.stdout.split() == ["False", "True"]
