"""The values that a router meets, as far as its text shows them: data, objects, containers.

`Data` comes from the state or from operations on data. `Known` is an object that exists when the
graph is compiled: a global, a closure, a default. A `Value` is the set of what an expression may
give. An operation that isn't certain to be quick raises `NotQuickError` with the reason.

Data is trusted to be data: a state is stored, so its values are texts, numbers, containers and
records. A declared type is believed too: a key that holds a client by its annotation isn't data.
"""

import ast
import collections
import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import inspect
import reprlib
import types
import typing
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from actorgraph.bridging import BRIDGE
from actorgraph.plan.annotation_forms import is_typed_dict, members_of
from actorgraph.plan.annotations import class_annotations

_ELEMENTS_MAX = 1000
"""Elements of a global container that are looked at."""
_DEPTH_MAX = 8
_TEXT_MAX = 60


class NotQuickError(Exception):
    """A function isn't certain to be quick; the argument is the reason."""


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """A value of the state, or computed from it; `kind` is its annotation, Any if unknown."""

    kind: Any = Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and (
            self.kind is other.kind
            or (not isinstance(self.kind, type) and repr(self.kind) == repr(other.kind))
        )

    def __hash__(self) -> int:
        return hash(id(self.kind) if isinstance(self.kind, type) else repr(self.kind))


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """An object that exists at compile time and isn't plain data."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.value is other.value

    def __hash__(self) -> int:
        return hash(id(self.value))


@dataclasses.dataclass(frozen=True)
class Outside:
    """An object that the runtime passes to a router besides the state, by parameter."""

    name: str


@dataclasses.dataclass(frozen=True)
class Method:
    """A function of a class, bound to an object."""

    function: types.FunctionType
    owner: "Value"


@dataclasses.dataclass(frozen=True, eq=False)
class InnerFunction:
    """A function or lambda that the code itself defines, with its scope and its defaults."""

    node: ast.FunctionDef | ast.Lambda
    scope: Any
    defaults: Mapping[str, "Value"]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InnerFunction) and (self.node, self.scope, self.defaults) == (
            other.node,
            other.scope,
            other.defaults,
        )

    def __hash__(self) -> int:
        return hash((id(self.node), id(self.scope)))


@dataclasses.dataclass(frozen=True)
class Container:
    """A container with something besides data in it: what iteration and what items give."""

    keys: "Value"
    items: "Value"


Atom = Data | Known | Method | InnerFunction | Container
Value = frozenset[Atom]
NOTHING: Value = frozenset()
ANY: Value = frozenset([Data()])

_SCALARS = {str, int, float, complex, bool, bytes, type(None), type(...)}
_DATES = {dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone}
_NUMBERS = {decimal.Decimal, fractions.Fraction, uuid.UUID, range, slice}
_CONTAINERS = {list, tuple, dict, set, frozenset, bytearray}
_COLLECTIONS = {
    *(collections.deque, collections.Counter, collections.OrderedDict, collections.defaultdict),
    *(collections.abc.Sequence, collections.abc.Mapping, collections.abc.Set),
    *(collections.abc.MutableSequence, collections.abc.MutableMapping, collections.abc.MutableSet),
    *(collections.abc.Collection, collections.abc.Sized, collections.abc.Container),
    *(collections.abc.Hashable, collections.abc.Iterable),
}
SIMPLE = _SCALARS | _DATES | _NUMBERS
PLAIN = SIMPLE | _CONTAINERS | _COLLECTIONS | {object, type, types.NoneType}

_TRUSTED = ("actorgraph.messages",)
_TRUSTED_TYPES = {
    ("actorgraph.values.commands", "Send"),
    ("actorgraph.values.commands", "Command"),
}
_RECORD_BASES = ("builtins", "typing", "abc", "enum", "pydantic", "msgspec", "dataclasses")
_SHAPING = {
    *("__init__", "__new__", "__post_init__", "__init_subclass__", "__class_getitem__"),
    *("__setattr__", "__delattr__", "__set_name__", "__reduce__", "__getstate__", "__setstate__"),
    *("__dir__", "__del__", "__replace__", "__repr_args__", "__annotate__", "__annotate_func__"),
}
"""Methods that reading an object doesn't call."""
_METACLASSES = (
    "type",
    "_AnyMeta",
    "ABCMeta",
    "EnumType",
    "ModelMetaclass",
    "StructMeta",
    "_TypedDictMeta",
)


def is_trusted(cls: type) -> bool:
    """Whether objects of a class are messages, documents, Sends or Commands."""
    home, name = class_home(cls)
    return home.startswith((*_TRUSTED, *BRIDGE.data_modules)) or (
        (home, name) in _TRUSTED_TYPES or (home, name) in BRIDGE.data_types
    )


def class_home(cls: type) -> tuple[str, str]:
    """Return the module and the qualified name of a class."""
    home = type.__dict__["__module__"].__get__(cls)
    return (home if isinstance(home, str) else ""), type.__dict__["__qualname__"].__get__(cls)


