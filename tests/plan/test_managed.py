"""State keys that the runtime computes."""

from typing import Any, TypedDict

import pytest

from actorgraph import END, START, IsLastStep, RemainingSteps, StateGraph
from actorgraph.errors import GraphRecursionError, SchemaError


class State(TypedDict):
    n: int
    left: RemainingSteps
    last: IsLastStep


class Plain(TypedDict):
    n: int


class TestManaged:
    @pytest.mark.langgraph("F-B21")
    async def test_a_node_sees_how_far_the_limit_is(self):
        """
        RemainingSteps counts down to 0, and IsLastStep says when at most one superstep may follow;
        conditional edges see them too.
        """
        seen: list[Any] = []

        async def node(state: State) -> dict[str, Any]:
            seen.append((state["left"], state["last"]))
            return {"n": state["n"] + 1}

        def path(state: State) -> str:
            seen.append(state["left"])
            return "node"

        builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
        graph = builder.add_conditional_edges("node", path, ["node", END]).compile()

        with pytest.raises(GraphRecursionError):
            await graph.ainvoke({"n": 0}, {"recursion_limit": 3})
        assert seen == [(2, False), 2, (1, True), 1, (0, True), 0]

    @pytest.mark.langgraph("F-B21")
    async def test_managed_values_have_no_channels(self):
        """
        No output and no channel has them.
        """
        builder = StateGraph(State).add_node("a", lambda s: {"n": 1}).add_edge(START, "a")
        graph = builder.compile()

        assert await graph.ainvoke({"n": 0}) == {"n": 1}
        assert "left" not in graph.plan.channels

    @pytest.mark.langgraph("F-A2")
    @pytest.mark.parametrize("where", ["input_schema", "output_schema"])
    def test_managed_values_are_refused_in_input_and_output_schemas(self, where):
        """
        In an input or output schema they are refused.
        """
        with pytest.raises(SchemaError, match="Invalid managed channels"):
            StateGraph(Plain, **{where: State})
