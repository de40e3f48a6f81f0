"""Data to store in place of a value whose type can't be stored, and the way back.

Each pair of expressions gives the value back: a test follows every one. They are also what a
converter for the type is made of (`codec.converters`).
"""

import builtins
import sys
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from dataclasses import dataclass, replace
from typing import Any, cast

_PATH_MAX = 160
_NUMPY = "numpy"


@dataclass(frozen=True, slots=True)
class Advice:
    """A pair of Python expressions.

    Attributes:
        store: of `value`: plain data.
        read: of `stored`, that data: the value again.
        same_type: whether that has the same class, so that the pair can be a converter.
    """

    store: str
    read: str
    same_type: bool = True


def _index(of: str) -> str:
    """An index of pandas as bytes of Parquet."""
    return f'pandas.DataFrame({{"a": 0}}, index={of}).to_parquet()'


def _index_in(stored: str) -> str:
    """The index in bytes that `_index` made."""
    return f"pandas.read_parquet(io.BytesIO({stored})).index"


_SPARSE = {
    name: Advice(
        "[value.data, value.indices, value.indptr, value.shape]",
        f"scipy.sparse.{name}(tuple(stored[:3]), shape=stored[3])",
    )
    for name in ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
}
_FORMATS = {
    f"{form}_{sort}": Advice(
        "[value.tocoo().data, list(value.tocoo().coords), value.shape]",
        f"scipy.sparse.coo_{sort}((stored[0], tuple(stored[1])), shape=stored[2])"
        + ("" if form == "coo" else f'.asformat("{form}")'),
    )
    for sort in ("array", "matrix")
    for form in ("coo", "bsr", "dia", "dok", "lil")
}
_GRAPHS = {
    name: Advice(
        f"[value.graph, list(value.nodes.items()), list(value.edges({keys}data=True))]",
        "(lambda made: (made.graph.update(stored[0]), made.add_nodes_from(stored[1]), "
        f"made.add_edges_from(stored[2]), made)[3])(networkx.{name}())",
    )
    for name, keys in (
        *(("Graph", ""), ("DiGraph", "")),
        *(("MultiGraph", "keys=True, "), ("MultiDiGraph", "keys=True, ")),
    )
}


def _arrow(table: str) -> str:
    return (
        "(lambda it: (lambda sink: [(writer := pyarrow.ipc.new_stream(sink, it.schema)).write(it),"
        " writer.close(), sink.getvalue().to_pybytes()][2])(pyarrow.BufferOutputStream()))"
        f"({table})"
    )


_COLUMN = 'pyarrow.table([{}], names=["a"])'
_FIRST = 'pyarrow.ipc.open_stream(stored).read_all()["a"]'
_IMAGE = Advice(
    "[value.mode, value.size, value.tobytes(), value.info, "
    "value.palette and [value.palette.tobytes(), value.palette.mode]]",
    "(lambda made: (made.info.update(stored[3]), stored[4] and made.putpalette(*stored[4]), "
    "made)[2])(PIL.Image.frombytes(*stored[:3]))",
)
_PICTURE = Advice(_IMAGE.store, _IMAGE.read, same_type=False)

