"""Arguments by the names that they had in older versions of LangGraph."""

import pytest

from actorgraph import START, RetryPolicy, StateGraph, entrypoint, task
from actorgraph.errors import OldNameWarning
from tests.support.graphs import AB


class Part(AB, total=False):
    """A schema besides the state's."""


async def node(state): ...


class TestOldNames:
    @pytest.mark.parametrize(
        ("old", "now"),
        [
            ("config_schema", "context_schema"),
            ("input", "input_schema"),
            ("output", "output_schema"),
        ],
    )
    def test_a_graph_takes_its_schemas(self, old, now):
        """
        An old name of a schema means the same as the new one, and a warning at the call names both.
        """
        with pytest.warns(OldNameWarning, match=f"{old}= is an old name of {now}=") as warned:
            builder = StateGraph(AB, **{old: Part})

        assert getattr(builder, now) is Part
        assert warned[0].filename == __file__

    def test_a_node_takes_its_policies(self):
        """
        `retry` and `input` of a node are its retry policy and its input schema.
        """
        policy = RetryPolicy(max_attempts=7)
        with pytest.warns(OldNameWarning) as warned:
            builder = StateGraph(AB).add_node("node", node, retry=policy, input=Part)

        assert builder.nodes["node"].retry == (policy,)
        assert builder.nodes["node"].schema.source is Part
        assert len(warned) == 2

    def test_functions_take_them(self):
        """
        `@task` and `@entrypoint` know the old name of the retry policy too.
        """
        policy = RetryPolicy(max_attempts=7)
        with pytest.warns(OldNameWarning):
            step = task(retry=policy)(node)
        with pytest.warns(OldNameWarning):
            flow = entrypoint(retry=policy, config_schema=Part)(node)

        assert step.node.retry == flow.plan.nodes["node"].retry == (policy,)
        assert flow.plan.sources.context is Part

    def test_the_new_name_wins(self):
        """
        An argument under both names has the value of the new one.
        """
        with pytest.warns(OldNameWarning):
            builder = StateGraph(AB, context_schema=Part, config_schema=AB)

        assert builder.context_schema is Part

    def test_other_names_are_refused(self):
        """
        A misspelt argument is Python's own error.
        """
        with pytest.raises(TypeError, match="contxt_schema"):
            StateGraph(AB, contxt_schema=Part)
        with pytest.raises(TypeError, match="retries"):
            StateGraph(AB).add_node("node", node, retries=1)

    def test_no_breakpoints_may_be_none(self):
        """
        None means no breakpoints, as leaving the argument out does.
        """
        builder = StateGraph(AB).add_node("node", node).add_edge(START, "node")

        graph = builder.compile(interrupt_before=None, interrupt_after=None)

        assert graph.plan.interrupt_before == graph.plan.interrupt_after == ()
