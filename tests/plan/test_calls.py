"""Facts about a user's callable, found without calling it."""

from functools import partial
from typing import Any, Literal, Optional, TypedDict, Union
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest

from actorgraph import START, Command, StateGraph
from actorgraph.plan.callables import command_destinations, first_schema, is_async, literal_returns
from tests.support.graphs import AB


class View(TypedDict):
    foo: str


class Callable:
    def __call__(self, state: View) -> Command[Literal["a"]]: ...

    async def method(self, state: View) -> Command[Literal["a"]]: ...

    @classmethod
    def of_class(cls, state: View): ...

    @staticmethod
    def static(state: View): ...


class AsyncCallable:
    async def __call__(self, state): ...


def views(state: View): ...
def views_late(state: "View"): ...
def second(first: int, state: View): ...
def a_dict(state: dict[str, Any]): ...
def a_view_or_none(state: View | None): ...
def a_union(state: View | dict[str, Any]): ...
def unresolved(state: "Nowhere"): ...  # noqa: F821
def bare(state): ...


@pytest.mark.langgraph("F-A4")
@pytest.mark.parametrize(
    ("action", "schema"),
    [
        (views, View),
        (views_late, View),
        (Callable(), View),
        (Callable().method, View),
        (Callable.of_class, View),
        (Callable.static, View),
        (partial(second, 1), View),
        (partial(views), View),
        (a_dict, None),
        (a_view_or_none, View),
        (a_union, None),
        (unresolved, None),
        (bare, None),
        (len, None),
    ],
)
def test_the_first_parameter_says_what_a_node_sees(action, schema):
    """
    A schema class as the annotation of the first parameter, of whatever kind of callable; any
    other annotation says nothing.
    """
    assert first_schema(action) is schema


@pytest.mark.langgraph("F-A2", "F-A4", "F-A13")
async def test_a_node_sees_the_keys_of_its_own_schema():
    """
    A method with an annotation gets that part of the state, a conditional edge likewise, and the
    keys become keys of the state.
    """
    seen: list = []

    class Private(TypedDict):
        secret: str

    class Node:
        def reads(self, state: View):
            seen.append(state)
            return {"secret": "s"}

        def routes(self, state: Private) -> Literal["last"]:
            seen.append(state)
            return "last"

        def last(self, state: Private):
            seen.append(state)

    node = Node()
    builder = StateGraph(AB).add_node("reads", node.reads).add_node("last", node.last)
    builder.add_edge(START, "reads").add_conditional_edges("reads", node.routes)
    result = await builder.compile().ainvoke({"foo": "x", "bar": ["y"]})

    assert seen == [{"foo": "x"}, {"secret": "s"}, {"secret": "s"}]
    assert result == {"foo": "x", "bar": ["y"]}


def one(state) -> Command[Literal["a", "b"]]: ...
def in_union(state) -> Command[Literal["a"]] | dict[str, Any]: ...
def in_old_union(state) -> Union[dict[str, Any], Command[Literal["a"]]]: ...  # noqa: UP007
def optional(state) -> Optional[Command[Literal["a"]]]: ...  # noqa: UP045
def several(state) -> Command[Literal["a"]] | Command[Literal["b", "a"]] | None: ...
def any_command(state) -> Command[Any]: ...
def late(state) -> "Command[Literal['a']]": ...
async def awaited(state) -> Command[Literal["a"]]: ...
def literal(state) -> Literal["a", "b"]: ...


@pytest.mark.langgraph("F-A5")
@pytest.mark.parametrize(
    ("action", "names"),
    [
        (one, ("a", "b")),
        (in_union, ("a",)),
        (in_old_union, ("a",)),
        (optional, ("a",)),
        (several, ("a", "b")),
        (any_command, ()),
        (late, ("a",)),
        (awaited, ("a",)),
        (Callable(), ("a",)),
        (Callable().method, ("a",)),
        (partial(one), ("a", "b")),
        (literal, ()),
    ],
)
def test_the_return_annotation_says_where_commands_lead(action, names):
    """
    `Command[Literal[...]]`, also in unions, of whatever kind of callable.
    """
    assert command_destinations(action) == names


@pytest.mark.langgraph("F-A5")
def test_destinations_overrule_the_annotation():
    """
    `destinations=` names the nodes, or gives each edge a label for drawings.
    """
    builder = StateGraph(AB)
    builder.add_node("names", one, destinations=["c"])
    builder.add_node("labels", one, destinations={"c": "when done"})
    builder.add_node("neither", one)

    assert builder.nodes["names"].ends == {"c": None}
    assert builder.nodes["labels"].ends == {"c": "when done"}
    assert builder.nodes["neither"].ends == {"a": None, "b": None}


@pytest.mark.langgraph("F-A12")
def test_a_literal_answer_is_a_path_map():
    """
    `-> Literal["a", "b"]` of a conditional edge says where it may lead.
    """
    assert literal_returns(literal) == ("a", "b")
    assert literal_returns(one) == ()


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Callable().method, True),
        (AsyncCallable(), True),
        (partial(awaited), True),
        (partial(AsyncCallable()), True),
        (Callable(), False),
        (views, False),
    ],
)
def test_async_callables_are_recognized(action, expected):
    """
    Methods, objects and partials of them too.
    """
    assert is_async(action) is expected


class Compiled:
    """A class whose objects can be called in two ways."""

    def invoke(self, state): ...
    def __call__(self, state): ...


class WithInvoke:
    """An object whose method is made in `__init__`."""

    def __init__(self) -> None:
        self.invoke = lambda state: {"foo": "object"}


class TestMocks:
    @pytest.mark.parametrize("kind", [Mock, MagicMock, AsyncMock])
    async def test_one_is_called_itself(self, kind):
        """
        A mock is a node and a path like the function that it replaces, though it has every
        attribute that is asked for.
        """
        node, path = kind(return_value={"foo": "mocked"}), kind(return_value="node")
        builder = StateGraph(AB).add_node("node", node).add_conditional_edges(START, path)

        assert (await builder.compile().ainvoke({"foo": "x"}))["foo"] == "mocked"

        node.assert_called_once_with({"foo": "x", "bar": []})
        path.assert_called_once()

    def test_one_without_a_name_has_that_of_its_class(self):
        """
        `add_node(Mock())` names the node after the class.
        """
        assert list(StateGraph(AB).add_node(Mock()).nodes) == ["Mock"]

    async def test_one_with_a_spec_has_its_methods(self):
        """
        A mock of a class with `invoke` is called by that.
        """
        node = Mock(spec=Compiled)
        node.invoke.return_value = {"foo": "spec"}
        graph = StateGraph(AB).add_node("node", node).add_edge(START, "node").compile()

        assert (await graph.ainvoke({}))["foo"] == "spec"

    async def test_an_object_with_a_method_needs_no_class_for_it(self):
        """
        `invoke` may be an attribute of an object that can't be called itself.
        """
        graph = StateGraph(AB).add_node("node", WithInvoke()).add_edge(START, "node").compile()

        assert (await graph.ainvoke({}))["foo"] == "object"