ADVICE: dict[tuple[str, str], Advice] = {
    (_NUMPY, "MaskedArray"): Advice(
        "[value.data, numpy.ma.getmaskarray(value), value.fill_value, value.hardmask]",
        "numpy.ma.array(stored[0], mask=stored[1], fill_value=stored[2], hard_mask=stored[3])",
    ),
    (_NUMPY, "MaskedConstant"): Advice("None", "numpy.ma.masked"),
    (_NUMPY, "record"): Advice(
        "numpy.array(value.item(), value.dtype.descr)",
        "stored.reshape(1).view(numpy.recarray)[0]",
        same_type=False,
    ),
    (_NUMPY, "recarray"): Advice(
        "value.view(value.dtype.fields or value.dtype, numpy.ndarray)",
        "stored.view(numpy.recarray)",
    ),
    (_NUMPY, "matrix"): Advice("numpy.asarray(value)", "numpy.asmatrix(stored)"),
    (_NUMPY, "memmap"): Advice("numpy.array(value)", "stored", same_type=False),
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
    (_NUMPY, "RandomState"): Advice(
        "value.get_state(legacy=False)",
        "(lambda made: (made.set_state(stored), made)[1])(numpy.random.RandomState())",
    ),
    ("string", "Template"): Advice("value.template", "string.Template(stored)"),
    ("pathlib", "PureWindowsPath"): Advice("str(value)", "pathlib.PureWindowsPath(stored)"),
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
    **dict.fromkeys(
        (("pandas", "DatetimeIndex"), ("pandas", "TimedeltaIndex")),
        Advice(
            f"[value.freqstr, {_index('value')}]",
            f"(lambda index: type(index)(index, freq=stored[0]))({_index_in('stored[1]')})",
        ),
    ),
    ("pandas", "Categorical"): Advice(
        f"[value.codes, {_index('value.categories')}, value.ordered]",
        f"pandas.Categorical.from_codes(stored[0], {_index_in('stored[1]')}, ordered=stored[2])",
    ),
    ("pandas", "SparseArray"): Advice(
        "[numpy.asarray(value), value.fill_value, value.kind]",
        "pandas.arrays.SparseArray(stored[0], fill_value=stored[1], kind=stored[2])",
    ),
    ("pandas", "CategoricalDtype"): Advice(
        f"[{_index('value.categories')}, value.ordered]",
        f"pandas.CategoricalDtype({_index_in('stored[0]')}, stored[1])",
    ),
    ("pandas", "ExtensionDtype"): Advice("str(value)", "pandas.api.types.pandas_dtype(stored)"),
    ("pandas", "BaseOffset"): Advice(
        "[value.n, value.normalize, value.kwds]",
        "pandas.offsets.{name}(stored[0], stored[1], **stored[2])",
    ),
    ("pandas", "Index"): Advice(_index("value"), _index_in("stored")),
    ("pandas", "ExtensionArray"): Advice(
        'pandas.Series(value).to_frame("values").to_parquet()',
        'pandas.read_parquet(io.BytesIO(stored))["values"].array',
    ),
    ("polars", "DataFrame"): Advice("value.write_ipc(None).getvalue()", "polars.read_ipc(stored)"),
    ("polars", "Series"): Advice(
        "value.to_frame().write_ipc(None).getvalue()", "polars.read_ipc(stored).to_series()"
    ),
    ("polars", "LazyFrame"): Advice(
        "value.serialize()", "polars.LazyFrame.deserialize(io.BytesIO(stored))"
    ),
    ("polars", "Expr"): Advice(
        "value.meta.serialize()", "polars.Expr.deserialize(io.BytesIO(stored))"
    ),
    ("pyarrow", "Array"): Advice(_arrow(_COLUMN.format("value")), f"{_FIRST}.combine_chunks()"),
    ("pyarrow", "ChunkedArray"): Advice(_arrow(_COLUMN.format("value")), _FIRST),
    ("pyarrow", "Scalar"): Advice(
        _arrow(_COLUMN.format("pyarrow.array([value])")),
        f"{_FIRST}[0]",
    ),
    ("pyarrow", "Schema"): Advice(
        "value.serialize().to_pybytes()", "pyarrow.ipc.read_schema(pyarrow.py_buffer(stored))"
    ),
    ("pyarrow", "DataType"): Advice(
        'pyarrow.schema([("a", value)]).serialize().to_pybytes()',
        'pyarrow.ipc.read_schema(pyarrow.py_buffer(stored)).field("a").type',
    ),
    ("pyarrow", "Buffer"): Advice("value.to_pybytes()", "pyarrow.py_buffer(stored)"),
    ("pyarrow", "RecordBatch"): Advice(
        _arrow("value"), "pyarrow.ipc.open_stream(stored).read_next_batch()"
    ),
    ("pyarrow", "Table"): Advice(_arrow("value"), "pyarrow.ipc.open_stream(stored).read_all()"),
    ("PIL", "Image"): _IMAGE,
    ("torch", "Tensor"): Advice(
        "(lambda sink: (torch.save(value.clone(), sink), sink.getvalue())[1])(io.BytesIO())",
        "torch.load(io.BytesIO(stored))",
    ),
    **{("scipy", name): advice for name, advice in _SPARSE.items()},
    **{("scipy", name): advice for name, advice in _FORMATS.items()},
    **{("networkx", name): advice for name, advice in _GRAPHS.items()},
    ("fractions", "Fraction"): Advice("str(value)", "fractions.Fraction(stored)"),
    ("builtins", "range"): Advice("[value.start, value.stop, value.step]", "range(*stored)"),
    ("builtins", "slice"): Advice("[value.start, value.stop, value.step]", "slice(*stored)"),
    ("builtins", "mappingproxy"): Advice("dict(value)", "types.MappingProxyType(stored)"),
    ("builtins", "memoryview"): Advice(
        "[value.tobytes(), value.format, value.shape]",
        "memoryview(stored[0]).cast(stored[1], stored[2]) if stored[0] else memoryview(stored[0])",
    ),
    ("array", "array"): Advice(
        "[value.typecode, value.tobytes()]", "array.array(stored[0], stored[1])"
    ),
    ("types", "SimpleNamespace"): Advice("vars(value)", "types.SimpleNamespace(**stored)"),
    ("collections", "UserDict"): Advice("dict(value)", "collections.UserDict(stored)"),
    ("collections", "ChainMap"): Advice("list(value.maps)", "collections.ChainMap(*stored)"),
    ("collections", "UserList"): Advice("list(value)", "collections.UserList(stored)"),
    ("collections", "UserString"): Advice("str(value)", "collections.UserString(stored)"),
    ("_io", "StringIO"): Advice("value.getvalue()", "io.StringIO(stored)"),
    ("_io", "BytesIO"): Advice("value.getvalue()", "io.BytesIO(stored)"),
}
"""`(package, class)` -> what to store."""

