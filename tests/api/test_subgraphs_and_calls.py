"""Graphs in graphs beside calls, retries and each other."""

from typing import Any

import pytest

from actorgraph import START, Command, RetryPolicy, Send, StateGraph, interrupt, task
from actorgraph.errors import ConflictError
from tests.support.graphs import at, in_a_row
from tests.support.subgraphs import Log, asked

AGAIN = RetryPolicy(initial_interval=0.0, jitter=False)


class TestCalls:
    async def test_a_call_of_a_retried_node_takes_its_graph_up(self, saver):
        """
        When a node is tried again, a graph in one of its calls goes on where it failed.
        """
        ran: list[str] = []

        def once(_: Log) -> None:
            ran.append("once")

        def fails_first(_: Log) -> dict[str, Any]:
            ran.append("fails")
            if ran.count("fails") == 1:
                raise ConnectionError("no")
            return {"log": ["in"]}

        inner = in_a_row({"once": once, "fails": fails_first}, schema=Log)

        @task
        async def call() -> Any:
            return await inner.ainvoke({"log": []})

        async def node(_: Log) -> Any:
            return await call()

        builder = StateGraph(Log)
        builder.add_node("node", node, retry_policy=AGAIN)
        builder.add_edge(START, "node")
        result = await builder.compile(checkpointer=saver).ainvoke({"log": []}, at())

        assert result["log"] == ["in"]
        assert ran == ["once", "fails", "fails"]

    async def test_a_command_for_the_parent_goes_to_the_callers_graph(self, saver):
        """
        A graph in a call commands the graph of the node that made the call.
        """

        def up(_: Log) -> Command[str]:
            return Command(graph=Command.PARENT, update={"log": ["up"]}, goto="target")

        inner = in_a_row({"up": up}, schema=Log)

        @task
        async def call() -> Any:
            return await inner.ainvoke({"log": []})

        async def node(_: Log) -> Any:
            return await call()

        builder = StateGraph(Log)
        builder.add_node("node", node, destinations=("target",))
        builder.add_node("target", lambda _: {"log": ["target"]})
        builder.add_edge(START, "node")
        result = await builder.compile(checkpointer=saver).ainvoke({"log": []}, at())

        assert result["log"] == ["up", "target"]


def three_at_once(saver: Any, inner: Any) -> Any:
    """Three tasks of one superstep, each of which runs the graph and returns what that says."""

    async def node(state: Log) -> dict[str, Any]:
        return {"log": (await inner.ainvoke({**state, "log": []}))["log"]}

    builder = StateGraph(Log)
    builder.add_node("node", node)
    builder.add_conditional_edges(START, lambda _: [Send("node", {"n": n}) for n in range(3)])
    return builder.compile(checkpointer=saver)


class TestOneState:
    async def test_one_task_after_the_other_uses_it(self, saver):
        """
        Tasks of one superstep that run one by one each add to the state of a stateful graph.
        """
        inner = in_a_row({"says": lambda s: {"log": [s["n"]]}}, schema=Log, checkpointer=True)
        graph = three_at_once(saver, inner)

        result = await graph.ainvoke({"log": []}, {**at(), "max_concurrency": 1})

        assert result["log"] == [0, 0, 1, 0, 1, 2]

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_two_tasks_at_once_are_refused(self, saver, durability):
        """
        Of two tasks that use a stateful graph's state at once one gets a ConflictError, which
        says what to do.
        """
        ran: list[int] = []

        async def says(state: Log) -> dict[str, Any]:
            ran.append(state["n"])
            return {"log": [state["n"]]}

        inner = in_a_row({"says": says}, schema=Log, checkpointer=True)
        graph = three_at_once(saver, inner)

        with pytest.raises(ConflictError, match="stateful subgraph") as refused:
            await graph.ainvoke({"log": []}, at(), durability=durability)
        assert "one task of a superstep at a time" in str(refused.value)
        assert durability == "exit" or len(ran) <= 1

    async def test_a_task_does_not_push_aside_what_another_one_waits_for(self, saver):
        """
        While a stateful graph waits for an answer in one task, a sibling can't use it.
        """
        asks = {"asks": lambda _: {"log": [interrupt("?")]}}
        inner = in_a_row(asks, schema=Log, checkpointer=True)
        graph = three_at_once(saver, inner)
        with pytest.raises(ConflictError, match="another task of the same superstep"):
            await graph.ainvoke({"log": []}, {**at(), "max_concurrency": 1})

        state = await graph.aget_state(at())

        assert [q.value for q in state.interrupts] == ["?"]
        assert asked({"__interrupt__": state.tasks[0].interrupts}) == ["?"]
