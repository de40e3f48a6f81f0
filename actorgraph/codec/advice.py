"""Data to store in place of a value whose type can't be stored, and the way back.

Each pair of expressions gives the value back: a test follows every one. They are also what a
converter for the type is made of (`codec.converters`).
"""

from dataclasses import dataclass
from typing import Any, cast

_PATH_MAX = 160
_NUMPY = "numpy"


@dataclass(frozen=True, slots=True)
class Advice:
    """A pair of Python expressions.

    Attributes:
        store: of `value`: plain data.
        read: of `stored`, that data: the value again.
    """

    store: str
    read: str


_SPARSE = {
    name: Advice(
        "[value.data, value.indices, value.indptr, value.shape]",
        f"scipy.sparse.{name}(tuple(stored[:3]), shape=stored[3])",
    )
    for name in ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
}
_GRAPHS = dict.fromkeys(
    ("Graph", "DiGraph", "MultiGraph", "MultiDiGraph"),
    Advice(
        'networkx.node_link_data(value, edges="edges")',
        'networkx.node_link_graph(stored, edges="edges")',
    ),
)

ADVICE: dict[tuple[str, str], Advice] = {
    (_NUMPY, "MaskedArray"): Advice(
        "[value.data, numpy.ma.getmaskarray(value), value.fill_value]",
        "numpy.ma.array(stored[0], mask=stored[1], fill_value=stored[2])",
    ),
    (_NUMPY, "recarray"): Advice(
        "value.view(value.dtype.fields or value.dtype, numpy.ndarray)",
        "stored.view(numpy.recarray)",
    ),
    (_NUMPY, "matrix"): Advice("numpy.asarray(value)", "numpy.asmatrix(stored)"),
    (_NUMPY, "memmap"): Advice("numpy.array(value)", "stored"),
    (_NUMPY, "chararray"): Advice(
        "numpy.array(value.view(numpy.ndarray))", "stored.view(numpy.char.chararray)"
    ),
    (_NUMPY, "dtype"): Advice(
        "numpy.lib.format.dtype_to_descr(value)", "numpy.lib.format.descr_to_dtype(stored)"
    ),
    (_NUMPY, "Generator"): Advice(
        "[type(value.bit_generator).__name__, value.bit_generator.state]",
        "(lambda made: (setattr(made.bit_generator, 'state', stored[1]), made)[1])"
        "(numpy.random.Generator(getattr(numpy.random, stored[0])()))",
    ),
    ("pandas", "DataFrame"): Advice(
        "value.to_parquet()", "pandas.read_parquet(io.BytesIO(stored))"
    ),
    ("pandas", "Series"): Advice(
        '[value.name, value.to_frame("values").to_parquet()]',
        'pandas.read_parquet(io.BytesIO(stored[1]))["values"].rename(stored[0])',
    ),
    ("pandas", "Timestamp"): Advice(
        "[value.to_datetime64(), value.tz and str(value.tz)]",
        "pandas.Timestamp(stored[0]) if stored[1] is None else "
        'pandas.Timestamp(stored[0], tz="UTC").tz_convert(stored[1])',
    ),
    ("pandas", "Timedelta"): Advice("value.to_timedelta64()", "pandas.Timedelta(stored)"),
    ("pandas", "NaTType"): Advice("None", "pandas.NaT"),
    ("pandas", "NAType"): Advice("None", "pandas.NA"),
    ("pandas", "Period"): Advice(
        "[value.ordinal, value.freqstr]", "pandas.Period(ordinal=stored[0], freq=stored[1])"
    ),
    ("pandas", "Interval"): Advice(
        "[value.left, value.right, value.closed]", "pandas.Interval(*stored)"
    ),
    ("polars", "DataFrame"): Advice("value.write_ipc(None).getvalue()", "polars.read_ipc(stored)"),
    ("polars", "Series"): Advice(
        "value.to_frame().write_ipc(None).getvalue()", "polars.read_ipc(stored).to_series()"
    ),
    ("pyarrow", "RecordBatch"): Advice(
        "[value.schema.serialize().to_pybytes(), value.serialize().to_pybytes()]",
        "pyarrow.ipc.read_record_batch(stored[1], "
        "pyarrow.ipc.read_schema(pyarrow.py_buffer(stored[0])))",
    ),
    ("pyarrow", "Table"): Advice(
        "(lambda sink: (pyarrow.feather.write_feather(value, sink), "
        "sink.getvalue().to_pybytes())[1])(pyarrow.BufferOutputStream())",
        "pyarrow.feather.read_table(pyarrow.py_buffer(stored))",
    ),
    ("PIL", "Image"): Advice(
        "[value.mode, value.size, value.tobytes()]", "PIL.Image.frombytes(*stored)"
    ),
    ("torch", "Tensor"): Advice("value.detach().cpu().numpy()", "torch.from_numpy(stored)"),
    **{("scipy", name): advice for name, advice in _SPARSE.items()},
    ("scipy", "coo_array"): Advice(
        "[value.data, list(value.coords), value.shape]",
        "scipy.sparse.coo_array((stored[0], tuple(stored[1])), shape=stored[2])",
    ),
    **{("networkx", name): advice for name, advice in _GRAPHS.items()},
    ("fractions", "Fraction"): Advice("str(value)", "fractions.Fraction(stored)"),
    ("builtins", "range"): Advice("[value.start, value.stop, value.step]", "range(*stored)"),
    ("builtins", "slice"): Advice("[value.start, value.stop, value.step]", "slice(*stored)"),
    ("builtins", "mappingproxy"): Advice("dict(value)", "types.MappingProxyType(stored)"),
    ("builtins", "memoryview"): Advice("bytes(value)", "memoryview(stored)"),
    ("array", "array"): Advice(
        "[value.typecode, value.tobytes()]", "array.array(stored[0], stored[1])"
    ),
    ("types", "SimpleNamespace"): Advice("vars(value)", "types.SimpleNamespace(**stored)"),
    ("collections", "UserDict"): Advice("dict(value)", "collections.UserDict(stored)"),
    ("collections", "ChainMap"): Advice("list(value.maps)", "collections.ChainMap(*stored)"),
    ("_io", "BytesIO"): Advice("value.getvalue()", "io.BytesIO(stored)"),
}
"""`(package, class)` -> what to store."""

