"""State schemas: how they are read as channels, and the managed values that they may declare.

TypedDict, dataclass, pydantic model, msgspec.Struct, or a bare type. Each annotated key is one
channel. `Annotated[T, f]` folds writes with f; `Annotated[T, C]` with a channel C is that channel;
every other key keeps its last value.

Managed values are state keys that the runtime computes for nodes and that nothing writes.
`last: IsLastStep` and `left: RemainingSteps` show a node how far the run is from its recursion
limit. They are not channels: no checkpoint, stream or output has them.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from actorgraph.channels import BaseChannel, BinaryOperatorAggregate, Channel, LastValue
from actorgraph.channels.langgraph_channels import reducer_from_langgraph, rule_from_langgraph
from actorgraph.channels.stateful import as_rule
from actorgraph.errors import GraphBuildError, SchemaError, did_you_mean
from actorgraph.errors.texts import NAME_REFUSED, is_storable_name
from actorgraph.values.constants import BRANCH_TO, RESERVED_CHANNELS, ROOT, START
from actorgraph.values.from_langgraph import langgraph_module


class Managed:
    """A rule that computes a value from the number of supersteps that a run may still take."""

    @staticmethod
    def value(steps_left: int) -> Any:
        """Compute the value.

        Args:
            steps_left: supersteps that may follow the one that runs now.
        """
        raise NotImplementedError


class IsLastStepManager(Managed):
    """Whether at most one superstep may follow."""

    @staticmethod
    def value(steps_left: int) -> bool:
        """Compare with 1."""
        return steps_left <= 1


class RemainingStepsManager(Managed):
    """The number of supersteps that may follow the one that runs now."""

    @staticmethod
    def value(steps_left: int) -> int:
        """Return `steps_left`."""
        return steps_left


IsLastStep = Annotated[bool, IsLastStepManager]
RemainingSteps = Annotated[int, RemainingStepsManager]


@dataclasses.dataclass(frozen=True, slots=True)
class Schema:
    """A state schema, read.

    Attributes:
        source: the user's class.
        channels: key -> rule; one key `__root__` for a bare type.
        managed: keys that the runtime computes.
        make: builds the object that nodes see from keyword arguments; None: they see a dict.
    """

    source: Any
    channels: dict[str, Channel[Any]]
    make: Callable[..., Any] | None
    managed: dict[str, type[Managed]] = dataclasses.field(default_factory=dict[str, type[Managed]])

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order of the class."""
        return tuple(self.channels)

    @property
    def view(self) -> tuple[str, ...]:
        """The keys that a node with this schema gets: channels, then managed values."""
        return (*self.channels, *self.managed)


def is_typed_dict(candidate: object) -> bool:
    """Whether a class is a TypedDict of `typing` or of `typing_extensions`."""
    return is_typeddict(candidate) or (
        isinstance(candidate, type)
        and issubclass(candidate, dict)
        and hasattr(candidate, "__required_keys__")
    )


def is_schema(candidate: object) -> bool:
    """Whether a class has annotated keys of which channels can be made."""
    return isinstance(candidate, type) and (
        is_typed_dict(candidate)
        or dataclasses.is_dataclass(candidate)
        or hasattr(candidate, "model_fields")
        or hasattr(candidate, "__struct_fields__")
    )


def read_schema(source: Any) -> Schema:
    """Read the channels of a schema.

    Raises:
        SchemaError: an annotation can't be resolved, a key's name is reserved, a reducer doesn't
            take exactly two positional arguments, or the source is not a schema or type.
    """
    if not is_schema(source):
        _check_bare(source)
        return Schema(source, {ROOT: channel_of(ROOT, source)}, None)
    hints = _hints(source)
    if not hints:
        raise SchemaError(
            f"schema {source.__name__} has no annotated keys",
            do="annotate each key of the state, e.g. `count: int`",
        )
    kinds = ((key, _managed_kind(hint)) for key, hint in hints.items())
    managed = {key: kind for key, kind in kinds if kind is not None}
    for key in hints:
        check_channel_name(key)
    channels = {k: channel_of(k, hint) for k, hint in hints.items() if k not in managed}
    return Schema(source, channels, None if is_typed_dict(source) else source, managed)


