"""Builders and compiled graphs as programs read them, and set them: LangGraph's shapes."""

import operator
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

import langgraph.managed
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from typing_extensions import TypedDict

import actorgraph
from actorgraph import (
    CompiledStateGraph,
    GraphBuildError,
    InMemorySaver,
    Pregel,
    RemainingSteps,
    StateGraph,
)
from tests.support.both_libraries import OURS, THEIRS, one_node
from tests.support.graphs import ab, at, in_a_row


class State(TypedDict):
    """A number, a list, and the steps that are left."""

    a: int
    log: Annotated[list[str], operator.add]
    left: RemainingSteps


class TheirState(TypedDict):
    """The same, with LangGraph's managed value."""

    a: int
    log: Annotated[list[str], operator.add]
    left: langgraph.managed.RemainingSteps


class Input(TypedDict):
    """The input of a run."""

    a: int


def more(state: Input) -> Any:
    return {"a": 1}


def builder_of(lib: Any) -> Any:
    builder = lib.StateGraph(State if lib is OURS else TheirState, input_schema=Input)
    inner = one_node(lib, Input, more)
    for name, node in {"x": more, "y": more, "z": inner}.items():
        builder.add_node(name, node)
    builder.add_edge("__start__", "x").add_edge("__start__", "y").add_edge(["x", "y"], "z")
    return builder.add_conditional_edges("z", lambda state: "__end__", ["__end__", "x"])


def of_builder(lib: Any) -> Any:
    builder = builder_of(lib)
    state = State if lib is OURS else TheirState
    (branch,) = builder.branches["z"].values()
    return (
        list(builder.schemas[builder.state_schema]),
        "log" in builder.schemas[state],
        list(builder.schemas[builder.input_schema]),
        list(builder.schemas),
        list(builder.channels),
        list(builder.managed),
        set(builder.edges),
        ("__start__", "x") in builder.edges,
        set(builder.waiting_edges),
        list(builder.nodes),
        branch.ends,
        builder.compiled,
    )


def of_compiled(lib: Any) -> Any:
    builder = builder_of(lib)
    graph = builder.compile(name="Main")
    joins = {name for name in graph.channels if name.startswith("join:")}
    hidden = {"__pregel_tasks", *joins}
    bound = graph.nodes["z"].bound
    return (
        graph.builder is builder,
        sorted(graph.channels.keys() - hidden),
        len(joins),
        graph.channels["a"].ValueType,
        graph.channels["a"].UpdateType,
        list(graph.nodes),
        bound.name,
        isinstance(bound, lib.Pregel),
        isinstance(graph, lib.Pregel),
        issubclass(type(graph), lib.Pregel),
        isinstance(builder, lib.Pregel),
    )


class TestUnderBothLibraries:
    @pytest.mark.langgraph("F-A15")
    @pytest.mark.parametrize("program", [of_builder, of_compiled])
    def test_programs_read_the_same(self, program):
        """
        Schemas, channels, edges, nodes and subgraphs are where LangGraph's programs look for them.
        """
        ours, theirs = program(OURS), program(THEIRS)
        # Each library has its own class of a state with managed values.
        shown = [str(part).replace("TheirState", "State") for part in (*ours, *theirs)]

        assert shown[: len(ours)] == shown[len(ours) :]


class Heard(BaseCallbackHandler):
    """The names of the chains that started."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **more: Any) -> None:
        self.names.append(more["name"])


class TestNames:
    async def test_a_new_name_is_shown_everywhere(self):
        """
        `graph.name = "Agent"` holds for callbacks, events, errors, schemas and the topology.
        """
        graph, heard = ab(), Heard()
        await graph.ainvoke({"foo": "x"})  # the runs before have made a template
        graph.name = "Agent"
        events = [event["name"] async for event in graph.astream_events({"foo": "x"})]
        await graph.ainvoke({"foo": "x"}, {"callbacks": [heard]})

        assert (graph.name, graph.get_name(), graph.get_name("Input")) == (
            *("Agent", "Agent", "AgentInput"),
        )
        assert (heard.names[0], events[0], graph.topology()["name"]) == ("Agent", "Agent", "Agent")

    async def test_a_renamed_subgraph_is_shown_by_its_name(self):
        """
        The events of a nested run have the subgraph's name, also one that was set later.
        """
        inner = ab()
        outer = in_a_row({"inner": inner})
        inner.name = "Inner"
        names = [event["name"] async for event in outer.astream_events({"foo": "x"})]

        assert "Inner" in names

    async def test_a_renamed_graph_goes_on_with_its_threads(self):
        """
        Threads that were stored under the old name are continued without a warning.
        """
        graph = ab(checkpointer=InMemorySaver())
        await graph.ainvoke({"foo": "x"}, at())
        graph.name = "Agent"
        await graph.ainvoke({"foo": "x"}, at())

        assert (await graph.aget_state(at())).values["bar"] == ["a", "b", "a", "b"]

    async def test_copies_keep_their_name(self):
        """
        A copy that was made before has the old name, as it has its own settings.
        """
        graph = ab()
        copied = graph.with_config(tags=["t"])
        graph.name = "Agent"

        assert copied.name == "LangGraph"
        assert graph.copy({"name": "Other"}).name == "Other"

    @pytest.mark.parametrize("name", [3, "lone \ud800"])
    def test_a_name_that_can_not_be_stored_is_refused(self, name):
        """
        The name is checked as `compile(name=)` checks it, and the old one stays.
        """
        graph = ab()
        with pytest.raises(GraphBuildError, match="name"):
            graph.name = name

        assert graph.name == "LangGraph"


T = TypeVar("T")


class TestParameters:
    @pytest.mark.parametrize("kind", [CompiledStateGraph, Pregel, StateGraph])
    def test_any_number_of_parameters_is_accepted(self, kind):
        """
        `Pregel[Any]`, `CompiledStateGraph[State, None, Input]` and `StateGraph[T]` are types.
        """
        for parameters in (Any, State, T, (State, None), (State, None, State, State)):
            made = kind[parameters]
            assert get_origin(made) is kind
            assert get_args(made) == (
                parameters if isinstance(parameters, tuple) else (parameters,)
            )

    def test_a_subclass_may_name_parameters(self):
        """
        Packages derive from `Pregel[Any]`, with parameters of their own too.
        """

        class Remote(Pregel[Any]): ...

        class Typed(Pregel[T], Generic[T]): ...

        assert get_origin(Remote[int]) is Remote
        assert get_origin(Typed[int]) is Typed
        assert issubclass(Remote, Pregel)
        assert not isinstance(ab(), Remote)

    def test_a_builder_with_parameters_makes_a_graph(self):
        """
        `StateGraph[State, None, State, State](State)` is a builder like any other.
        """
        builder = StateGraph[Input, None, Input, Input](Input).add_node("n", more)

        assert builder.add_edge("__start__", "n").compile().invoke({"a": 0}) == {"a": 1}

    def test_public_names_are_the_same_objects(self):
        """
        The class of compiled graphs is the one that `actorgraph` exports.
        """
        assert type(ab()) is actorgraph.CompiledStateGraph
