"""State schemas are read into channels, whatever kind of class they are."""

import operator
from dataclasses import dataclass, field, make_dataclass
from enum import Enum
from typing import Annotated, Any, Generic, NotRequired, Required, TypedDict, TypeVar

import msgspec
import pytest
from pydantic import BaseModel, Field

from actorgraph.channels import (
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    Topic,
    UntrackedValue,
)
from actorgraph.errors import SchemaError
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.schema import merge_channels, read_schema, stored_types

T = TypeVar("T")


class Color(Enum):
    RED = 1


class Part(msgspec.Struct):
    color: Color = Color.RED


class Dict(TypedDict):
    count: int
    log: Annotated[list[str], operator.add]
    seen: Annotated[Any, Topic(str, accumulate=True)]


@dataclass
class Data:
    count: int = 0
    log: Annotated[list[str], operator.add] = field(default_factory=list)
    seen: Annotated[Any, Topic(str, accumulate=True)] = None


class Model(BaseModel):
    count: int = 0
    log: Annotated[list[str], operator.add] = Field(default_factory=list)
    seen: Annotated[Any, Topic(str, accumulate=True)] = None


class Struct(msgspec.Struct):
    count: int = 0
    log: Annotated[list[str], operator.add] = msgspec.field(default_factory=list)
    seen: Annotated[Any, Topic(str, accumulate=True)] = None


@pytest.mark.langgraph("F-A1")
@pytest.mark.parametrize("source", [Dict, Data, Model, Struct])
def test_four_kinds_of_class_mean_the_same_channels(source):
    """
    A TypedDict, a dataclass, a pydantic model and a Struct give the same rules, in key order.
    """
    schema = read_schema(source)

    assert schema.keys == ("count", "log", "seen")
    assert [type(c) for c in schema.channels.values()] == [
        LastValue,
        BinaryOperatorAggregate,
        Topic,
    ]
    assert schema.make is (None if source is Dict else source)


@pytest.mark.langgraph("F-A1")
@pytest.mark.parametrize("source", [int, list, dict, Annotated[list, operator.add]])
def test_a_bare_type_is_one_root_channel(source):
    """
    A graph over one value has the single channel `__root__`.
    """
    schema = read_schema(source)

    assert schema.keys == ("__root__",)
    assert schema.make is None


def optional_keys() -> Any:
    class State(TypedDict, total=False):
        a: Required[Annotated[list[int], operator.add]]
        b: NotRequired[int]
        c: Annotated[NotRequired[list[int]], operator.add]
        d: int

    return State


@pytest.mark.langgraph("F-B9")
def test_required_and_not_required_do_not_hide_a_reducer():
    """
    Required and NotRequired say nothing about the rule, outside Annotated or inside.
    """
    channels = read_schema(optional_keys()).channels

    assert [type(c) for c in channels.values()] == [
        BinaryOperatorAggregate,
        LastValue,
        BinaryOperatorAggregate,
        LastValue,
    ]
    assert channels["a"].initial() == channels["c"].initial() == []


@pytest.mark.langgraph("F-B9")
@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (Annotated[int, "a note"], LastValue),
        (Annotated[int, Color], LastValue),
        (Annotated[int, EphemeralValue], EphemeralValue),
        (Annotated[int, UntrackedValue, "note"], UntrackedValue),
        (Annotated[int, UntrackedValue(int, guard=False)], UntrackedValue),
        (Annotated[int, "note", max], BinaryOperatorAggregate),
        (Annotated[int, lambda a, b: a], BinaryOperatorAggregate),
        (Annotated[int, lambda *writes: writes[0]], BinaryOperatorAggregate),
        (int, LastValue),
    ],
)
def test_an_annotation_chooses_the_rule(annotation, kind):
    """
    A channel or a reducer in Annotated is the rule; any other note leaves the last value.
    """
    schema = read_schema(TypedDict("S", {"key": annotation}))

    assert type(schema.channels["key"]) is kind


@pytest.mark.langgraph("F-B9")
@pytest.mark.parametrize("reducer", [lambda a: a, lambda a, b, c: a, lambda *, a, b: a])
def test_a_reducer_takes_exactly_two_arguments(reducer):
    """
    A function that can't take a value and one write is refused, naming the key.
    """
    with pytest.raises(SchemaError, match="Invalid reducer signature") as refused:
        read_schema(TypedDict("S", {"key": Annotated[int, reducer]}))

    assert "'key'" in refused.value.what
    assert "two positional arguments" in refused.value.do


@pytest.mark.parametrize(
    "key", ["__interrupt__", "__start__", "__pregel_tasks", "__error__", "branch:to:a", "join:a:b"]
)
def test_reserved_keys_are_refused(key):
    """
    A state key can't have the name of a channel of the runtime's own.
    """
    with pytest.raises(SchemaError, match=f"'{key}' is reserved"):
        read_schema(TypedDict("S", {key: int}))

    if key.isidentifier():
        with pytest.raises(SchemaError, match=f"'{key}' is reserved"):
            read_schema(make_dataclass("S", [(key, int)]))


def test_a_schema_without_keys_is_refused():
    """
    A class of which no channel can be made is an error that shows an annotation.
    """
    with pytest.raises(SchemaError, match="Nothing has no annotated keys") as refused:
        read_schema(TypedDict("Nothing", {}))

    assert "annotate" in refused.value.do


def test_an_unresolvable_annotation_is_refused():
    """
    An annotation that names nothing is an error that names it.
    """

    class Broken(TypedDict):
        key: "NoSuchType"  # noqa: F821 - that is the point

    with pytest.raises(SchemaError, match="NoSuchType"):
        read_schema(Broken)


class Left(TypedDict):
    log: Annotated[list[str], operator.add]
    own: int


class Right(TypedDict):
    log: list[str]
    other: int


class Wrong(TypedDict):
    log: Annotated[list[str], lambda a, b: a]


@pytest.mark.langgraph("F-A2")
@pytest.mark.parametrize("order", [(Left, Right), (Right, Left), (Left, Right, Left)])
def test_a_reducer_in_one_schema_holds_in_all(order):
    """
    Schemas share keys: the one that gives a key a rule decides, in whatever order they come.
    """
    merged = merge_channels([read_schema(source) for source in order])

    assert set(merged) == {"log", "own", "other"}
    assert type(merged["log"]) is BinaryOperatorAggregate


@pytest.mark.langgraph("F-A2")
@pytest.mark.parametrize("order", [(Left, Wrong), (Wrong, Left), (Right, Left, Wrong)])
def test_two_reducers_for_one_key_are_refused(order):
    """
    Two rules for one key conflict, and the error names the key.
    """
    state, *others = order
    with pytest.raises(SchemaError, match="Channel 'log' already exists") as refused:
        GraphBuilder(state, input_schema=others[0], output_schema=others[-1])

    assert refused.value.do == "give the key the same reducer in every schema"


def test_the_users_types_are_found_inside_annotations():
    """
    Types nested in a schema's annotations are allowed to be stored; plain ones are not listed.
    """

    class Inner(TypedDict):
        part: Part | None

    @dataclass
    class Box(Generic[T]):
        item: T

    class State(TypedDict):
        inner: dict[str, list[Inner]]
        box: Annotated[list[Data], operator.add]
        plain: int

    assert set(stored_types([read_schema(State)])) == {Part, Color, Data}
    assert stored_types([read_schema(Dict)]) == ()


def test_a_type_that_contains_itself_ends_the_search():
    """
    A recursive type is found once.
    """
    schema = read_schema(Tree)

    assert stored_types([schema]) == (Tree,)


@dataclass
class Tree:
    children: "list[Tree]"
