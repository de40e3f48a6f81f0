"""The plan: edges become channels, and nodes become rows of a table."""

import functools
import operator
from typing import Annotated, Any, Literal, TypedDict

import pytest

from actorgraph.channels import EphemeralValue, NamedBarrierValue, Topic
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.plan import Plan
from actorgraph.values.commands import Command
from actorgraph.values.constants import END, START, TASKS


class State(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


def node(state: State) -> Any:
    return None


async def anode(state: State, config: Any) -> Any:
    return None


def to(state: State) -> Literal["b", "__end__"]:
    return "b"


def diamond() -> Plan:
    """START -> a -> (b, c) -> d, where d waits for both."""
    builder = GraphBuilder(State)
    for name in "dcba":
        builder.add_node(name, node)
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
    return make_plan(builder.add_edge(["b", "c"], "d").add_edge("d", END), name="diamond")


class TestEdges:
    @pytest.mark.langgraph("F-A10")
    def test_an_edge_is_a_channel_that_its_source_writes(self):
        """
        `a -> b` is a value that a writes and that triggers b; an edge to END writes nothing.
        """
        plan = diamond()

        assert plan.nodes["a"].targets == (("branch:to:b", None), ("branch:to:c", None))
        assert plan.nodes["d"].targets == ()
        assert plan.subscribers["branch:to:b"] == ("b",)
        assert isinstance(plan.channels["branch:to:b"], EphemeralValue)

    @pytest.mark.langgraph("F-A11")
    def test_a_join_is_a_barrier_that_each_source_writes_its_name_to(self):
        """
        `[b, c] -> d` is one barrier, which triggers d when both names are in it.
        """
        plan = diamond()
        ((join, written),) = plan.nodes["b"].targets
        barrier = plan.channels[join]

        assert written == "b"
        assert plan.nodes["c"].targets == ((join, "c"),)
        assert plan.subscribers[join] == ("d",)
        assert plan.nodes["d"].triggers == ("branch:to:d", join)
        assert isinstance(barrier, NamedBarrierValue)
        assert barrier.names == {"b", "c"}
        assert plan.consumable == plan.opaque == {join}

    def test_joins_never_share_a_barrier(self):
        """
        Two joins are two barriers, even when their nodes' names run together.
        """
        builder = GraphBuilder(State)
        for name in ("a", "b+c", "a+b", "c", "end"):
            builder.add_node(name, node).add_edge(START, name)
        builder.add_edge(["a", "b+c"], "end").add_edge(["a+b", "c"], "end")
        plan = make_plan(builder, name="g")

        waits = [plan.channels[t] for t in plan.nodes["end"].triggers[1:]]
        assert [w.names for w in waits] == [{"a+b", "c"}, {"a", "b+c"}]

    def test_the_order_of_declarations_is_in_no_stored_name(self):
        """
        The id of a graph and the names of its joins and triggers don't depend on it.
        """
        plans: list[Plan] = []
        for names in ("abc", "cba"):
            builder = GraphBuilder(State)
            for name in names:
                builder.add_node(name, node).add_edge(START, name)
            builder.add_node("end", node)
            for joins in (names[:2], names[1:]):
                builder.add_edge(list(joins), "end")
            plans.append(make_plan(builder, name="g"))

        first, second = plans
        assert first.graph_id == second.graph_id
        assert first.nodes["end"].triggers == second.nodes["end"].triggers

    def test_repeated_edges_count_once(self):
        """
        An edge or a join that is declared twice is one edge or one join.
        """
        builder = GraphBuilder(State).add_node("a", node).add_node("b", node)
        for _ in range(2):
            builder.add_edge(START, "a").add_edge(["a", "a"], "b")
        plan = make_plan(builder, name="g")

        assert plan.start.targets == (("branch:to:a", None),)
        assert len(plan.nodes["a"].targets) == 1
        assert plan.nodes["b"].triggers[1:] == (plan.nodes["a"].targets[0][0],)

    @pytest.mark.langgraph("F-A14")
    def test_a_sequence_is_nodes_with_edges_between(self):
        """
        add_sequence names functions by their names and joins neighbours.
        """
        builder = GraphBuilder(State).add_sequence([node, ("second", node), anode])
        plan = make_plan(builder.set_entry_point("node").set_finish_point("anode"), name="g")

        assert list(plan.nodes) == [START, "node", "second", "anode"]
        assert plan.start.targets == (("branch:to:node", None),)
        assert plan.nodes["node"].targets == (("branch:to:second", None),)
        assert plan.nodes["anode"].targets == ()


class TestBranches:
    @pytest.mark.langgraph("F-A12")
    @pytest.mark.parametrize(
        ("path_map", "ends"),
        [
            (None, {"b": "b", "__end__": "__end__"}),
            (["b"], {"b": "b"}),
            ({True: "b", False: END}, {True: "b", False: END}),
        ],
    )
    def test_a_branch_knows_what_its_answers_mean(self, path_map, ends):
        """
        The map, the list or the Literal annotation of a branch says where it may go.
        """
        builder = GraphBuilder(State).add_node("a", node).add_node("b", node).add_edge(START, "a")
        plan = make_plan(builder.add_conditional_edges("a", to, path_map), name="g")

        (branch,) = plan.nodes["a"].branches
        assert (branch.name, branch.ends) == ("to", ends)
        assert branch.reads == ("text", "log")

    @pytest.mark.langgraph("F-A12")
    def test_a_branch_without_a_map_may_go_anywhere(self):
        """
        Without map and annotation a branch returns node names; START may have branches too.
        """
        builder = GraphBuilder(State).add_node("a", node)
        plan = make_plan(builder.set_conditional_entry_point(lambda state: "a"), name="g")

        (branch,) = plan.start.branches
        assert branch.ends is None
        assert not branch.is_async


class TestNodes:
    def test_start_moves_the_input_and_is_hidden(self):
        """
        START is a hidden node, triggered by the input, that may write the input's keys only.
        """

        class Input(TypedDict):
            text: str

        builder = GraphBuilder(State, input_schema=Input).add_node("a", node)
        start = make_plan(builder.add_edge(START, "a"), name="g").start

        assert (start.triggers, start.reads, start.hidden) == ((START,), (START,), True)
        assert start.writes == {"text"}

    def test_tables_cover_the_runtimes_own_channels(self):
        """
        Inputs and edges live for one superstep, Sends in a topic; a snapshot shows neither.
        """
        plan = diamond()

        assert isinstance(plan.channels[TASKS], Topic)
        assert plan.state_keys == plan.output_keys == ("text", "log")
        assert set(plan.clearing) == {START, TASKS, *(f"branch:to:{n}" for n in "abcd")}
        assert plan.finishing == ()
        assert list(plan.order) == [START, "d", "c", "b", "a"]
        assert plan.initial_values() == {"log": []}

    @pytest.mark.parametrize(
        ("action", "is_async", "inject"),
        [
            (node, False, ()),
            (anode, True, ("config",)),
            (functools.partial(anode, config={}), True, ()),
            (lambda state, writer, other=1: None, False, ("writer",)),
        ],
    )
    def test_a_nodes_kind_is_known_before_it_runs(self, action, is_async, inject):
        """
        Whether a node is async, and what it wants besides the state, is read once.
        """
        builder = GraphBuilder(State).add_node("a", action).add_edge(START, "a")
        plan = make_plan(builder, name="g").nodes["a"]

        assert (plan.is_async, plan.inject) == (is_async, inject)

    @pytest.mark.parametrize("method", ["invoke", "ainvoke"])
    def test_an_object_with_invoke_is_a_node(self, method):
        """
        Anything with `ainvoke` or `invoke` can be a node, and `ainvoke` is preferred.
        """

        class Runnable:
            name = "runnable"

            def invoke(self, state: State) -> Any:
                return None

        if method == "ainvoke":
            Runnable.ainvoke = anode
        builder = GraphBuilder(State).add_node(Runnable()).add_edge(START, "runnable")
        plan = make_plan(builder, name="g").nodes["runnable"]

        assert plan.call.__name__ == ("anode" if method == "ainvoke" else "invoke")
        assert plan.is_async == (method == "ainvoke")

    @pytest.mark.langgraph("F-A5")
    def test_a_commands_annotation_declares_destinations(self):
        """
        `-> Command[Literal["b"]]` says where a node's Commands go, also inside a union.
        """

        def one(state: State) -> Command[Literal["b"]]:
            return Command(goto="b")

        def maybe(state: State) -> Command[Literal["b"]] | None:
            return None

        builder = GraphBuilder(State).add_node("b", node)
        plan = make_plan(builder.add_node(one).add_node(maybe).add_edge(START, "b"), name="g")

        assert plan.nodes["one"].ends == plan.nodes["maybe"].ends == {"b": None}

    def test_the_graph_id_distinguishes_shapes(self):
        """
        The same declaration gives the same id in every process, other nodes another one.
        """
        other = GraphBuilder(State).add_node("a", node).add_edge(START, "a")

        assert diamond().graph_id == diamond().graph_id
        assert diamond().graph_id.startswith("diamond:")
        assert make_plan(other, name="diamond").graph_id != diamond().graph_id