def _managed_kind(annotation: Any) -> type[Managed] | None:
    """Return the rule of a managed value; None for a channel."""
    annotation = _unwrap(annotation)
    if get_origin(annotation) is not Annotated:
        return None
    marks = [_our_manager(e) for e in get_args(annotation)[1:] if isinstance(e, type)]
    kinds = [mark for mark in marks if issubclass(mark, Managed)]
    return kinds[-1] if kinds else None


def _our_manager(mark: type) -> type:
    """Return the rule of the same name for a managed value of LangGraph's; others unchanged.

    Raises:
        SchemaError: it is a program's own managed value, which reads LangGraph's scratchpad.
    """
    theirs = getattr(langgraph_module("langgraph.managed.base"), "ManagedValue", None)
    if theirs is None or not issubclass(mark, theirs):
        return mark
    for ours in (IsLastStepManager, RemainingStepsManager):
        if mark.__name__ == ours.__name__ and mark.__module__.startswith("langgraph.managed."):
            return ours
    raise SchemaError(
        f"{mark.__name__} is a managed value of LangGraph's interface, which reads its scratchpad",
        do="use IsLastStep or RemainingSteps, or compute the value in the nodes",
    )


def refuse_managed(schema: Schema, what: str) -> Schema:
    """Return the schema if it has no managed values.

    Args:
        what: named in the error, such as "the input schema".
    Raises:
        SchemaError: it has managed values, which only nodes can get.
    """
    if schema.managed:
        raise SchemaError(
            f"Invalid managed channels detected in {what}: {sorted(schema.managed)}",
            do="declare them in the state schema: they are not part of an input or output",
        )
    return schema


def _check_bare(source: Any) -> None:
    """Refuse a source that is neither a schema nor a type for a graph over one value."""
    kind = isinstance(source, type)
    if not (
        kind
        or get_origin(source) is not None
        or source is Any
        or isinstance(source, (Channel, BaseChannel))
    ):
        raise SchemaError(
            f"Expected a state schema, got {source!r}, which is a value and not a type",
            do="pass a TypedDict, dataclass, pydantic model or msgspec.Struct",
        )
    # Python 3.14 has the function that makes the annotations instead.
    names = ("__annotations__", "__annotate_func__")
    if kind and source.__module__ != "builtins" and any(map(vars(source).get, names)):
        raise SchemaError(
            f"schema {source.__name__} is a plain class, which does not take its keys as arguments",
            do="make it a TypedDict, or decorate it with @dataclass",
        )


def channel_of(key: str, annotation: Any) -> Channel[Any]:
    """Make the rule of one key.

    Raises:
        SchemaError: the key is reserved, or its reducer has a wrong signature.
    """
    if key in RESERVED_CHANNELS or key == START or key.startswith((BRANCH_TO, "join:")):
        raise SchemaError(f"state key {key!r} is reserved", do="choose another name for the key")
    annotation = _unwrap(annotation)
    rule = None if isinstance(annotation, type) else _rule(annotation, None, key)
    if rule is not None:
        return rule
    if get_origin(annotation) is Annotated:
        typ, *extras = get_args(annotation)
        return _annotated(key, _unwrap(typ), extras) or LastValue(typ)
    return LastValue(annotation)


def _annotated(key: str, typ: Any, extras: list[Any]) -> Channel[Any] | None:
    for extra in extras:
        rule = _rule(extra, typ, key)
        if rule is not None:
            return rule
    last = extras[-1]
    if not callable(last) or isinstance(last, type):
        return None
    if _positional_count(last) != 2:
        raise SchemaError(
            f"Invalid reducer signature. Expected (a, b) -> c for key {key!r}, "
            f"got {getattr(last, '__name__', last)!r}",
            do="use a function of exactly two positional arguments: the value and one write",
        )
    return BinaryOperatorAggregate(typ, reducer_from_langgraph(last))


def _rule(candidate: Any, typ: Any, key: str) -> Channel[Any] | None:
    """Make the rule of a channel of this library's or of LangGraph's; None for anything else."""
    rule = as_rule(candidate, typ, key)
    return rule_from_langgraph(candidate, typ, key) if rule is None else rule


def _positional_count(function: Callable[..., Any]) -> int:
    if isinstance(function, types.BuiltinFunctionType):
        return _count_once(function)
    return _count(function)


def _count(function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2  # a builtin without a signature, such as operator.add on older builds
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds for p in parameters)


# Python parses a builtin's signature from text, which takes most of the time of reading a schema.
_count_once = functools.lru_cache(maxsize=32)(_count)


