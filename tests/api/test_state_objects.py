"""Objects and defaults of states: one rule for each kind of class, way in and form of a field.

The table of docs/state.md, "Defaults and objects".
"""

import dataclasses
import operator
from typing import Annotated, Any, Optional, TypedDict

import attrs
import msgspec
import pytest
from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass as model_dataclass

from actorgraph import START, Command, InMemorySaver, Send, StateGraph
from actorgraph.channels import DeltaChannel
from tests.support.graphs import at


def plus(old, new):
    return new if new is None else (old or 0) + new


class Model(BaseModel):
    todo: Annotated[list[str], operator.add] = Field(default_factory=lambda: ["plan"])
    budget: Annotated[int, operator.add] = 100
    maybe: Annotated[Optional[int], plus] = 100  # noqa: UP045 - as programs write it
    note: str = "none"
    user_name: str = Field(default="nobody", alias="userName")


@model_dataclass
class ModelData:
    todo: Annotated[list[str], operator.add] = Field(default_factory=lambda: ["plan"])
    budget: Annotated[int, operator.add] = 100
    maybe: Annotated[int | None, plus] = 100
    note: str = "none"
    user_name: str = Field(default="nobody", validation_alias="userName")


@dataclasses.dataclass
class Data:
    todo: Annotated[list[str], operator.add] = dataclasses.field(default_factory=lambda: ["plan"])
    budget: Annotated[int, operator.add] = 100
    maybe: Annotated[int | None, plus] = 100
    note: str = "none"
    user_name: str = "nobody"


class Struct(msgspec.Struct, rename="camel"):
    todo: Annotated[list[str], operator.add] = msgspec.field(default_factory=lambda: ["plan"])
    budget: Annotated[int, operator.add] = 100
    maybe: Annotated[int | None, plus] = 100
    note: str = "none"
    user_name: str = "nobody"


@attrs.define
class Attrs:
    todo: Annotated[list[str], operator.add] = attrs.field(factory=lambda: ["plan"])
    budget: Annotated[int, operator.add] = 100
    maybe: Annotated[int | None, plus] = 100
    note: str = "none"
    user_name: str = attrs.field(default="nobody", alias="userName")


KINDS = [Model, ModelData, Data, Struct, Attrs]
OUTSIDE = {Model: "userName", ModelData: "userName", Struct: "userName", Attrs: "userName"}
"""The name of the key `user_name` in a dict that comes from outside."""
BEGINS = {"todo": ["plan"], "budget": 100, "maybe": 100, "note": "none", "user_name": "nobody"}

GIVEN = {
    "absent": {},
    "set": {"budget": 50, "todo": ["a"], "note": "n"},
    "equal to the default": {"budget": 100, "todo": ["plan"], "note": "none"},
    "another for Optional": {"maybe": 5},
    "None": {"maybe": None},
    "alias": {"user_name": "Ada"},
}


def graph_of(kind, seen, **options):
    """A graph whose one node notes what it sees, and spends."""

    def spend(state: Any):
        seen.append({key: getattr(state, key) for key in BEGINS})
        return {"todo": ["work"], "budget": -1, "maybe": -1}

    builder = StateGraph(kind).add_node("spend", spend).add_edge(START, "spend")
    return builder.compile(**options)


def made(kind, fields):
    """An object of the class; msgspec's constructor takes names, the other ones aliases."""
    name = "user_name" if kind is Struct else OUTSIDE.get(kind, "user_name")
    return kind(**{name if key == "user_name" else key: value for key, value in fields.items()})


def outside(kind, fields):
    """The dict that a caller gives, by aliases."""
    name = OUTSIDE.get(kind, "user_name")
    return {name if key == "user_name" else key: value for key, value in fields.items()}


FORMS = {"object": made, "dict": outside, "dict by name": lambda _, fields: dict(fields)}


async def by_invoke(kind, given, seen):
    return await graph_of(kind, seen).ainvoke(given)


async def by_stream(kind, given, seen):
    chunks = graph_of(kind, seen).astream(given, stream_mode="values")
    return [chunk async for chunk in chunks][-1]


