"""State schemas: how they are read as channels, and the managed values that they may declare.

TypedDict, dataclass, pydantic model, msgspec.Struct, attrs class, or a bare type. Each annotated
key is one channel. `Annotated[T, f]` folds writes with f; `Annotated[T, C]` with a channel C is
that channel; every other key keeps its last value.

Managed values are state keys that the runtime computes for nodes and that nothing writes.
`last: IsLastStep` and `left: RemainingSteps` show a node how far the run is from its recursion
limit. They are not channels: no checkpoint, stream or output has them.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NewType, cast, get_args, get_origin

from actorgraph.bridging import BRIDGE
from actorgraph.channels import BaseChannel, BinaryOperatorAggregate, Channel, LastValue
from actorgraph.channels.stateful import as_rule
from actorgraph.errors import GraphBuildError, SchemaError, did_you_mean
from actorgraph.errors.signatures import signature_of
from actorgraph.errors.texts import NAME_REFUSED, is_storable_name
from actorgraph.plan.annotation_forms import (
    Unknown,
    class_of,
    form_of,
    is_typed_dict,
    unknown_in,
    walked,
)
from actorgraph.plan.annotations import class_annotations, has_annotations
from actorgraph.plan.state_objects import Default, Fields, fields_in, has_fields, maker
from actorgraph.values.constants import BRANCH_TO, RESERVED_CHANNELS, ROOT, START


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
        fields: of the class, with defaults and aliases; None for a TypedDict or a bare type.
    """

    source: Any
    channels: dict[str, Channel[Any]]
    make: Callable[..., Any] | None
    managed: dict[str, type[Managed]] = dataclasses.field(default_factory=dict[str, type[Managed]])
    fields: Fields | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order of the class."""
        return tuple(self.channels)

    @property
    def view(self) -> tuple[str, ...]:
        """The keys that a node with this schema gets: channels, then managed values."""
        return (*self.channels, *self.managed)


def is_schema(candidate: object) -> bool:
    """Whether a class has annotated keys of which channels can be made; also as `State[int]`."""
    kind = class_of(candidate)
    return isinstance(kind, type) and (is_typed_dict(kind) or has_fields(kind))


def read_schema(source: Any) -> Schema:
    """Read the channels of a schema.

    Raises:
        SchemaError: an annotation can't be resolved, a key's name is reserved, a reducer doesn't
            take exactly two positional arguments, or the source is not a schema or type.
    """
    if is_schema(typ := form_of(source).typ):
        source = typ
    else:
        _check_bare(source, typ)
        return Schema(source, {ROOT: channel_of(ROOT, source)}, None)
    kind = class_of(source)
    fields = None if is_typed_dict(kind) else fields_in(kind)
    hints = _hints(source)
    if fields is not None:  # in the order of the class, with fields that have no annotation
        hints = {name: hints.get(name, fields.types.get(name, Any)) for name in fields.names}
    if not hints:
        raise SchemaError(
            f"schema {source.__name__} has no annotated keys",
            do="annotate each key of the state, e.g. `count: int`",
        )
    kinds = ((key, _managed_kind(key, hint)) for key, hint in hints.items())
    managed = {key: kind for key, kind in kinds if kind is not None}
    for key in hints:
        check_channel_name(key)
    channels = {k: channel_of(k, hint) for k, hint in hints.items() if k not in managed}
    make = None if fields is None else maker(kind)
    return Schema(source, channels, make, managed, fields)


def _managed_kind(key: str, annotation: Any) -> type[Managed] | None:
    """Return the rule of a managed value; None for a channel.

    Raises:
        SchemaError: the key has a reducer or a channel too.
    """
    extras = form_of(annotation).extras
    marks = [BRIDGE.adapt_manager(extra) for extra in extras if isinstance(extra, type)]
    kinds = [mark for mark in marks if issubclass(mark, Managed)]
    if kinds and type(channel_of(key, annotation)) is not LastValue:
        raise SchemaError(
            f"state key {key!r} has more than one rule: {kinds[-1].__name__} and a reducer or "
            "channel",
            do="keep one: nothing is written to a managed value",
        )
    return kinds[-1] if kinds else None


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


def _check_bare(source: Any, typ: Any) -> None:
    """Refuse a source that is neither a schema nor a type for a graph over one value."""
    kind = isinstance(typ, type)
    if not (
        kind or get_origin(typ) is not None or typ is Any or isinstance(typ, (Channel, BaseChannel))
    ):
        raise SchemaError(
            f"Expected a state schema, got {source!r}, which is a value and not a type",
            do="pass a TypedDict, dataclass, pydantic model, msgspec.Struct or attrs class",
        )
    if kind and typ.__module__ != "builtins" and has_annotations(cast("type", typ)):
        raise SchemaError(
            f"schema {typ.__name__} is a plain class, which does not take its keys as arguments",
            do="make it a TypedDict, or decorate it with @dataclass",
        )


def channel_of(key: str, annotation: Any) -> Channel[Any]:
    """Make the rule of one key.

    Raises:
        SchemaError: the key is reserved, or its reducer has a wrong signature.
    """
    if key in RESERVED_CHANNELS or key == START or key.startswith((BRANCH_TO, "join:")):
        raise SchemaError(f"state key {key!r} is reserved", do="choose another name for the key")
    form = form_of(annotation)
    found: list[tuple[Any, Channel[Any]]] = []
    for part in (form.typ, *form.extras):
        rule = _type_rule(part, key) if part is form.typ else _extra_rule(part, form.typ, key)
        if rule is not None and not any(part == other for other, _ in found):
            found.append((part, rule))
    if len(found) > 1:
        names = " and ".join(_name_of(part) for part, _ in found)
        raise SchemaError(
            f"state key {key!r} has more than one rule: {names}",
            do="keep one: a key has one reducer or one channel, anywhere in its Annotated",
        )
    _check_inside(form.typ, key)
    return found[0][1] if found else LastValue(form.typ)


def _check_inside(typ: Any, key: str) -> None:
    """Refuse a reducer or a channel inside the type of a key, as in `list[Annotated[T, add]]`.

    Raises:
        SchemaError: there is one: it would be ignored.
    """
    for part in walked(typ):
        for extra in get_args(part)[1:] if get_origin(part) is Annotated else ():
            if _extra_rule(extra, Any, key) is not None:
                raise SchemaError(
                    f"state key {key!r} has the reducer or channel {_name_of(extra)} inside "
                    f"another type, where it would fold nothing",
                    do=f"put it around the whole type: Annotated[..., {_name_of(extra)}]",
                )


def _type_rule(typ: Any, key: str) -> Channel[Any] | None:
    """Make the rule of a key that is annotated with a channel instead of a type."""
    return None if isinstance(typ, type) else _rule(typ, None, key)


def _extra_rule(extra: Any, typ: Any, key: str) -> Channel[Any] | None:
    """Make the rule of something in Annotated: a channel, or a function that folds writes.

    A class that isn't a channel, and an object that can't be called, are for other readers of
    the annotation: pydantic's validators and fields, units, descriptions.

    Raises:
        SchemaError: it can be called, but not as a reducer, or it is a class of reducers.
    """
    kind = get_origin(extra)  # a channel with its argument, such as Topic[str]
    extra = kind if isinstance(kind, type) else extra
    rule = _rule(extra, typ, key)
    if rule is None and isinstance(extra, type) and _makes_reducers(extra):
        raise SchemaError(
            f"state key {key!r} has the class {_name_of(extra)} in its Annotated, whose objects "
            "are reducers",
            do=f"make one: Annotated[..., {_name_of(extra)}()]",
        )
    if rule is not None or not callable(extra) or isinstance(extra, (type, NewType, Unknown)):
        return rule
    if _positional_count(extra) != 2:
        raise SchemaError(
            f"Invalid reducer signature. Expected (a, b) -> c for key {key!r}, "
            f"got {_name_of(extra)!r}",
            do="use a function of exactly two positional arguments: the value and one write",
        )
    return BinaryOperatorAggregate(typ, BRIDGE.adapt_reducer(extra))


def _name_of(part: Any) -> str:
    return str(getattr(part, "__name__", part))


def _rule(candidate: Any, typ: Any, key: str) -> Channel[Any] | None:
    """Make the rule of a channel of this library's or of LangGraph's; None for anything else."""
    rule = as_rule(candidate, typ, key)
    return BRIDGE.adapt_channel(candidate, typ, key) if rule is None else rule


def _makes_reducers(kind: type) -> bool:
    """Whether the objects of a class can be called with a value and a write."""
    called = getattr(kind, "__call__", None)  # noqa: B004 - of the class, not of its metaclass
    return isinstance(called, types.FunctionType) and _count(called) == 3


def _positional_count(function: Callable[..., Any]) -> int:
    if isinstance(function, types.BuiltinFunctionType):
        return _count_once(function)
    return _count(function)


def _count(function: Callable[..., Any]) -> int:
    try:
        parameters = signature_of(function).parameters.values()
    except (TypeError, ValueError):
        return 2  # a builtin without a signature, such as operator.add on older builds
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds for p in parameters)


# Python parses a builtin's signature from text, which takes most of the time of reading a schema.
_count_once = functools.lru_cache(maxsize=32)(_count)


def _hints(source: Any) -> dict[str, Any]:
    """Return key -> annotation of a schema.

    Raises:
        SchemaError: one of them can't be resolved.
    """
    found = _keys(source)
    for key, hint in found.items():
        if (unknown := unknown_in(hint)) is not None:
            raise SchemaError(
                f"key {key!r} of schema {source.__name__} has an annotation that can't be "
                f"resolved: {unknown.why}",
                do=f"import {unknown} at run time, not for type checkers only, or define it at "
                "module level",
            )
    return found


def _keys(source: Any) -> dict[str, Any]:
    """Return key -> annotation, with an Unknown for each name that can't be resolved."""
    hints, kind = class_annotations(source), class_of(source)
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__struct_fields__", None)
    if dataclasses.is_dataclass(kind):
        fields = [f.name for f in dataclasses.fields(kind)]
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