def _unwrap(annotation: Any) -> Any:
    while get_origin(annotation) in (Required, NotRequired):
        annotation = get_args(annotation)[0]
    return annotation


def _hints(source: Any) -> dict[str, Any]:
    try:
        hints = get_type_hints(source, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"schema {source.__name__} has an annotation that can't be resolved: {error}",
            do="define the type at module level, or import it at run time",
        ) from error
    fields = getattr(source, "model_fields", None) or getattr(source, "__struct_fields__", None)
    if dataclasses.is_dataclass(source):
        fields = [f.name for f in dataclasses.fields(source)]
    if fields is not None:
        return {key: hints[key] for key in fields if key in hints}
    return hints


def merge_channels(schemas: list[Schema]) -> dict[str, Channel[Any]]:
    """Merge several schemas' channels.

    A key may be in several schemas; if one of them gives it a rule other than LastValue, that
    rule is used.

    Raises:
        SchemaError: two schemas give one key two different rules.
    """
    merged: dict[str, Channel[Any]] = {}
    for schema in schemas:
        add_channels(merged, schema)
    return merged


def add_channels(merged: dict[str, Channel[Any]], schema: Schema) -> None:
    """Add one schema's channels to merged ones; in case of a conflict none of them.

    Raises:
        SchemaError: a key has a different rule already.
    """
    new: dict[str, Channel[Any]] = {}
    for key, channel in schema.channels.items():
        known = merged.get(key)
        if known is None or type(known) is LastValue:
            new[key] = channel
        elif type(channel) is not LastValue and not known.same_rule(channel):
            raise SchemaError(
                f"Channel {key!r} already exists with a different type: {known!r}, {channel!r}",
                do="give the key the same reducer in every schema",
            )
    merged.update(new)


def view_of(schema: Schema, channels: dict[str, Channel[Any]]) -> tuple[str, ...]:
    """List the channels that a node with this schema gets.

    Raises:
        SchemaError: a key is not a channel of the graph.
    """
    missing = [key for key in schema.keys if key not in channels]
    if missing:
        raise SchemaError(
            f"key {missing[0]!r} is not a channel of this graph",
            do=did_you_mean(missing[0], list(channels)),
        )
    return schema.view


def stored_types(schemas: list[Schema]) -> tuple[type, ...]:
    """Collect the classes in the annotations: the codec may store and load those of data."""
    found: dict[type, None] = {}
    for schema in schemas:
        for candidate in _walk(schema.source, set()):
            found[candidate] = None  # an input may be an object of the schema itself
        for channel in schema.channels.values():
            for candidate in _walk(channel.typ, set()):
                found[candidate] = None
    return tuple(found)


def types_in(annotations: Sequence[Any]) -> tuple[type, ...]:
    """Collect the classes in some annotations."""
    return tuple({kind: None for a in annotations for kind in _walk(a, set())})


_NO_DATA = frozenset({"builtins", "typing", "types", "abc", "collections.abc"})
"""Modules whose classes declare no type of a stored value."""


def _walk(annotation: Any, seen: set[int]) -> Iterator[type]:
    if id(annotation) in seen or isinstance(annotation, TypeVar):
        return
    seen.add(id(annotation))
    if get_origin(annotation) in (Union, types.UnionType, Annotated) or get_args(annotation):
        for argument in (get_origin(annotation), *get_args(annotation)):
            yield from _walk(argument, seen)
    elif isinstance(annotation, type):
        if not is_schema(annotation):
            if annotation.__module__ not in _NO_DATA:
                yield annotation
        else:
            if not is_typed_dict(annotation):
                yield annotation
            try:
                hints = _hints(annotation)
            except SchemaError:
                return
            for hint in hints.values():
                yield from _walk(hint, seen)


def check_channel_name(name: str) -> None:
    """Refuse a channel's name that some store can't keep.

    Raises:
        SchemaError: see `errors.texts.is_storable_name`.
    """
    if not is_storable_name(name):
        raise SchemaError(
            f"{name[:80]!r} can't be a channel's name: {NAME_REFUSED}", do="choose another name"
        )


def check_graph_name(name: str) -> None:
    """Refuse a graph's name that some store can't keep.

    Raises:
        GraphBuildError: see `errors.texts.is_storable_name`.
    """
    if not is_storable_name(name):
        raise GraphBuildError(
            f"{name[:80]!r} can't be a graph's name: {NAME_REFUSED}", do="choose another name"
        )
