"""numpy's arrays and scalars: stored exactly, whatever their dtype, or refused with their path."""

import subprocess
import sys
from typing import Any

import numpy as np
import ormsgpack
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


EXAMPLES = pytest.mark.parametrize("examples", [15, pytest.param(100, marks=pytest.mark.long)])


@pytest.mark.promise("T30")
@EXAMPLES
def test_arrays_of_any_dtype_come_back_as_they_were(examples):
    """
    Arrays of every dtype that hypothesis knows, structured and nested ones too, of any shape, come
    back with the same dtype, shape and bytes, in every form.
    """
    settings(max_examples=examples)(given(st.data())(come_back))()


def come_back(data):
    """Store an array in every form."""
    array = data.draw(arrays.arrays(data.draw(DTYPES), arrays.array_shapes(min_dims=0, min_side=0)))

    for codec in FORMS.values():
        (found,) = codec.decode(codec.encode([array]))
        assert same(found, array)
        assert found.flags.writeable
        assert found.flags.owndata or found.base is None


@pytest.mark.promise("T30")
@EXAMPLES
def test_scalars_of_any_dtype_come_back_as_they_were(examples):
    """
    Scalars too, with their own type: a float64 doesn't become a float.
    """
    settings(max_examples=examples)(given(st.data())(scalar_comes_back))()


def scalar_comes_back(data):
    """Store the one item of an array in every form."""
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
)
def test_inexact_arrays_are_refused_with_their_path(value):
    """
    Arrays of objects, subclasses, titles and metadata of dtypes are refused, and the error says
    where they are.
    """
    for codec in FORMS.values():
        with pytest.raises(SerializationError, match=r"state\['a'\]\[1\] "):
            codec.encode({"a": [0, value]}, "state")


STRUCTURED = {"names": ["a"], "formats": ["<i2"], "offsets": [4], "size": 9, "aligned": False}


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (np.array([[1, 2]], "<i2"), ["<i2", [1, 2], "C", b"\1\0\2\0"]),
        (np.array([[1], [2]], "<i2", order="F"), ["<i2", [2, 1], "C", b"\1\0\2\0"]),
        (
            np.asfortranarray(np.array([[1, 2], [3, 4]], "|i1")),
            ["|i1", [2, 2], "F", b"\1\3\2\4"],
        ),
        (np.zeros((), "|b1"), ["|b1", [], "C", b"\0"]),
        (np.zeros(1, np.longlong), ["<q", [1], "C", bytes(8)]),
        (
            np.array([(258,)], np.dtype({**STRUCTURED, "itemsize": 9})),
            [STRUCTURED, [1], "C", b"\0\0\0\0\2\1\0\0\0"],
        ),
        (
            np.zeros(1, np.dtype([("a", "i1"), ("b", "<i2", (2,))], align=True)),
            [
                {
                    "names": ["a", "b"],
                    "formats": ["|i1", ["<i2", [2]]],
                    "offsets": [0, 2],
                    "size": 6,
                    "aligned": True,
                },
                *([1], "C", bytes(6)),
            ],
        ),
    ],
    ids=range(7),
)
def test_the_stored_form_of_arrays(value, form):
    """
    An array is stored as dtype, shape, order and bytes.
    """
    assert content_of(CODEC.encode(value)) == (18, form)


def content_of(payload):
    """The code and the content of an extension."""
    found: list[Any] = []
    ormsgpack.unpackb(payload, ext_hook=lambda code, data: found.extend((code, data)))
    return found[0], ormsgpack.unpackb(found[1])


GAPS = np.dtype({"names": ["a", "b"], "formats": ["|u1", "|u1"], "offsets": [1, 3], "itemsize": 5})
INNER = np.dtype({"names": ["x", "y"], "formats": ["|u1", (GAPS, (2,))], "offsets": [1, 4]})


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [(GAPS, [1, 3]), (INNER, [1, 5, 7, 10, 12])],
)
@pytest.mark.parametrize("order", ["C", "F", "view"])
def test_bytes_between_fields_are_zeros(dtype, kept, order):
    """
    Memory between the fields of records is not stored, in nested ones neither.
    """
    memory = bytes(range(1, 1 + dtype.itemsize)) * 12
    value = np.frombuffer(memory, dtype).reshape(3, 4)
    if order == "view":
        value = value[::2, ::-1]
    elif order == "F":
        value = np.frombuffer(memory, dtype).reshape(4, 3).T
    _, (_, shape, stored, payload) = content_of(CODEC.encode(value))
    record = bytes(at + 1 if at in kept else 0 for at in range(dtype.itemsize))

    assert (shape, stored) == (list(value.shape), "F" if order == "F" else "C")
    assert payload == record * value.size
    assert same(CODEC.decode(CODEC.encode(value)), value)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (np.float32(1), ["<f4", b"\0\0\x80?"]),
        (np.str_("a\0"), ["U", "a\0"]),
        (np.bytes_(b"a\0"), ["S", b"a\0"]),
        (
            np.zeros(1, [("a", "|i1")])[0],
            [{**STRUCTURED, "formats": ["|i1"], "offsets": [0], "size": 1}, b"\0"],
        ),
    ],
)
def test_the_stored_form_of_scalars(value, form):
    """
    A scalar is stored as dtype and bytes; text and bytes as such.
    """
    assert content_of(CODEC.encode(value)) == (19, form)


