"""Annotations mean the same in every form, and are read one by one."""

import dataclasses
import operator
import sys
from functools import partial
from importlib import import_module
from typing import Annotated, Any, Final, Generic, NewType, Optional, TypedDict, TypeVar, Union

import msgspec
import pytest
import typing_extensions as te
from annotated_types import Ge, Predicate
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PlainSerializer
from pydantic import create_model as model

from actorgraph import START, StateGraph
from actorgraph.channels import BinaryOperatorAggregate, EphemeralValue, LastValue, Topic
from actorgraph.errors import SchemaError
from actorgraph.plan.annotation_forms import (
    Unknown,
    form_of,
    literals_of,
    members_of,
    unknown_in,
)
from actorgraph.plan.annotations import class_annotations, function_annotations
from actorgraph.plan.schema import (
    IsLastStep,
    IsLastStepManager,
    RemainingSteps,
    read_schema,
    stored_types,
)
from tests.plan import annotation_sources as texts

T = TypeVar("T")
D = te.TypeVar("D", default=int)
Log = te.TypeAliasType("Log", Annotated[list[str], operator.add])
Items = te.TypeAliasType("Items", Annotated[list[T], operator.add], type_params=(T,))
Plain = te.TypeAliasType("Plain", list[str])
Json = te.TypeAliasType("Json", "dict[str, Json] | list[Json] | str")
NewLog = NewType("NewLog", Annotated[list[str], operator.add])
ADD = operator.add

FORMS = {
    "alone": Annotated[list[str], ADD],
    "after a text": Annotated[list[str], "a log", ADD],
    "before a Doc": Annotated[list[str], ADD, te.Doc("a log")],
    "before a Field": Annotated[list[str], ADD, Field(description="a log")],
    "before a Meta": Annotated[list[str], ADD, msgspec.Meta(description="a log")],
    "among validators": Annotated[
        list[str], BeforeValidator(list), ADD, AfterValidator(list), PlainSerializer(list)
    ],
    "among predicates": Annotated[list[str], Predicate(bool), ADD, Ge(0)],
    "beside a class": Annotated[list[str], ADD, int],
    "nested": Annotated[Annotated[list[str], ADD], te.Doc("a log")],
    "twice": Annotated[Annotated[list[str], ADD], ADD],
    "an alias": Log,
    "an alias in Annotated": Annotated[Log, te.Doc("a log")],
    "an alias of the type": Annotated[Plain, ADD],
    "a generic alias": Items[str],
    "a NewType": NewLog,
}
OPTIONAL = {
    "Optional": Optional[Annotated[list[str], ADD]],  # noqa: UP045 - a form of its own
    "or None": Annotated[list[str], ADD] | None,
    "None or": Union[None, Annotated[list[str], ADD]],  # noqa: UP007 - a form of its own
    "an alias or None": Log | None,
    "around": Annotated[list[str] | None, ADD, te.Doc("a log")],
}


def data(form: Any) -> Any:
    return dataclasses.make_dataclass("S", [("log", form, dataclasses.field(default=None))])


KINDS = {
    "TypedDict": lambda form: TypedDict("S", {"log": form}),
    "total=False": lambda form: te.TypedDict("S", {"log": form}, total=False),
    "NotRequired": lambda form: te.TypedDict("S", {"log": te.NotRequired[form]}),
    "Required inside": lambda form: TypedDict("S", {"log": Annotated[te.Required[form], "x"]}),
    "ReadOnly": lambda form: te.TypedDict("S", {"log": te.ReadOnly[te.Required[form]]}),
    "dataclass": data,
    "a Final field": lambda form: data(Final[form]),
    "pydantic": lambda form: model("S", log=(form, None)),
    "msgspec": lambda form: msgspec.defstruct("S", [("log", form, None)]),
}