_OBJECTS = Advice(
    "[value.shape, value.ravel().tolist()]",
    "numpy.array([*stored[1], None], dtype=object)[:-1].reshape(stored[0])",
    same_type=False,
)
"""For an array of Python objects; the None at its end keeps lists in it from becoming axes."""
_FIELDS = Advice(
    "[value.shape, value.ravel().tolist(), numpy.lib.format.dtype_to_descr(value.dtype)]",
    "numpy.array(stored[1], numpy.lib.format.descr_to_dtype(stored[2])).reshape(stored[0])",
    same_type=False,
)
_TEXTS = Advice(
    "[value.shape, value.ravel().tolist()]",
    "numpy.array(stored[1], numpy.dtypes.StringDType()).reshape(stored[0])",
    same_type=False,
)
_RECORDS = Advice(
    "value.view(value.dtype.fields)",
    "stored.view((numpy.record, stored.dtype))",
    same_type=False,
)
_MIXED_FRAME = Advice(
    'value.to_dict("tight")', 'pandas.DataFrame.from_dict(stored, orient="tight")'
)
_MIXED_SERIES = Advice(
    "[value.tolist(), value.index.tolist(), value.name, str(value.dtype)]",
    "pandas.Series(stored[0], index=stored[1], name=stored[2], dtype=stored[3])",
)
"""For what parquet doesn't hold: columns of mixed values, or with names of several types."""
_GENERAL = {
    "pandas": ("Index", "ExtensionArray", "BaseOffset", "ExtensionDtype"),
    "pyarrow": ("Array", "Scalar", "DataType", "Buffer"),
}
"""Package -> its classes whose pairs are right for all below them."""
_INFERRED = frozenset({"object", "int64", "float64", "bool", "complex128", "str"})

_ONCE = "store list(value): an iterator can be read once only"
_NAME = "store a name for it, and look it up by that where it is used"
_OUTSIDE = "keep it outside of the state: in the run's context, or in a variable of the module"
_LIVE = {
    **dict.fromkeys(("async_generator", "coroutine"), _ONCE),
    "module": "store its name, and import it by that where it is used",
    **dict.fromkeys(("GenericAlias", "UnionType", "ellipsis", "NotImplementedType"), _NAME),
    **dict.fromkeys(
        ("function", "method", "builtin_function_or_method", "partial"),
        "store a name, and look the function up by it where it is used",
    ),
    "Match": "store value.group(), value.groups() or value.groupdict()",
}
"""Types that hold no data of their own -> the advice."""
_MACHINES = frozenset(
    {
        *("_thread", "threading", "_asyncio", "asyncio", "_queue", "queue", "concurrent"),
        *("socket", "_socket", "ssl", "sqlite3", "tempfile", "mmap", "_io", "logging"),
        *("weakref", "_weakref", "_weakrefset", "_contextvars", "subprocess", "select"),
    }
)
"""Packages whose objects are connected to this process."""
_ENDLESS = frozenset({"count", "cycle", "repeat"})


