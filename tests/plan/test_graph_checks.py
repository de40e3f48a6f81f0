"""Every graph that can't run is refused, with the culprit's name and the way out."""

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

import pytest

from actorgraph.errors import GraphBuildError, SchemaError
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.graph_checks import check
from actorgraph.values.commands import Command
from actorgraph.values.constants import END, START


class State(TypedDict):
    text: str


def node(state: State) -> Any:
    return None


async def anode(state: State) -> Any:
    return None


def parts(state: State) -> Any:
    yield {"text": "part"}


def graph(*names: str) -> GraphBuilder:
    """A builder with these nodes and an edge from START to the first one."""
    builder = GraphBuilder(State)
    for name in names:
        builder.add_node(name, node)
    return builder.add_edge(START, names[0]) if names else builder


BAD_CALLS: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: graph("a").add_node("a", node), "Node `a` already present", "another name"),
    (lambda: graph().add_node(START, node), "Node `__start__` is reserved", "another name"),
    (lambda: graph().add_node(END, node), "Node `__end__` is reserved", "another name"),
    (lambda: graph().add_node("__interrupt__", node), "is reserved", "another name"),
    (lambda: graph().add_node("a|b", node), "'a|b' can't be a node's name", "letters"),
    (lambda: graph().add_node("a:b", node), "'a:b' can't be a node's name", "letters"),
    (lambda: graph().add_node("", node), "'' can't be a node's name", "letters"),
    (lambda: graph().add_node("a"), "add_node('a') got no function", "add_node(name, function)"),
    (lambda: graph().add_node(lambda s: s), "got no name for the node", "add_node(name, "),
    (lambda: graph().add_node("a", 3), "node 'a': expected a function, got 3", "pass a function"),
    (lambda: graph().add_node("a", parts), "node 'a' is a generator", "get_stream_writer()"),
    (lambda: graph().add_node("a", node, timeout=1), "a thread can't be stopped", "async def"),
    (lambda: graph().add_node("a", anode, timeout=0), "must be greater than 0", "positive"),
    (lambda: graph("a").add_edge(END, "a"), "END cannot be a start node", "at END"),
    (lambda: graph("a").add_edge(["a", END], "a"), "END cannot be a start node", "at END"),
    (lambda: graph("a").add_edge("a", START), "START cannot be an end node", "go back to"),
    (lambda: graph("a").add_edge([], "a"), "empty list of starts", "name the nodes"),
    (lambda: graph("a").add_edge(None, "a"), "the name of a node, got None", "the name"),
    (lambda: graph("a").add_edge(["a", 3], "a"), "the name of a node, got 3", "the name"),
    (lambda: graph("a").add_edge("a", ["b"]), "the name of a node, got ['b']", "one edge for"),
    (lambda: graph("a").add_edge(START, node), "add_edge() expects the name", "such as 'node'"),
    (lambda: graph("a").add_conditional_edges(node, node), "expects the name", "such as 'node'"),
    (
        lambda: graph("a").add_conditional_edges("a", 3),
        "the path behind node 'a': expected",
        "pass a",
    ),
    (
        lambda: graph("a").add_conditional_edges("a", node, "draft"),
        "path_map must be a list of names of nodes or a dict, got 'draft'",
        "path_map=['draft']",
    ),
    (lambda: graph("a").add_conditional_edges("a", node, 3), "or a dict, got 3", "a list"),
    (
        lambda: graph().add_node("a", node, destinations="draft"),
        "destinations must be a list of names of nodes or a dict, got 'draft'",
        "destinations=['draft']",
    ),
    (lambda: graph().add_node("a", node, max_concurrency=0), "or None, got 0", "1 or more"),
    (lambda: graph().add_node("a", node, max_concurrency=-1), "or None, got -1", "1 or more"),
    (lambda: graph().add_node("a", node, max_concurrency=1.5), "or None, got 1.5", "an integer"),
    (lambda: graph().add_node("a", node, max_concurrency="2"), "or None, got '2'", "an integer"),
    (lambda: graph().add_sequence([]), "Sequence requires at least one node", "pass some"),
    (
        lambda: graph("a").add_conditional_edges("a", node).add_conditional_edges("a", node),
        "Branch with name `node` already exists for node `a`",
        "another name",
    ),
]


@pytest.mark.langgraph("F-A3")
@pytest.mark.parametrize(("call", "text", "advice"), BAD_CALLS)
def test_a_call_that_can_be_seen_wrong_is_refused_at_once(call, text, advice):
    """
    A bad call is refused at that call, and the error says what to do.
    """
    with pytest.raises(GraphBuildError) as refused:
        call()

    assert text in refused.value.what
    assert advice in refused.value.do