OBJECTS = "holds Python objects, not data"
REFUSALS = [
    (np.add, "s has the type 'numpy:ufunc', which can't be stored"),
    (
        type("float65", (np.float64,), {"__module__": "numpy"})(1),
        "s of type 'numpy:float65' can't be stored: a float65 would come back as a float64",
    ),
    (
        np.zeros(1, [("a", "i1"), ("b", "O")]),
        (
            f"s of type 'numpy:ndarray' can't be stored: dtype dtype([('a', 'i1'), ('b', 'O')]) "
            f"{OBJECTS}"
        ),
    ),
    (np.array([None]), f"s of type 'numpy:ndarray' can't be stored: dtype dtype('O') {OBJECTS}"),
    (
        np.zeros(1, np.dtype([(("title", "a"), "i1")])),
        (
            "s of type 'numpy:ndarray' can't be stored: dtype dtype([(('title', 'a'), 'i1')]) has "
            "titles"
        ),
    ),
    (
        np.zeros(1, np.dtype("i1", metadata={"unit": "m"})),
        (
            "s of type 'numpy:ndarray' can't be stored: dtype dtype('int8') would come back as "
            "dtype('int8')"
        ),
    ),
    (
        np.rec.array([(1,)], dtype=[("a", "i1")])[0],
        (
            "s of type 'numpy:record' can't be stored: dtype dtype((numpy.record, [('a', 'i1')])) "
            "would come back as dtype([('a', 'i1')])"
        ),
    ),
    (np.ma.masked_array([1]), "s has the type 'numpy.ma:MaskedArray', which can't be stored"),
]


@pytest.mark.parametrize(("value", "what"), REFUSALS, ids=range(len(REFUSALS)))
def test_the_text_of_refusals(value, what):
    """
    A value that can't be stored exactly is refused with its dtype and the reason.
    """
    with pytest.raises(SerializationError) as refused:
        CODEC.encode(value, "s")

    assert refused.value.what == what


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (["<f8", [-1], "C", b""], "invalid array shape [-1] or order 'C'"),
        (["<f8", [2**63], "C", b""], f"invalid array shape [{2**63}] or order 'C'"),
        (["<f8", [True], "C", bytes(8)], "invalid array shape [True] or order 'C'"),
        (["<f8", [1], "A", bytes(8)], "invalid array shape [1] or order 'A'"),
        (
            ["<f8", [2], "C", bytes(1_000)],
            "an array of shape [2] and dtype float64 can't have 1,000 bytes",
        ),
        (["<f8", [1] * 65, "C", bytes(8)], "an array of shape [1, 1, 1, 1, "),
        (["os:system", [1], "C", b""], "unknown dtype 'os:system'"),
        (["|i1x", [1], "C", b""], "unknown dtype '|i1x'"),
        (["|O", [1], "C", bytes(8)], "dtype dtype('O') holds no data"),
        (["|S0", [1], "C", b""], "dtype dtype('S') holds no data"),
    ],
)
def test_the_text_for_bytes_of_no_array(form, why):
    """
    Stored data of no array is refused with what is wrong about it.
    """
    with pytest.raises(SerializationError) as refused:
        CODEC.decode(ormsgpack.packb(ormsgpack.Ext(18, ormsgpack.packb(form))))

    assert refused.value.what.startswith(f"a stored value can't be decoded: {why}")


@pytest.mark.parametrize("form", [["<f8", "text"], ["U", b"x"], ["S", "x"], ["U", 1]])
def test_bytes_of_no_scalar(form):
    """
    Text and bytes are scalars of their own kind only.
    """
    with pytest.raises(SerializationError):
        CODEC.decode(ormsgpack.packb(ormsgpack.Ext(19, ormsgpack.packb(form))))


@pytest.mark.parametrize("value", [np.zeros(1), np.float64(1), np.str_("x")])
def test_a_program_without_numpy(monkeypatch, value):
    """
    Without numpy a stored array is refused with what to do.
    """
    payload = CODEC.encode(value)
    monkeypatch.setitem(sys.modules, "numpy", None)

    with pytest.raises(SerializationError) as refused:
        CODEC.decode(payload)
    assert refused.value.what == (
        "a stored value can't be decoded: it is a numpy array, and this program hasn't imported "
        "numpy: import it first"
    )


def test_the_most_dimensions():
    """
    An array may have 64 dimensions and be written to.
    """
    value = np.ones((1,) * 64, "|i1")
    found = CODEC.decode(CODEC.encode(value))
    found[...] = 2

    assert found.shape == value.shape
    assert found.flags.owndata


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