def advice_of(value: Any) -> str | None:
    """Return the advice for a value that can't be stored; None for a type without one."""
    kind = cast("type[Any]", type(value))
    package = kind.__module__.partition(".")[0]
    if isinstance(value, type):
        return "store the class's name, and look the class up by it where it is used"
    if package == _NUMPY and kind.__name__ == "ndarray":
        advice = _array_advice(value.dtype)
        if advice is None:
            return "store an array whose dtype has neither titles nor metadata"
    else:
        advice = _pair_of(kind, package)
    if package == "pandas" and _is_mixed(value):
        advice = _MIXED_FRAME if kind.__name__ == "DataFrame" else _MIXED_SERIES
    if advice is not None:
        text = f"store {advice.store}, and build it again by {advice.read}"
        return (
            text
            if not advice.same_type
            else (
                f"{text}; or let codec=Codec(converters={{{_dotted_name(kind)}: "
                f"(lambda value: {advice.store}, lambda stored: {advice.read})}}) do both"
            )
        )
    return _live_advice(value, kind, package) or _advice_of_package(kind)


def has_pair(kind: type) -> bool:
    """Whether the data to store for a class are known: it is more than what it is derived from."""
    return (kind.__module__.partition(".")[0], kind.__name__) in ADVICE


def _array_advice(dtype: Any) -> Advice | None:
    if type(dtype).__name__ == "StringDType":
        return _TEXTS
    if dtype.hasobject:
        return _OBJECTS if dtype.names is None else _FIELDS
    return _RECORDS if dtype.type.__name__ == "record" else None


def _pair_of(kind: type, package: str) -> Advice | None:
    """Return the pair of a class, or of a class above it whose pair is right for all below."""
    name = "dtype" if package == _NUMPY and kind.__name__.endswith("DType") else kind.__name__
    if (package, name) in ADVICE:
        return ADVICE[package, name]
    above = {base.__name__ for base in kind.__mro__}
    if package == "PIL" and "Image" in above:  # one of a file: it becomes one in memory
        return _PICTURE
    for general in _GENERAL.get(package, ()):
        if general in above:
            advice = ADVICE[package, general]
            return replace(advice, read=advice.read.replace("{name}", kind.__name__))
    return None


def _is_mixed(value: Any) -> bool:
    """Whether a pandas table or column has values or names that parquet doesn't hold exactly."""
    name = type(value).__name__
    if name == "Series":
        return str(value.dtype) in ("object", "complex128")
    if name != "DataFrame":
        return False
    types = {str(dtype) for dtype in value.dtypes}
    names = [type(each) for each in value.columns]
    odd = bool(types & {"object", "complex128"}) or len({*names}) > 1
    return types <= _INFERRED and (odd or not value.columns.is_unique)


def _live_advice(value: Any, kind: type, package: str) -> str | None:
    seen = package in ("builtins", "itertools") and kind.__name__ not in _ENDLESS
    if seen and isinstance(value, Iterator):
        return _ONCE
    if seen and isinstance(value, KeysView | ValuesView | ItemsView):
        return "store list(value)"
    if kind.__name__ in _LIVE and package in ("builtins", "functools", "re", "types"):
        return _LIVE[kind.__name__]
    return _OUTSIDE if package in _MACHINES else None


def _dotted_name(kind: type) -> str:
    """Return the name by which a program reaches a class, with the shortest module."""
    if kind.__module__ == "builtins" and hasattr(builtins, kind.__name__):
        return kind.__name__
    parts = {"_io": "io", "builtins": "types"}.get(kind.__module__, kind.__module__).split(".")
    for end in range(1, len(parts) + 1):
        module = ".".join(parts[:end])
        # Not by getattr: a package may warn of a name that it computes.
        if vars(sys.modules.get(module, sys)).get(kind.__name__) is kind:
            return f"{module}.{kind.__name__}"
    return {"mappingproxy": "types.MappingProxyType"}.get(kind.__name__, kind.__name__)


def _advice_of_package(kind: type) -> str | None:
    packages = [base.__module__.partition(".")[0] for base in kind.__mro__]
    if _NUMPY in packages[1:] and "ndarray" in [base.__name__ for base in kind.__mro__]:
        return (
            f"store what it is made of; numpy.asarray(value) alone loses what {kind.__name__} adds "
            f"to an array; codec=Codec(converters={{{kind.__name__}: (to_plain, from_plain)}}) "
            "keeps the type"
        )
    forms = {
        "pandas": "parquet bytes of a DataFrame that has it",
        "polars": "the Arrow bytes of a DataFrame that has it: frame.write_ipc(None).getvalue()",
        "pyarrow": "Arrow or parquet bytes of a table that has it",
        "PIL": "the bytes of its file",
        "scipy": "the arrays and numbers that it is made of",
        "networkx": "its nodes and edges, as lists",
        _NUMPY: "the arrays and numbers that it is made of",
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
