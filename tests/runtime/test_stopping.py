"""Runs that are asked to stop, whose time is over, or that go too deep: from outside."""

from datetime import timedelta

import anyio
import pytest

from actorgraph import (
    START,
    GraphDrained,
    GraphRecursionError,
    RunControl,
    Runtime,
    StateGraph,
    task,
)
from actorgraph.api.config import recursion_limit_in
from actorgraph.errors import DeadlineError, InvalidConfigError, StepTimeoutError
from actorgraph.values.constants import DEFAULT_RECURSION_LIMIT
from tests.support.gates import Turnstile
from tests.support.graphs import AB, ab, at, chain, count, in_a_row, side_by_side, writer
from tests.support.subgraphs import Log, parent, says


def draining(control: RunControl, name: str = "a"):
    """A node that asks its own run to stop."""

    async def node(state):
        control.request_drain("deploy")
        return {"bar": [name]}

    return node


class TestDrain:
    @pytest.mark.promise("E11")
    @pytest.mark.langgraph("F-C20", "F-C26")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_it_stops_between_supersteps_and_goes_on_later(self, saver, durability):
        """
        A drained run has stored what it did; None goes on, with no node called twice.
        """
        control = RunControl()
        nodes = {"a": draining(control), "b": writer("b"), "c": writer("c")}
        graph = in_a_row(nodes, checkpointer=saver)

        with pytest.raises(GraphDrained) as raised:
            await graph.ainvoke({}, at(), control=control, durability=durability)
        between = await graph.aget_state(at())
        result = await graph.ainvoke(None, at())

        assert (raised.value.reason, control.drain_reason) == ("deploy", "deploy")
        assert (between.next, between.values["bar"]) == (("b",), ["a"])
        assert result["bar"] == ["a", "b", "c"]

    @pytest.mark.langgraph("F-C20")
    async def test_a_stream_ends_with_it(self):
        """
        The reader gets what was done, then the error.
        """
        control = RunControl()
        stream = in_a_row({"a": draining(control), "b": writer("b")}).astream({}, control=control)

        assert await anext(stream) == {"a": {"bar": ["a"]}}
        with pytest.raises(GraphDrained):
            await anext(stream)

    @pytest.mark.langgraph("F-C18", "F-C20")
    async def test_a_node_may_ask_for_it_itself(self):
        """
        `runtime.control` is there though the caller passed none.
        """

        async def node(state, runtime: Runtime):
            runtime.control.request_drain("enough")
            assert runtime.drain_requested

        with pytest.raises(GraphDrained, match="enough"):
            await in_a_row({"a": node, "b": writer("b")}).ainvoke({})

    @pytest.mark.langgraph("F-C20")
    async def test_from_another_thread_while_a_sync_node_runs(self):
        """
        A request from a node's thread is seen at the end of its superstep.
        """
        control = RunControl()

        def node(state):
            control.request_drain()

        with pytest.raises(GraphDrained):
            await in_a_row({"a": node, "b": writer("b")}).ainvoke({}, control=control)

    @pytest.mark.langgraph("F-C20")
    async def test_graphs_inside_stop_too(self, saver):
        """
        A run inside of a node stops at its own superstep, and goes on from there.
        """
        log: list[str] = []
        control = RunControl()

        async def first(state):
            log.append("c1")
            control.request_drain()
            return {"log": ["c1"]}

        inner = in_a_row({"c1": first, "c2": says("c2", log)}, schema=Log)
        graph = parent(log, inner, saver)

        with pytest.raises(GraphDrained):
            await graph.ainvoke({}, at(), control=control)
        shown = (await graph.aget_state(at())).tasks[0]
        result = await graph.ainvoke(None, at())

        assert (shown.name, shown.error) == ("child", None)
        assert log == ["before", "c1", "c2", "after"]
        assert result["log"] == ["before", "before", "c1", "c2", "after"]

    async def test_a_node_can_not_swallow_it(self, saver):
        """
        A node that catches the drain of its graph, and returns, is run again all the same.
        """
        control = RunControl()
        inner = in_a_row({"a": draining(control), "b": writer("b")})
        calls: list[str] = []

        async def node(state):
            calls.append("node")
            try:
                return await inner.ainvoke({"bar": []})
            except Exception:  # noqa: BLE001 - that is the point
                return {"bar": ["without the graph"]}

        graph = in_a_row({"node": node}, checkpointer=saver)
        with pytest.raises(GraphDrained):
            await graph.ainvoke({}, at(), control=control)

        assert (await graph.ainvoke(None, at()))["bar"] == ["a", "b"]
        assert calls == ["node", "node"]

    @pytest.mark.langgraph("F-C9", "F-C12", "F-C20")
    async def test_a_drained_task_is_not_retried_nor_handled(self):
        """
        A drain isn't a failure: no policy and no handler sees it.
        """
        control, seen = RunControl(), []
        inner = in_a_row({"a": draining(control), "b": writer("b")})

        async def handler(state, error):
            seen.append(error)

        builder = StateGraph(AB).add_node("node", inner, error_handler=handler)
        with pytest.raises(GraphDrained):
            await builder.add_edge(START, "node").compile().ainvoke({}, control=control)

        assert seen == []


