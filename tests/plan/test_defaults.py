"""`set_node_defaults`, `trace_policy`, and a builder that goes on after `compile`."""

import pytest

from actorgraph import (
    START,
    CompiledGraphWarning,
    NodeError,
    RetryPolicy,
    StateGraph,
    TimeoutPolicy,
    TracePolicy,
    omit_payload,
)
from actorgraph.errors import GraphBuildError
from actorgraph.values.policies import CachePolicy
from tests.support.graphs import AB

TWICE = RetryPolicy(max_attempts=2)
THRICE = RetryPolicy(max_attempts=3)


async def node(state): ...


def sync_node(state): ...


async def handler(state, error: NodeError): ...


async def other_handler(state, error: NodeError): ...


def plan(builder):
    return builder.add_edge(START, "a").compile().plan


class TestDefaults:
    @pytest.mark.langgraph("F-A9")
    def test_they_hold_where_a_node_names_nothing(self):
        """
        The settings of a node win; the order of the calls doesn't matter.
        """
        builder = StateGraph(AB).add_node("a", node)
        builder.set_node_defaults(retry_policy=TWICE, timeout=5, error_handler=handler)
        builder.add_node(
            "b", node, retry_policy=THRICE, timeout=9, error_handler=other_handler, destinations=[]
        )
        made = plan(builder.add_edge("a", "b"))
        a, b = made.nodes["a"], made.nodes["b"]

        assert (a.retry, a.timeout) == ((TWICE,), TimeoutPolicy(run_timeout=5.0))
        assert (b.retry, b.timeout) == ((THRICE,), TimeoutPolicy(run_timeout=9.0))
        assert made.handlers[a.handler].call is handler
        assert made.handlers[b.handler].call is other_handler

    @pytest.mark.langgraph("F-A9")
    def test_handlers_get_retries_and_a_timeout_only(self):
        """
        An error handler is tried again and limited in time; it is never cached, and no handler
        handles it.
        """
        builder = StateGraph(AB).add_node("a", node, error_handler=handler)
        builder.set_node_defaults(
            retry_policy=TWICE, timeout=5, error_handler=other_handler, cache_policy=CachePolicy()
        )
        made = plan(builder)
        own = made.handlers[made.nodes["a"].handler]

        assert made.nodes["a"].cache == CachePolicy()
        assert (own.retry, own.timeout) == ((TWICE,), TimeoutPolicy(run_timeout=5.0))
        assert (own.cache, own.handler) == (None, "")

    @pytest.mark.langgraph("F-A9")
    def test_a_second_call_keeps_what_it_does_not_name(self):
        """
        Defaults can be set one by one.
        """
        builder = StateGraph(AB).add_node("a", node)
        builder.set_node_defaults(retry_policy=TWICE, timeout=5)
        builder.set_node_defaults(retry_policy=THRICE)
        a = plan(builder).nodes["a"]

        assert (a.retry, a.timeout) == ((THRICE,), TimeoutPolicy(run_timeout=5.0))

    @pytest.mark.langgraph("F-A9", "F-C10")
    def test_a_timeout_can_not_hold_for_a_sync_node(self):
        """
        `compile` names the node; one with a timeout of its own kind is refused by `add_node`.
        """
        builder = StateGraph(AB).set_node_defaults(timeout=5).add_node("a", sync_node)
        with pytest.raises(GraphBuildError, match=r"'a' is a sync function"):
            plan(builder)

    @pytest.mark.parametrize(
        "wrong", [{"timeout": -1}, {"retry_policy": "often"}, {"cache_policy": 5}], ids=str
    )
    def test_policies_are_checked_at_once(self, wrong):
        """
        A number out of range is refused by the call that sets it.
        """
        with pytest.raises(GraphBuildError, match=r"set_node_defaults\(\)"):
            StateGraph(AB).set_node_defaults(**wrong)

    @pytest.mark.langgraph("F-A9")
    async def test_a_graph_inside_has_its_own(self):
        """
        Defaults of a graph don't reach the nodes of the graphs that its nodes run.
        """
        calls: list[int] = []

        async def fails(state):
            calls.append(1)
            raise ConnectionError

        inner = StateGraph(AB).add_node("fails", fails).add_edge(START, "fails").compile()
        policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=2)
        outer = StateGraph(AB).set_node_defaults(retry_policy=policy).add_node("a", inner)
        with pytest.raises(ConnectionError):
            await outer.add_edge(START, "a").compile().ainvoke({"foo": "x"})

        assert len(calls) == 2  # once for each attempt of the outer node

    @pytest.mark.langgraph("F-A9", "F-C12")
    async def test_defaults_are_at_work_in_a_run(self):
        """
        A node and its error handler are both tried again by default.
        """
        log: list[str] = []

        async def fails(state):
            log.append("node")
            raise ConnectionError

        async def recovers(state, error: NodeError):
            log.append("handler")
            if log.count("handler") < 2:
                raise ConnectionError
            return {"foo": error.node}

        policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=2)
        builder = StateGraph(AB).add_node("fails", fails).add_edge(START, "fails")
        builder.set_node_defaults(retry_policy=policy, error_handler=recovers)

        assert (await builder.compile().ainvoke({}))["foo"] == "fails"
        assert log == ["node", "node", "handler", "handler"]