async def by_batch(kind, given, seen):
    (result,) = await graph_of(kind, seen).abatch([given])
    return result


async def by_command(kind, given, seen):
    return await graph_of(kind, seen).ainvoke(Command(update=given, goto="spend"))


async def by_update(kind, given, seen):
    graph = graph_of(kind, seen, checkpointer=InMemorySaver())
    await graph.aupdate_state(at(), given)
    return await graph.ainvoke(None, at())


async def by_bulk_update(kind, given, seen):
    graph = graph_of(kind, seen, checkpointer=InMemorySaver())
    await graph.abulk_update_state(at(), [[(given, "__input__")]])
    return await graph.ainvoke(None, at())


async def by_router(kind, given, seen):
    """A conditional edge at the start reads the state before the first node."""

    def spend(state: Any):
        return {"todo": ["work"], "budget": -1, "maybe": -1}

    def route(state):
        seen.append({key: getattr(state, key) for key in BEGINS})
        return "spend"

    builder = StateGraph(kind).add_node("spend", spend)
    builder.add_conditional_edges(START, route, ["spend"])
    return await builder.compile().ainvoke(given)


async def by_subgraph(kind, given, seen):
    """A node calls the graph, and passes its result on."""
    inner = graph_of(kind, seen)

    async def call(state):
        return {"result": await inner.ainvoke(given)}

    outer = StateGraph(dict[str, Any])
    outer.add_node("call", call).add_edge(START, "call")
    return (await outer.compile().ainvoke({}))["result"]


WAYS = {
    way.__name__.removeprefix("by_"): way
    for way in (
        *(by_invoke, by_stream, by_batch, by_command, by_update, by_bulk_update, by_router),
        by_subgraph,
    )
}


@pytest.mark.each_value
@pytest.mark.one_loop
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_default_is_seen_by_nodes_and_folded_into(kind, way, given):
    """
    A key that the first input leaves out begins with its default; one that it gives, as an object
    or as a dict, with that value, whatever the class and the way in.
    """
    fields = GIVEN[given]
    begins = {**BEGINS, **fields}
    for form in FORMS.values():
        seen: list[Any] = []
        result = await WAYS[way](kind, form(kind, fields), seen)

        assert seen == [begins]
        assert result["todo"] == [*begins["todo"], "work"]
        assert result["budget"] == begins["budget"] - 1
        assert result["maybe"] == (begins["maybe"] or 0) - 1
        assert result.get("user_name", "nobody") == begins["user_name"]


@pytest.mark.parametrize("kind", KINDS)
class TestLaterObjects:
    """An object that comes when the state has values."""

    async def test_a_later_input_folds_no_default_again(self, kind):
        """
        Fields of a reducer that were left at their default change nothing; set ones are folded.
        """
        graph = graph_of(kind, [], checkpointer=InMemorySaver())
        await graph.ainvoke({"budget": 10}, at())
        result = await graph.ainvoke(made(kind, {"budget": 5}), at())

        assert result["budget"] == 10 - 1 + 5 - 1
        assert result["todo"] == ["plan", "work", "work"]

    async def test_an_object_that_a_node_returns_folds_no_default_again(self, kind):
        """
        A returned object adds what it gives, alone, in a Command and for another node's update.
        """
        builder = StateGraph(kind)
        builder.add_node("one", lambda _: made(kind, {"budget": -1}))
        builder.add_node("two", lambda _: Command(update=made(kind, {"todo": ["b"]})))
        graph = builder.add_edge(START, "one").add_edge("one", "two").compile()
        result = await graph.ainvoke({})

        assert (result["todo"], result["budget"], result["maybe"]) == (["plan", "b"], 99, 100)

    async def test_a_send_gives_its_argument_and_folds_into_the_default(self, kind):
        """
        The node of a Send sees the argument as it is; what it returns is folded into the state.
        """
        seen: list[Any] = []
        builder = StateGraph(kind)

        def work(arg: dict[str, Any]):
            seen.append(arg)
            return {"budget": -1}

        builder.add_node("work", work)
        builder.add_conditional_edges(START, lambda _: [Send("work", {"n": 1})], ["work"])
        result = await builder.compile().ainvoke({})

        assert (seen, result["budget"]) == ([{"n": 1}], 99)

    async def test_an_update_as_a_node_folds_into_the_default(self, kind):
        """
        On a new thread too: the author is a node, not the input.
        """
        graph = graph_of(kind, [], checkpointer=InMemorySaver())
        await graph.aupdate_state(at(), {"budget": -1}, as_node="spend")

        assert (await graph.aget_state(at())).values["budget"] == 99