class TestDeadline:
    @pytest.mark.promise("E11", "D10", "C8")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_no_superstep_begins_after_it(self, saver, durability):
        """
        A run whose time is over finishes its superstep and can be gone on with, in exit mode from
        one row.
        """

        async def slow(state):
            await anyio.sleep(0.03)
            return {"bar": ["slow"]}

        graph = in_a_row({"slow": slow, "b": writer("b")}, checkpointer=saver)
        with pytest.raises(GraphDrained) as raised:
            await graph.ainvoke({}, at(), deadline_s=0.01, durability=durability)

        assert raised.value.reason == "deadline"
        assert type(raised.value) is DeadlineError
        assert "reached its deadline_s before node " in raised.value.what
        assert "pass a longer deadline_s; finished work is saved" in raised.value.do
        assert durability != "exit" or await count(graph, at()) == 1
        assert (await graph.ainvoke(None, at()))["bar"] == ["slow", "b"]

    async def test_it_is_a_timeout_without_a_saver_too(self):
        """
        `except TimeoutError` catches it, and its advice doesn't claim that anything was saved.
        """

        async def slow(state):
            await anyio.sleep(0.03)

        with pytest.raises(TimeoutError) as raised:
            await in_a_row({"slow": slow, "b": writer("b")}).ainvoke({}, deadline_s=0.01)

        assert isinstance(raised.value, DeadlineError)
        assert "with a checkpointer" in raised.value.do
        assert "is saved" not in raised.value.do

    async def test_another_reason_to_drain_keeps_its_error(self, saver):
        """
        A drain that was requested is reported with its own reason.
        """
        control = RunControl()
        graph = in_a_row({"a": draining(control), "b": writer("b")}, checkpointer=saver)
        with pytest.raises(GraphDrained, match="Graph drained: deploy") as raised:
            await graph.ainvoke({}, at(), control=control)

        assert not isinstance(raised.value, TimeoutError)

    async def test_a_graph_inside_has_no_more_time_than_its_parent(self):
        """
        The deadline of a run holds for the runs inside of it.
        """

        async def slow(state):
            await anyio.sleep(0.03)

        inner = in_a_row({"slow": slow, "b": writer("b")})

        async def node(state):
            return await inner.ainvoke({}, deadline_s=60)

        with pytest.raises(GraphDrained):
            await in_a_row({"node": node}).ainvoke({}, deadline_s=0.01)

    @pytest.mark.parametrize("value", [0, -1, "soon", True])
    async def test_a_deadline_is_a_positive_time(self, value):
        """
        Anything else is refused before anything runs.
        """
        with pytest.raises(InvalidConfigError, match="deadline_s"):
            await ab().ainvoke({}, deadline_s=value)


class TestStepTimeout:
    @pytest.mark.langgraph("F-C11")
    @pytest.mark.parametrize("limit", [0.1, timedelta(milliseconds=100)])
    async def test_a_superstep_that_takes_too_long_is_cancelled(self, saver, limit):
        """
        Its tasks are stopped, what has finished is kept, and a resume runs the rest.
        """
        slow, log = Turnstile({"bar": ["slow"]}), []
        nodes = {"quick": writer("quick", log), "slow": slow}
        graph = side_by_side(nodes, checkpointer=saver)
        graph.step_timeout = limit

        with pytest.raises(StepTimeoutError, match="'slow'") as raised:
            await graph.ainvoke({}, at())
        slow.out.set()
        result = await graph.ainvoke(None, at())

        assert isinstance(raised.value, TimeoutError)
        # On a busy machine the time may be over before a thread begins the slow one.
        assert (slow.closed, log) == (slow.calls, ["quick"])
        assert result["bar"] == ["quick", "slow"]

    @pytest.mark.langgraph("F-C11")
    async def test_each_superstep_has_its_own_time(self):
        """
        A run of many quick supersteps may take longer than one superstep may.
        """

        async def nap(state):
            await anyio.sleep(0.02)
            return {"bar": ["x"]}

        graph = in_a_row(dict.fromkeys("abcdef", nap))
        graph.step_timeout = 0.08

        assert (await graph.ainvoke({}))["bar"] == ["x"] * 6