class TestReducers:
    @pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
    def test_one_is_found_in_every_form_in_every_kind_of_schema(self, kind):
        """
        Other extras, aliases, NewType, Optional and qualifiers don't hide a reducer.
        """
        for name, form in {**FORMS, **OPTIONAL}.items():
            channel = read_schema(kind(form)).channels["log"]

            assert isinstance(channel, BinaryOperatorAggregate), name
            assert channel.operator is ADD, name

    @pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
    def test_a_key_begins_with_the_empty_value_of_its_type(self, form):
        """
        The type inside a form is the same as without it.
        """
        channel = read_schema(TypedDict("S", {"log": form})).channels["log"]

        assert channel.typ == list[str]
        assert channel.initial() == []

    @pytest.mark.parametrize("form", [Log, NewLog, Annotated[Log, te.Doc("x")]])
    def test_a_bare_state_may_have_any_form_too(self, form):
        """
        A graph over one value is folded by the reducer of its annotation.
        """
        assert read_schema(form).channels["__root__"].operator is ADD

    async def test_a_conversation_is_kept_when_a_description_follows_its_reducer(self):
        """
        The reducer is used in a run, not only seen.
        """

        class State(BaseModel):
            log: Annotated[list[str], ADD, Field(description="what was said")] = []

        builder = StateGraph(State).add_node("a", lambda state: {"log": [f"{len(state.log)}"]})
        graph = builder.add_edge(START, "a").compile()

        assert (await graph.ainvoke({"log": ["x", "y"]}))["log"] == ["x", "y", "2"]


class Marked:
    """A method is another object each time that it is read."""

    def fold(self, value, write): ...


class TestRefused:
    @pytest.mark.parametrize(
        ("extras", "names"),
        [
            ((ADD, operator.or_), "add and or_"),
            ((ADD, EphemeralValue), "add and EphemeralValue"),
            ((Topic(str), "x", ADD), "Topic.* and add"),
            ((IsLastStepManager, ADD), "IsLastStepManager and a reducer"),
        ],
    )
    def test_two_rules_for_a_key(self, extras, names):
        """
        Of two reducers or channels none is ignored: the key is refused, with both names.
        """
        for form in (Annotated[(list, *extras)], Annotated[(list, *extras)] | None):
            with pytest.raises(SchemaError, match=f"'log' has more than one rule: {names}"):
                read_schema(TypedDict("S", {"log": form}))

    @pytest.mark.parametrize("function", [len, lambda a: a, partial(max, 1, key=lambda a: a)])
    def test_a_function_that_would_be_ignored(self, function):
        """
        A function that can't be a reducer is refused in any place.
        """
        if isinstance(function, partial):
            function = partial(lambda a, b: a, 1)
        with pytest.raises(SchemaError, match="Invalid reducer signature"):
            read_schema(TypedDict("S", {"log": Annotated[list, function, te.Doc("x")]}))

    @pytest.mark.parametrize("rule", [ADD, te.Doc, EphemeralValue, Topic(str)], ids=str)
    @pytest.mark.parametrize(
        "outside",
        [
            lambda inner: list[inner],
            lambda inner: dict[str, inner] | None,
            lambda inner: Annotated[tuple[inner, ...], te.Doc("x")],
            lambda inner: te.NewType("Log", list[inner | None]),
        ],
        ids=["list", "dict", "tuple", "NewType"],
    )
    def test_a_rule_inside_another_type(self, outside, rule):
        """
        A reducer or a channel of a list's items, which would fold nothing, is refused; another
        extra is not.
        """
        form = outside(Annotated[str, rule, te.Doc("x")])

        if rule is te.Doc:
            channels = read_schema(TypedDict("S", {"log": form})).channels
            assert type(channels["log"]) is LastValue
        else:
            with pytest.raises(SchemaError, match=r"'log' has the reducer or channel .* inside"):
                read_schema(TypedDict("S", {"log": form}))

    def test_a_class_of_reducers(self):
        """
        A class whose objects are reducers is refused, and its object is one; other classes, with
        which other readers of annotations mark keys, are left to them.
        """

        class Reducer:
            def __call__(self, value: list[str], write: list[str]) -> list[str]:
                return value + write

        with pytest.raises(SchemaError, match=r"the class Reducer .* whose objects are reducers"):
            read_schema(TypedDict("S", {"log": Annotated[list, Reducer]}))

        made = read_schema(TypedDict("S", {"log": Annotated[list, Reducer(), Marked]}))
        assert type(made.channels["log"]) is BinaryOperatorAggregate

    def test_one_method_named_twice_is_one(self):
        """
        The same rule may be given inside and outside.
        """
        owner = Marked()
        form = Annotated[Annotated[list, owner.fold], owner.fold]

        assert read_schema(TypedDict("S", {"log": form})).channels["log"].operator == owner.fold