def has_plain_metaclass(cls: type) -> bool:
    """Whether a class's own operations (`isinstance`, attributes) run no code of the program."""
    return type(cls) is type or (
        type(cls).__name__ in _METACLASSES
        and class_home(type(cls))[0].startswith((*_RECORD_BASES, "typing_extensions"))
    )


def is_data_class(cls: type) -> bool:
    """Whether reading, comparing and printing an object of a class is quick."""
    if cls in PLAIN or is_trusted(cls) or is_typed_dict(cls):
        return True
    if not has_plain_metaclass(cls):
        return False
    mro = type.__dict__["__mro__"].__get__(cls)
    if not _is_record(cls, mro):
        return False
    own = [c for c in mro if not class_home(c)[0].startswith(_RECORD_BASES)]
    return not any(_runs_code(entry, name) for c in own for name, entry in vars(c).items())


def _is_record(cls: type, mro: tuple[type, ...]) -> bool:
    if class_home(cls) == ("pydantic.main", "BaseModel"):
        return True
    if enum.Enum in mro or BaseException in mro:
        return True
    fields = {"__dataclass_fields__", "__pydantic_fields__", "__struct_fields__", "_fields"}
    return any(field in vars(c) for field in fields for c in mro) or (
        any(base in mro for base in (str, int, float, tuple, dict, list)) and cls is not bool
    )


def _runs_code(entry: Any, name: str) -> bool:
    """Whether an entry of a class is a special method that the program has written."""
    if not (name.startswith("__") and name.endswith("__")) or name in _SHAPING:
        return False
    return is_written(entry)


_WRAPPING_FILES = {f.__code__.co_filename for f in (reprlib.recursive_repr, dataclasses.dataclass)}
"""The files with the wrappers around generated methods."""


def is_written(entry: Any) -> bool:
    """Whether a method was written, not made from text as the methods of dataclasses are."""
    if type(entry) is not types.FunctionType:
        return False
    if entry.__code__.co_filename in _WRAPPING_FILES:
        entry = vars(entry).get("__wrapped__", entry)
    return not entry.__code__.co_filename.startswith("<")


def kinds_of(annotation: Any) -> list[Any]:
    """List the classes and generic aliases of an annotation; Any for what says nothing."""
    return [_kind_of(member) for member in members_of(annotation)]


def _kind_of(annotation: Any) -> Any:
    origin = typing.get_origin(annotation)
    if isinstance(origin, type):
        return annotation if is_data_class(origin) else origin
    if not isinstance(annotation, type) or annotation in (object, Any) or is_trusted(annotation):
        return Any
    return annotation


def data(annotation: Any) -> Value:
    """Return data of an annotated type."""
    return frozenset(Data(kind) for kind in kinds_of(annotation))


def class_of(kind: Any) -> type | None:
    """Return the class of a kind; None for Any."""
    origin = typing.get_origin(kind)
    found = origin if origin is not None else kind
    return found if isinstance(found, type) and found not in (object, Any) else None


def element_of(kind: Any, *, of_key: bool) -> Value:
    """Return what iteration (`of_key`), or an item of a container of this kind gives."""
    args, cls = typing.get_args(kind), class_of(kind)
    if cls is not None and is_typed_dict(cls) and not of_key:
        parts = [data(hint) for hint in class_annotations(cls).values()]
        return NOTHING.union(*parts) or ANY
    if cls is type(None):
        return NOTHING  # raises a TypeError
    if not args or cls is None:
        return ANY
    if issubclass(cls, (dict, collections.abc.Mapping)):
        return data(args[0] if of_key else args[-1])
    return NOTHING.union(*(data(arg) for arg in args if arg is not ...)) or ANY


def lift(value: Any, depth: int = 0) -> Value:
    """Return the value of an object that exists already: data if it is plain, else the object."""
    if value is None:
        return frozenset([Known(value)])
    kind = type(value)
    if kind is str and not depth:
        return constant(value)
    if kind is range and len(value) > _ELEMENTS_MAX:
        raise NotQuickError("reads a range() that is large")
    if kind in SIMPLE:
        return frozenset([Data(kind)])
    if isinstance(kind, enum.EnumType):
        return frozenset([Data(kind)])
    # An empty or missing object is usually filled in or set later, with what can't be seen here.
    if kind in (list, set, dict, tuple, frozenset, types.MappingProxyType, collections.OrderedDict):
        immutable = kind in (tuple, frozenset)
        if depth < _DEPTH_MAX and (value or immutable) and len(value) <= _ELEMENTS_MAX:
            return _lift_container(value, kind, depth)
    return frozenset([Known(value)])


def constant(value: Any) -> Value:
    """Return data that is known: of a short text its value, else its type."""
    if type(value) is str and len(value) <= _TEXT_MAX:
        return frozenset([Data(typing.Literal[value])])
    return frozenset([Data(type(value))])