BAD_GRAPHS: list[tuple[Callable[[], GraphBuilder], str, str]] = [
    (
        lambda: graph("draft").add_edge("draft", "reveiw"),
        "Found edge ending at unknown node `reveiw`",
        "the choices are 'draft'",
    ),
    (
        lambda: graph("draft", "review").add_edge("draft", "reveiw"),
        "Found edge ending at unknown node `reveiw`",
        "did you mean 'review'?",
    ),
    (
        lambda: graph("draft").add_edge("daft", "draft"),
        "Found edge starting at unknown node 'daft'",
        "did you mean 'draft'?",
    ),
    (
        lambda: graph("a").add_edge(["a", "b"], "a"),
        "Found edge starting at unknown node 'b'",
        "add the node",
    ),
    (
        lambda: graph("a").add_edge(["a"], "b"),
        "Found edge ending at unknown node `b`",
        "add the node",
    ),
    (
        lambda: graph("a").add_conditional_edges("b", node),
        "Found conditional edge starting at unknown node 'b'",
        "add the node",
    ),
    (
        lambda: graph("a").add_conditional_edges("a", node, {True: "a", False: "b"}),
        "Found conditional edge of 'a' ending at unknown node `b`",
        "add the node",
    ),
    (
        lambda: graph("a").add_node("c", node, destinations=["b"]),
        "Found destination of 'c' ending at unknown node `b`",
        "add the node",
    ),
    (
        lambda: graph().add_node("a", node).add_edge("a", END),
        "Graph must have an entrypoint",
        "add_edge(START, name)",
    ),
]


@pytest.mark.langgraph("F-A15")
@pytest.mark.parametrize(("build", "text", "advice"), BAD_GRAPHS)
def test_a_graph_with_a_loose_end_is_refused(build, text, advice):
    """
    Edges from or to nowhere, and a graph without an entry, are errors with near matches.
    """
    with pytest.raises(GraphBuildError) as refused:
        check(build(), ())

    assert text in refused.value.what
    assert advice in refused.value.do


def test_a_call_that_is_refused_leaves_the_graph_as_it_was():
    """
    After a bad path the graph compiles as if the call had not been made.
    """
    builder = graph("a")
    with pytest.raises(GraphBuildError):
        builder.add_conditional_edges("gone", 3)

    assert check(builder, ()) == []


@pytest.mark.langgraph("F-A15")
def test_a_breakpoint_at_an_unknown_node_is_refused():
    """
    interrupt_before and interrupt_after may name nodes only, or "*".
    """
    assert check(graph("draft"), ("draft", "*")) == []
    with pytest.raises(GraphBuildError, match="Interrupt node `drat` not found") as refused:
        check(graph("draft"), ("drat",))

    assert refused.value.do == "did you mean 'draft'?"


def anywhere(state: State) -> str:
    return "c"


def to_c(state: State) -> Literal["c"]:
    return "c"


def command_to_c(state: State) -> Command[Literal["c"]]:
    return Command(goto="c")


@pytest.mark.parametrize(
    ("build", "unreachable"),
    [
        (lambda: graph("a", "b", "c").add_edge("b", "c"), ["b", "c"]),
        (lambda: graph("a", "b", "c").add_edge(["a", "b"], "c"), ["b"]),
        (lambda: graph("a", "c").add_conditional_edges("a", to_c), []),
        (lambda: graph("a", "c").add_conditional_edges("a", anywhere), []),
        (lambda: graph("a", "c").add_conditional_edges("a", anywhere, ["a"]), ["c"]),
        (lambda: graph("a", "c").add_node("d", command_to_c).add_edge("a", "d"), []),
        (lambda: graph("a", "c").add_node("d", node, destinations=["c"]), ["c", "d"]),
    ],
)
def test_unreachable_nodes_are_reported_not_refused(build, unreachable):
    """
    A node that nothing leads to is named for a warning, because a Command may still reach it.
    """
    assert check(build(), ()) == unreachable


@pytest.mark.langgraph("F-A4")
def test_a_node_may_see_only_channels_of_the_graph():
    """
    A node's own schema adds its keys to the graph, so that no view has a key without a channel.
    """

    class Private(TypedDict):
        secret: int

    builder = graph("a").add_node("b", node, input_schema=Private)
    plan = make_plan(builder, name="g")

    assert plan.nodes["b"].reads == ("secret",)
    assert "secret" in plan.channels
    assert plan.output_keys == ("text",)


def test_a_nodes_view_must_agree_with_the_state():
    """
    Two nodes whose schemas fold one key differently are refused as the second is added.
    """

    class Adds(TypedDict):
        log: Annotated[list[str], operator.add]

    class Replaces(TypedDict):
        log: Annotated[list[str], lambda old, new: new]

    builder = graph("a").add_node("b", node, input_schema=Adds)
    with pytest.raises(SchemaError, match="Channel 'log' already exists"):
        builder.add_node("c", node, input_schema=Replaces)
