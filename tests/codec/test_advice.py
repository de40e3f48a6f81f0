"""Advice about values that can't be stored: a program that follows it gets the value back."""

import array
import collections
import fractions
import importlib
import io
import pathlib
import re
import runpy
import string
import sys
import threading
import types
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import PIL.Image
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest
import scipy.sparse
import scipy.sparse.linalg

from actorgraph import Codec, SerializationError
from actorgraph.codec.advice import ADVICE, advice_of
from tests.support.source_files import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:The chararray class")
MODULES = {
    module.__name__.partition(".")[0]: importlib.import_module(
        module.__name__.partition(".")[0],
    )
    for module in (
        *(array, collections, fractions, io, pathlib, string, types),
        *(nx, np, pd, PIL, pl, pa, scipy),
    )
}

TABLE = pd.DataFrame(
    {"n": [1, 2], "t": ["a", None], "at": pd.to_datetime(["2026-01-01", "2026-01-02"])},
    index=pd.Index(["x", "y"], name="key"),
)
RECORDS = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
LINES = pl.DataFrame({"n": [1, None], "t": ["a", "b"]})
ARROW = pa.table({"n": [1, 2], "t": ["a", None]})
GRID = scipy.sparse.random_array((4, 5), density=0.4, rng=np.random.default_rng(1))