def text_of(value: Value) -> str | None:
    """Return the text that a value is, if it is a single known one."""
    kinds = [atom.kind if isinstance(atom, Data) else None for atom in value]
    if len(kinds) != 1 or typing.get_origin(kinds[0]) is not typing.Literal:
        return None
    (text,) = typing.get_args(kinds[0])
    return text if isinstance(text, str) else None


def _lift_container(value: Any, kind: type, depth: int) -> Value:
    keys = NOTHING.union(*(lift(key, depth + 1) for key in value))
    items = keys
    if kind not in (list, set, tuple, frozenset):
        items = NOTHING.union(*(lift(item, depth + 1) for item in value.values()))
    return boxed(keys, items)


def _is_nameless(kind: Any) -> bool:
    """Whether a kind needn't be remembered for the elements of a container."""
    return typing.get_origin(kind) is typing.Literal or kind in (Any, *SIMPLE, *_CONTAINERS)


def boxed(keys: Iterable[Atom], items: Iterable[Atom]) -> Value:
    """Return a container: plain data if all that is in it is data."""
    keys, items = frozenset(keys), frozenset(items)
    if all(isinstance(atom, Data) and _is_nameless(atom.kind) for atom in keys | items):
        return ANY
    return frozenset([Container(keys, items)])


def is_data(atom: Data) -> bool:
    """Whether it is data by its declared type."""
    cls = class_of(atom.kind)
    return cls is None or is_data_class(cls)


def check_used(value: Value) -> None:
    """Refuse a value whose comparison, truth, operators, iteration or text may run unknown code.

    Functions and classes are harmless as values.
    """
    for atom in value:
        match atom:
            case Container(keys, items):
                check_used(keys | items)
            case Data(kind) if not is_data(atom):
                raise NotQuickError(f"works with an object of class {_name(kind)}")
            case Known(known) if not is_function(known) and not _is_plain_class(known):
                raise NotQuickError(f"works with {describe(known)}")
            case _:
                pass


def check_simple(value: Value, why: str) -> None:
    """Refuse a value that is, or contains, more than data without properties and methods."""
    for atom in value:
        match atom:
            case Container(keys, items):
                check_simple(keys | items, why)
            case Data(kind) if _is_simple(kind):
                pass
            case _:
                raise NotQuickError(why)


def _is_simple(kind: Any, depth: int = 0) -> bool:
    cls, args = class_of(kind), typing.get_args(kind)
    if cls is None:
        return True
    if depth > _DEPTH_MAX or not is_data_class(cls):
        return False
    parts = [*args, *(class_annotations(cls).values() if cls not in PLAIN else ())]
    own = [c for c in inspect.getmro(cls) if not class_home(c)[0].startswith(_RECORD_BASES)]
    has_code = any(
        isinstance(entry, (property, staticmethod, classmethod)) or is_written(entry)
        for c in own
        for name, entry in vars(c).items()
        if cls not in PLAIN and not name.startswith("_")
    )
    return not has_code and all(_is_simple(k, depth + 1) for p in parts for k in kinds_of(p))


def is_function(thing: Any) -> bool:
    """Whether it is a Python or builtin function, a method of one, or a method of a class."""
    return type(thing) in FUNCTION_TYPES


FUNCTION_TYPES = {
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
}


def _is_plain_class(thing: Any) -> bool:
    return (
        isinstance(type(thing), type) and type in type(thing).__mro__ and has_plain_metaclass(thing)
    )


def describe(thing: Any) -> str:
    """Name an object without calling its code."""
    if type(thing) is types.ModuleType:
        return f"the module {thing.__name__}"
    if type(thing) is Outside:
        return f"its parameter {thing.name!r}"
    if thing is None:
        return "a name that is None now and may be set later"
    if type(thing) in _CONTAINERS:
        return f"a {type(thing).__name__} that is empty now or too large to check"
    return f"an object of class {_name(type(thing))}"


def _name(kind: Any) -> str:
    return class_home(kind)[1] if isinstance(kind, type) else repr(kind)


def static_attribute(thing: Any, name: str) -> Any:
    """Read an attribute without running code, as `inspect.getattr_static`.

    Raises:
        NotQuickError: it isn't there, or code of the class decides.
    """
    cls = type(thing)
    if type not in cls.__mro__:
        own = inspect.getattr_static(cls, "__getattribute__", None)
        # Containers have one of their own up to Python 3.13.
        if own is not object.__getattribute__ or cls in _CONTAINERS:
            raise NotQuickError(f"reads .{name} of {describe(thing)}")
    try:
        return inspect.getattr_static(thing, name)
    except AttributeError:
        raise NotQuickError(f"reads .{name} of {describe(thing)}") from None


def field_of(atom: Atom, key: str) -> Value | None:
    """Return data of the type that a TypedDict declares for a key; None for other values."""
    cls = class_of(atom.kind) if isinstance(atom, Data) else None
    if cls is None or not is_typed_dict(cls):
        return None
    hint = class_annotations(cls).get(key)
    return ANY if hint is None else data(hint)
