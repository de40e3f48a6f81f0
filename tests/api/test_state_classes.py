"""States of classes with special forms: aliases, extras, fields outside of the constructor."""

import operator
from dataclasses import InitVar, dataclass, field, replace
from typing import Annotated, Any, Generic, TypeVar

import attrs
import msgspec
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel

from actorgraph import START, InMemorySaver, SqliteSaver, StateGraph
from actorgraph.channels import UntrackedValue
from actorgraph.errors import InvalidUpdateError, SchemaError, UnknownChannelWarning
from tests.support.graphs import at

T = TypeVar("T")


def graph_of(kind: Any, update: Any = lambda _: None, **options: Any):
    return StateGraph(kind).add_node("n", update).add_edge(START, "n").compile(**options)


class Paths(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first: str = Field(default="none", validation_alias=AliasPath("names", 0))
    second: str = Field(validation_alias=AliasPath("names", 1))
    count: int = Field(default=1, validation_alias=AliasChoices("total", AliasPath("deep", "n")))


class Swapped(BaseModel):
    a: int = Field(alias="b")
    b: int = Field(alias="a")


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    user_name: str
    visit_count: int = 0


class NameOnly(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=False
    )
    user_name: str


class Tagged(msgspec.Struct, tag="t", rename={"user_name": "who"}, forbid_unknown_fields=True):
    user_name: str = "none"
    log: Annotated[list[str], operator.add] = []


class Below(Tagged, kw_only=True):
    more: int = 3


@attrs.frozen(kw_only=True)
class Frozen:
    _hidden: Annotated[int, operator.add] = 1
    number: int = attrs.field(converter=int, default="4", validator=attrs.validators.ge(0))
    twice: int = attrs.field(default=attrs.Factory(lambda self: self.number * 2, takes_self=True))


@dataclass
class Computed:
    n: int = 1
    seed: InitVar[int] = 5
    total: int = field(init=False)
    scratch: int = field(init=False, default=7)

    def __post_init__(self, seed):
        self.total = self.n + seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Slotted:
    n: int = 1
    parts: tuple[int, ...] = ()


@dataclass
class Boxed(Generic[T]):
    items: Annotated[list[T], operator.add] = field(default_factory=list)


ALIASES = [
    (Paths, {"names": ["a", "b"], "deep": {"n": 5}}, {"first": "a", "second": "b", "count": 5}),
    (Paths, {"second": "b", "total": 3}, {"second": "b", "count": 3}),
    (Swapped, {"a": 1, "b": 2}, {"a": 2, "b": 1}),
    (Camel, {"userName": "Ada"}, {"user_name": "Ada"}),
    (Camel, {"user_name": "Ada", "visitCount": 2}, {"user_name": "Ada", "visit_count": 2}),
    (NameOnly, {"user_name": "Ada"}, {"user_name": "Ada"}),
    (Tagged, {"who": "Ada"}, {"user_name": "Ada", "log": []}),
    (Below, {"who": "Ada", "more": 1}, {"user_name": "Ada", "log": [], "more": 1}),
    (Frozen, {"hidden": 5, "number": "8"}, {"_hidden": 5, "number": "8"}),
]


class TestAliases:
    @pytest.mark.parametrize(("kind", "given", "state"), ALIASES)
    async def test_callers_use_them_and_the_state_has_names(self, kind, given, state):
        """
        An input by aliases becomes keys by names; the node's object is made of these.
        """
        seen: list[Any] = []
        graph = graph_of(kind, seen.append)

        assert await graph.ainvoke(given) == state
        assert all(type(made) is kind for made in seen)

    async def test_an_ambiguous_key_is_the_name_inside(self):
        """
        The values of `get_state` can be given to `update_state` as they are.
        """
        graph = graph_of(Swapped, lambda s: {"a": s.a}, checkpointer=InMemorySaver())
        await graph.ainvoke({"a": 1, "b": 2}, at())
        values = (await graph.aget_state(at())).values
        await graph.aupdate_state(at(), values)

        assert (await graph.aget_state(at())).values == values == {"a": 2, "b": 1}

    def test_json_schemas_of_inputs_have_them_and_those_of_outputs_have_names(self):
        """
        Clients give aliases, and get names.
        """
        for kind in (Camel, Tagged):
            graph = graph_of(kind)
            outside = {"userName", "visitCount"} if kind is Camel else {"who", "log"}

            assert graph.get_input_jsonschema()["properties"].keys() == outside
            assert "user_name" in graph.get_output_jsonschema()["properties"]
            assert "user_name" in graph.get_state_jsonschema()["properties"]

    async def test_a_secret_under_an_alias_is_not_stored(self, tmp_path):
        """
        The value of an `UntrackedValue` key reaches no file under its alias either.
        """

        class Keyed(BaseModel):
            key: Annotated[Any, UntrackedValue] = Field(default=None, alias="apiKey")
            n: int = 0

        async with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = graph_of(Keyed, lambda s: {"n": len(s.key)}, checkpointer=saver)
            given = {"apiKey": "not-to-be-stored"}
            assert (await graph.ainvoke(given, at(), durability="exit"))["n"] == 16
            assert (await graph.ainvoke(given, at()))["n"] == 16

        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"not-to-be-stored" not in stored


class TestFields:
    async def test_a_computed_field_is_computed_for_each_node(self):
        """
        A field that `__post_init__` makes is not in the state; one with a default is.
        """
        graph = graph_of(Computed, lambda s: {"n": s.total, "scratch": s.scratch + 1})

        assert await graph.ainvoke(Computed(2, 100)) == {"n": 7, "scratch": 8}
        assert await graph.ainvoke({"scratch": 1}) == {"n": 6, "scratch": 2}

    def test_a_class_that_needs_more_than_its_fields_is_refused(self):
        """
        An InitVar without a default has no value when a node's object is made.
        """

        @dataclass
        class Needy:
            n: int
            seed: InitVar[int]

        with pytest.raises(SchemaError, match="InitVar without a default, 'seed'"):
            graph_of(Needy)

    async def test_frozen_objects_with_slots_are_replaced(self):
        """
        A node returns a changed copy.
        """
        graph = graph_of(Slotted, lambda s: replace(s, parts=(s.n,)))

        assert await graph.ainvoke(Slotted(n=3)) == {"n": 3, "parts": (3,)}

    async def test_generic_classes_and_root_models(self):
        """
        `Boxed[int]` and `RootModel[...]` are read as the classes that they are.
        """
        boxed = graph_of(Boxed[int], lambda s: {"items": [len(s.items)]})
        rooted = graph_of(RootModel[list[int]], lambda s: {"root": [*s.root, 2]})

        assert await boxed.ainvoke(Boxed([7])) == {"items": [7, 1]}
        assert await rooted.ainvoke(RootModel[list[int]]([1])) == {"root": [1, 2]}


class TestUnknownKeys:
    async def test_a_class_that_forbids_them_has_the_input_refused(self):
        """
        Before anything runs, for pydantic's classes and msgspec's.
        """
        for kind, given in ((Paths, {"second": "b"}), (Tagged, {})):
            seen: list[Any] = []
            graph = graph_of(kind, lambda made, seen=seen: seen.append(made))
            with pytest.raises(InvalidUpdateError, match="the input has 'zzz'"):
                await graph.ainvoke({**given, "zzz": 1})
            assert seen == []

    async def test_extra_values_of_an_object_are_reported(self):
        """
        The state has no place for them, as for unknown keys of a dict.
        """

        class Open(BaseModel):
            model_config = ConfigDict(extra="allow")
            n: int = 0

        with pytest.warns(UnknownChannelWarning, match="the input has 'extra_of_open'"):
            assert await graph_of(Open).ainvoke(Open(n=1, extra_of_open=2)) == {"n": 1}