class TestWhatObjectsWrite:
    """Keys without a reducer."""

    async def test_a_model_knows_which_of_its_fields_were_set(self):
        """
        A field set to its default is written; one that was not set leaves what others wrote.
        """
        builder = StateGraph(Model).add_node("n", lambda _: Model(note="none"))
        graph = builder.add_edge(START, "n").compile()

        result = await graph.ainvoke({"note": "old", "userName": "Ada"})
        assert (result["note"], result["user_name"]) == ("none", "Ada")

    @pytest.mark.parametrize("kind", [ModelData, Data, Struct, Attrs])
    async def test_the_other_kinds_write_all_of_their_fields(self, kind):
        """
        They don't know which were set, and a node may have put a field back to its default.
        """
        builder = StateGraph(kind).add_node("n", lambda _: made(kind, {"user_name": "Eve"}))
        graph = builder.add_edge(START, "n").compile()

        result = await graph.ainvoke({"note": "old"})
        assert (result["note"], result["user_name"]) == ("none", "Eve")

    @pytest.mark.parametrize("kind", KINDS)
    async def test_an_unwritten_key_is_in_no_result_and_seen_by_every_node(self, kind):
        """
        Also by a node whose own schema has no default for the key.
        """
        seen: list[Any] = []
        builder = StateGraph(kind)

        def look(state: Noted):
            seen.append(state)

        builder.add_node("look", look).add_edge(START, "look")
        result = await builder.compile().ainvoke({})

        assert seen == [{"note": "none"}]
        assert "note" not in result


class Noted(TypedDict):
    note: str


@pytest.mark.every_saver
async def test_a_default_of_a_factory_is_made_once_for_a_thread(saver):
    """
    It is stored with the first input: a later run reads it, whatever the factory returns by then.
    """
    made_ids = iter(range(100))

    @dataclasses.dataclass
    class Counted:
        ids: Annotated[list[int], operator.add] = dataclasses.field(
            default_factory=lambda: [next(made_ids)]
        )

    def graph():
        builder = StateGraph(Counted).add_node("look", lambda _: None)
        return builder.add_edge(START, "look").compile(checkpointer=saver)

    first = await graph().ainvoke({}, at())
    assert await graph().ainvoke({"ids": [77]}, at()) == {"ids": [*first["ids"], 77]}


@pytest.mark.every_saver
async def test_an_input_that_was_not_moved_yet_takes_the_defaults_place_after_a_restart(saver):
    """
    A run that stops before its first router has only its input stored; it goes on from that.
    """
    builder = StateGraph(Model).add_node("n", lambda _: {"budget": -1})
    builder.add_conditional_edges(START, lambda _: "n", ["n"])
    graph = builder.compile(checkpointer=saver)
    await graph.abulk_update_state(at(), [[({"budget": 50}, "__input__")]])

    assert (await graph.ainvoke(None, at()))["budget"] == 49


class NoneModel(BaseModel):
    notes: Annotated[list[str] | None, operator.add] = None
    seen: Annotated[list[str], operator.add] = None  # type: ignore[assignment]


@dataclasses.dataclass
class NoneData:
    notes: Annotated[list[str] | None, operator.add] = None
    seen: Annotated[list[str], operator.add] = None  # type: ignore[assignment]


class NoneStruct(msgspec.Struct):
    notes: Annotated[list[str] | None, operator.add] = None
    seen: Annotated[list[str], operator.add] = None  # type: ignore[assignment]


@attrs.define
class NoneAttrs:
    notes: Annotated[list[str] | None, operator.add] = None
    seen: Annotated[list[str], operator.add] = None  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [NoneModel, NoneData, NoneStruct, NoneAttrs])