class TestLimits:
    @pytest.mark.promise("E8")
    async def test_a_graph_that_runs_itself_ends(self):
        """
        A graph that runs itself without end is stopped at its limit of nesting.
        """
        depths: list[int] = []

        async def node(state):
            depths.append(len(depths))
            return await graph.ainvoke({})

        graph = in_a_row({"node": node})

        with pytest.raises(GraphRecursionError, match="levels below its root"):
            await graph.ainvoke({}, {"nesting_limit": 20})
        assert len(depths) == 21

    @pytest.mark.promise("E8")
    async def test_a_node_that_comes_too_often(self):
        """
        `node_visit_limit` in the config bounds every node's supersteps.
        """
        builder = StateGraph(AB).add_node("a", writer("a")).add_edge(START, "a")
        graph = builder.add_edge("a", "a").compile()

        with pytest.raises(GraphRecursionError, match="has run in 7 supersteps"):
            await graph.ainvoke({}, {"node_visit_limit": 7})

    @pytest.mark.langgraph("F-C8")
    @pytest.mark.parametrize("key", ["recursion_limit", "node_visit_limit", "nesting_limit"])
    @pytest.mark.parametrize("value", [0, -1, "many", 1.5])
    async def test_a_limit_is_a_positive_number(self, key, value):
        """
        Any other is refused before anything runs.
        """
        with pytest.raises(InvalidConfigError, match=key):
            await chain("a").ainvoke({}, {key: value})

    @pytest.mark.langgraph("F-C8")
    @pytest.mark.parametrize(
        ("environment", "limit"),
        [
            ({}, DEFAULT_RECURSION_LIMIT),
            ({"LANGGRAPH_DEFAULT_RECURSION_LIMIT": "25"}, 25),
            ({"ACTORGRAPH_DEFAULT_RECURSION_LIMIT": "9"}, 9),
            (
                {
                    "LANGGRAPH_DEFAULT_RECURSION_LIMIT": "25",
                    "ACTORGRAPH_DEFAULT_RECURSION_LIMIT": "9",
                },
                9,
            ),
        ],
    )
    def test_the_environment_sets_the_default(self, environment, limit):
        """
        Our variable, else LangGraph's, else LangGraph's default.
        """
        assert recursion_limit_in(environment) == limit

    @pytest.mark.parametrize("text", ["0", "-3", "ten", "1.5"])
    def test_a_default_must_be_a_number(self, text):
        """
        The error names the variable.
        """
        with pytest.raises(InvalidConfigError, match="LANGGRAPH_DEFAULT_RECURSION_LIMIT"):
            recursion_limit_in({"LANGGRAPH_DEFAULT_RECURSION_LIMIT": text})


class TestDrainInCalls:
    @pytest.mark.langgraph("F-C20", "F-J1")
    async def test_a_called_task_whose_graph_stops(self, saver):
        """
        A graph in a `@task` stops too; its caller runs again, and the graph's work is there.
        """
        control, log = RunControl(), []

        async def first(state):
            log.append("c1")
            control.request_drain()
            return {"log": ["c1"]}

        inner = in_a_row({"c1": first, "c2": says("c2", log)}, schema=Log)

        @task
        async def work() -> list[str]:
            return (await inner.ainvoke({}))["log"]

        async def node(state):
            return {"log": await work()}

        graph = in_a_row({"node": node}, schema=Log, checkpointer=saver)
        with pytest.raises(GraphDrained):
            await graph.ainvoke({}, at(), control=control)

        assert (await graph.ainvoke(None, at()))["log"] == ["c1", "c2"]
        assert log == ["c1", "c2"]
