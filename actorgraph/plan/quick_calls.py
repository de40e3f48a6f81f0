"""The calls that a router may make: quick builtins, methods of data, classes of plain records.

All others are refused. A call that works through a container takes time in proportion to it, like
the loops that a router may have; what reads files, prints, parses or matches patterns isn't here.
"""

import ast
import builtins
import collections
import dataclasses
import enum
import functools
import operator
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from actorgraph.plan.annotation_forms import is_typed_dict
from actorgraph.plan.quick_values import (
    ANY,
    NOTHING,
    PLAIN,
    Container,
    Data,
    Known,
    NotQuickError,
    Value,
    boxed,
    check_simple,
    check_used,
    class_home,
    element_of,
    has_plain_metaclass,
    is_data_class,
    is_trusted,
    is_written,
    static_attribute,
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The arguments of one call; `rest` holds what `*` and `**` spread, None without them."""

    positional: tuple[Value, ...] = ()
    named: Mapping[str, Value] = dataclasses.field(default_factory=dict[str, Value])
    rest: Value | None = None

    def all(self) -> Value:
        """Return the union of all arguments."""
        return NOTHING.union(*self.positional, *self.named.values(), self.rest or NOTHING)


class Applies(Protocol):
    """Applies a value to arguments, as far as that is quick."""

    def __call__(self, callee: Value, arguments: Arguments) -> Value:
        """Return what the call may give."""
        ...


_NUMBER = frozenset([Data(int)])
_TRUTH = frozenset([Data(bool)])
_TEXT = frozenset([Data(str)])
_KIND = frozenset([Data(type)])

_SIMPLE_BUILTINS: dict[str, Value] = {
    **dict.fromkeys(("len", "ord", "hash", "id", "int"), _NUMBER),
    **dict.fromkeys(("abs", "round", "divmod", "float", "complex"), ANY),
    **dict.fromkeys(("bool", "callable", "any", "all"), _TRUTH),
    **dict.fromkeys(("str", "repr", "chr", "format", "ascii", "bin", "hex", "oct"), _TEXT),
    **dict.fromkeys(("bytes", "slice"), ANY),
}
_MAKERS = ("list", "tuple", "set", "frozenset", "dict", "sorted", "reversed")
_CHOOSERS = ("min", "max", "next", "sum")

# Method of texts, containers and dates -> its least and most positional arguments. The counts
# keep out namesakes that wait: `queue.get()`, `thread.join()`.
_METHODS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("lower", "upper", "title", "capitalize", "casefold", "swapcase"), (0, 0)),
    **dict.fromkeys(("isdigit", "isalpha", "isalnum", "isnumeric", "isspace"), (0, 0)),
    **dict.fromkeys(("isupper", "islower", "isdecimal", "isidentifier"), (0, 0)),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "splitlines", "isoformat"), (0, 1)),
    **dict.fromkeys(("split", "rsplit", "encode", "decode"), (0, 2)),
    **dict.fromkeys(("startswith", "endswith", "find", "rfind", "index", "count"), (1, 3)),
    **dict.fromkeys(("join", "removeprefix", "removesuffix", "partition", "rpartition"), (1, 1)),
    **dict.fromkeys(("append", "extend", "add", "remove", "discard"), (1, 1)),
    **dict.fromkeys(("issubset", "issuperset", "isdisjoint", "symmetric_difference"), (1, 1)),
    **dict.fromkeys(("union", "intersection", "difference"), (0, 9)),
    **dict.fromkeys(("keys", "values", "items", "copy", "clear", "sort", "reverse"), (0, 0)),
    **dict.fromkeys(("total_seconds", "timestamp", "date", "weekday", "model_dump"), (0, 0)),
    **dict.fromkeys(("get", "setdefault"), (1, 2)),
    **dict.fromkeys(("update", "most_common", "pop"), (0, 2)),
    "replace": (2, 3),
    "insert": (2, 2),
    "format": (0, 99),
    "zfill": (1, 1),
}
_KEYWORDS = {
    "sort": {"key", "reverse"},
    "split": {"sep", "maxsplit"},
    "rsplit": {"sep", "maxsplit"},
    "splitlines": {"keepends"},
    "encode": {"encoding", "errors"},
    "format": None,
}
GROWING = ("append", "extend", "insert", "add", "update", "setdefault")
"""Methods that make a container larger, perhaps for as long as it is iterated."""

_QUICK_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "random": ("random", "uniform", "randint", "randrange", "choice"),
    "time": ("time", "monotonic", "perf_counter", "time_ns"),
    "math": ("floor", "ceil", "sqrt", "isclose", "isnan", "isinf", "log", "log10", "exp"),
    "typing": ("cast",),
    "operator": ("itemgetter",),
}
_QUICK_CLASS_METHODS = {"now", "utcnow", "today", "fromisoformat", "fromtimestamp"}
QUICK_KEY: Value = frozenset([Known(operator.itemgetter(0))])
"""A function that reads a part of its argument."""


def is_quick_elsewhere(callee: Any) -> bool:
    """Whether it is one of the quick functions of the standard library."""
    for module, names in _QUICK_ELSEWHERE.items():
        found = vars(sys.modules.get(module, types)).get
        if any(found(name) is callee for name in names):
            return True
    if type(callee) is types.BuiltinFunctionType:
        owner = callee.__self__
        dates = isinstance(owner, type) and owner in PLAIN and owner.__module__ == "datetime"
        return dates and callee.__name__ in _QUICK_CLASS_METHODS
    if type(callee) is types.MethodDescriptorType:
        return callee.__objclass__ in PLAIN and callee.__name__ in _METHODS
    return type(callee) is operator.itemgetter


def call_elsewhere(callee: Any, arguments: Arguments) -> Value:
    """Return what a quick function of the standard library gives."""
    if callee is typing.cast:
        return NOTHING.union(*arguments.positional[1:], *arguments.named.values())
    check_used(arguments.all())
    if callee is operator.itemgetter:
        return QUICK_KEY
    if vars(sys.modules.get("random", types)).get("choice") is callee:
        return elements(arguments.all())
    # An attribute or item of a container's element: it isn't known which.
    return elements(elements(arguments.all())) | elements(arguments.all())


def call_builtin(callee: Any, arguments: Arguments, apply: Applies) -> Value | None:
    """Return what a quick builtin gives; None if it isn't one of them.

    Raises:
        NotQuickError: an argument makes it do what isn't quick.
    """
    name = getattr(callee, "__name__", "")
    if vars(builtins).get(name) is not callee:
        return None
    if name in ("isinstance", "issubclass"):
        return _checks_class(arguments)
    if name in ("map", "filter"):
        return _maps(name, arguments, apply)
    if name == "type" and len(arguments.positional) == 1:
        check_used(arguments.all())
        return _KIND
    if name in ("enumerate", "zip"):
        check_used(arguments.all())
        return boxed(inner := boxed(e := elements(arguments.all()), e), inner)
    if name in ("iter", "reversed") and len(arguments.positional) != 1:
        raise NotQuickError(f"calls {name}() with a function")
    key = arguments.named.get("key", NOTHING)
    plain = Arguments(
        arguments.positional,
        {k: v for k, v in arguments.named.items() if k != "key"},
        arguments.rest,
    )
    known = name in _SIMPLE_BUILTINS or name in _MAKERS or name in _CHOOSERS or name == "iter"
    if not known:
        return None
    check_used(plain.all())
    if key and name in ("sorted", "min", "max"):
        check_used(apply(key, Arguments((elements(plain.all()),))))
    return _result(name, plain)


def _result(name: str, arguments: Arguments) -> Value:
    if name in _SIMPLE_BUILTINS:
        return _SIMPLE_BUILTINS[name]
    if name == "dict":
        parts = elements(NOTHING.union(*arguments.positional)) | items(arguments.all())
        parts |= NOTHING.union(*arguments.named.values())
        return boxed(parts, parts | elements(parts))
    if name in _CHOOSERS:
        return elements(arguments.all()) | arguments.all()
    found = elements(arguments.all())
    return boxed(found, found)


def _checks_class(arguments: Arguments) -> Value:
    """Check the classes of an `isinstance`: one that isn't data's means that others may come."""
    if len(arguments.positional) != 2:
        raise NotQuickError("calls isinstance() with other than two arguments")
    check_used(arguments.positional[0])
    classes = arguments.positional[1]
    for atom in classes.union(*(a.items for a in classes if isinstance(a, Container))):
        if isinstance(atom, Known) and isinstance(atom.value, type):
            if not (is_data_class(atom.value) or _is_base_of_records(atom.value)):
                raise NotQuickError(f"expects objects of class {class_home(atom.value)[1]}")
        elif isinstance(atom, Known):
            if type(atom.value) is not types.UnionType:
                raise NotQuickError("calls isinstance() with an object that isn't a class")
            for part in typing.get_args(atom.value):
                _checks_class(Arguments((ANY, frozenset([Known(part)]))))
    return _TRUTH


def _is_base_of_records(cls: type) -> bool:
    return class_home(cls) in {("pydantic.main", "BaseModel"), ("enum", "Enum")} or (
        issubclass(cls, BaseException) and has_plain_metaclass(cls)
    )


def _maps(name: str, arguments: Arguments, apply: Applies) -> Value:
    if len(arguments.positional) < 2 or arguments.rest is not None:
        raise NotQuickError(f"calls {name}() with arguments that can't be followed")
    function, *given = arguments.positional
    found = [elements(value) for value in given]
    check_used(NOTHING.union(*given))
    bare = name == "filter" and all(a == Data(type(None)) for a in function)
    made = ANY if bare else apply(function, Arguments(tuple(found)))
    kept = NOTHING.union(*found) if name == "filter" else made
    return boxed(kept, kept)


def elements(value: Value) -> Value:
    """Return what iterating over a value gives."""
    return NOTHING.union(*(_part_of(atom, of_key=True) for atom in value))


def items(value: Value) -> Value:
    """Return what `value[x]` gives."""
    return NOTHING.union(*(_part_of(atom, of_key=False) for atom in value))


def _part_of(atom: Any, *, of_key: bool) -> Value:
    check_used(frozenset([atom]))
    if isinstance(atom, Container):
        return atom.keys if of_key else atom.items
    if isinstance(atom, Data):
        return element_of(atom.kind, of_key=of_key)
    if isinstance(atom, Known) and isinstance(atom.value, type):
        if isinstance(atom.value, enum.EnumType):
            return frozenset([Data(atom.value)])
        if not of_key and atom.value in PLAIN:
            return ANY  # `list[int]`
        raise NotQuickError(f"reads items of the class {_name(atom.value)}")
    raise NotQuickError("reads items of a function")


def call_method(
    owner: Value, name: str, arguments: Arguments, nodes: list[ast.expr], apply: Applies
) -> Value:
    """Return what a method of data or of a container gives.

    Args:
        nodes: the expressions of the positional arguments.
    Raises:
        NotQuickError: the method isn't one of texts, containers and dates.
    """
    check_used(owner)
    if not _is_method_of_data(name, arguments, nodes):
        raise NotQuickError(f"calls the method .{name}() of a value of the state")
    check_used(arguments.all() - arguments.named.get("key", NOTHING))
    if name == "format":  # "{0.attribute}"
        check_simple(arguments.all(), "formats objects by a text that may read their attributes")
    if "key" in arguments.named:
        check_used(apply(arguments.named["key"], Arguments((elements(owner),))))
    given = arguments.all()
    if name in GROWING:  # under which names it is found later can't be followed
        check_simple(given, f"keeps an object with code of its own, by .{name}()")
    if name in ("pop", "setdefault"):
        return items(owner) | NOTHING.union(*arguments.positional[1:])
    if name == "values":
        return boxed(found := items(owner), found)
    if name in ("keys", "union", "intersection", "difference", "symmetric_difference", "copy"):
        return owner | given
    if name in ("items", "most_common"):
        pair = boxed(both := elements(owner) | items(owner), both)
        return boxed(pair, pair)
    return ANY


def _is_method_of_data(name: str, arguments: Arguments, nodes: list[ast.expr]) -> bool:
    least, most = _METHODS.get(name, (1, 0))
    count = len(arguments.positional)
    spread = arguments.rest is not None
    if spread and name not in ("format", "union", "intersection"):
        return False
    if not spread and not least <= count <= most:
        return False
    allowed = _KEYWORDS.get(name, set[str]())
    if allowed is not None and not allowed.issuperset(arguments.named):
        return False
    # `queue.get(True)` and `thread.join(5)` look like methods of dicts and texts.
    first = nodes[0] if nodes else None
    if name == "get":
        return not (isinstance(first, ast.Constant) and isinstance(first.value, bool))
    if name == "join":
        return not (isinstance(first, ast.Constant) and not isinstance(first.value, str))
    return True


def construct(cls: type, arguments: Arguments, run: Callable[..., Value]) -> Value:
    """Return a new object of a class.

    Args:
        run: calls a method of the new object, by `(function, arguments)`.
    Raises:
        NotQuickError: making it may run code of the program, or isn't quick.
    """
    if is_trusted(cls):
        # A Send's input and a Command's update may hold anything: they are only passed on.
        return ANY
    if cls is collections.defaultdict:
        return _defaultdict(arguments)
    check_used(arguments.all())
    if cls in (collections.Counter, collections.OrderedDict, collections.deque):
        return boxed(found := elements(arguments.all()), found)
    if issubclass(cls, BaseException):
        _check_makers(cls)
        return ANY
    if is_typed_dict(cls):
        return frozenset([Data(cls)])
    if cls in PLAIN and cls not in (object, range):
        return ANY
    if not is_data_class(cls):
        raise NotQuickError(f"constructs {_name(cls)}")
    return _construct_record(cls, run)


def _defaultdict(arguments: Arguments) -> Value:
    factories = [getattr(a, "value", None) for a in NOTHING.union(*arguments.positional[:1])]
    if len(arguments.positional) != 1 or any(f not in (int, list, set, dict) for f in factories):
        raise NotQuickError("constructs a defaultdict with a factory of its own")
    return ANY


def _construct_record(cls: type, run: Callable[..., Value]) -> Value:
    made = frozenset([Data(cls)])
    if hasattr(cls, "__members__"):
        if isinstance(vars(cls).get("_missing_"), (classmethod, staticmethod)):
            raise NotQuickError(f"constructs {_name(cls)}, which has a method _missing_")
        return made
    if dataclasses.is_dataclass(cls):
        _check_dataclass(cls)
        if hasattr(cls, "__post_init__"):
            run(static_attribute(cls, "__post_init__"), Arguments((made,)))
        return made
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        _check_makers(cls)
        return made
    raise NotQuickError(f"constructs {_name(cls)}")


def _name(cls: type) -> str:
    return class_home(cls)[1]


def _check_makers(cls: type) -> None:
    """Refuse a class whose constructor the program has written."""
    for base in cls.__mro__:
        written = [vars(base).get(method) for method in ("__init__", "__new__")]
        if class_home(base)[0].startswith("actorgraph.errors"):
            continue
        for maker in written:
            found = maker.__func__ if isinstance(maker, staticmethod) else maker
            if is_written(found) and base.__module__ != "builtins":
                raise NotQuickError(f"constructs {_name(cls)}, which has an __init__ or __new__")


def _check_dataclass(cls: type) -> None:
    _check_makers(cls)
    for made in dataclasses.fields(typing.cast("Any", cls)):
        factory = made.default_factory
        origin = typing.get_origin(factory) or factory
        if factory is not dataclasses.MISSING and origin not in (list, dict, set, tuple):
            raise NotQuickError(f"constructs {_name(cls)}, whose field {made.name!r} has a factory")


def unwrapped_partial(callee: Any, arguments: Arguments, lift: Callable[[Any], Value]) -> Arguments:
    """Return the arguments of a call of a partial's function."""
    assert type(callee) is functools.partial
    bound = tuple(lift(given) for given in callee.args)
    named = {**{k: lift(v) for k, v in callee.keywords.items()}, **arguments.named}
    return Arguments((*bound, *arguments.positional), named, arguments.rest)