class TestOtherRules:
    @pytest.mark.parametrize("extra", [EphemeralValue, EphemeralValue(str), EphemeralValue[str]])
    def test_a_channel_is_found_in_every_form(self, extra):
        """
        A channel's class, object or generic form may have anything behind it.
        """
        for form in (Annotated[str, extra, te.Doc("x")], Annotated[str, extra] | None):
            channel = read_schema(TypedDict("S", {"key": form})).channels["key"]

            assert isinstance(channel, EphemeralValue)

    @pytest.mark.parametrize(
        "form",
        [
            IsLastStep,
            IsLastStep | None,
            te.NotRequired[IsLastStep],
            Annotated[IsLastStep, te.Doc("x")],
            te.TypeAliasType("Last", IsLastStep),
        ],
    )
    def test_a_managed_value_is_found_in_every_form(self, form):
        """
        The runtime computes it, whatever is written around it.
        """
        schema = read_schema(TypedDict("S", {"last": form, "left": RemainingSteps}))

        assert schema.managed["last"] is IsLastStepManager
        assert not schema.channels


class Generic0(te.TypedDict, Generic[T]):
    total: Annotated[T, ADD]


class Generic1(Generic0[int]):
    more: str


class Generic2(BaseModel, Generic[T]):
    total: Annotated[T, ADD]


class Generic3(Generic2[int]):
    more: str


class Generic4(msgspec.Struct, Generic[T]):
    total: Annotated[T, ADD]


@dataclasses.dataclass
class Generic5(Generic[T]):
    total: Annotated[T, ADD]


@dataclasses.dataclass
class Generic6(Generic5[int]):
    more: str


class Generic7(te.TypedDict, Generic[D]):
    total: Annotated[D, ADD]


class Box(msgspec.Struct, Generic[T]):
    inside: T


class TestGenerics:
    @pytest.mark.parametrize(
        "source",
        [
            *(Generic0[int], Generic1, Generic2[int], Generic3, Generic4[int]),
            *(Generic5[int], Generic6, Generic7, Generic7[int]),
        ],
    )
    def test_arguments_and_defaults_replace_type_parameters(self, source):
        """
        A schema with arguments, a class derived from one, and a default say what T is.
        """
        channel = read_schema(source).channels["total"]

        assert channel.typ is int
        assert channel.initial() == 0

    @pytest.mark.parametrize("source", [Generic0[int], Generic2[int], Generic5[int]])
    async def test_a_graph_runs_over_a_generic_state(self, source):
        """
        Nodes see the object or dict of the class, with what reducers made of the writes.
        """

        def node(state):
            total = state["total"] if isinstance(state, dict) else state.total
            return {"total": total}

        graph = StateGraph(source).add_node("a", node).add_edge(START, "a").compile()

        assert await graph.ainvoke({"total": 2}) == {"total": 4}

    def test_the_types_of_arguments_may_be_stored(self):
        """
        Classes are found behind aliases, NewType and arguments.
        """

        class State(te.TypedDict, Generic[T]):
            a: te.TypeAliasType("A", list[T])
            b: NewType("B", Generic6)
            c: Json

        assert set(stored_types([read_schema(State[Box[int]])])) == {Box, Generic6}