def old_texts():
    """An array of a class that newer versions of numpy warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.char.array(["ab", "c"])


def graph_of(kind):
    made = kind([(1, 2), ("a", 2)])
    made.add_node("alone", color="red", id="its own", source=1)
    made.add_edge((0, 1), 2, weight=2.5, target="t", key="k")
    made.graph["name"] = "g"
    return made


PICTURE = PIL.Image.new("RGB", (3, 2), "red").convert("P", palette=PIL.Image.Palette.ADAPTIVE)
PICTURE.info.update(dpi=(72, 72), transparency=0)

VALUES = {
    ("numpy", "MaskedArray"): [
        np.ma.array([1, 2, 999], mask=[0, 0, 1]),
        np.ma.array([[1.5, 2.0]], mask=False, fill_value=-1),
        np.ma.array([1, 2], mask=[0, 1], hard_mask=True),
    ],
    ("numpy", "MaskedConstant"): [np.ma.masked],
    ("numpy", "record"): [RECORDS[1]],
    ("numpy", "recarray"): [RECORDS],
    ("numpy", "matrix"): [np.asmatrix([[1, 2], [3, 4]])],
    ("numpy", "memmap"): [],
    ("numpy", "chararray"): [old_texts()],
    ("numpy", "dtype"): [np.dtype("f4"), np.dtype([("a", "<i4"), ("b", "<f8", (2,))])],
    ("numpy", "Generator"): [np.random.default_rng(7)],
    ("numpy", "RandomState"): [np.random.RandomState(7)],
    ("string", "Template"): [string.Template("$a")],
    ("pathlib", "PureWindowsPath"): [pathlib.PureWindowsPath("c:\\a")],
    ("pandas", "DatetimeIndex"): [
        pd.date_range("2026", periods=3, tz="UTC", name="d"),
        pd.DatetimeIndex(["2026-01-01", "2026-01-05"]),
    ],
    ("pandas", "TimedeltaIndex"): [pd.timedelta_range("1D", periods=2)],
    ("pandas", "Categorical"): [
        pd.Categorical([1, 2, None], categories=[3, 2, 1], ordered=True),
        pd.Categorical(pd.date_range("2026", periods=2)),
        pd.Categorical([], categories=["a"]),
        pd.Categorical(["b", "a"]),
    ],
    ("pandas", "SparseArray"): [
        pd.arrays.SparseArray([np.nan, 1.0, np.nan]),
        pd.arrays.SparseArray([True, False], fill_value=False, kind="block"),
    ],
    ("pandas", "CategoricalDtype"): [pd.CategoricalDtype(["b", "a"], ordered=True)],
    ("pandas", "ExtensionDtype"): [],
    ("pandas", "BaseOffset"): [],
    ("polars", "LazyFrame"): [LINES.lazy()],
    ("polars", "Expr"): [pl.col("n") + 1],
    ("pyarrow", "Array"): [pa.array([1, None])],
    ("pyarrow", "ChunkedArray"): [pa.chunked_array([[1], [None, 2]])],
    ("pyarrow", "Scalar"): [pa.scalar(1)],
    ("pyarrow", "Schema"): [pa.schema([("a", pa.int64())], metadata={"k": "v"})],
    ("pyarrow", "DataType"): [pa.int64()],
    ("pyarrow", "Buffer"): [pa.py_buffer(b"ab")],
    ("pandas", "DataFrame"): [TABLE, TABLE.reset_index(drop=True)],
    ("pandas", "Series"): [TABLE["n"], TABLE["t"].rename(None), TABLE["at"]],
    ("pandas", "Timestamp"): [
        pd.Timestamp("2026-01-01T00:00:00.000000001"),
        pd.Timestamp("2026-01-01", tz="Europe/Berlin"),
    ],
    ("pandas", "Timedelta"): [pd.Timedelta(1, "ns"), pd.Timedelta("-2 days")],
    ("pandas", "NaTType"): [pd.NaT],
    ("pandas", "NAType"): [pd.NA],
    ("pandas", "Period"): [pd.Period("2026-02", freq="M")],
    ("pandas", "Interval"): [pd.Interval(1, 2.5, closed="left")],
    ("pandas", "Index"): [
        TABLE.index,
        pd.RangeIndex(1, 7, 2, name="r"),
        pd.MultiIndex.from_tuples([(1, "a"), (2, "b")]),
    ],
    ("pandas", "ExtensionArray"): [
        pd.array([1, None], dtype="Int64"),
        pd.array(["a"], dtype="string"),
    ],
    ("polars", "DataFrame"): [LINES],
    ("polars", "Series"): [LINES["n"]],
    ("pyarrow", "RecordBatch"): [
        ARROW.to_batches()[0],
        pa.record_batch({"a": pa.array(["x", "y"]).dictionary_encode()}),
    ],
    ("pyarrow", "Table"): [ARROW],
    ("PIL", "Image"): [
        PIL.Image.new("RGB", (3, 2), "red"),
        PIL.Image.new("L", (1, 1), 7),
        PICTURE,
    ],
    ("torch", "Tensor"): [],
    ("scipy", "csr_array"): [GRID.tocsr()],
    ("scipy", "csc_array"): [GRID.tocsc()],
    ("scipy", "csr_matrix"): [scipy.sparse.csr_matrix(GRID)],
    ("scipy", "csc_matrix"): [scipy.sparse.csc_matrix(GRID)],
    ("scipy", "coo_array"): [GRID.tocoo(), scipy.sparse.coo_array(np.array([0, 1, 0]))],
    **{
        ("scipy", f"{form}_{sort}"): [getattr(scipy.sparse, f"{form}_{sort}")(GRID.toarray())]
        for form in ("bsr", "dia", "dok", "lil")
        for sort in ("array", "matrix")
    },
    ("scipy", "coo_matrix"): [scipy.sparse.coo_matrix(GRID)],
    ("networkx", "Graph"): [graph_of(nx.Graph)],
    ("networkx", "DiGraph"): [graph_of(nx.DiGraph)],
    ("networkx", "MultiGraph"): [graph_of(nx.MultiGraph)],
    ("networkx", "MultiDiGraph"): [graph_of(nx.MultiDiGraph)],
    ("fractions", "Fraction"): [fractions.Fraction(-1, 3)],
    ("builtins", "range"): [range(2, 9, 3)],
    ("builtins", "slice"): [slice(None, 4)],
    ("builtins", "mappingproxy"): [types.MappingProxyType({"a": 1})],
    ("builtins", "memoryview"): [
        memoryview(b"ab"),
        memoryview(array.array("i", [1, 2])),
        memoryview(b""),
    ],
    ("array", "array"): [array.array("d", [1.5, 2.0])],
    ("types", "SimpleNamespace"): [types.SimpleNamespace(a=1, b=[2])],
    ("collections", "UserDict"): [collections.UserDict(a=1)],
    ("collections", "ChainMap"): [collections.ChainMap({"a": 1}, {"b": 2})],
    ("collections", "UserList"): [collections.UserList([1])],
    ("collections", "UserString"): [collections.UserString("a")],
    ("_io", "StringIO"): [io.StringIO("ab")],
    ("_io", "BytesIO"): [io.BytesIO(b"ab")],
}
"""Values of each row of the table. Those of files and of torch have tests of their own,
and so have those for all classes below one."""

CASES = [
    pytest.param(key, value, id=f"{'.'.join(key)}-{place}")
    for key, values in VALUES.items()
    for place, value in enumerate(values)
    # numpy for newer versions of Python is about to remove the class.
    if key[1] != "chararray" or sys.version_info < (3, 12)
]


SHOWN = [
    (np.random.RandomState, lambda value: str(value.get_state(legacy=False))),
    (pl.LazyFrame, lambda value: value.collect().to_dict(as_series=False)),
    (pl.Expr, str),
    (pa.Schema, lambda value: [str(value), value.metadata]),
    (pa.Buffer, lambda value: value.to_pybytes()),
    (pa.Scalar, lambda value: [value.type, value.as_py()]),
    ((pa.Array, pa.ChunkedArray), lambda value: [value.type, value.to_pylist()]),
    (string.Template, lambda value: value.template),
    (pa.RecordBatch, lambda value: [value.schema, value.to_pylist()]),
]


def shown(value):
    """Return all that a person would compare."""
    kind = type(value)
    if kind.__module__.startswith("networkx"):
        return [kind, value.nodes(data=True), [*value.edges(data=True)], value.graph]
    if kind.__module__.startswith("scipy"):
        return [kind, value.shape, value.toarray().tolist(), value.dtype]
    if kind is PIL.Image.Image:
        return [value.mode, value.size, value.tobytes(), value.info, value.getpalette()]
    if kind is np.random.Generator:
        return value.bit_generator.state
    if kind is pd.DataFrame:
        return [value.to_dict(), value.dtypes.to_dict(), value.index.name]
    if kind is pd.Series:
        return [value.to_dict(), value.dtype, value.name, value.index.name]
    if kind in (memoryview, io.BytesIO, io.StringIO):
        return [value.format, bytes(value)] if kind is memoryview else value.getvalue()
    if isinstance(value, np.ndarray):
        return [kind, value.dtype, value.shape, repr(value), getattr(value, "fill_value", None)]
    for kinds, show in SHOWN:
        if isinstance(value, kinds):
            return [kind, show(value)]
    return [kind, repr(value), str(getattr(value, "tz", None))]


@pytest.fixture
def evaluate(tmp_path):
    """Evaluate an expression of the advice, as a program that has it in a file of its own."""

    def evaluate(text, **names):
        path = tmp_path / "program.py"
        path.write_text(f"made = ({text})")
        return runpy.run_path(str(path), init_globals={**MODULES, **names})["made"]

    return evaluate


@pytest.mark.filterwarnings("ignore:the matrix subclass", "ignore:The chararray class")
@pytest.mark.parametrize(("key", "value"), CASES)
def test_the_advised_data_give_the_value_back(evaluate, key, value):
    """
    The error shows an expression that can be stored, and one that makes the value again of it.
    """
    advice = ADVICE[key]
    with pytest.raises(SerializationError) as refused:
        Codec().encode(value)
    codec = Codec()

    stored = codec.decode(codec.encode(evaluate(advice.store, value=value)))

    assert shown(evaluate(advice.read, stored=stored)) == shown(value)
    assert f"store {advice.store}, and build it again by {advice.read}" in refused.value.do


@pytest.mark.filterwarnings("ignore:the matrix subclass", "ignore:The chararray class")
@pytest.mark.parametrize(("key", "value"), [case for case in CASES if ADVICE[case[0][0]].same_type])
def test_the_advised_converter_stores_the_value(evaluate, key, value):
    """
    The converters= that the error shows, copied as it is, store the value itself, with its type.
    """
    shown_code = (advice_of(value) or "").split("codec=Codec(converters=")[1]
    codec = Codec(converters=evaluate(shown_code.removesuffix(") do both")))

    made = codec.decode(codec.encode({"state": [value]}))["state"][0]

    assert type(made) is type(value)
    assert shown(made) == shown(value)


BELOW = [
    *(pa.array([1, None]), pa.array(["a"]).dictionary_encode(), pa.array([{"a": 1}])),
    *(pa.scalar(1), pa.scalar("a"), pa.list_(pa.int8()), pa.timestamp("us", "UTC")),
    *(pd.offsets.MonthEnd(2), pd.offsets.Day(3), pd.DateOffset(months=1, days=2)),
    *(pd.Int64Dtype(), pd.DatetimeTZDtype(tz="UTC"), pd.PeriodDtype("M")),
    pd.SparseDtype("int64"),
]


@pytest.mark.parametrize("value", BELOW, ids=lambda value: type(value).__name__)
def test_a_pair_for_all_classes_below_one(evaluate, value):
    """
    Arrays of Arrow, offsets and dtypes have many classes: the converter of each is shown.
    """
    shown_code = (advice_of(value) or "").split("codec=Codec(converters=")[1]
    codec = Codec(converters=evaluate(shown_code.removesuffix(") do both")))

    made = codec.decode(codec.encode(value))

    assert type(made) is type(value)
    assert shown(made) == shown(value)


MIXED = [
    pd.DataFrame({"o": [1, "a", 2.5]}),
    pd.DataFrame({"o": [[1], [2, 3], None], "c": [1j, 2j, 3j]}),
    pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
    pd.DataFrame([[1, "x"], [3, "y"]], columns=["a", 1]),
    pd.Series([{"a": 1}, {2: "b"}], name=("n", 1)),
    pd.Series([1, "a"], index=["x", "y"]),
    np.array([(1, "a")], dtype=[("a", int), ("o", object)]),
    np.array(["a", "b"], dtype=np.dtypes.StringDType()),
    np.asarray(RECORDS),
]


@pytest.mark.parametrize("value", MIXED, ids=range(9))
def test_values_that_the_form_of_their_type_does_not_hold(evaluate, value):
    """
    Tables of mixed values, which parquet refuses or changes, and unusual arrays have other advice.
    """
    text = (advice_of(value) or "").removeprefix("store ").split("; or let ")[0]
    store, read = text.split(", and build it again by ")
    codec = Codec()

    made = evaluate(read, stored=codec.decode(codec.encode(evaluate(store, value=value))))

    assert type(made) is type(value)
    assert repr(made) == repr(value)
    assert getattr(made, "dtype", None) == getattr(value, "dtype", None)


def test_an_image_of_a_file(evaluate):
    """
    An image that was read of a file is advised to become one in memory.
    """
    file = io.BytesIO()
    PICTURE.save(file, "PNG")
    opened = PIL.Image.open(io.BytesIO(file.getvalue()))
    advice = ADVICE["PIL", "Image"]
    codec = Codec()

    stored = codec.decode(codec.encode(evaluate(advice.store, value=opened)))

    assert (advice_of(opened) or "").endswith(advice.read)
    assert shown(evaluate(advice.read, stored=stored)) == shown(opened.copy())


def test_every_row_is_followed():
    """
    Each row of the table has a value that follows it.
    """
    assert VALUES.keys() == ADVICE.keys()
    assert [key for key, values in VALUES.items() if not values] == [
        ("numpy", "memmap"),
        ("pandas", "ExtensionDtype"),
        ("pandas", "BaseOffset"),
        ("torch", "Tensor"),
    ]


def test_an_array_in_a_file(evaluate, tmp_path):
    """
    An array of a mapped file is advised to become one in memory, which is the same.
    """
    mapped = np.memmap(tmp_path / "a", dtype="i4", mode="w+", shape=(3,))
    mapped[:] = [1, 2, 3]
    advice = ADVICE["numpy", "memmap"]
    codec = Codec()

    stored = codec.decode(codec.encode(evaluate(advice.store, value=mapped)))

    assert evaluate(advice.read, stored=stored).tolist() == [1, 2, 3]
    assert advice.store in (advice_of(mapped) or "")


def test_an_array_of_objects(evaluate):
    """
    An array of Python objects is advised to become a list with its shape, also one of lists.
    """
    objects = np.empty((2, 2), dtype=object)
    objects[0, 0], objects[0, 1], objects[1, 0] = [1], [2], "x"
    with pytest.raises(SerializationError) as refused:
        Codec().encode(objects)
    store, read = (
        refused.value.do.removeprefix("store ")
        .split("; or let ")[0]
        .split(", and build it again by ")
    )
    codec = Codec()

    stored = codec.decode(codec.encode(evaluate(store, value=objects)))
    made = evaluate(read, stored=stored)

    assert (made.shape, made.tolist()) == (objects.shape, objects.tolist())


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ([].append, "store a name"),
        ((n for n in "a"), "store list(value)"),
        (map(str, "a"), "store list(value)"),
        (threading.Lock(), "keep it outside of the state"),
        (io.TextIOWrapper(io.BytesIO()), "keep it outside of the state"),
        (int, "store the class's name"),
        (reversed([1]), "store list(value)"),
        ({"a": 1}.keys(), "store list(value)"),
        (re.match("a", "a"), "store value.group()"),
        (threading.Event(), "keep it outside of the state"),
        (TABLE.groupby("n"), "store parquet bytes"),
        (pl.Int64(), "store the Arrow bytes"),
        (PIL.Image.new("RGB", (1, 1)).getexif(), "store the bytes of its file"),
        (pa.field("a", pa.int64()), "store Arrow or parquet bytes"),
        (scipy.sparse.linalg.aslinearoperator(GRID), "store the arrays and numbers"),
    ],
    ids=range(15),
)
def test_values_without_a_pair_have_advice_too(value, advice):
    """
    Values that hold no data, and other types of these packages, have advice of their kind.
    """
    with pytest.raises(SerializationError) as refused:
        Codec().encode(value)

    assert refused.value.do.startswith(advice)


def test_a_value_too_large_for_memory_names_the_reason():
    """
    An error without a text is named by its class.
    """
    huge = np.broadcast_to(np.float64(3), (100_000, 100_000, 1_000))

    with pytest.raises(SerializationError, match="MemoryError"):
        Codec().encode(huge)


def test_the_page_shows_every_row():
    """
    The table in docs/codec.md has each row of the advice, word for word.
    """
    page = (ROOT / "docs" / "codec.md").read_text()

    assert [
        key for key, advice in ADVICE.items() if f"`{advice.store}` | `{advice.read}` |" not in page
    ] == []