_OBJECTS = Advice(
    "[value.shape, value.ravel().tolist()]",
    "numpy.array([*stored[1], None], dtype=object)[:-1].reshape(stored[0])",
)
"""For an array of Python objects; the None at its end keeps lists in it from becoming axes."""

_LIVE = {
    **dict.fromkeys(
        ("generator", "async_generator", "coroutine", "map", "filter", "zip", "enumerate"),
        "store list(value): an iterator can be read once only",
    ),
    **dict.fromkeys(
        ("function", "method", "builtin_function_or_method", "partial", "module"),
        "store a name, and look the function up by it where it is used",
    ),
    **dict.fromkeys(
        ("lock", "RLock", "Lock", "socket", "TextIOWrapper", "BufferedReader", "BufferedWriter"),
        "keep it outside of the state: in the run's context, or in a variable of the module",
    ),
}
"""Types that hold no data -> the advice."""


def advice_of(value: Any) -> str | None:
    """Return the advice for a value that can't be stored; None for a type without one."""
    kind = cast("type[Any]", type(value))
    package = kind.__module__.partition(".")[0]
    name = "dtype" if package == _NUMPY and kind.__name__.endswith("DType") else kind.__name__
    advice = ADVICE.get((package, name))
    if package == _NUMPY and name == "ndarray":
        if not value.dtype.hasobject:
            return "store an array whose dtype has neither titles nor metadata"
        advice = _OBJECTS
    if advice is not None:
        return (
            f"store {advice.store}, and build it again by {advice.read}; or let "
            f"codec=Codec(converters={{{kind.__name__}: (lambda value: {advice.store}, "
            f"lambda stored: {advice.read})}}) do both"
        )
    if isinstance(value, type):
        return "store the class's name, and look the class up by it where it is used"
    if kind.__name__ in _LIVE and package in ("builtins", "functools", "_thread", "_io", "socket"):
        return _LIVE[kind.__name__]
    return _advice_of_package(kind)


def _advice_of_package(kind: type) -> str | None:
    packages = [base.__module__.partition(".")[0] for base in kind.__mro__]
    if _NUMPY in packages[1:]:
        return (
            f"store what it is made of; numpy.asarray(value) alone loses what {kind.__name__} adds "
            f"to an array; codec=Codec(converters={{{kind.__name__}: (to_plain, from_plain)}}) "
            "keeps the type"
        )
    forms = {
        "pandas": "parquet bytes of a DataFrame that has it",
        "polars": "the Arrow bytes of a DataFrame that has it: frame.write_ipc(None).getvalue()",
        "pyarrow": "Arrow or parquet bytes of a table that has it",
        "PIL": "the bytes of its file, or value.copy(), a PIL.Image.Image, by a converter",
        "scipy": "its arrays, as of value.tocsr()",
        "networkx": "networkx.node_link_data(value)",
    }
    form = forms.get(packages[0])
    if form is None:
        return None
    return (
        f"store {form}; codec=Codec(converters={{{kind.__name__}: (to_plain, from_plain)}}) keeps "
        "the type"
    )


UNDECLARABLE = (
    "use a dataclass, pydantic model, msgspec.Struct, enum, NamedTuple or a subclass of a "
    "built-in type; Codec(converters={Type: (to_plain, from_plain)}) stores any other type"
)
"""The advice for a type that can't be declared with `Codec(types=)`."""


def shortened(path: str) -> str:
    """Return the beginning and the end of a long path."""
    return path if len(path) <= _PATH_MAX else f"{path[: _PATH_MAX // 2]}...{path[-20:]}"