def defaults_of(schemas: Sequence[Schema]) -> dict[str, Default]:
    """Return the defaults with which keys begin.

    That of a key of the state or the input is the first that one of these two declares; that of
    any other key the first that a schema declares.

    Args:
        schemas: the state's, the input's, and others.
    """
    found: dict[str, Default] = {}
    own = {key for schema in schemas[:2] for key in schema.keys}
    for place, schema in enumerate(schemas):
        for key, default in ({} if schema.fields is None else schema.fields.defaults).items():
            if key in schema.channels and key not in found and (place < 2 or key not in own):
                found[key] = default
    return found


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
        seen = set[Any]()
        for candidate in _walk(schema.source, seen):
            found[candidate] = None  # an input may be an object of the schema itself
        for channel in schema.channels.values():
            for candidate in _walk(channel.typ, seen):
                found[candidate] = None
    return tuple(found)


def types_in(annotations: Sequence[Any]) -> tuple[type, ...]:
    """Collect the classes in some annotations."""
    return tuple({kind: None for a in annotations for kind in _walk(a, set())})


_NO_DATA = frozenset({"builtins", "typing", "types", "abc", "collections.abc"})
"""Modules whose classes declare no type of a stored value."""


def _walk(annotation: Any, seen: set[Any]) -> Iterator[type]:
    for part in walked(annotation, seen):
        if not isinstance(part, type):
            continue
        if not is_schema(part):
            if part.__module__ not in _NO_DATA:
                yield part
        else:
            if not is_typed_dict(part):
                yield part
            for hint in _keys(part).values():
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