class TestOneByOne:
    def test_marks_beside_an_unknown_name_are_kept(self):
        """
        Marks and destinations are read although a name beside them exists for type checkers only.
        """
        found = function_annotations(texts.partly)

        assert found["amount"] is int
        assert [extra.field for extra in form_of(found["user"]).extras] == ["user"]
        assert [f"{unknown_in(found[name])}" for name in ("user", "other", "last")] == [
            *("Receipt", "shop.Mark", "Receipt")
        ]
        command, receipt = members_of(found["return"])
        assert literals_of(command.__args__[0]) == ("a", "b")
        assert isinstance(receipt, Unknown)
        assert receipt.why == "name 'Receipt' is not defined"

    @pytest.mark.parametrize(
        "written", ["the amount", "dict[", "operator.nothing", "1 / 0", "int['x']"]
    )
    def test_a_text_without_a_type_is_unknown(self, written):
        """
        An error of one annotation concerns that annotation alone.
        """

        def function(a, b: int): ...

        function.__annotations__ = {"a": written, "b": "int"}

        found = function_annotations(function)

        assert isinstance(found["a"], Unknown)
        assert found["a"].text == written
        assert found["b"] is int

    def test_a_schema_names_the_key_that_cannot_be_read(self):
        """
        The error says which key, which name, and what to do.
        """

        class Order(TypedDict):
            a: "int"
            paid: "Annotated[Receipt, max]"  # noqa: F821 - that is the point

        with pytest.raises(SchemaError, match=r"key 'paid' of schema Order.*'Receipt'") as refused:
            read_schema(Order)

        assert "import Receipt at run time" in refused.value.do


class TestScopes:
    def test_a_class_of_a_running_function_is_found(self):
        """
        It is the one of the function and not of the module, and is remembered when that has ended.
        """
        item, made = texts.local_classes(read_schema)

        for kind, schema in made:
            assert schema.channels["items"].typ == list[item]
            assert read_schema(kind).channels["items"].typ == list[item]

    @pytest.mark.parametrize(
        "action",
        [
            *(texts.Shop().list, texts.Shop.list, texts.Shop(), texts.kept(texts.Shop().list)),
            partial(texts.Shop.list, texts.Shop()),
        ],
    )
    def test_a_method_may_name_a_class_of_its_class(self, action):
        """
        A nested class is found before one of the module, and a method hides no type.
        """
        found = function_annotations(action)

        assert found["item"] is texts.Shop.Item
        if not isinstance(action, texts.Shop):
            assert found["return"] == list[int]

    def test_a_closure_is_looked_in(self):
        """
        A variable of the enclosing function that a function uses is known for as long as it lives.
        """

        def make():
            class Own(TypedDict):
                a: int

            def node(state: "Own") -> None:
                Own(a=1)

            return node, Own

        node, own = make()

        assert function_annotations(node)["state"] is own

    def test_namespaces_given_to_pydantic_count(self):
        """
        Names that a program gave to `model_rebuild` count.
        """
        made = model("Late", paid=("Annotated[Receipt, operator.add]", ...))
        made.model_rebuild(
            _types_namespace={"Receipt": int, "operator": operator, "Annotated": Annotated}
        )

        assert read_schema(made).channels["paid"].typ is int


NEW_SYNTAX = """
import operator
from typing import Annotated, TypedDict

type Log[T] = Annotated[list[T], operator.add]
type State = Base[int]

class Base[T](TypedDict):
    log: Log[T]
    other: "T"

class Data[T]:
    def method[S](self, a: "S", b: "T"): ...
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a syntax of Python 3.12")
def test_the_syntax_of_python_3_12_means_the_same(tmp_path, monkeypatch):
    """
    Aliases, generic classes and their scopes are read in the syntax of PEP 695 too.
    """
    (tmp_path / "new_syntax.py").write_text(NEW_SYNTAX)
    monkeypatch.syspath_prepend(tmp_path)
    made = import_module("new_syntax")

    channels = read_schema(made.State).channels

    assert channels["log"].operator is ADD
    assert channels["log"].typ == list[int]
    assert channels["other"].typ is int
    found = function_annotations(made.Data().method)
    assert found["a"] in made.Data.method.__type_params__
    assert found["b"] in made.Data.__type_params__


def test_aliases_that_never_end_are_read():
    """
    A recursive alias is walked once, and one that grows at each step only so far.
    """
    grows = te.TypeAliasType("grows", "list[grows[list[T]]]", type_params=(T,))

    assert unknown_in(Json) is None or isinstance(unknown_in(Json), Unknown)
    assert form_of(grows[int]).typ is not None
    assert isinstance(read_schema(TypedDict("S", {"a": Json})).channels["a"], LastValue)


def test_a_class_that_only_inherits_has_its_bases_annotations():
    """
    Names are those of the class and of every base, the nearest one's annotation counts.
    """

    class Base:
        a: int
        b: str

    class Below(Base):
        b: "int"

    assert class_annotations(Below) == {"a": int, "b": int}