@pytest.mark.parametrize("as_object", [False, True], ids=["dict", "object"])
async def test_reducers_do_not_get_the_default_none(kind, as_object):
    """
    `Annotated[list | None, add] = None` begins with the first write; before it, nodes see None.
    """

    class View(TypedDict, total=False):
        notes: list[str] | None

    def look(view: View):
        return {"seen": [str(view["notes"])]}

    def write(_):
        return {"notes": ["a"]}

    builder = StateGraph(kind).add_node(look).add_node(write).add_edge(START, "look")
    graph = builder.add_edge("look", "write").add_edge("write", "again")
    graph = graph.add_node("again", write).compile(checkpointer=InMemorySaver())

    found = await graph.ainvoke(kind() if as_object else {}, at())
    assert found == {"notes": ["a", "a"], "seen": ["None"]}
    assert (await graph.ainvoke(kind() if as_object else {}, at()))["notes"] == ["a"] * 4
    given = {"notes": ["in"]}
    found = await graph.ainvoke(kind(**given) if as_object else given, at("another"))
    assert found["notes"] == ["in", "a", "a"]


def joined(value, writes):
    return [*(value or []), *(item for write in writes for item in write)]


class DeltaModel(BaseModel):
    todo: Annotated[list[str], DeltaChannel(joined)] = Field(default_factory=lambda: ["plan"])


def appends(kind, text):
    builder = StateGraph(kind).add_node("append", lambda _: {"todo": [text]})
    return builder.add_edge(START, "append").compile()


class TestSubgraphs:
    @pytest.mark.parametrize("kind", [*KINDS, DeltaModel])
    @pytest.mark.parametrize("given", [dict, None], ids=["dict", "object"])
    async def test_a_default_that_a_subgraph_gives_back_is_not_folded_again(self, kind, given):
        """
        A subgraph gives back a shared key whole, with the default that it was given.
        """
        builder = StateGraph(kind).add_node("sub", appends(kind, "s"))
        builder.add_node("next", lambda _: {"todo": ["n"]})
        builder.add_edge(START, "sub").add_edge("sub", "next")
        graph = builder.compile(checkpointer=InMemorySaver())

        assert (await graph.ainvoke((given or kind)(), at()))["todo"] == ["plan", "s", "n"]
        history = [each.values.get("todo") async for each in graph.aget_state_history(at())]
        assert history[:3] == [["plan", "s", "n"], ["plan", "s"], ["plan"]]

    async def test_nodes_beside_it_fold_their_writes_once(self):
        """
        Their writes of the same superstep are kept, in the order of their paths.
        """
        builder = StateGraph(Model).add_node("sub", appends(Model, "s"))
        builder.add_node("beside", lambda _: {"todo": ["b"], "budget": -1})
        builder.add_edge(START, "sub").add_edge(START, "beside")

        found = await builder.compile().ainvoke({})
        assert found["todo"] == ["b", "plan", "s"]
        assert found["budget"] == 99

    async def test_values_that_are_not_made_of_the_default_are_folded_into_it(self):
        """
        The argument of a Send, an update as the subgraph, a key that the subgraph doesn't take.
        """

        class Empty(TypedDict, total=False):
            note: str

        def sends(_):
            return [Send("sub", {"todo": ["mine"]})]

        builder = StateGraph(Model).add_node("sub", appends(Model, "s"))
        builder.add_conditional_edges(START, sends, ["sub"])
        graph = builder.compile(checkpointer=InMemorySaver())
        assert (await graph.ainvoke({}, at()))["todo"] == ["plan", "mine", "s"]
        await graph.aupdate_state(at("another"), {"todo": ["u"]}, as_node="sub")
        assert (await graph.aget_state(at("another"))).values["todo"] == ["plan", "u"]

        inner = StateGraph(Data, input_schema=Empty).add_node("n", lambda _: {"todo": ["s"]})
        inner = inner.add_edge(START, "n").compile()
        outer = StateGraph(Model).add_node("sub", inner).add_edge(START, "sub").compile()
        assert (await outer.ainvoke({}))["todo"] == ["plan", "plan", "s"]
