"""`context=`: made into the graph's schema, or refused before anything runs."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from actorgraph import START, InMemorySaver, InvalidContextError, StateGraph
from actorgraph.types import ServerInfo
from tests.support.graphs import AB, at, in_a_row


@dataclass
class Data:
    user: str
    limit: int = 3


class Model(BaseModel):
    user: str
    limit: int = 3


class Struct(msgspec.Struct):
    user: str
    limit: int = 3


class Dict(TypedDict):
    user: str
    limit: int


USER = SimpleNamespace(identity="ada")


def graph_with(schema, seen, **options):
    async def node(state, runtime):
        seen.append(runtime.context)

    builder = StateGraph(AB, schema).add_node("node", node).add_edge(START, "node")
    return builder.compile(**options)


@pytest.mark.parametrize("schema", [Data, Model, Struct])
class TestClasses:
    @pytest.mark.langgraph("F-C17")
    async def test_a_dict_becomes_the_schema(self, schema):
        """
        A dict of fields is made into the dataclass, model or Struct; defaults fill the rest.
        """
        seen: list = []
        await graph_with(schema, seen).ainvoke({}, context={"user": "ada"})

        assert seen == [schema(user="ada")]

    @pytest.mark.langgraph("F-C17")
    async def test_an_object_of_the_schema_stays_as_it_is(self, schema):
        """
        Nodes see the object that the caller made.
        """
        seen: list = []
        given = schema(user="ada", limit=9)
        await graph_with(schema, seen).ainvoke({}, context=given)

        assert seen[0] is given

    @pytest.mark.langgraph("F-C17")
    @pytest.mark.parametrize("bad", [{}, {"user": "a", "unknown": 1}, 5, "ada"], ids=str)
    async def test_a_context_that_does_not_fit_is_refused_before_anything_runs(self, schema, bad):
        """
        Nothing runs and nothing is stored; the error names the schema.
        """
        if schema is Model and bad and isinstance(bad, dict):
            bad = {"user": 5}  # a model ignores fields that it doesn't know
        seen: list = []
        graph = graph_with(schema, seen, checkpointer=InMemorySaver())
        with pytest.raises(InvalidContextError, match=schema.__name__):
            await graph.ainvoke({}, at(), context=bad)
        with pytest.raises(InvalidContextError, match=schema.__name__):
            graph.astream({}, at(), context=bad)

        assert seen == []
        assert (await graph.aget_state(at())).created_at is None


@pytest.mark.langgraph("F-C17")
async def test_a_typed_dict_takes_any_dict():
    """
    A TypedDict describes a dict and checks nothing; other values are refused.
    """
    seen: list = []
    graph = graph_with(Dict, seen)
    await graph.ainvoke({}, context={"user": "ada"})
    with pytest.raises(InvalidContextError, match="Dict"):
        await graph.ainvoke({}, context=["ada"])

    assert seen == [{"user": "ada"}]


@pytest.mark.langgraph("F-C17")
async def test_without_a_schema_any_context_goes():
    """
    A graph that declares none hands over what it gets, and None when it gets none.
    """
    seen: list = []
    graph = graph_with(None, seen)
    await graph.ainvoke({}, context=5)
    await graph.ainvoke({})
    async for _ in graph.astream({}, context=[1]):
        pass

    assert seen == [5, None, [1]]


@pytest.mark.langgraph("F-C17")
async def test_a_schema_with_defaults_is_not_made_of_nothing():
    """
    Without `context=` nodes see None, whatever the schema's defaults.
    """
    seen: list = []
    await graph_with(Data, seen).ainvoke({})

    assert seen == [None]


@pytest.mark.langgraph("F-C17", "F-C22")
def test_the_blocking_methods_take_it_too():
    """
    `invoke` and `stream` hand `context=` over as their async twins do.
    """
    seen: list = []
    graph = graph_with(Data, seen)
    graph.invoke({}, context={"user": "a"})
    list(graph.stream({}, context={"user": "b"}))

    assert [context.user for context in seen] == ["a", "b"]


class TestServerInfo:
    @pytest.mark.parametrize(
        ("place", "described"),
        [
            ({}, None),
            ({"assistant_id": "x", "graph_id": "y"}, ServerInfo("x", "y")),
            ({"graph_id": "y"}, ServerInfo("", "y")),
            ({"langgraph_auth_user": {"identity": "ada"}}, None),
            ({"langgraph_auth_user": USER}, ServerInfo("", "", USER)),
        ],
    )
    async def test_it_is_read_from_the_config(self, place, described):
        """
        `runtime.server_info` describes what a server has put into `configurable`, in subgraphs too.
        """
        seen: list = []

        async def node(state, runtime):
            seen.append(runtime.server_info)

        inner = in_a_row({"node": node})
        await in_a_row({"node": node, "inner": inner}).ainvoke({}, {"configurable": place})

        assert seen == [described, described]


class TestNoContext:
    @pytest.mark.parametrize("schema", [Data, Dict])
    @pytest.mark.parametrize("read", [lambda c: c.user, lambda c: c["user"]])
    async def test_an_error_about_none_explains_it(self, schema, read):
        """
        A node that fails because the call passed no context says so in a note.
        """

        async def node(state, runtime):
            read(runtime.context)

        builder = StateGraph(AB, schema).add_node("node", node).add_edge(START, "node")
        with pytest.raises((AttributeError, TypeError)) as raised:
            await builder.compile().ainvoke({})

        assert f"context_schema={schema.__name__}" in raised.value.__notes__[0]
        assert f"pass context={schema.__name__}(...)" in raised.value.__notes__[0]

    @pytest.mark.parametrize(
        ("schema", "options"),
        [(Data, {"context": Data("ada")}), (None, {})],
        ids=["passed", "none"],
    )
    async def test_other_errors_are_left_alone(self, schema, options):
        """
        With a context, or without a schema of it, the error has one note as usual.
        """

        async def node(state, runtime):
            None.missing  # noqa: B018

        builder = StateGraph(AB, schema).add_node("node", node).add_edge(START, "node")
        with pytest.raises(AttributeError) as raised:
            await builder.compile().ainvoke({}, **options)

        assert len(raised.value.__notes__) == 1