class TestTracePolicy:
    @pytest.mark.langgraph("F-A8", "F-C25")
    async def test_it_is_kept_and_changes_nothing(self):
        """
        It belongs to the node, for exporters; the node and its streams see the real values.
        """
        policy = TracePolicy(process_inputs=omit_payload)
        builder = StateGraph(AB).add_node("a", lambda s: {"foo": s["foo"] * 2}, trace_policy=policy)
        graph = builder.add_edge(START, "a").compile()
        start, result = await graph.ainvoke({"foo": "x"}, stream_mode="tasks")

        assert graph.nodes["a"].trace is policy
        assert (start["input"]["foo"], result["result"]["foo"]) == ("x", "xx")

    @pytest.mark.langgraph("F-C25")
    def test_it_makes_what_is_to_be_recorded(self):
        """
        Each side has its function; one that raises leaves the value.
        """

        def fails(value):
            raise ValueError

        policy = TracePolicy(process_inputs=omit_payload, process_outputs=len)

        assert (policy.recorded_input([1]), policy.recorded_output([1])) == ({}, 1)
        assert TracePolicy(process_inputs=fails).recorded_input([1]) == [1]
        assert TracePolicy().recorded_output([1]) == [1]


class TestAfterCompile:
    @pytest.mark.langgraph("F-A3")
    @pytest.mark.parametrize(
        "change",
        [
            lambda b: b.add_node("b", node),
            lambda b: b.add_edge("a", "a"),
            lambda b: b.add_conditional_edges("a", lambda s: "a"),
        ],
    )
    def test_a_change_warns_and_stays_without_effect(self, change):
        """
        A compiled graph stays as it is.
        """
        builder = StateGraph(AB).add_node("a", node).add_edge(START, "a")
        graph = builder.compile()
        with pytest.warns(CompiledGraphWarning, match="already been compiled"):
            change(builder)

        assert list(graph.nodes) == [START, "a"]
        assert graph.plan.nodes["a"].targets == ()
        assert graph.plan.nodes["a"].branches == ()

    @pytest.mark.langgraph("F-A3")
    def test_compiled_again_the_change_is_there(self):
        """
        A builder may go on.
        """
        builder = StateGraph(AB).add_node("a", node).add_edge(START, "a")
        builder.compile()
        with pytest.warns(CompiledGraphWarning):
            builder.add_edge("a", "a")

        assert builder.compile().plan.nodes["a"].targets == (("branch:to:a", None),)
